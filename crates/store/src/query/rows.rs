//! Some rows of a table, in an order.

use std::cmp::Ordering;

use engine::columns::{Columns, Schema};

use super::cell::Cell;
use super::filter::{Filter, QueryError};
use super::measure::Measure;
use super::span::{TimeRange, time_column};
use crate::table::{RowChunk, View};

/// Columns that an order may name: rows that are equal in all of them are compared in each.
const ORDER_LEN_MAX: usize = 8;

/// The order of rows: a column, and whether the largest come first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Order {
    /// The value.
    pub measure: Measure,
    /// Whether the largest come first.
    pub is_descending: bool,
}

impl Order {
    /// Reads `-bytes,first_ns`: columns, those with `-` the largest first; 8 of them at most.
    ///
    /// # Errors
    /// [`QueryError`] names the columns that there are.
    pub fn read(text: &str, schema: Schema) -> Result<Vec<Self>, QueryError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let count = parts.clone().count();
        if count > ORDER_LEN_MAX {
            return Err(QueryError(format!(
                "sort: {count} columns; wanted: {ORDER_LEN_MAX} at most"
            )));
        }
        let one = |part: &str| {
            let (name, is_descending) =
                part.strip_prefix('-').map_or((part, false), |name| (name, true));
            Ok(Self { measure: Measure::find(schema, name)?, is_descending })
        };
        parts.map(one).collect()
    }
}

/// Which rows.
pub struct RowsQuery {
    /// Rows that are wanted.
    pub filter: Filter,
    /// Of this time.
    pub range: TimeRange,
    /// In this order; without one the latest first.
    pub order: Vec<Order>,
    /// Leave out so many of them.
    pub offset: usize,
    /// Then so many.
    pub limit: usize,
}

/// Rows that were found.
pub struct Rows {
    chunks: Vec<RowChunk>,
    found: Vec<(u32, u32)>,
    /// Rows that were wanted, of which these are some.
    pub matched: usize,
    /// Rows that were searched.
    pub searched: usize,
}

impl RowsQuery {
    /// Finds them.
    #[must_use]
    pub fn run(&self, view: &View) -> Rows {
        self.run_on(view.chunks(), view.schema())
    }

    /// Finds them in chunks of a schema.
    #[must_use]
    pub fn run_on(&self, chunks: Vec<RowChunk>, schema: Schema) -> Rows {
        let time = time_column(schema);
        let mut found: Vec<(u32, u32)> = Vec::new();
        let mut searched = 0;
        for (chunk, held) in (0..).zip(&chunks).take_while(|_| !self.filter.is_cancelled()) {
            let columns = held.columns();
            searched += columns.row_count();
            for row in 0..columns.row_count() {
                if self.range.has(columns, time, row) && self.filter.has(columns, row) {
                    found.push((chunk, u32::try_from(row).unwrap_or(u32::MAX)));
                }
            }
        }
        let matched = found.len();
        let wanted = self.offset.saturating_add(self.limit);
        if self.order.is_empty() {
            found.reverse();
        } else {
            let of = |&(chunk, row): &(u32, u32), measure: &Measure| {
                let held: Option<&RowChunk> = chunks.get(chunk as usize);
                held.map_or(Cell::Null, |held| measure.cell(held.columns(), row as usize))
            };
            let compare = |one: &(u32, u32), other: &(u32, u32)| {
                let mut by = self.order.iter().map(|order| {
                    let (a, b) = (of(one, &order.measure), of(other, &order.measure));
                    order.compare(&a, &b)
                });
                by.find(|order| order.is_ne()).unwrap_or_else(|| one.cmp(other))
            };
            // Of many rows few are wanted: those are put apart before they are put in order.
            if wanted < found.len() && wanted > 0 {
                found.select_nth_unstable_by(wanted - 1, compare);
                found.truncate(wanted);
            }
            found.sort_unstable_by(compare);
        }
        let found = found.into_iter().skip(self.offset).take(self.limit).collect();
        Rows { chunks, found, matched, searched }
    }
}

impl Order {
    /// Missing values last, either way.
    fn compare(&self, one: &Cell<'_>, other: &Cell<'_>) -> Ordering {
        let is_missing = matches!(one, Cell::Null) || matches!(other, Cell::Null);
        let order = one.order(other);
        if self.is_descending && !is_missing { order.reverse() } else { order }
    }
}

impl Rows {
    /// How many these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Each: the rows that it is among, and which of them it is.
    pub fn each(&self) -> impl Iterator<Item = (&Columns, usize)> {
        self.found.iter().filter_map(|&(chunk, row)| {
            Some((self.chunks.get(chunk as usize)?.columns(), row as usize))
        })
    }
}
