//! CSV as RFC 4180 has it, with LF line ends: what every reader takes.

use engine::columns::{Column, Schema, Values};

use crate::digits::{self, FloatText};

/// The field names.
pub(crate) fn header(out: &mut Vec<u8>, schema: Schema) {
    for (index, field) in schema.iter().enumerate() {
        separate(out, index);
        text(out, field.name, true, schema.len() == 1);
    }
    out.push(b'\n');
}

/// One row. A timestamp is integer nanoseconds; a float is the shortest text that
/// reads back to the same bits, with `NaN`, `inf` and `-inf` as such; bytes are
/// hexadecimal. A missing value is an empty field; empty text in such a column is quoted to
/// distinguish it. `special` says of each column whether any of its texts [`is_special`].
pub(crate) fn row(
    out: &mut Vec<u8>,
    columns: &[Column],
    special: &[bool],
    float: &mut FloatText,
    row: usize,
) {
    // Readers skip empty lines, so a value alone on its line is never left empty.
    let is_alone = columns.len() == 1;
    for (index, (column, &special)) in columns.iter().zip(special).enumerate() {
        separate(out, index);
        if column.is_null(row) {
            if is_alone {
                out.extend_from_slice(b"\"\"");
            }
            continue;
        }
        match column.values() {
            Values::U64(values) => unsigned(out, values.get(row).copied()),
            Values::U32(values) => unsigned(out, values.get(row).copied().map(u64::from)),
            Values::U16(values) => unsigned(out, values.get(row).copied().map(u64::from)),
            Values::I8(values) => {
                if let Some(&value) = values.get(row) {
                    digits::signed(out, value.into());
                }
            }
            Values::TimestampNs(values) => {
                if let Some(&value) = values.get(row) {
                    digits::signed(out, value);
                }
            }
            Values::F64(values) => {
                if let Some(&value) = values.get(row) {
                    float.append(out, value);
                }
            }
            Values::Text(values) => {
                text(out, values.get(row), special, is_alone || column.presence().is_some());
            }
            Values::Bytes(values) => match values.get(row) {
                [] => text(out, "", false, is_alone || column.presence().is_some()),
                bytes => digits::hexadecimal(out, bytes),
            },
        }
    }
    out.push(b'\n');
}

fn separate(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

/// Whether any of these bytes has to be quoted.
pub(crate) fn is_special(text: &str) -> bool {
    // To the end instead of to the first: so the compiler looks at many bytes at once.
    let is_special = |byte| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    text.bytes().fold(false, |seen, byte| seen | is_special(byte))
}

/// Quoted only where it must be, which is not looked for unless `may_be_special`, and where it is
/// empty if `empty_is_quoted`.
fn text(out: &mut Vec<u8>, value: &str, may_be_special: bool, empty_is_quoted: bool) {
    let is_quoted = (may_be_special && is_special(value)) || (empty_is_quoted && value.is_empty());
    if !is_quoted {
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

fn unsigned(out: &mut Vec<u8>, value: Option<u64>) {
    if let Some(value) = value {
        digits::unsigned(out, value);
    }
}
