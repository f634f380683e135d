//! JSON lines: one object a row, keys in the order of the schema.

use std::fmt;
use std::io::Write as _;

use engine::columns::{Column, Schema};

/// What stands before each value: `{"first":`, `,"second":` and so on, escaped once.
pub(crate) struct Keys(Vec<Vec<u8>>);

impl Keys {
    pub(crate) fn new(schema: Schema) -> Self {
        let key = |(index, name)| {
            let mut key = vec![if index == 0 { b'{' } else { b',' }];
            text(&mut key, name);
            key.push(b':');
            key
        };
        Self(schema.iter().map(|field| field.name).enumerate().map(key).collect())
    }

    /// One row. A stamp is integer nanoseconds. JSON has no NaN and no
    /// infinity: such a float is `null`.
    pub(crate) fn row(&self, out: &mut Vec<u8>, columns: &[Column], row: usize) {
        for (key, column) in self.0.iter().zip(columns) {
            out.extend_from_slice(key);
            match column {
                Column::U64(values) => number(out, values.get(row)),
                Column::U16(values) => number(out, values.get(row)),
                Column::TimestampNs(values) => number(out, values.get(row)),
                // Debug, unlike Display, gives large and small floats an exponent.
                Column::F64(values) => match values.get(row) {
                    Some(value) if value.is_finite() => append(out, format_args!("{value:?}")),
                    _ => out.extend_from_slice(b"null"),
                },
                Column::Text(values) => text(out, values.get(row)),
            }
        }
        out.extend_from_slice(b"}\n");
    }
}

fn text(out: &mut Vec<u8>, value: &str) {
    out.push(b'"');
    for byte in value.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => append(out, format_args!("\\u{byte:04x}")),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

fn number<T: fmt::Display>(out: &mut Vec<u8>, value: Option<&T>) {
    match value {
        Some(value) => append(out, format_args!("{value}")),
        None => out.extend_from_slice(b"null"),
    }
}

fn append(out: &mut Vec<u8>, value: fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(value);
}
