//! Values over time, in steps of one length.

use std::collections::HashMap;

use engine::columns::Schema;

use super::cell::{Cell, cell};
use super::filter::Filter;
use super::groups::{Aggregate, Key, Number, Sum};
use super::measure::Measure;
use super::span::{TimeRange, time_column};
use crate::table::RowChunk;

/// Steps at most: more than a screen has columns.
const STEP_COUNT_MAX: usize = 4_000;

/// Names that are kept apart while summing; rows of later ones are "other".
const NAME_COUNT_MAX: usize = 10_000;

/// Which values.
pub struct SeriesQuery {
    /// Rows that are wanted.
    pub filter: Filter,
    /// Of this time; where an end is left out, that of the rows.
    pub range: TimeRange,
    /// The value; nothing counts rows.
    pub value: Option<Measure>,
    /// How values of a step are put together.
    pub aggregate: Aggregate,
    /// A series for each of these values.
    pub by: Option<Measure>,
    /// So many of them, the largest; the rest is one.
    pub series_count: usize,
    /// The length of a step in nanoseconds; chosen where it is left out or too short.
    pub step_ns: Option<i64>,
}

/// Values over time.
#[derive(Debug)]
pub struct Series {
    /// When each step begins.
    pub times: Vec<i64>,
    /// How long it is.
    pub step_ns: i64,
    /// The name of each series, nothing for the rest; and its values.
    pub series: Vec<(Option<Key>, Vec<Option<Number>>)>,
    /// Rows that were wanted.
    pub matched: usize,
    /// Rows that were searched.
    pub searched: usize,
}

/// Lengths that people read: 1, 2, 5 and 10 of seconds, then minutes, hours and days.
const STEPS_S: [i64; 14] =
    [1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 43_200, 86_400];

/// Steps where nothing else is asked for.
const STEP_COUNT_USUAL: i64 = 120;

fn step_ns(asked: Option<i64>, length_ns: i64) -> i64 {
    let least = length_ns / i64::try_from(STEP_COUNT_MAX - 1).unwrap_or(i64::MAX) + 1;
    let usual = || {
        let wanted = length_ns / STEP_COUNT_USUAL / 1_000_000_000;
        STEPS_S.iter().find(|&&step| step >= wanted).unwrap_or(&86_400) * 1_000_000_000
    };
    asked.filter(|&step| step > 0).unwrap_or_else(usual).max(least)
}

impl SeriesQuery {
    /// How long a step is of a series of this length: as asked for, unless it would be too many.
    #[must_use]
    pub fn step_ns(&self, length_ns: i64) -> i64 {
        step_ns(self.step_ns, length_ns)
    }

    /// Puts them together.
    #[must_use]
    pub fn run(&self, chunks: &[RowChunk], schema: Schema) -> Series {
        let searched = chunks.iter().map(|held| held.columns().row_count()).sum();
        let none = |step_ns| Series {
            times: Vec::new(),
            step_ns,
            series: Vec::new(),
            matched: 0,
            searched,
        };
        let Some(time) = time_column(schema) else { return none(0) };
        let found = self.found(chunks, time);
        let times = || found.iter().map(|one| one.0);
        let from = self.range.from_ns.or_else(|| times().min());
        let to = self.range.to_ns.or_else(|| times().max().map(|last| last.saturating_add(1)));
        let Some((from, to)) = from.zip(to).filter(|(from, to)| from < to) else {
            return none(step_ns(self.step_ns, 0));
        };
        let step_ns = step_ns(self.step_ns, to.saturating_sub(from));
        let first = from.div_euclid(step_ns);
        let place = |ns: i64| usize::try_from(ns.div_euclid(step_ns) - first).unwrap_or(0);
        let step_count = place(to - 1) + 1;
        // The first step may begin before the earliest time there is.
        let start = |at: usize| (first + i64::try_from(at).unwrap_or(0)).saturating_mul(step_ns);
        let names = self.names(chunks, &found);
        let mut sums = vec![vec![Sum::NONE; step_count]; names.series_count()];
        for &(ns, chunk, row) in &found {
            let series = names.of(self.key(chunks, chunk, row));
            if let Some(sum) = sums.get_mut(series).and_then(|sums| sums.get_mut(place(ns))) {
                sum.add(self.value(chunks, chunk, row));
            }
        }
        let values = |sums: &Vec<Sum>| sums.iter().map(|sum| sum.value(self.aggregate)).collect();
        let series = names.each().zip(sums.iter().map(values)).collect();
        let times = (0..step_count).map(start).collect();
        Series { times, step_ns, series, matched: found.len(), searched }
    }

    /// Rows that are wanted: when, and where.
    fn found(&self, chunks: &[RowChunk], time: usize) -> Vec<(i64, u32, u32)> {
        let mut found = Vec::new();
        for (chunk, held) in (0..).zip(chunks).take_while(|_| !self.filter.is_cancelled()) {
            let columns = held.columns();
            for (row, at) in (0..columns.row_count()).zip(0..) {
                if !self.range.has(columns, Some(time), row) || !self.filter.has(columns, row) {
                    continue;
                }
                found.extend(cell(columns, time, row).time().map(|ns| (ns, chunk, at)));
            }
        }
        found
    }

    fn key<'a>(&self, chunks: &'a [RowChunk], chunk: u32, row: u32) -> Option<Cell<'a>> {
        let held = chunks.get(chunk as usize)?;
        self.by.as_ref().map(|by| by.cell(held.columns(), row as usize))
    }

    fn value<'a>(&self, chunks: &'a [RowChunk], chunk: u32, row: u32) -> Cell<'a> {
        let held = chunks.get(chunk as usize);
        match (&self.value, held) {
            (Some(value), Some(held)) => value.cell(held.columns(), row as usize),
            _ => Cell::Integer(1),
        }
    }

    /// The largest series get their names.
    fn names(&self, chunks: &[RowChunk], found: &[(i64, u32, u32)]) -> Names {
        if self.by.is_none() {
            return Names { names: Vec::new(), has_rest: true };
        }
        let (mut totals, mut texts) = (HashMap::<Key, Sum>::new(), HashMap::<String, Sum>::new());
        let mut has_rest = false;
        for &(_, chunk, row) in found {
            let Some(key) = self.key(chunks, chunk, row) else { continue };
            let is_full = totals.len() + texts.len() >= NAME_COUNT_MAX;
            // A name that is there is found without a copy of it.
            let there = match key {
                Cell::Text(text) => texts.get_mut(text),
                _ => totals.get_mut(&Key::of(key)),
            };
            let none = Sum::NONE;
            let sum = match (there, key) {
                (Some(sum), _) => sum,
                (None, _) if is_full => {
                    has_rest = true;
                    continue;
                }
                (None, Cell::Text(text)) => texts.entry(text.to_owned()).or_insert(none),
                (None, _) => totals.entry(Key::of(key)).or_insert(none),
            };
            sum.add(self.value(chunks, chunk, row));
        }
        totals.extend(texts.into_iter().map(|(text, sum)| (Key::Text(text), sum)));
        let mut names: Vec<_> = totals.into_iter().collect();
        let size = |sum: &Sum| sum.value(self.aggregate).map_or(f64::NEG_INFINITY, Number::as_f64);
        names.sort_by(|one, other| {
            size(&other.1).total_cmp(&size(&one.1)).then_with(|| one.0.cmp(&other.0))
        });
        has_rest |= names.len() > self.series_count;
        names.truncate(self.series_count);
        Names { names: names.into_iter().map(|(key, _)| key).collect(), has_rest }
    }
}

fn is_key(key: &Key, cell: Cell<'_>) -> bool {
    match (key, cell) {
        (Key::Text(key), Cell::Text(text)) => key == text,
        (Key::Text(_), _) => *key == Key::of(cell),
        (Key::Integer(key), Cell::Integer(value)) => *key == value,
        (Key::Time(key), Cell::Time(ns)) => *key == ns,
        (Key::Null, Cell::Null) => true,
        _ => false,
    }
}

struct Names {
    names: Vec<Key>,
    has_rest: bool,
}

impl Names {
    fn series_count(&self) -> usize {
        self.names.len() + usize::from(self.has_rest)
    }

    fn of(&self, cell: Option<Cell<'_>>) -> usize {
        let place = cell.and_then(|cell| self.names.iter().position(|name| is_key(name, cell)));
        place.unwrap_or(self.names.len())
    }

    fn each(&self) -> impl Iterator<Item = Option<Key>> {
        let rest = self.has_rest.then_some(None);
        self.names.iter().cloned().map(Some).chain(rest)
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Columns, Field, Kind, Value};

    use super::*;

    #[test]
    fn the_earliest_time_there_is_has_a_step_too() {
        const SCHEMA: Schema = &[Field::new("last_ns", Kind::TimestampNs, "")];
        let mut rows = Columns::new(SCHEMA);
        for time in [i64::MIN + 1, 0] {
            rows.push_row(&[Value::TimestampNs(time)]).unwrap();
        }
        let query = SeriesQuery {
            filter: Filter::all(),
            range: TimeRange::default(),
            value: None,
            aggregate: Aggregate::Sum,
            by: None,
            series_count: 1,
            step_ns: None,
        };
        let found = query.run(&[RowChunk::own(rows)], SCHEMA);
        let [(None, counts)] = found.series.as_slice() else { panic!("one series: {found:?}") };
        let sum: f64 = counts.iter().flatten().map(|count| count.as_f64()).sum();
        assert_eq!((found.matched, sum), (2, 2.0));
    }
}
