//! Rows by some columns, their values put together.

use std::cmp::Ordering;
use std::collections::HashMap;

use engine::columns::{Columns, Schema};

use super::cell::{Cell, hexadecimal};
use super::filter::{Filter, QueryError};
use super::measure::Measure;
use super::span::{TimeRange, time_column};
use crate::table::RowChunk;

/// Groups at most; rows of later ones are counted as left out.
const GROUP_COUNT_MAX: usize = 200_000;

/// Values of all groups at most, of keys and sums, which take some 100 bytes each: a query of many
/// columns has fewer groups, as otherwise one request could ask for gigabytes.
const VALUE_COUNT_MAX: usize = 8 * GROUP_COUNT_MAX;

/// Rows from which on two threads sum up.
const ROWS_PER_THREAD: usize = 200_000;

/// Rows and sums by key.
type Sums = HashMap<Vec<Key>, (u64, Vec<Sum>)>;

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

/// What values are together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// Of integers.
    Integer(i128),
    /// Of floats, or a mean.
    Float(f64),
    /// A time.
    Time(i64),
}

impl Number {
    /// More or less.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
            Self::Time(ns) => ns as f64,
        }
    }

    fn of(cell: Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Integer(value) => Some(Self::Integer(value)),
            Cell::Float(value) => Some(Self::Float(value)),
            Cell::Time(ns) => Some(Self::Time(ns)),
            Cell::Null | Cell::Text(_) | Cell::Bytes(_) => None,
        }
    }

    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => Self::Integer(one.saturating_add(other)),
            (one, other) => Self::Float(one.as_f64() + other.as_f64()),
        }
    }

    /// The larger one. Values of a column are of one kind, and times are exact.
    fn or_more(self, other: Self) -> Self {
        let is_more = match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => other > one,
            (Self::Time(one), Self::Time(other)) => other > one,
            (one, other) => other.as_f64() > one.as_f64(),
        };
        if is_more { other } else { self }
    }

    fn or_less(self, other: Self) -> Self {
        if self.or_more(other) == other { self } else { other }
    }
}

/// Values put together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    count: u64,
    /// The sum, the least and the most.
    of: Option<[Number; 3]>,
}

impl Sum {
    pub(super) const NONE: Self = Self { count: 0, of: None };

    pub(super) fn add(&mut self, cell: Cell<'_>) {
        let Some(value) = Number::of(cell) else { return };
        self.count += 1;
        self.of = Some(match self.of {
            None => [value; 3],
            Some([sum, least, most]) => {
                [sum.plus(value), least.or_less(value), most.or_more(value)]
            }
        });
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.of = match (self.of, other.of) {
            (Some([sum, least, most]), Some([added, lesser, greater])) => {
                Some([sum.plus(added), least.or_less(lesser), most.or_more(greater)])
            }
            (one, other) => one.or(other),
        };
    }

    #[allow(clippy::cast_precision_loss)]
    pub(super) fn value(&self, aggregate: Aggregate) -> Option<Number> {
        if aggregate == Aggregate::Count {
            return Some(Number::Integer(self.count.into()));
        }
        let [sum, least, most] = self.of?;
        Some(match aggregate {
            Aggregate::Max => most,
            Aggregate::Min => least,
            Aggregate::Mean => Number::Float(sum.as_f64() / self.count as f64),
            Aggregate::Sum | Aggregate::Count => sum,
        })
    }
}

/// The groups of two halves; those beyond the limit are left out.
fn together(one: (Sums, u64), other: (Sums, u64), group_count_max: usize) -> (Sums, u64) {
    let ((mut groups, mut left_out), (more, also_left_out)) = (one, other);
    left_out += also_left_out;
    for (key, (row_count, sums)) in more {
        let group_count = groups.len();
        match groups.get_mut(&key) {
            Some(group) => {
                group.0 += row_count;
                for (sum, added) in group.1.iter_mut().zip(&sums) {
                    sum.join(added);
                }
            }
            None if group_count >= group_count_max => left_out += row_count,
            None => {
                groups.insert(key, (row_count, sums));
            }
        }
    }
    (groups, left_out)
}

/// A value that rows have in common.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// An integer.
    Integer(i128),
    /// A time.
    Time(i64),
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
            Cell::Time(ns) => Self::Time(ns),
            Cell::Float(value) => Self::Text(format!("{value:?}")),
            Cell::Text(text) => Self::Text(text.to_owned()),
            Cell::Bytes(bytes) => Self::Text(hexadecimal(bytes)),
        }
    }
}

/// Which groups.
pub struct GroupsQuery {
    /// Rows that are wanted.
    pub filter: Filter,
    /// Of this time.
    pub range: TimeRange,
    /// By these, at least one.
    pub by: Vec<Measure>,
    /// Put together: how, and what.
    pub aggregates: Vec<(Aggregate, Measure)>,
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
    pub values: Vec<Option<Number>>,
}

/// Groups that were found.
pub struct Groups {
    /// The groups.
    pub rows: Vec<GroupsRow>,
    /// Groups that there are, of which these are some.
    pub matched: usize,
    /// Rows that were searched.
    pub searched: usize,
    /// Rows of groups beyond the limit.
    pub left_out: u64,
}

impl GroupsQuery {
    /// Names of the columns of what is found: the key, `rows`, the aggregates.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let keys = self.by.iter().map(|measure| measure.name().to_owned());
        let aggregates = self
            .aggregates
            .iter()
            .map(|(aggregate, measure)| format!("{}_{}", aggregate.name(), measure.name()));
        keys.chain([String::from("rows")]).chain(aggregates).collect()
    }

    /// Reads the order: the name of a column of what is found, with `-` the largest first.
    ///
    /// # Errors
    /// [`QueryError`] names the columns that there are.
    pub fn order(&self, text: &str) -> Result<(OrderBy, bool), QueryError> {
        let (name, is_descending) =
            text.strip_prefix('-').map_or((text, false), |name| (name, true));
        let names = self.names();
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

    fn group_count_max(&self) -> usize {
        let of_group = (self.by.len() + self.aggregates.len()).max(1);
        GROUP_COUNT_MAX.min(VALUE_COUNT_MAX / of_group)
    }

    /// Finds them.
    #[must_use]
    pub fn run(&self, chunks: &[RowChunk], schema: Schema) -> Groups {
        let searched: usize = chunks.iter().map(|held| held.columns().row_count()).sum();
        let (groups, left_out) = if searched < ROWS_PER_THREAD {
            self.sums(chunks, schema)
        } else {
            let (one, other) = chunks.split_at(chunks.len() / 2);
            let (one, other) = std::thread::scope(|scope| {
                let one = std::thread::Builder::new()
                    .spawn_scoped(scope, || self.sums(one, schema))
                    .map_err(|_| one);
                let other = self.sums(other, schema);
                // Where no thread can be had, or it ended early, this one sums up alone.
                let one = match one {
                    Ok(thread) => thread.join().map_err(|_| chunks.split_at(chunks.len() / 2).0),
                    Err(chunks) => Err(chunks),
                };
                (one.unwrap_or_else(|chunks| self.sums(chunks, schema)), other)
            });
            together(one, other, self.group_count_max())
        };
        let matched = groups.len();
        let mut rows: Vec<_> = groups.into_iter().map(|(key, sums)| self.row(key, &sums)).collect();
        rows.sort_unstable_by(|one, other| self.compare(one, other));
        let rows = rows.into_iter().skip(self.offset).take(self.limit).collect();
        Groups { rows, matched, searched, left_out }
    }

    fn sums(&self, chunks: &[RowChunk], schema: Schema) -> (Sums, u64) {
        let time = time_column(schema);
        let (mut groups, mut left_out) = (Sums::new(), 0);
        let group_count_max = self.group_count_max();
        let mut key: Vec<Key> = Vec::new();
        let chunks = chunks.iter().take_while(|_| !self.filter.is_cancelled());
        for columns in chunks.map(RowChunk::columns) {
            for row in 0..columns.row_count() {
                if !self.range.has(columns, time, row) || !self.filter.has(columns, row) {
                    continue;
                }
                key.clear();
                key.extend(self.by.iter().map(|by| Key::of(by.cell(columns, row))));
                let group_count = groups.len();
                // Most rows are of a group that there is, for which no key has to be made.
                let (row_count, sums) = match groups.get_mut(key.as_slice()) {
                    Some(group) => group,
                    None if group_count >= group_count_max => {
                        left_out += 1;
                        continue;
                    }
                    None => {
                        let none = || (0, vec![Sum::NONE; self.aggregates.len()]);
                        groups.entry(key.clone()).or_insert_with(none)
                    }
                };
                *row_count += 1;
                self.add(columns, row, sums);
            }
        }
        (groups, left_out)
    }

    fn add(&self, columns: &Columns, row: usize, sums: &mut [Sum]) {
        for (sum, (_, measure)) in sums.iter_mut().zip(&self.aggregates) {
            sum.add(measure.cell(columns, row));
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
                    let value = row.values.get(place).copied().flatten();
                    value.map_or(f64::NEG_INFINITY, Number::as_f64)
                };
                value(one).total_cmp(&value(other))
            }
        };
        let order = if is_descending { order.reverse() } else { order };
        order.then_with(|| one.key.cmp(&other.key))
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind, Value};

    use super::*;

    const SCHEMA: Schema = &[Field::new("port", Kind::U64, "")];

    #[test]
    fn many_columns_leave_room_for_fewer_groups() {
        let mut rows = Columns::new(SCHEMA);
        for port in 0..60_000 {
            rows.push_row(&[Value::U64(port)]).unwrap();
        }
        let chunks = [RowChunk::own(rows)];
        let port = Measure::column(SCHEMA, 0);
        let groups = |aggregate_count: usize| {
            let query = GroupsQuery {
                filter: Filter::all(),
                range: TimeRange::default(),
                by: vec![port.clone()],
                aggregates: vec![(Aggregate::Sum, port.clone()); aggregate_count],
                order: (OrderBy::Rows, true),
                offset: 0,
                limit: 1,
            };
            let found = query.run(&chunks, SCHEMA);
            (found.matched, found.left_out)
        };
        assert_eq!(groups(7), (60_000, 0));
        assert_eq!(groups(63), (25_000, 35_000));
    }
}
