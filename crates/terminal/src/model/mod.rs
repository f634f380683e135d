//! What a screen shows: rows, values, rates. Nothing here knows of a terminal.

mod details;
mod health;
mod hosts;
mod overview;
mod rates;
mod rows;
mod services;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use store::query::{Filter, Measure};
use store::{Store, Table};

pub(crate) use details::{Detail, details};
pub(crate) use overview::Overview;

use crate::first::First;
use crate::screens::{Column, Screen, Source};
use crate::value::Value;
use rates::Rates;

/// Rows of a screen at most: more than people page through. The rest is counted.
pub(crate) const ROWS_MAX: usize = 2_000;

/// What a row is of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// A flow, by Community ID.
    Flow(String),
    /// An address.
    Host(String),
    /// Rows of a column with a value: column, value.
    Named(&'static str, String),
    /// Nothing that could be looked up.
    None,
}

/// A row of a screen.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// The same from refresh to refresh.
    pub(crate) id: String,
    pub(crate) subject: Subject,
    pub(crate) values: Vec<Value>,
    /// What should not be: drops, refusals.
    pub(crate) is_warning: bool,
}

/// The rows of a screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sheet {
    /// The table that they are from; empty without one.
    pub(crate) table: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    /// Rows that matched, of which the first are here.
    pub(crate) matched: usize,
    /// What limits these rows, in a sentence.
    pub(crate) note: String,
    /// Whether the run has no table for it.
    pub(crate) is_missing: bool,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) screen: Screen,
    /// Which of the tables that the screen can show.
    pub(crate) table: usize,
    /// A column of the sheet, and whether the largest come first.
    pub(crate) sort: Option<(usize, bool)>,
    pub(crate) filter: String,
}

/// The rows of screens, with what is remembered of the refresh before.
pub(crate) struct Model {
    store: Arc<Store>,
    rates: HashMap<(Screen, String), Rates>,
    /// The table that is shown first, and how long its windows are.
    first: Option<First>,
}

impl Model {
    pub(crate) fn new(store: Arc<Store>, first: Option<First>) -> Self {
        Self { store, rates: HashMap::new(), first }
    }

    /// The first screen that shows a table.
    pub(crate) fn screen_of(&self, name: &str) -> Option<Screen> {
        let shows = |screen: &Screen| self.tables(*screen).iter().any(|table| table.name() == name);
        Screen::ALL.into_iter().find(shows)
    }

    pub(crate) const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The tables that a screen can show.
    pub(crate) fn tables(&self, screen: Screen) -> Vec<Arc<Table>> {
        let name = screen.table();
        let is_numbered = |table: &str| {
            let rest = table.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            table == name || rest.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
        };
        let has_services = |table: &Table| {
            screen == Screen::Services && services::column_of_flows(table.schema()).is_some()
        };
        let is_shown = |table: &Arc<Table>| {
            screen == Screen::Tables
                || !name.is_empty() && (is_numbered(table.name()) || has_services(table))
        };
        let mut tables = self.store.tables();
        tables.retain(is_shown);
        if screen == Screen::Tables {
            // What no other screen shows is looked for here.
            let is_own = |table: &Arc<Table>| {
                let others = Screen::ALL.iter().filter(|&&other| other != Screen::Tables);
                let mut names = others.map(|other| other.table()).filter(|name| !name.is_empty());
                names.any(|name| table.name().starts_with(name))
            };
            tables.sort_by_key(is_own);
        } else {
            // The screen's own first; flows have services where no classifier has.
            tables.sort_by_key(|table| !is_numbered(table.name()));
        }
        tables
    }

    /// Whether the run has what a screen shows.
    pub(crate) fn has(&self, screen: Screen) -> bool {
        match screen {
            Screen::Overview => {
                self.store.find("traffic").is_some() || self.store.find("flows").is_some()
            }
            Screen::Health => true,
            screen => !self.tables(screen).is_empty(),
        }
    }

    fn table(&self, question: &Question) -> Option<Arc<Table>> {
        let tables = self.tables(question.screen);
        let count = tables.len().max(1);
        tables.into_iter().nth(question.table % count)
    }

    /// Whether a filter can be applied.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn check(&self, question: &Question) -> Result<(), String> {
        if question.screen == Screen::Overview {
            return Err(String::from("the overview has no filter; try 2 Flows"));
        }
        let Some(table) = self.table(question) else { return Ok(()) };
        match Filter::new(&question.filter, table.schema()) {
            Ok(_) => Ok(()),
            Err(why) => Err(why.0),
        }
    }

    /// The rows of a screen, in their order.
    pub(crate) fn sheet(&mut self, question: &Question, now: Instant) -> Sheet {
        if question.screen == Screen::Health {
            let mut sheet = health::sheet(&self.store, &question.filter);
            order(&mut sheet, question.sort);
            return sheet;
        }
        let Some(table) = self.table(question) else {
            return Sheet { is_missing: true, ..Sheet::default() };
        };
        let filter =
            Filter::new(&question.filter, table.schema()).unwrap_or_else(|_| Filter::all());
        let mut sheet = match question.screen {
            Screen::Hosts => hosts::sheet(&table, &filter),
            Screen::Services if services::column(table.schema()).is_some() => {
                services::sheet(&self.store, &table, &filter)
            }
            Screen::Tables => {
                let first = self.first.filter(|first| first.table == table.name());
                let windows = rows::Windows {
                    length_ns: first.and_then(|first| first.window_ns),
                    now_ns: self.store.time_ns().filter(|_| !self.store.is_over()),
                };
                rows::any(&table, &filter, &question.filter, question.sort, windows)
            }
            screen => rows::sheet(screen, &table, &filter, question.sort),
        };
        table.name().clone_into(&mut sheet.table);
        if question.screen == Screen::Flows {
            services::label(&self.store, &mut sheet);
        }
        self.put_rates(question.screen, &mut sheet, now);
        let by = question.sort.or_else(|| usual_order(question.screen, &sheet));
        order(&mut sheet, by);
        sheet.rows.truncate(ROWS_MAX);
        sheet
    }

    /// Growth of the bytes of each row.
    fn put_rates(&mut self, screen: Screen, sheet: &mut Sheet, now: Instant) {
        let place = |wanted: &dyn Fn(&Column) -> bool| sheet.columns.iter().position(wanted);
        let growth = place(&|column| column.source == Source::Growth);
        let bytes = place(&|column| column.title == "Bytes");
        // What has ended does not grow: of such rows 0 would say no more than nothing.
        let state = place(&|column| column.title == "State");
        let Some((growth, bytes)) = growth.zip(bytes) else { return };
        let rates = self.rates.entry((screen, sheet.table.clone())).or_default();
        let time = self.store.time_ns().filter(|_| !self.store.is_over());
        let numbers = sheet
            .rows
            .iter()
            .filter_map(|row| Some((row.id.as_str(), row.values.get(bytes)?.number()?)));
        rates.update(time, now, numbers);
        for row in &mut sheet.rows {
            let is_open = state.is_none_or(|state| {
                row.values.get(state) == Some(&Value::Text(String::from("open")))
            });
            let rate = rates.of(&row.id).filter(|_| is_open).map_or(Value::None, Value::Number);
            if let Some(value) = row.values.get_mut(growth) {
                *value = rate;
            }
        }
    }
}

/// What people look for first: the column of the highest rank that is a number, the largest first.
pub(crate) fn usual_order(screen: Screen, sheet: &Sheet) -> Option<(usize, bool)> {
    // Their rows have an order already.
    if matches!(screen, Screen::Overview | Screen::Health | Screen::Tables) {
        return None;
    }
    let bytes = sheet.columns.iter().position(|column| column.title == "Bytes");
    let numbers = sheet.columns.iter().enumerate().filter(|(_, column)| column.kind.is_right());
    let first = numbers.min_by_key(|(_, column)| column.rank).map(|(place, _)| place);
    bytes.or(first).map(|place| (place, true))
}

fn order(sheet: &mut Sheet, by: Option<(usize, bool)>) {
    let Some((place, is_descending)) = by else { return };
    sheet.rows.sort_by(|one, other| match (one.values.get(place), other.values.get(place)) {
        (Some(a), Some(b)) => a.order(b, is_descending).then_with(|| one.id.cmp(&other.id)),
        _ => one.id.cmp(&other.id),
    });
}

/// The measure of a name, where the table has it.
fn measure(table: &Table, name: &str) -> Option<Measure> {
    Measure::find(table.schema(), name).ok()
}
