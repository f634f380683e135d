//! A filter, bound to the columns of a table.

use std::fmt;
use std::net::IpAddr;

use engine::columns::{Columns, Kind, Schema};
use packet::Timestamp;
use packet::when::parse_time;

use super::cell::{Cell, cell};
use super::expression::{Comparison, Expression, parse};

/// Why a query cannot be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryError(pub String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

/// Which rows are wanted.
#[derive(Clone, Debug)]
pub struct Filter(Test);

#[derive(Clone, Debug)]
enum Test {
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    /// A value of one of these columns.
    Column(Vec<usize>, Condition),
    /// The sum of these columns.
    Sum(Vec<usize>, Condition),
    /// Part of the text of any column, in any case.
    Text(String),
}

#[derive(Clone, Debug)]
enum Condition {
    Number(Comparison, f64),
    Time(Comparison, i64),
    Address(Comparison, Net),
    Equal(bool, String),
    Order(Comparison, String),
    Contains(String),
    Any(Vec<Condition>),
}

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug)]
struct Net {
    bits: u128,
    /// Of 128; an IPv4 address stands at their end.
    mask: u128,
    is_ipv6: bool,
}

impl Net {
    fn read(text: &str) -> Option<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (width, bits) = width_and_bits(address);
        let len = len.unwrap_or(width);
        if len > width {
            return None;
        }
        let mask = u128::MAX.checked_shl(width - len).unwrap_or(0);
        Some(Self { bits: bits & mask, mask, is_ipv6: address.is_ipv6() })
    }

    fn has(self, address: IpAddr) -> bool {
        let (_, bits) = width_and_bits(address);
        address.is_ipv6() == self.is_ipv6 && bits & self.mask == self.bits
    }
}

fn width_and_bits(address: IpAddr) -> (u32, u128) {
    match address {
        IpAddr::V4(address) => (32, u32::from(address).into()),
        IpAddr::V6(address) => (128, address.into()),
    }
}

/// Names for several columns: any of them, or their sum.
const ANY_OF: [(&str, &[&str]); 2] =
    [("ip", &["src_ip", "dst_ip", "host"]), ("port", &["src_port", "dst_port", "port"])];
const SUM_OF: [(&str, &[&str]); 2] =
    [("bytes", &["src_bytes", "dst_bytes"]), ("packets", &["src_packets", "dst_packets"])];

/// The columns of a name; whether their sum is meant.
fn columns_of(schema: Schema, name: &str) -> Option<(Vec<usize>, bool)> {
    let place = |name: &str| schema.iter().position(|field| field.name == name);
    if let Some(place) = place(name) {
        return Some((vec![place], false));
    }
    let of = |names: &[(&str, &[&str])]| -> Vec<usize> {
        let of_name = names.iter().find(|(alias, _)| *alias == name);
        of_name
            .map(|(_, names)| names.iter().filter_map(|one| place(one)).collect())
            .unwrap_or_default()
    };
    let (any, sum) = (of(&ANY_OF), of(&SUM_OF));
    match (any.is_empty(), sum.is_empty()) {
        (false, _) => Some((any, false)),
        (_, false) => Some((sum, true)),
        _ => None,
    }
}

/// What a query says of a name that no column has.
pub(super) fn unknown_column(schema: Schema, name: &str) -> QueryError {
    let names: Vec<_> = schema.iter().map(|field| field.name).collect();
    QueryError(format!("no column {name:?}; the table has: {}", names.join(", ")))
}

impl Filter {
    /// Reads a filter for a table.
    ///
    /// # Errors
    /// [`QueryError`]: the text is no filter, or names what the table has not.
    pub fn new(text: &str, schema: Schema) -> Result<Self, QueryError> {
        let expression = parse(text).map_err(|why| QueryError(format!("filter: {why}")))?;
        Ok(Self(bind(&expression, schema)?))
    }

    /// All rows.
    #[must_use]
    pub const fn all() -> Self {
        Self(Test::All(Vec::new()))
    }

    /// Whether a row is wanted.
    #[must_use]
    pub fn has(&self, columns: &Columns, row: usize) -> bool {
        self.0.has(columns, row)
    }
}

fn bind(expression: &Expression, schema: Schema) -> Result<Test, QueryError> {
    let all = |parts: &[Expression]| -> Result<Vec<Test>, QueryError> {
        parts.iter().map(|part| bind(part, schema)).collect()
    };
    Ok(match expression {
        Expression::And(parts) => Test::All(all(parts)?),
        Expression::Or(parts) => Test::Any(all(parts)?),
        Expression::Not(inside) => Test::Not(Box::new(bind(inside, schema)?)),
        Expression::Text(text) => Test::Text(text.to_lowercase()),
        Expression::Compare { column, comparison, value } => {
            test(schema, column, |kind| condition(column, kind, *comparison, value))?
        }
        Expression::In { column, values } => test(schema, column, |kind| {
            let one = |value: &String| condition(column, kind, Comparison::Equal, value);
            Ok(Condition::Any(values.iter().map(one).collect::<Result<_, _>>()?))
        })?,
    })
}

fn test(
    schema: Schema,
    name: &str,
    condition: impl Fn(Kind) -> Result<Condition, QueryError>,
) -> Result<Test, QueryError> {
    let (columns, is_sum) = columns_of(schema, name).ok_or_else(|| unknown_column(schema, name))?;
    let kind = columns.first().and_then(|&first| schema.get(first)).map(|field| field.kind);
    let condition = condition(kind.unwrap_or(Kind::Text))?;
    Ok(if is_sum { Test::Sum(columns, condition) } else { Test::Column(columns, condition) })
}

fn condition(
    column: &str,
    kind: Kind,
    comparison: Comparison,
    value: &str,
) -> Result<Condition, QueryError> {
    let is_text = matches!(kind, Kind::Text | Kind::Bytes);
    if comparison == Comparison::Contains {
        let wanted = "contains is for text; wanted: ==, !=, <, <=, > or >=";
        return is_text
            .then(|| Condition::Contains(value.to_lowercase()))
            .ok_or_else(|| QueryError(format!("filter: {column} is a number: {wanted}")));
    }
    if kind == Kind::TimestampNs {
        let wanted = "a time: nanoseconds since the epoch, or as in 2026-11-25T13:00:00Z";
        let time = time(value);
        let time = time.ok_or_else(|| wrong_value(column, value, wanted))?;
        return Ok(Condition::Time(comparison, time));
    }
    if !is_text {
        let wanted = "a number, such as 443, 10k, 1.5M, 2G, 5ms, 3s or 0x10";
        let number = number(value).ok_or_else(|| wrong_value(column, value, wanted))?;
        return Ok(Condition::Number(comparison, number));
    }
    let is_equal = comparison == Comparison::Equal;
    if is_equal || comparison == Comparison::Unequal {
        return Ok(match Net::read(value) {
            Some(net) => Condition::Address(comparison, net),
            None => Condition::Equal(is_equal, value.to_owned()),
        });
    }
    Ok(Condition::Order(comparison, value.to_owned()))
}

fn wrong_value(column: &str, value: &str, wanted: &str) -> QueryError {
    QueryError(format!("filter: {column} {value:?}; wanted: {wanted}"))
}

/// Digits of nanoseconds since the epoch, of any time since 1970-01-12; seconds have fewer.
const NS_DIGITS_MIN: usize = 16;

/// A time in text: nanoseconds since the epoch, seconds, or a date and time in UTC.
#[must_use]
pub fn time(text: &str) -> Option<i64> {
    let is_ns = text.len() >= NS_DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_ns { text.parse().ok() } else { parse_time(text).ok().map(Timestamp::as_ns) }
}

/// Units, longest first: sizes by powers of ten, times in nanoseconds.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("k", 1e3),
    ("K", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("s", 1e9),
];

fn number(text: &str) -> Option<f64> {
    if let Some(digits) = text.strip_prefix("0x") {
        #[allow(clippy::cast_precision_loss)]
        return u64::from_str_radix(digits, 16).ok().map(|value| value as f64);
    }
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1.0));
    // Rust reads words such as inf as numbers.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || b".-+eE".contains(&byte));
    let value: f64 = is_number.then(|| digits.parse().ok()).flatten()?;
    Some(value * factor).filter(|value| value.is_finite())
}

impl Test {
    fn has(&self, rows: &Columns, row: usize) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.has(rows, row)),
            Self::Any(parts) => parts.iter().any(|part| part.has(rows, row)),
            Self::Not(inside) => !inside.has(rows, row),
            Self::Column(columns, condition) => {
                columns.iter().any(|&column| condition.has(cell(rows, column, row)))
            }
            Self::Sum(columns, condition) => {
                let values = columns.iter().filter_map(|&at| cell(rows, at, row).number());
                condition.has(Cell::Float(values.sum()))
            }
            Self::Text(text) => {
                let found = |at| match cell(rows, at, row) {
                    Cell::Text(seen) => has_text(seen, text),
                    _ => false,
                };
                (0..rows.columns().len()).any(found)
            }
        }
    }
}

impl Condition {
    /// A missing value fulfils none.
    fn has(&self, cell: Cell<'_>) -> bool {
        match (self, cell) {
            (Self::Any(conditions), _) => conditions.iter().any(|one| one.has(cell)),
            (Self::Time(comparison, wanted), Cell::Time(ns)) => comparison.holds(&ns, wanted),
            (Self::Number(comparison, wanted), Cell::Integer(_) | Cell::Float(_)) => {
                cell.number().is_some_and(|value| comparison.holds(&value, wanted))
            }
            (Self::Address(comparison, net), Cell::Text(text)) => {
                let is_in = text.parse().is_ok_and(|address| net.has(address));
                is_in == (*comparison == Comparison::Equal)
            }
            (Self::Equal(is_wanted, wanted), Cell::Text(text)) => (text == wanted) == *is_wanted,
            (Self::Equal(is_wanted, wanted), Cell::Bytes(bytes)) => {
                (hexadecimal(bytes) == *wanted) == *is_wanted
            }
            (Self::Order(comparison, wanted), Cell::Text(text)) => {
                comparison.holds(&text, &wanted.as_str())
            }
            (Self::Contains(wanted), Cell::Text(text)) => has_text(text, wanted),
            (Self::Contains(wanted), Cell::Bytes(bytes)) => hexadecimal(bytes).contains(wanted),
            _ => false,
        }
    }
}

impl Comparison {
    fn holds<T: PartialOrd>(self, value: &T, wanted: &T) -> bool {
        match self {
            Self::Equal => value == wanted,
            Self::Unequal => value != wanted,
            Self::Less => value < wanted,
            Self::AtMost => value <= wanted,
            Self::More => value > wanted,
            Self::AtLeast => value >= wanted,
            Self::Contains => false,
        }
    }
}

/// Whether text has a part, in any case. Most text has no letter of another alphabet.
fn has_text(text: &str, lowercase: &str) -> bool {
    if !text.is_ascii() {
        return text.to_lowercase().contains(lowercase);
    }
    let (text, wanted) = (text.as_bytes(), lowercase.as_bytes());
    wanted.is_empty()
        || text.windows(wanted.len()).any(|window| window.eq_ignore_ascii_case(wanted))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
