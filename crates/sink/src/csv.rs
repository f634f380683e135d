//! CSV as RFC 4180 has it, with LF line ends: what every reader takes.

use std::fmt;
use std::io::Write as _;

use engine::columns::{Column, Schema};

/// The field names.
pub(crate) fn header(out: &mut Vec<u8>, schema: Schema) {
    for (index, field) in schema.iter().enumerate() {
        separate(out, index);
        text(out, field.name, schema.len() == 1);
    }
    out.push(b'\n');
}

/// One row. A stamp is integer nanoseconds; a float is the shortest text that
/// reads back to the same bits, with `NaN`, `inf` and `-inf` as such.
pub(crate) fn row(out: &mut Vec<u8>, columns: &[Column], row: usize) {
    for (index, column) in columns.iter().enumerate() {
        separate(out, index);
        match column {
            Column::U64(values) => number(out, values.get(row)),
            Column::U16(values) => number(out, values.get(row)),
            Column::TimestampNs(values) => number(out, values.get(row)),
            Column::F64(values) => {
                if let Some(value) = values.get(row) {
                    append(out, format_args!("{value:?}"));
                }
            }
            Column::Text(values) => text(out, values.get(row), columns.len() == 1),
        }
    }
    out.push(b'\n');
}

fn separate(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

/// Quoted only where it must be. An empty value that is alone on its line is
/// quoted too: readers skip empty lines.
fn text(out: &mut Vec<u8>, value: &str, alone: bool) {
    let quoted = value.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
        || (alone && value.is_empty());
    if !quoted {
        out.extend_from_slice(value.as_bytes());
        return;
    }
    out.push(b'"');
    for (index, part) in value.split('"').enumerate() {
        if index > 0 {
            out.extend_from_slice(b"\"\"");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'"');
}

fn number<T: fmt::Display>(out: &mut Vec<u8>, value: Option<&T>) {
    if let Some(value) = value {
        append(out, format_args!("{value}"));
    }
}

fn append(out: &mut Vec<u8>, value: fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(value);
}
