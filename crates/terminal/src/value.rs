//! Values of rows as people read them, and their order.

use std::cmp::Ordering;

use packet::Timestamp;
use store::query::Cell;

use crate::text::{Glyphs, chart, plain};

/// What a number says, and so how it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Of a name, an address or a state.
    Text,
    /// How many.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second, written as bits per second.
    Rate,
    /// Nanoseconds.
    Nanoseconds,
    /// Seconds.
    Seconds,
    /// Nanoseconds since the epoch, written as the time of day.
    Time,
    /// A part of 1.
    Share,
    /// Bars.
    Chart,
}

impl Kind {
    pub(crate) const fn is_right(self) -> bool {
        !matches!(self, Self::Text | Self::Chart | Self::Time)
    }
}

/// A value of a row.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    None,
    Text(String),
    Number(f64),
    Chart(Vec<f64>),
}

impl Value {
    pub(crate) fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::None,
            Cell::Text("") => Self::None,
            Cell::Text(text) => Self::Text(text.to_owned()),
            cell => cell.number().map_or(Self::None, Self::Number),
        }
    }

    pub(crate) const fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The order of two values, missing ones last in both directions.
    pub(crate) fn order(&self, other: &Self, is_descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::None, Self::None) => return Ordering::Equal,
            (Self::None, _) => return Ordering::Greater,
            (_, Self::None) => return Ordering::Less,
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Number(one), Self::Number(other)) => one.total_cmp(other),
            (Self::Chart(one), Self::Chart(other)) => last(one).total_cmp(&last(other)),
            _ => Ordering::Equal,
        };
        if is_descending { order.reverse() } else { order }
    }

    pub(crate) fn written(&self, kind: Kind, columns: usize, glyphs: Glyphs) -> String {
        match self {
            Self::None => String::new(),
            Self::Text(text) => plain(text, glyphs),
            Self::Number(number) => written(*number, kind, glyphs),
            Self::Chart(values) => chart(values, columns, glyphs),
        }
    }
}

fn last(values: &[f64]) -> f64 {
    values.last().copied().unwrap_or(0.0)
}

fn written(number: f64, kind: Kind, glyphs: Glyphs) -> String {
    match kind {
        Kind::Text | Kind::Chart => format!("{number}"),
        Kind::Count => count(number),
        Kind::Bytes => bytes(number),
        Kind::Rate => rate(number),
        Kind::Nanoseconds => span(number, glyphs),
        Kind::Seconds => span(number * 1e9, glyphs),
        Kind::Time => time_of_day(number),
        Kind::Share => format!("{:.1}%", number * 100.0),
    }
}

/// A count: all digits up to 999,999, then in thousands.
pub(crate) fn count(number: f64) -> String {
    if number.abs() >= 1e6 {
        return scaled(number, &["", "k", "M", "G", "T", "P"]).replace(' ', "");
    }
    if number.fract() != 0.0 {
        return format!("{number:.1}");
    }
    let digits = format!("{:.0}", number.abs());
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if number < 0.0 { format!("-{grouped}") } else { grouped }
}

/// Bytes per second as bits per second.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    scaled(bytes_per_second * 8.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s"])
}

/// Bytes, in steps of 1,000.
pub(crate) fn bytes(number: f64) -> String {
    scaled(number, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// Hours to milliseconds, UTC. A float holds times of this century to the microsecond.
#[allow(clippy::cast_possible_truncation)]
fn time_of_day(ns: f64) -> String {
    let text = Timestamp::from_ns(ns as i64).to_string();
    text.get(11..23).unwrap_or_default().to_owned()
}

fn scaled(number: f64, units: &[&str]) -> String {
    let (mut number, mut at) = (number, 0);
    // What would be written as 1000 goes to the next unit.
    while number.abs() >= 999.5 && at + 1 < units.len() {
        number /= 1000.0;
        at += 1;
    }
    let unit = units.get(at).copied().unwrap_or_default();
    let digits = match number.abs() {
        _ if at == 0 => 0,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    };
    format!("{number:.digits$} {unit}")
}

/// Nanoseconds in the unit that suits them.
fn span(ns: f64, glyphs: Glyphs) -> String {
    let micro = if glyphs == Glyphs::Unicode { "µs" } else { "us" };
    match ns.abs() {
        size if size < 999.5 => format!("{ns:.0} ns"),
        size if size < 999_500.0 => format!("{:.1} {micro}", ns / 1e3),
        size if size < 999_500_000.0 => format!("{:.1} ms", ns / 1e6),
        size if size < 600e9 => format!("{:.2} s", ns / 1e9),
        _ => format!("{:.0} min", ns / 60e9),
    }
}

/// A field of a row as details show it, harmless.
pub(crate) fn field(cell: Cell<'_>, glyphs: Glyphs) -> Option<String> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Integer(value) => format!("{value}"),
        Cell::Float(value) => format!("{value}"),
        Cell::Time(ns) => Timestamp::from_ns(ns).to_string(),
        Cell::Text(text) => plain(text, glyphs),
        Cell::Bytes(bytes) => {
            let shown = bytes.iter().take(64).map(|byte| format!("{byte:02x}"));
            shown.collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_few_columns() {
        let cases = [
            (Kind::Bytes, 0.0, "0 B"),
            (Kind::Bytes, 999.0, "999 B"),
            (Kind::Bytes, 999_600.0, "1.00 MB"),
            (Kind::Bytes, 12_345.0, "12.3 kB"),
            (Kind::Rate, 125_000.0, "1.00 Mbit/s"),
            (Kind::Count, 1_234.0, "1,234"),
            (Kind::Count, 12_345_678.0, "12.3M"),
            (Kind::Nanoseconds, 1_500.0, "1.5 µs"),
            (Kind::Seconds, 0.0123, "12.3 ms"),
            (Kind::Share, 0.1234, "12.3%"),
        ];
        for (kind, number, wanted) in cases {
            assert_eq!(written(number, kind, Glyphs::Unicode), wanted);
        }
    }

    #[test]
    fn missing_values_come_last_in_both_directions() {
        for is_descending in [false, true] {
            let order = Value::None.order(&Value::Number(1.0), is_descending);
            assert_eq!(order, Ordering::Greater);
        }
        assert_eq!(Value::Number(2.0).order(&Value::Number(1.0), true), Ordering::Less);
    }
}
