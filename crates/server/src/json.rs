//! Rows as JSON: arrays in the order of the columns.
//!
//! A time is decimal text, since 64 bits do not fit into a number of JavaScript, as OTLP has it.

use std::fmt::Write as _;

use engine::columns::{Columns, Schema};
use store::query::{Cell, Groups, Key, Measure, Number, Rows, Series, hexadecimal};

/// Appends text with quotes.
pub(crate) fn push_text(json: &mut String, text: &str) {
    // Text is always JSON.
    json.push_str(&serde_json::to_string(text).unwrap_or_default());
}

fn push_cell(json: &mut String, cell: Cell<'_>) {
    // Writing to a string cannot fail.
    let _ = match cell {
        Cell::Null => write!(json, "null"),
        Cell::Integer(value) => write!(json, "{value}"),
        Cell::Float(value) => write!(json, "{value:?}"),
        Cell::Time(ns) => write!(json, "\"{ns}\""),
        Cell::Text(text) => return push_text(json, text),
        Cell::Bytes(bytes) => write!(json, "\"{}\"", hexadecimal(bytes)),
    };
}

fn push_list<T>(json: &mut String, items: impl Iterator<Item = T>, one: impl Fn(&mut String, T)) {
    json.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            json.push(',');
        }
        one(json, item);
    }
    json.push(']');
}

fn push_row(json: &mut String, columns: &Columns, row: usize, wanted: &[Measure]) {
    push_list(json, wanted.iter(), |json, one| push_cell(json, one.cell(columns, row)));
}

/// All columns.
pub(crate) fn all(schema: Schema) -> Vec<Measure> {
    (0..schema.len()).map(|column| Measure::column(schema, column)).collect()
}

/// A row alone.
pub(crate) fn row(columns: &Columns, row: usize, wanted: &[Measure]) -> String {
    let mut json = String::new();
    push_row(&mut json, columns, row, wanted);
    json
}

/// What was found, with these columns of it.
pub(crate) fn rows(found: &Rows, wanted: &[Measure], sequence: u64) -> String {
    let mut json = table(wanted, found.each());
    json.pop();
    let (matched, searched) = (found.matched, found.searched);
    let _ =
        write!(json, ",\"matched\":{matched},\"searched\":{searched},\"sequence\":{sequence}}}");
    json
}

/// Columns and rows alone.
pub(crate) fn table<'a>(
    wanted: &[Measure],
    rows: impl Iterator<Item = (&'a Columns, usize)>,
) -> String {
    let mut json = String::from("{\"columns\":");
    push_list(&mut json, wanted.iter(), |json, one| push_text(json, one.name()));
    json.push_str(",\"rows\":");
    push_list(&mut json, rows, |json, (columns, row)| push_row(json, columns, row, wanted));
    json.push('}');
    json
}

fn push_key(json: &mut String, key: &Key) {
    let _ = match key {
        Key::Time(ns) => write!(json, "\"{ns}\""),
        Key::Integer(value) => write!(json, "{value}"),
        Key::Text(text) => return push_text(json, text),
        Key::Null => write!(json, "null"),
    };
}

fn push_number(json: &mut String, value: Option<Number>) {
    let _ = match value {
        Some(Number::Integer(value)) => write!(json, "{value}"),
        Some(Number::Time(ns)) => write!(json, "\"{ns}\""),
        Some(Number::Float(value)) if value.is_finite() => write!(json, "{value:?}"),
        _ => write!(json, "null"),
    };
}

/// Groups that were found, with the names of their columns.
pub(crate) fn groups(found: &Groups, names: &[String], sequence: u64) -> String {
    let mut json = String::from("{\"columns\":");
    push_list(&mut json, names.iter(), |json, name| push_text(json, name));
    json.push_str(",\"rows\":");
    push_list(&mut json, found.rows.iter(), |json, row| {
        json.push('[');
        for key in &row.key {
            push_key(json, key);
            json.push(',');
        }
        let _ = write!(json, "{}", row.row_count);
        for &value in &row.values {
            json.push(',');
            push_number(json, value);
        }
        json.push(']');
    });
    let Groups { matched, searched, left_out, .. } = found;
    let _ = write!(
        json,
        ",\"matched\":{matched},\"searched\":{searched},\"left_out\":{left_out},\
         \"sequence\":{sequence}}}"
    );
    json
}

/// Values over time. A series without a key is the rest, or the only one, which has this name.
pub(crate) fn series(found: &Series, name: &str, has_keys: bool) -> String {
    let mut json = String::from("{\"times\":");
    push_list(&mut json, found.times.iter(), |json, ns| {
        let _ = write!(json, "\"{ns}\"");
    });
    let _ = write!(json, ",\"step_ns\":{},\"series\":", found.step_ns);
    push_list(&mut json, found.series.iter(), |json, (key, values)| {
        json.push_str("{\"name\":");
        match key {
            Some(key) => push_key(json, key),
            None => push_text(json, if has_keys { "other" } else { name }),
        }
        json.push_str(",\"values\":");
        push_list(json, values.iter(), |json, &value| push_number(json, value));
        json.push('}');
    });
    let (matched, searched) = (found.matched, found.searched);
    let _ = write!(json, ",\"matched\":{matched},\"searched\":{searched}}}");
    json
}
