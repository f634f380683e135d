//! Rules: which rows of a table make an alert.

mod bind;
mod counts;
mod seen;
mod states;
mod window;

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::columns::Columns;
use packet::{Span, Timestamp};
use store::query::{Filter, cell};

use crate::alert::{Alert, FlowColumns, State, next_id};
use crate::settings::AlertSettings;
use crate::text::{Template, key, value};

pub use counts::COUNTS;
pub(crate) use counts::CounterSamples;
pub(crate) use states::{At, States};

pub(crate) use bind::{Wrong, check_labels, labels};

use seen::RecentSet;
use window::Window;

/// A rule, bound to the columns of its table.
pub(crate) struct Rule {
    /// What it was made of, by which an unchanged rule keeps its state.
    settings: AlertSettings,
    /// What is the same in all its alerts.
    facts: Facts,
    filter: Filter,
    key: Vec<usize>,
    test: Test,
    pub(crate) states: States,
    value: Option<usize>,
    /// Whether rows that are not final match.
    pub(crate) is_open: bool,
}

enum Test {
    /// A row that matches.
    Row,
    /// A combination that was not seen before.
    New { seen: RecentSet, learn: Span, began: Option<Timestamp> },
    /// Much of a window.
    Window { window: Window, limit: Limit, among: Vec<usize>, weight: Vec<usize> },
}

#[derive(Clone, Copy)]
enum Limit {
    Share { above: f64, least_rows: u64 },
    Sum { above: f64 },
}

/// What makes an alert of a row.
pub(crate) struct Facts {
    pub name: Arc<str>,
    pub table: Arc<str>,
    pub severity: Arc<str>,
    pub labels: BTreeMap<String, String>,
    /// Columns whose values are labels.
    pub label_columns: Vec<(&'static str, usize)>,
    pub text: Template,
    pub annotations: Vec<(String, Template)>,
    pub community_id: Option<usize>,
    pub host: Option<usize>,
    pub flow: Option<FlowColumns>,
}

impl Facts {
    /// An alert that fires.
    pub(crate) fn alert(
        &self,
        (rows, row): (&Columns, usize),
        at: At,
        (first, row_count): (Timestamp, u64),
        measured: Option<f64>,
    ) -> Alert {
        let column = |place: Option<usize>| value(cell(rows, place?, row));
        let mut labels = self.labels.clone();
        for &(name, place) in &self.label_columns {
            labels.extend(column(Some(place)).map(|value| (name.to_owned(), value)));
        }
        let text = |template: &Template| template.render(rows, row, measured);
        let annotation = |(name, template): &(String, Template)| (name.clone(), text(template));
        Alert {
            id: next_id(),
            name: Arc::clone(&self.name),
            state: State::Firing,
            time: at.now,
            first,
            fired: at.now,
            severity: Arc::clone(&self.severity),
            table: Arc::clone(&self.table),
            community_id: column(self.community_id),
            host: column(self.host),
            flow: self.flow.and_then(|flow| flow.read(rows, row)),
            value: measured,
            text: text(&self.text),
            labels,
            annotations: self.annotations.iter().map(annotation).collect(),
            rows: row_count,
        }
    }
}

impl Rule {
    /// Looks at a row. What fires or is resolved by it is added.
    pub(crate) fn look(&mut self, rows: &Columns, row: usize, at: At, out: &mut Vec<Arc<Alert>>) {
        let Self { facts, filter, key: places, test, states, value, is_open, .. } = self;
        if at.is_open && !*is_open {
            return;
        }
        let is_match = filter.has(rows, row);
        let number = |place: usize| cell(rows, place, row).number();
        let measured = match test {
            Test::Row if is_match => Some(value.and_then(number)),
            Test::Row => {
                if states.is_pending() {
                    states.unmatched(&key(rows, row, places));
                }
                None
            }
            Test::New { seen, learn, began } => {
                let began = *began.get_or_insert(at.now);
                let is_new = is_match && seen.is_new(&key(rows, row, places));
                (is_new && at.now.since(began) >= *learn).then(|| value.and_then(number))
            }
            // An open row would count as often as it is seen.
            Test::Window { .. } if at.is_open => None,
            Test::Window { window, limit, among, weight } => {
                let sum = if weight.is_empty() {
                    1.0
                } else {
                    weight.iter().filter_map(|&place| number(place)).sum()
                };
                let group = key(rows, row, among);
                let is_pending = states.is_pending();
                let own = (is_match || is_pending).then(|| key(rows, row, places));
                window.add(at.now, group.clone(), own.clone().filter(|_| is_match), sum);
                let exceeded = own.as_ref().and_then(|own| limit.exceeded(window, own, &group));
                if let Some(own) = own.filter(|_| is_pending && exceeded.is_none()) {
                    states.unmatched(&own);
                }
                exceeded.filter(|_| is_match).map(Some)
            }
        };
        let Some(measured) = measured else { return };
        let make = |first, count| facts.alert((rows, row), at, (first, count), measured);
        states.matched(key(rows, row, places), at, make, out);
    }

    /// Time was set back to this.
    pub(crate) fn step_back(&mut self, now: Timestamp) {
        match &mut self.test {
            Test::Row => {}
            Test::New { began, .. } => *began = began.map(|began| began.min(now)),
            Test::Window { window, .. } => window.step_back(now),
        }
        self.states.step_back(now);
    }

    /// Puts rules in the place of others. One with the same settings stays with its state; what is
    /// active of one that is no longer there is resolved.
    pub(crate) fn replace(
        rules: &mut Vec<Self>,
        new: impl Iterator<Item = Self>,
        now: Timestamp,
        out: &mut Vec<Arc<Alert>>,
    ) {
        let mut old = std::mem::take(rules);
        for rule in new {
            let same = old.iter().position(|before| before.settings == rule.settings);
            rules.push(same.map_or(rule, |at| old.swap_remove(at)));
        }
        old.iter_mut().for_each(|rule| rule.states.finish(now, out));
    }

    /// The table that it reads.
    pub(crate) fn table(&self) -> &str {
        &self.settings.table
    }

    /// Rows that a bound left out of account.
    pub(crate) const fn refused(&self) -> u64 {
        self.states.refused
            + match &self.test {
                Test::Row => 0,
                Test::New { seen, .. } => seen.forgotten,
                Test::Window { window, .. } => window.left_out,
            }
    }
}

impl Limit {
    /// What was measured, where it is too much.
    fn exceeded(self, window: &Window, own: &str, group: &str) -> Option<f64> {
        let matched = window.matched(own);
        match self {
            Self::Sum { above } => Some(matched.weight).filter(|&sum| sum > above),
            Self::Share { above, least_rows } => {
                let total = window.total(group);
                let share = matched.weight / total.weight;
                Some(share).filter(|&share| total.rows >= least_rows && share > above)
            }
        }
    }
}

#[cfg(test)]
mod tests;
