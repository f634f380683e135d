//! JSON lines: one object a row, keys in the order of the schema.

use std::fmt;
use std::io::Write as _;

use engine::columns::{Column, Schema, Values};

use crate::digits::{self, FloatText};

/// What stands before each value: `{"first":`, `,"second":` and so on, escaped once.
pub(crate) struct Keys(Vec<Vec<u8>>);

impl Keys {
    pub(crate) fn new(schema: Schema) -> Self {
        let key = |(index, name)| {
            let mut key = vec![if index == 0 { b'{' } else { b',' }];
            text(&mut key, name, true);
            key.push(b':');
            key
        };
        Self(schema.iter().map(|field| field.name).enumerate().map(key).collect())
    }

    /// One row. A stamp is integer nanoseconds. JSON has no NaN and no
    /// infinity: such a float is `null`, as a missing value is. Bytes are hexadecimal text.
    /// `special` says of each column whether any of its texts [`is_special`].
    pub(crate) fn row(
        &self,
        out: &mut Vec<u8>,
        columns: &[Column],
        special: &[bool],
        float: &mut FloatText,
        row: usize,
    ) {
        for ((key, column), &special) in self.0.iter().zip(columns).zip(special) {
            out.extend_from_slice(key);
            if column.is_null(row) || !value(out, column.values(), special, float, row) {
                out.extend_from_slice(b"null");
            }
        }
        out.extend_from_slice(b"}\n");
    }
}

/// False where there is nothing that JSON can say.
fn value(
    out: &mut Vec<u8>,
    values: &Values,
    special: bool,
    float: &mut FloatText,
    row: usize,
) -> bool {
    match values {
        Values::U64(values) => values.get(row).map(|&value| digits::unsigned(out, value)).is_some(),
        Values::U32(values) => {
            values.get(row).map(|&value| digits::unsigned(out, value.into())).is_some()
        }
        Values::U16(values) => {
            values.get(row).map(|&value| digits::unsigned(out, value.into())).is_some()
        }
        Values::I8(values) => {
            values.get(row).map(|&value| digits::signed(out, value.into())).is_some()
        }
        Values::TimestampNs(values) => {
            values.get(row).map(|&value| digits::signed(out, value)).is_some()
        }
        Values::F64(values) => values
            .get(row)
            .filter(|value| value.is_finite())
            .map(|&value| float.append(out, value))
            .is_some(),
        Values::Text(values) => {
            text(out, values.get(row), special);
            true
        }
        Values::Bytes(values) => {
            out.push(b'"');
            digits::hexadecimal(out, values.get(row));
            out.push(b'"');
            true
        }
    }
}

/// Whether any of these bytes has to be escaped.
pub(crate) fn is_special(text: &str) -> bool {
    // To the end instead of to the first: so the compiler looks at many bytes at once.
    let is_special = |byte| matches!(byte, b'"' | b'\\' | 0..0x20);
    text.bytes().fold(false, |seen, byte| seen | is_special(byte))
}

/// Escaped where it must be, which is not looked for unless `may_be_special`.
fn text(out: &mut Vec<u8>, value: &str, may_be_special: bool) {
    out.push(b'"');
    if may_be_special && is_special(value) {
        value.bytes().for_each(|byte| escaped(out, byte));
    } else {
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, byte: u8) {
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

fn append(out: &mut Vec<u8>, value: fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(value);
}
