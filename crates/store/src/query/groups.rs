//! Rows by some columns, their values put together.

use std::cmp::Ordering;
use std::collections::HashMap;

use engine::columns::{Columns, Schema};

use super::cell::{Cell, cell};
use super::filter::{Filter, QueryError, unknown_column};
use super::span::{TimeRange, time_column};
use crate::table::Held;

/// Groups at most; rows of later ones are counted as left out.
const GROUP_COUNT_MAX: usize = 200_000;

/// How values of a group are put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aggregate {
    /// Their sum.
    Sum,
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// Their mean.
    Mean,
    /// How many there are.
    Count,
}

impl Aggregate {
    /// All, by name.
    pub const ALL: [(&str, Self); 5] = [
        ("sum", Self::Sum),
        ("max", Self::Max),
        ("min", Self::Min),
        ("mean", Self::Mean),
        ("count", Self::Count),
    ];

    /// The one of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, aggregate)| *aggregate)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }
}

/// Values put together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    count: u64,
    sum: f64,
    least: f64,
    most: f64,
}

impl Sum {
    pub(super) const NONE: Self =
        Self { count: 0, sum: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY };

    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn value(&self, aggregate: Aggregate) -> Option<f64> {
        let count = self.count as f64;
        match aggregate {
            Aggregate::Count => Some(count),
            _ if self.count == 0 => None,
            Aggregate::Sum => Some(self.sum),
            Aggregate::Max => Some(self.most),
            Aggregate::Min => Some(self.least),
            Aggregate::Mean => Some(self.sum / count),
        }
    }
}

/// A value that rows have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// An integer, or a time.
    Integer(i128),
    /// Text, or bytes in hexadecimal.
    Text(String),
    /// Missing.
    Null,
}

impl Key {
    pub(super) fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(value) => Self::Integer(value),
            Cell::Time(ns) => Self::Integer(ns.into()),
            Cell::Float(value) => Self::Text(format!("{value:?}")),
            Cell::Text(text) => Self::Text(text.to_owned()),
            Cell::Bytes(bytes) => {
                Self::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
            }
        }
    }
}

/// Which groups.
pub struct GroupsQuery {
    /// Rows that are wanted.
    pub filter: Filter,
    /// Of this time.
    pub range: TimeRange,
    /// By these columns, at least one.
    pub by: Vec<usize>,
    /// Put together: how, and which column.
    pub aggregates: Vec<(Aggregate, usize)>,
    /// In the order of this aggregate, or of the count of rows, or of the key.
    pub order: (OrderBy, bool),
    /// Leave out so many.
    pub offset: usize,
    /// Then so many.
    pub limit: usize,
}

/// By what groups are put in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderBy {
    /// A column of the key.
    Key(usize),
    /// How many rows.
    Rows,
    /// An aggregate.
    Aggregate(usize),
}

/// A group.
pub struct GroupsRow {
    /// What its rows have in common.
    pub key: Vec<Key>,
    /// How many there are.
    pub row_count: u64,
    /// Their values, put together; nothing where none has one.
    pub values: Vec<Option<f64>>,
}

/// Groups that were found.
pub struct Groups {
    /// The groups.
    pub rows: Vec<GroupsRow>,
    /// Groups that there are, of which these are some.
    pub matched: usize,
    /// Rows that were looked at.
    pub searched: usize,
    /// Rows of groups beyond the limit.
    pub left_out: u64,
}

/// Columns by their names, with commas between them.
///
/// # Errors
/// [`QueryError`] names the columns that there are.
pub fn columns(text: &str, schema: Schema) -> Result<Vec<usize>, QueryError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let place = |name: &str| {
        let place = schema.iter().position(|field| field.name == name);
        place.ok_or_else(|| unknown_column(schema, name))
    };
    parts.map(place).collect()
}

impl GroupsQuery {
    /// Names of the columns of what is found: the key, `rows`, the aggregates.
    #[must_use]
    pub fn names(&self, schema: Schema) -> Vec<String> {
        let name = |column: usize| schema.get(column).map_or("", |field| field.name);
        let keys = self.by.iter().map(|&column| name(column).to_owned());
        let aggregates = self
            .aggregates
            .iter()
            .map(|&(aggregate, column)| format!("{}_{}", aggregate.name(), name(column)));
        keys.chain([String::from("rows")]).chain(aggregates).collect()
    }

    /// Reads the order: the name of a column of what is found, with `-` the largest first.
    ///
    /// # Errors
    /// [`QueryError`] names the columns that there are.
    pub fn order(&self, text: &str, schema: Schema) -> Result<(OrderBy, bool), QueryError> {
        let (name, is_descending) =
            text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let names = self.names(schema);
        let place = names.iter().position(|one| one == name).ok_or_else(|| {
            QueryError(format!("sort: no column {name:?}; there are: {}", names.join(", ")))
        })?;
        let by = match place.checked_sub(self.by.len()) {
            None => OrderBy::Key(place),
            Some(0) => OrderBy::Rows,
            Some(after) => OrderBy::Aggregate(after - 1),
        };
        Ok((by, is_descending))
    }

    /// Finds them.
    #[must_use]
    pub fn run(&self, chunks: &[Held], schema: Schema) -> Groups {
        let time = time_column(schema);
        let mut groups: HashMap<Vec<Key>, (u64, Vec<Sum>)> = HashMap::new();
        let (mut searched, mut left_out) = (0, 0);
        for held in chunks {
            let columns = held.columns();
            searched += columns.row_count();
            for row in 0..columns.row_count() {
                if !self.range.has(columns, time, row) || !self.filter.has(columns, row) {
                    continue;
                }
                let key: Vec<Key> =
                    self.by.iter().map(|&by| Key::of(cell(columns, by, row))).collect();
                if groups.len() >= GROUP_COUNT_MAX && !groups.contains_key(&key) {
                    left_out += 1;
                    continue;
                }
                let none = || (0, vec![Sum::NONE; self.aggregates.len()]);
                let (row_count, sums) = groups.entry(key).or_insert_with(none);
                *row_count += 1;
                self.add(columns, row, sums);
            }
        }
        let matched = groups.len();
        let mut rows: Vec<_> = groups.into_iter().map(|(key, sums)| self.row(key, &sums)).collect();
        rows.sort_unstable_by(|one, other| self.compare(one, other));
        let rows = rows.into_iter().skip(self.offset).take(self.limit).collect();
        Groups { rows, matched, searched, left_out }
    }

    fn add(&self, columns: &Columns, row: usize, sums: &mut [Sum]) {
        for (sum, &(_, column)) in sums.iter_mut().zip(&self.aggregates) {
            if let Some(value) = cell(columns, column, row).number() {
                sum.add(value);
            }
        }
    }

    fn row(&self, key: Vec<Key>, (row_count, sums): &(u64, Vec<Sum>)) -> GroupsRow {
        let values =
            sums.iter().zip(&self.aggregates).map(|(sum, (aggregate, _))| sum.value(*aggregate));
        GroupsRow { key, row_count: *row_count, values: values.collect() }
    }

    fn compare(&self, one: &GroupsRow, other: &GroupsRow) -> Ordering {
        let (by, is_descending) = self.order;
        let order = match by {
            OrderBy::Key(place) => one.key.get(place).cmp(&other.key.get(place)),
            OrderBy::Rows => one.row_count.cmp(&other.row_count),
            OrderBy::Aggregate(place) => {
                let value = |row: &GroupsRow| {
                    row.values.get(place).copied().flatten().unwrap_or(f64::NEG_INFINITY)
                };
                value(one).total_cmp(&value(other))
            }
        };
        let order = if is_descending { order.reverse() } else { order };
        order.then_with(|| one.key.cmp(&other.key))
    }
}
