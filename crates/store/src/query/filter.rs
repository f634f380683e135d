//! A filter, bound to the columns of a table.

use std::fmt;

use engine::columns::{Columns, Kind, Schema};

use super::cancellation::Cancellation;
use super::cell::{Cell, cell, hexadecimal};
use super::expression::{Comparison, Expression, Literal, parse};
use super::measure::{Measure, Operand};
use super::value::{Net, Number, number, time};

/// Why a query cannot be answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueryError(pub String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

/// Which rows are wanted, and whether any still are.
#[derive(Clone, Debug)]
pub struct Filter {
    test: Test,
    cancellation: Option<Cancellation>,
}

#[derive(Clone, Debug)]
enum Test {
    All(Vec<Test>),
    Any(Vec<Test>),
    Not(Box<Test>),
    /// A value of a column, or the sum of some.
    Measure(Measure, Condition),
    /// A value of one of these columns.
    Some(Vec<usize>, Condition),
    /// The values of all of these columns.
    Every(Vec<usize>, Condition),
    /// Part of the text of any column, in any case.
    Text(String),
}

#[derive(Clone, Debug)]
enum Condition {
    Number(Comparison, f64),
    Time(Comparison, i64),
    /// Whether the address has to be one of these, or none of them.
    Address(bool, Net),
    /// The same of text.
    Equal(bool, String),
    Contains(String),
    Any(Vec<Condition>),
}

impl Filter {
    /// Reads a filter for a table.
    ///
    /// # Errors
    /// [`QueryError`]: the text is no filter, or names what the table has not.
    pub fn new(text: &str, schema: Schema) -> Result<Self, QueryError> {
        let expression = parse(text).map_err(|why| QueryError(format!("filter: {why}")))?;
        Ok(Self { test: bind(&expression, schema)?, cancellation: None })
    }

    /// All rows.
    #[must_use]
    pub const fn all() -> Self {
        Self { test: Test::All(Vec::new()), cancellation: None }
    }

    /// The same of a query that may be cancelled: every query has a filter.
    #[must_use]
    pub fn until(self, cancellation: &Cancellation) -> Self {
        Self { cancellation: Some(cancellation.clone()), ..self }
    }

    /// All rows, for as long as the query of this filter is not cancelled.
    #[must_use]
    pub fn all_as_long(&self) -> Self {
        Self { cancellation: self.cancellation.clone(), ..Self::all() }
    }

    /// Whether the query was cancelled: rows that were not searched yet need not be.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// The columns of a schema that it looks at; a search for text looks at all that have text.
    #[must_use]
    pub fn columns(&self, schema: Schema) -> Vec<usize> {
        let mut columns = Vec::new();
        self.test.columns(schema, &mut columns);
        columns
    }

    /// Whether a row is wanted.
    #[must_use]
    pub fn has(&self, columns: &Columns, row: usize) -> bool {
        self.test.has(columns, row)
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
            test(schema, column, *comparison, |kind| condition(column, kind, *comparison, value))?
        }
        Expression::In { column, values } => test(schema, column, Comparison::Equal, |kind| {
            let one = |value: &Literal| condition(column, kind, Comparison::Equal, value);
            Ok(Condition::Any(values.iter().map(one).collect::<Result<_, _>>()?))
        })?,
    })
}

fn test(
    schema: Schema,
    name: &str,
    comparison: Comparison,
    condition: impl Fn(Kind) -> Result<Condition, QueryError>,
) -> Result<Test, QueryError> {
    let named = Operand::find(schema, name)?;
    let kind = |columns: &[usize]| {
        let first = columns.first().and_then(|&first| schema.get(first));
        first.map_or(Kind::Text, |field| field.kind)
    };
    Ok(match named {
        Operand::Measure(measure) => {
            let condition = condition(kind(measure.columns()))?;
            Test::Measure(measure, condition)
        }
        // As in Wireshark: what differs differs in all of them.
        Operand::AnyOf(columns) if comparison == Comparison::Unequal => {
            let condition = condition(kind(&columns))?;
            Test::Every(columns, condition)
        }
        Operand::AnyOf(columns) => {
            let condition = condition(kind(&columns))?;
            Test::Some(columns, condition)
        }
    })
}

fn condition(
    column: &str,
    kind: Kind,
    comparison: Comparison,
    value: &Literal,
) -> Result<Condition, QueryError> {
    let Literal { text, is_quoted } = value;
    let is_text = matches!(kind, Kind::Text | Kind::Bytes);
    let is_equal = comparison == Comparison::Equal;
    if is_text {
        return match comparison {
            Comparison::Contains => Ok(Condition::Contains(text.to_lowercase())),
            Comparison::Equal | Comparison::Unequal => Ok(match Net::read(text) {
                // No row's text has to be read as an address where one text is the address.
                Some(net) => match net.only_text() {
                    Some(text) => Condition::Equal(is_equal, text),
                    None => Condition::Address(is_equal, net),
                },
                None if holds_addresses(column) && !is_quoted => {
                    let wanted = "an address, or a prefix such as 10.0.0.0/8";
                    return Err(wrong_value(column, text, wanted));
                }
                None => Condition::Equal(is_equal, text.clone()),
            }),
            _ => {
                let wanted = "wanted: ==, !=, in or contains";
                Err(QueryError(format!("filter: {column} is text; {wanted}")))
            }
        };
    }
    if comparison == Comparison::Contains {
        let wanted = "contains is for text; wanted: ==, !=, <, <=, > or >=";
        return Err(QueryError(format!("filter: {column} is a number: {wanted}")));
    }
    if kind == Kind::TimestampNs {
        let wanted = "a time: nanoseconds since the epoch, or as in 2026-11-25T13:00:00Z";
        let time = time(text).ok_or_else(|| wrong_value(column, text, wanted))?;
        return Ok(Condition::Time(comparison, time));
    }
    let wanted = "a number, such as 443, 10k, 1.5M, 2G, 5ms, 3s or 0x10, without quotation marks";
    let number = number(text).filter(|_| !is_quoted);
    let number = number.ok_or_else(|| wrong_value(column, text, wanted))?;
    let number = match number {
        Number::Plain(number) => number,
        Number::Seconds(seconds) if column.ends_with("_ns") => (seconds * 1e9).round(),
        Number::Seconds(seconds) if column.ends_with("_s") => seconds,
        Number::Seconds(_) => {
            let wanted = "a number without a unit of time: the column is not a duration";
            return Err(wrong_value(column, text, wanted));
        }
    };
    Ok(Condition::Number(comparison, number))
}

/// Whether every value of a column is an address: no row has another text, and a slip such as
/// 10.0.0.0/33 would look like traffic that is not there. `host` may be a name in tables of other
/// programs.
fn holds_addresses(column: &str) -> bool {
    column == "ip" || column.ends_with("_ip")
}

fn wrong_value(column: &str, value: &str, wanted: &str) -> QueryError {
    QueryError(format!("filter: {column} {value:?}; wanted: {wanted}"))
}

impl Test {
    fn columns(&self, schema: Schema, into: &mut Vec<usize>) {
        match self {
            Self::All(parts) | Self::Any(parts) => {
                parts.iter().for_each(|part| part.columns(schema, into));
            }
            Self::Not(inside) => inside.columns(schema, into),
            Self::Measure(measure, _) => into.extend(measure.columns()),
            Self::Some(columns, _) | Self::Every(columns, _) => into.extend(columns),
            Self::Text(_) => {
                let is_text = |at: &usize| schema.get(*at).is_some_and(|of| of.kind == Kind::Text);
                into.extend((0..schema.len()).filter(is_text));
            }
        }
    }

    fn has(&self, rows: &Columns, row: usize) -> bool {
        match self {
            Self::All(parts) => parts.iter().all(|part| part.has(rows, row)),
            Self::Any(parts) => parts.iter().any(|part| part.has(rows, row)),
            Self::Not(inside) => !inside.has(rows, row),
            Self::Measure(measure, condition) => condition.has(measure.cell(rows, row)),
            Self::Some(columns, condition) => {
                columns.iter().any(|&column| condition.has(cell(rows, column, row)))
            }
            Self::Every(columns, condition) => {
                columns.iter().all(|&column| condition.has(cell(rows, column, row)))
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
            (Self::Address(is_wanted, net), Cell::Text(text)) => {
                text.parse().is_ok_and(|address| net.has(address)) == *is_wanted
            }
            (Self::Equal(is_wanted, wanted), Cell::Text(text)) => (text == wanted) == *is_wanted,
            (Self::Equal(is_wanted, wanted), Cell::Bytes(bytes)) => {
                (hexadecimal(bytes) == *wanted) == *is_wanted
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
    let Some(first) = wanted.first() else { return true };
    // Most places are passed over by their first letter.
    let is_first =
        |window: &[u8]| window.first().is_some_and(|one| one.eq_ignore_ascii_case(first));
    let is_there = |window: &[u8]| is_first(window) && window.eq_ignore_ascii_case(wanted);
    text.windows(wanted.len()).any(is_there)
}
