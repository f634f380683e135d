//! Queries over stored rows and those in memory together.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard};
use std::thread;

use engine::columns::{Columns, Schema};
use store::query::{
    Aggregate, Filter, Groups, GroupsQuery, Measure, Number, Rows, RowsQuery, Series, SeriesQuery,
    TimeRange, time_column,
};
use store::{RowChunk, Table, View};

use crate::cache::CacheKey;
use crate::hour::HOUR_NS;
use crate::index::{Index, StoredFile, StoredTable};
use crate::keeper::{Keeper, guarded, locked};
use crate::read::{HistoryFile, picked};
use crate::rollup::{FEW_VALUES, MINUTE_NS};

/// Bytes of values that one query may hold: older hours are left out beyond it, and counted.
const QUERY_BYTES_MAX: usize = 1 << 30;

/// Threads of a query.
const THREADS_MAX: usize = 4;

/// Rows of a group for one that is wanted, from which on it costs less to jump from one to the
/// next than to read all.
const ROWS_PER_JUMP: usize = 64;

/// Which rows are wanted, and of them which columns.
pub struct Ask<'a> {
    /// Of this time.
    pub range: TimeRange,
    /// Rows that are wanted.
    pub filter: &'a Filter,
    /// Columns that are looked at besides those of the filter and the time; all where it is left
    /// out. The others are blank: see [`engine::columns::Filling::blank`].
    pub columns: Option<Vec<usize>>,
}

/// Rows that were found.
#[derive(Default)]
pub struct QueryResult {
    /// The rows, the earliest first, in chunks of the schema of the table. Of stored rows only
    /// those that were asked for; those in memory as they are.
    pub chunks: Vec<RowChunk>,
    /// Rows that were looked at for them.
    pub searched: usize,
    /// Files that were left out, the oldest, because the others were all that memory has room for.
    pub left_out: usize,
}

/// What one file gives.
struct OfFile<T> {
    found: Vec<T>,
    searched: usize,
    is_left_out: bool,
}

/// Some rows of a row group, and where they are in it.
struct Candidates<'a> {
    file: &'a StoredFile,
    group: usize,
    rows: Arc<Columns>,
    places: Vec<usize>,
    matched: usize,
}

/// Stored rows and rows in memory as they are at one moment, each row in one of both. Its files
/// stay for as long as it is there.
struct Snapshot<'a> {
    index: Arc<Index>,
    table: &'a Table,
    view: View,
    _files: RwLockReadGuard<'a, ()>,
}

/// A file that is read for a query.
struct Reading<'a> {
    keeper: &'a Keeper,
    file: &'a StoredFile,
    opened: HistoryFile,
    time: Option<usize>,
}

impl Keeper {
    fn snapshot<'a>(&'a self, table: &'a Table) -> Snapshot<'a> {
        let files = self.read_files();
        // Until both are taken: a row that is stored in between would be in both, or in none.
        let index = self.lock_index();
        let view = table.view();
        Snapshot { index: Arc::clone(&index), table, view, _files: files }
    }

    /// Stored rows of a table.
    pub(crate) fn stored(
        &self,
        index: &Index,
        name: &str,
        schema: Schema,
        ask: &Ask<'_>,
    ) -> QueryResult {
        let columns = columns(schema, ask);
        let held_bytes = AtomicUsize::new(0);
        let of_files = self.each_file(index, name, (ask.range, ask.filter), |file| {
            if held_bytes.load(Relaxed) > QUERY_BYTES_MAX {
                return Ok(OfFile { found: Vec::new(), searched: 0, is_left_out: true });
            }
            let reading = Reading::new(self, name, file, schema)?;
            let mut of_file = OfFile { found: Vec::new(), searched: 0, is_left_out: false };
            for (group, is_inside) in reading.groups(ask.range, ask.filter) {
                of_file.searched += reading.opened.row_count(group);
                let rows = reading.wanted(group, is_inside, ask, &columns)?;
                if rows.row_count() > 0 {
                    held_bytes.fetch_add(rows.byte_count(), Relaxed);
                    of_file.found.push(RowChunk::shared(rows));
                }
            }
            Ok(of_file)
        });
        let mut found = QueryResult::default();
        for (_, of_file) in of_files {
            found.searched += of_file.searched;
            found.left_out += usize::from(of_file.is_left_out);
            found.chunks.extend(of_file.found);
        }
        self.counters.left_out(found.left_out);
        found
    }

    /// Stored rows of a table, and those in memory that are in no file.
    pub(crate) fn all(&self, table: &Table, ask: &Ask<'_>) -> QueryResult {
        let snapshot = self.snapshot(table);
        if snapshot.is_in_memory(ask.range) {
            let mut found = QueryResult::default();
            found.add(snapshot.view.chunks());
            return found;
        }
        let mut found = self.stored(&snapshot.index, table.name(), table.schema(), ask);
        found.add(snapshot.in_no_file());
        found
    }

    /// Sums of a table: stored ones, and those of the rows in memory.
    pub(crate) fn sums(&self, table: &Table, name: &str, ask: &Ask<'_>) -> Option<QueryResult> {
        let rollups = self.rollups_of(table);
        let rollup = rollups.iter().find(|rollup| rollup.name == name)?;
        let snapshot = self.snapshot(table);
        let mut found = self.stored(&snapshot.index, name, rollup.schema, ask);
        found.add(vec![RowChunk::own(rollup.sums(&snapshot.in_no_file()))]);
        Some(found)
    }

    pub(crate) fn rows(&self, table: &Table, query: &RowsQuery) -> Rows {
        let snapshot = self.snapshot(table);
        if snapshot.is_in_memory(query.range) {
            return query.run(&snapshot.view);
        }
        let (name, schema) = (table.name(), table.schema());
        let wanted = query.offset.saturating_add(query.limit);
        let order = query.order.iter().flat_map(|order| order.measure.columns().iter().copied());
        let ask = Ask { range: query.range, filter: &query.filter, columns: Some(order.collect()) };
        let columns = columns(schema, &ask);
        let wanted_of = (query.range, &query.filter);
        let of_files = self.each_file(&snapshot.index, name, wanted_of, |file| {
            let reading = Reading::new(self, name, file, schema)?;
            let mut of_file = OfFile { found: Vec::new(), searched: 0, is_left_out: false };
            for (group, _) in reading.groups(query.range, &query.filter) {
                of_file.searched += reading.opened.row_count(group);
                let rows = reading.read(group, &columns)?;
                of_file.found.extend(candidates(file, group, &rows, query, wanted, schema)?);
            }
            Ok(of_file)
        });
        let mut candidates = Vec::new();
        let (mut searched, mut matched) = (0, 0);
        for (_, of_file) in of_files {
            searched += of_file.searched;
            matched += of_file.found.iter().map(|found| found.matched).sum::<usize>();
            candidates.extend(of_file.found);
        }
        let mut chunks = self.winners(candidates, query, wanted, table);
        let stored: usize = chunks.iter().map(|held| held.columns().row_count()).sum();
        chunks.extend(snapshot.in_no_file());
        drop(snapshot);
        let mut rows = query.run_on(chunks, schema);
        rows.matched += matched - stored.min(matched);
        rows.searched += searched - stored.min(searched);
        rows
    }

    /// Of the candidates of all row groups those that are wanted, with all their columns.
    fn winners(
        &self,
        candidates: Vec<Candidates<'_>>,
        query: &RowsQuery,
        wanted: usize,
        table: &Table,
    ) -> Vec<RowChunk> {
        let (name, schema) = (table.name(), table.schema());
        let chunks = candidates.iter().map(|one| RowChunk::shared(Arc::clone(&one.rows))).collect();
        let best = again(query, wanted).run_on(chunks, schema);
        let mut places: Vec<Vec<usize>> = candidates.iter().map(|_| Vec::new()).collect();
        let mut at: std::collections::HashMap<*const Columns, usize> =
            candidates.iter().enumerate().map(|(at, one)| (Arc::as_ptr(&one.rows), at)).collect();
        for (columns, row) in best.each() {
            let Some(&mut at) = at.get_mut(&std::ptr::from_ref(columns)) else { continue };
            let place = candidates.get(at).and_then(|one| one.places.get(row));
            if let (Some(&place), Some(places)) = (place, places.get_mut(at)) {
                places.push(place);
            }
        }
        let all: Vec<usize> = (0..schema.len()).collect();
        let wanted: Vec<_> =
            candidates.iter().zip(places).filter(|(_, of)| !of.is_empty()).collect();
        let read = |(one, places): &(&Candidates<'_>, Vec<usize>)| {
            let mut places = places.clone();
            places.sort_unstable();
            let reading = Reading::new(self, name, one.file, schema)?;
            reading.some(one.group, &all, &places).map(RowChunk::shared)
        };
        let rows = on_threads(wanted.len(), |at| {
            let one = wanted.get(at).filter(|_| !query.filter.is_cancelled())?;
            guarded(|| read(one)).map_err(|why| self.found_damaged(name, one.0.file, &why)).ok()
        });
        rows.into_iter().map(|(_, rows)| rows).collect()
    }

    /// Reads the files of a range on several threads, the newest first; what they give is in the
    /// order of the files. Files that come after the query was cancelled are left.
    fn each_file<'a, T: Send>(
        &self,
        index: &'a Index,
        name: &str,
        (range, filter): (TimeRange, &Filter),
        read: impl Fn(&'a StoredFile) -> Result<OfFile<T>, String> + Sync,
    ) -> Vec<(usize, OfFile<T>)> {
        let damaged = locked(&self.damaged).clone();
        let files = index.tables.get(name).into_iter().flat_map(|table| &table.files);
        let files: Vec<_> = files
            .filter(|file| has_some(range, file.first_ns, file.last_ns))
            .filter(|file| !damaged.contains(&file.numbers))
            .collect();
        on_threads(files.len(), |at| {
            let file = files.get(at).filter(|_| !filter.is_cancelled())?;
            guarded(|| read(file)).map_err(|why| self.found_damaged(name, file, &why)).ok()
        })
    }

    pub(crate) fn groups(&self, table: &Table, query: &GroupsQuery) -> Groups {
        let measures = query.by.iter().chain(query.aggregates.iter().map(|(_, one)| one));
        let columns = measures.flat_map(|measure| measure.columns().iter().copied()).collect();
        let ask = Ask { range: query.range, filter: &query.filter, columns: Some(columns) };
        let found = self.all(table, &ask);
        let mut groups = query.run(&found.chunks, table.schema());
        groups.searched = found.searched;
        groups
    }

    pub(crate) fn series(&self, table: &Table, query: &SeriesQuery) -> Series {
        if let Some(series) = self.series_of_sums(table, query) {
            return series;
        }
        let measures = query.by.iter().chain(&query.value);
        let columns = measures.flat_map(|measure| measure.columns().iter().copied()).collect();
        let ask = Ask { range: query.range, filter: &query.filter, columns: Some(columns) };
        let found = self.all(table, &ask);
        let mut series = query.run(&found.chunks, table.schema());
        series.searched = found.searched;
        series
    }
}

/// From this length on a series is put together from sums, a minute at its ends being whole.
const LONG_NS: i64 = 2 * HOUR_NS;

impl Keeper {
    /// The same from sums by minute, where a long series needs no more than they have.
    fn series_of_sums(&self, table: &Table, query: &SeriesQuery) -> Option<Series> {
        let schema = table.schema();
        let SeriesQuery { filter, range, value, aggregate, by, series_count, .. } = query;
        let until_ns = range.to_ns.or_else(|| self.store.time_ns())?;
        let length_ns = until_ns.saturating_sub(range.from_ns?);
        let step_ns = query.step_ns(length_ns);
        let has_whole_minutes = step_ns % MINUTE_NS == 0;
        if length_ns < LONG_NS || !has_whole_minutes || !filter.columns(schema).is_empty() {
            return None;
        }
        let name = match (value, aggregate) {
            (None, Aggregate::Sum | Aggregate::Count) => String::from("rows"),
            (Some(value), Aggregate::Sum) => value.name().to_owned(),
            (Some(value), Aggregate::Max) => format!("max_{}", value.name()),
            _ => return None,
        };
        // Of addresses and ports a minute may have more than its sums keep apart.
        if by.as_ref().is_some_and(|by| !FEW_VALUES.contains(&by.name())) {
            return None;
        }
        let rollups = self.rollups_of(table);
        let measure = |schema, name: &str| Measure::find(schema, name).ok();
        let (rollup, value, by) = rollups.iter().find_map(|rollup| {
            let value = measure(rollup.schema, &name)?;
            let by = match by {
                Some(by) => Some(measure(rollup.schema, by.name())?),
                None => None,
            };
            Some((rollup, value, by))
        })?;
        let first_ns = range.from_ns.map(|from| from.div_euclid(MINUTE_NS) * MINUTE_NS);
        let range = TimeRange { from_ns: first_ns, to_ns: range.to_ns };
        let is_count = matches!(aggregate, Aggregate::Count);
        let aggregate = if is_count { Aggregate::Sum } else { *aggregate };
        let (series_count, step_ns) = (*series_count, Some(step_ns));
        let columns = by.iter().chain([&value]).flat_map(|one| one.columns().iter().copied());
        let filter = filter.all_as_long();
        let ask = Ask { range, filter: &filter, columns: Some(columns.collect()) };
        let found = self.sums(table, &rollup.name, &ask)?;
        let query =
            SeriesQuery { filter, range, value: Some(value), aggregate, by, series_count, step_ns };
        let mut series = query.run(&found.chunks, rollup.schema);
        series.searched = found.searched;
        if is_count {
            let none = series.series.iter_mut().flat_map(|(_, values)| values);
            none.filter(|value| value.is_none())
                .for_each(|value| *value = Some(Number::Integer(0)));
        }
        Some(series)
    }
}

impl QueryResult {
    fn add(&mut self, chunks: Vec<RowChunk>) {
        self.searched += chunks.iter().map(|held| held.columns().row_count()).sum::<usize>();
        self.chunks.extend(chunks);
    }
}

impl<'a> Reading<'a> {
    fn new(
        keeper: &'a Keeper,
        name: &str,
        file: &'a StoredFile,
        schema: Schema,
    ) -> Result<Self, String> {
        let opened = HistoryFile::new(&file.path(&keeper.root, name), schema)?;
        Ok(Self { keeper, file, opened, time: time_column(schema) })
    }

    /// Row groups that may have rows of a range, and whether all their rows are in it; none any
    /// more once the query was cancelled.
    fn groups(&self, range: TimeRange, filter: &Filter) -> impl Iterator<Item = (usize, bool)> {
        let groups = (0..self.opened.group_count()).take_while(|_| !filter.is_cancelled());
        groups.filter_map(move |group| {
            if range == TimeRange::default() {
                return Some((group, true));
            }
            match self.time.and_then(|time| self.opened.span(group, time)) {
                None => Some((group, false)),
                Some((first, last)) => {
                    let is_inside = range.from_ns.is_none_or(|from| first >= from)
                        && range.to_ns.is_none_or(|to| last < to);
                    has_some(range, first, last).then_some((group, is_inside))
                }
            }
        })
    }

    fn read(&self, group: usize, columns: &[usize]) -> Result<Arc<Columns>, String> {
        let key = CacheKey { numbers: self.file.numbers, group, columns: columns.to_vec() };
        if let Some(found) = locked(&self.keeper.cache).get(&key) {
            return Ok(found);
        }
        let read = Arc::new(self.opened.read(group, columns)?);
        locked(&self.keeper.cache).put(key, &read);
        Ok(read)
    }

    /// The rows of a group that are wanted. The columns of the filter are read first: where no row
    /// is wanted, the others are not.
    fn wanted(
        &self,
        group: usize,
        is_inside: bool,
        ask: &Ask<'_>,
        columns: &[usize],
    ) -> Result<Arc<Columns>, String> {
        if is_inside && ask.filter.columns(self.opened.schema()).is_empty() {
            return self.read(group, columns);
        }
        let schema = self.opened.schema();
        let looked_at = Ask { range: ask.range, filter: ask.filter, columns: Some(Vec::new()) };
        let rows = self.read(group, &self::columns(schema, &looked_at))?;
        let is_wanted =
            |row: &usize| ask.range.has(&rows, self.time, *row) && ask.filter.has(&rows, *row);
        let places: Vec<usize> = (0..rows.row_count()).filter(is_wanted).collect();
        if places.is_empty() {
            return Ok(Arc::new(Columns::new(schema)));
        }
        if places.len() == rows.row_count() {
            return self.read(group, columns);
        }
        self.some(group, columns, &places)
    }

    /// Rows of a group, in rising order of their places.
    fn some(
        &self,
        group: usize,
        columns: &[usize],
        places: &[usize],
    ) -> Result<Arc<Columns>, String> {
        if places.len() < self.opened.row_count(group) / ROWS_PER_JUMP {
            return Ok(Arc::new(self.opened.read_at(group, columns, Some(places))?));
        }
        Ok(Arc::new(picked(&*self.read(group, columns)?, places)?))
    }
}

/// Works on several threads, from the last place to the first; what that gives is in the order of
/// the places.
fn on_threads<T: Send>(count: usize, work: impl Fn(usize) -> Option<T> + Sync) -> Vec<(usize, T)> {
    let next = AtomicUsize::new(count);
    let done = Mutex::new(Vec::new());
    let all = || {
        while let Ok(after) = next.fetch_update(Relaxed, Relaxed, |at| at.checked_sub(1)) {
            let found = work(after - 1);
            locked(&done).extend(found.map(|found| (after - 1, found)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    thread::scope(|scope| {
        // Where no thread can be had, this one works alone.
        for _ in 1..threads.min(count) {
            let _ = thread::Builder::new().spawn_scoped(scope, all);
        }
        all();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done
}

/// Of a row group the rows that may be among those wanted, and how many match.
fn candidates<'a>(
    file: &'a StoredFile,
    group: usize,
    rows: &Arc<Columns>,
    query: &RowsQuery,
    wanted: usize,
    schema: Schema,
) -> Result<Option<Candidates<'a>>, String> {
    let best = again(query, wanted).run_on(vec![RowChunk::shared(Arc::clone(rows))], schema);
    let matched = best.matched;
    let mut places: Vec<usize> = best.each().map(|(_, row)| row).collect();
    places.sort_unstable();
    let rows = Arc::new(picked(rows, &places)?);
    Ok((matched > 0).then_some(Candidates { file, group, rows, places, matched }))
}

/// The same query for a part of the rows.
fn again(query: &RowsQuery, wanted: usize) -> RowsQuery {
    RowsQuery {
        filter: query.filter.clone(),
        range: query.range,
        order: query.order.clone(),
        offset: 0,
        limit: wanted,
    }
}

/// The columns to read: those asked for, of the filter, and the time.
fn columns(schema: Schema, ask: &Ask<'_>) -> Vec<usize> {
    let all = || (0..schema.len()).collect::<Vec<usize>>();
    let mut columns = ask.columns.clone().unwrap_or_else(all);
    columns.extend(ask.filter.columns(schema));
    columns.extend(time_column(schema));
    columns.sort_unstable();
    columns.dedup();
    columns
}

impl Snapshot<'_> {
    fn stored(&self) -> Option<&StoredTable> {
        self.index.tables.get(self.table.name())
    }

    /// Whether all rows of a range are in memory.
    fn is_in_memory(&self, range: TimeRange) -> bool {
        let evicted = self.view.received().saturating_sub(self.view.row_count() as u64);
        let is_there = |stored: &StoredTable| {
            range.from_ns.is_some_and(|from_ns| stored.is_in_memory(from_ns, evicted))
        };
        self.stored().is_none_or(is_there)
    }

    /// Rows in memory that are in no file.
    fn in_no_file(&self) -> Vec<RowChunk> {
        self.view.after(self.stored().map_or(0, |stored| stored.taken))
    }
}

/// Whether a range has something in common with the hours of these times.
fn has_some(range: TimeRange, first_ns: i64, last_ns: i64) -> bool {
    range.from_ns.is_none_or(|from| last_ns >= from) && range.to_ns.is_none_or(|to| first_ns < to)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use engine::columns::{Field, Kind, Value};
    use packet::Span;
    use store::{Store, TableLimits};

    use super::*;
    use crate::{History, HistoryOptions};

    const SCHEMA: Schema = &[Field::new("last_ns", Kind::TimestampNs, "")];

    #[test]
    fn no_flush_waits_for_a_query_which_keeps_its_files() {
        let name = format!("wirelens-history-{}-snapshot", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        let day = Span::from_seconds(86_400);
        let options = HistoryOptions::new(folder.clone(), day, 1 << 30, || 10 * HOUR_NS);
        let options = HistoryOptions { flush_every: Duration::from_secs(3_600), ..options };
        let store = Store::new();
        let table = store.add("times", "", SCHEMA, TableLimits::default());
        let history = History::begin(options, store).unwrap();
        let store_row = |hour: i64| {
            let mut rows = Columns::new(SCHEMA);
            rows.push_row(&[Value::TimestampNs(hour * HOUR_NS)]).unwrap();
            table.push(&rows);
            history.flush();
        };
        let files = |index: &Index| -> Vec<_> {
            let files = index.tables["times"].files.iter();
            files.map(|file| file.path(&folder, "times")).collect()
        };
        store_row(0);
        store_row(0);
        let snapshot = history.keeper.snapshot(&table);
        let before = files(&snapshot.index);
        // The hour before is compacted then.
        store_row(1);
        let now = files(&history.keeper.read_index());
        assert_eq!((before.len(), now.len()), (2, 2), "{now:?}");
        assert!(before.iter().all(|path| path.exists() && !now.contains(path)));
        assert_eq!((snapshot.view.row_count(), snapshot.in_no_file().len()), (2, 0));
        drop(snapshot);
        history.flush();
        assert!(!before.iter().any(|path| path.exists()));
        assert!(now.iter().all(|path| path.exists()));
        drop(history);
        fs::remove_dir_all(&folder).unwrap();
    }
}
