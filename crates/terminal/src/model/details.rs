//! Everything that the tables say of one flow, host or class.

use store::query::{Filter, RowsQuery, TimeRange, cell};
use store::{Store, Table};

use super::Subject;
use crate::text::{Glyphs, plain};
use crate::value::field;

/// Rows of each table that are shown: the last ones.
const ROWS_PER_TABLE: usize = 3;

/// A line of details.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Detail {
    /// A table, and which of its rows come.
    Heading(String),
    /// A column and its value.
    Field(String, String),
    /// Between rows.
    Gap,
}

/// A name of a subject, harmless.
pub(crate) fn name(subject: &Subject, glyphs: Glyphs) -> String {
    match subject {
        Subject::Flow(id) => format!("flow {}", plain(id, glyphs)),
        Subject::Host(address) => format!("host {}", plain(address, glyphs)),
        Subject::Named(column, value) => format!("{column} {}", plain(value, glyphs)),
        Subject::None => String::new(),
    }
}

/// All tables' rows of a subject, field by field.
pub(crate) fn details(store: &Store, subject: &Subject, glyphs: Glyphs) -> Vec<Detail> {
    let mut lines = Vec::new();
    for table in store.tables() {
        if let Some(filter) = filter(subject, &table) {
            add(&table, filter, glyphs, &mut lines);
        }
    }
    if lines.is_empty() {
        lines.push(Detail::Heading(String::from("no table has rows of it any longer")));
    }
    let heading = Detail::Heading(name(subject, glyphs));
    lines.splice(0..0, [heading, Detail::Gap]);
    lines
}

/// The rows of a table that are of a subject; none where it has no such column.
fn filter(subject: &Subject, table: &Table) -> Option<Filter> {
    let schema = table.schema();
    let has = |name: &str| schema.iter().any(|field| field.name == name);
    let text = match subject {
        Subject::Flow(id) if has("community_id") => format!("community_id == {}", quoted(id)),
        Subject::Host(address) if ["src_ip", "dst_ip", "host"].iter().any(|name| has(name)) => {
            format!("ip == {}", quoted(address))
        }
        Subject::Named(column, value) if has(column) => format!("{column} == {}", quoted(value)),
        _ => return None,
    };
    Filter::new(&text, schema).ok()
}

/// Text as the filter language has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn add(table: &Table, filter: Filter, glyphs: Glyphs, lines: &mut Vec<Detail>) {
    let query = RowsQuery {
        filter,
        range: TimeRange::default(),
        // The last to come first, and before all those that are open.
        order: Vec::new(),
        offset: 0,
        limit: ROWS_PER_TABLE,
    };
    let found = query.run(&table.view());
    if found.is_empty() {
        return;
    }
    let of = if found.matched > found.len() {
        format!("{}: the last {} of {} rows", table.name(), found.len(), found.matched)
    } else {
        format!("{}: {} rows", table.name(), found.matched)
    };
    lines.push(Detail::Heading(if found.matched == 1 { table.name().to_owned() } else { of }));
    for (columns, row) in found.each() {
        for (place, column) in table.schema().iter().enumerate() {
            let value = field(cell(columns, place, row), glyphs).filter(|text| !text.is_empty());
            lines.extend(value.map(|value| Detail::Field(column.name.to_owned(), value)));
        }
        lines.push(Detail::Gap);
    }
}
