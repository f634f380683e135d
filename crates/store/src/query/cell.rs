//! One value of a row, whatever its column holds.

use std::cmp::Ordering;

use engine::columns::{Columns, Values};

/// A value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// Missing.
    Null,
    /// An integer of any width.
    Integer(i128),
    /// A float.
    Float(f64),
    /// Nanoseconds since the epoch.
    Time(i64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A value of some rows; missing where there is no such column or row.
#[must_use]
pub fn cell(columns: &Columns, column: usize, row: usize) -> Cell<'_> {
    let Some(column) = columns.columns().get(column) else { return Cell::Null };
    if column.is_null(row) {
        return Cell::Null;
    }
    let integer = |value: Option<i128>| value.map_or(Cell::Null, Cell::Integer);
    match column.values() {
        Values::U64(values) => integer(values.get(row).map(|&value| value.into())),
        Values::U32(values) => integer(values.get(row).map(|&value| value.into())),
        Values::U16(values) => integer(values.get(row).map(|&value| value.into())),
        Values::I8(values) => integer(values.get(row).map(|&value| value.into())),
        Values::TimestampNs(values) => values.get(row).map_or(Cell::Null, |&ns| Cell::Time(ns)),
        Values::F64(values) => match values.get(row) {
            Some(&value) if value.is_finite() => Cell::Float(value),
            _ => Cell::Null,
        },
        Values::Text(values) => Cell::Text(values.get(row)),
        Values::Bytes(values) => Cell::Bytes(values.get(row)),
    }
}

impl<'a> Cell<'a> {
    /// The text, where it is one.
    #[must_use]
    pub const fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where it is one.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub const fn number(self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Time(ns) => Some(ns as f64),
            _ => None,
        }
    }

    /// The time, where it is one.
    #[must_use]
    pub const fn time(self) -> Option<i64> {
        match self {
            Self::Time(ns) => Some(ns),
            _ => None,
        }
    }

    /// Order of values of one column; missing ones come last.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Null, Self::Null) => Ordering::Equal,
            (Self::Null, _) => Ordering::Greater,
            (_, Self::Null) => Ordering::Less,
            (Self::Integer(one), Self::Integer(other)) => one.cmp(other),
            (Self::Time(one), Self::Time(other)) => one.cmp(other),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Bytes(one), Self::Bytes(other)) => one.cmp(other),
            (one, other) => match (one.number(), other.number()) {
                (Some(one), Some(other)) => one.total_cmp(&other),
                _ => Ordering::Equal,
            },
        }
    }
}

/// Bytes as hexadecimal text, as rows have them in every format.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
