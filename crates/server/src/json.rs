//! Rows as JSON: arrays in the order of the columns.
//!
//! A time is decimal text, since 64 bits do not fit into a number of JavaScript, as OTLP has it.

use std::fmt::Write as _;

use engine::columns::{Columns, Schema};
use store::query::{Cell, Groups, Key, Rows, Series, cell};

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
        Cell::Bytes(bytes) => {
            let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            write!(json, "\"{text}\"")
        }
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

fn push_row(json: &mut String, columns: &Columns, row: usize, places: &[usize]) {
    push_list(json, places.iter(), |json, &place| push_cell(json, cell(columns, place, row)));
}

/// What was found, with these columns of it.
pub(crate) fn rows(found: &Rows, schema: Schema, places: &[usize], sequence: u64) -> String {
    let mut json = table(schema, places, found.each());
    json.pop();
    let (matched, searched) = (found.matched, found.searched);
    let _ =
        write!(json, ",\"matched\":{matched},\"searched\":{searched},\"sequence\":{sequence}}}");
    json
}

/// Columns and rows alone.
pub(crate) fn table<'a>(
    schema: Schema,
    places: &[usize],
    rows: impl Iterator<Item = (&'a Columns, usize)>,
) -> String {
    let mut json = String::from("{\"columns\":");
    let names = places.iter().filter_map(|&place| schema.get(place)).map(|field| field.name);
    push_list(&mut json, names, push_text);
    json.push_str(",\"rows\":");
    push_list(&mut json, rows, |json, (columns, row)| push_row(json, columns, row, places));
    json.push('}');
    json
}

fn push_key(json: &mut String, key: &Key, is_time: bool) {
    let _ = match key {
        Key::Integer(value) if is_time => write!(json, "\"{value}\""),
        Key::Integer(value) => write!(json, "{value}"),
        Key::Text(text) => return push_text(json, text),
        Key::Null => write!(json, "null"),
    };
}

fn push_number(json: &mut String, value: Option<f64>) {
    let _ = match value {
        // Sums of counts are whole numbers.
        Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => write!(json, "{value:.0}"),
        Some(value) if value.is_finite() => write!(json, "{value:?}"),
        _ => write!(json, "null"),
    };
}

/// Groups that were found, with the names of their columns.
pub(crate) fn groups(
    found: &Groups,
    names: &[String],
    are_times: &[bool],
    sequence: u64,
) -> String {
    let mut json = String::from("{\"columns\":");
    push_list(&mut json, names.iter(), |json, name| push_text(json, name));
    json.push_str(",\"rows\":");
    push_list(&mut json, found.rows.iter(), |json, row| {
        json.push('[');
        for (key, is_time) in row.key.iter().zip(are_times) {
            push_key(json, key, *is_time);
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
            Some(key) => push_key(json, key, false),
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
