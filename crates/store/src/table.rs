//! The recent rows of one table: bounded by rows and by bytes, the oldest go first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use engine::columns::{Columns, Schema};

use crate::query::{cell, time_column};

/// Rows that are appended to one chunk. A reader holds whole chunks, so that a chunk is copied
/// where rows come while it is read: few rows keep that cheap.
const ROWS_PER_CHUNK: usize = 2048;

/// How much of a table is kept.
#[derive(Clone, Copy, Debug)]
pub struct TableLimits {
    /// Rows.
    pub row_count: usize,
    /// Their bytes in memory.
    pub byte_count: usize,
    /// Rows that are not final, of all parts.
    pub open_row_count: usize,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self { row_count: 200_000, byte_count: 64 << 20, open_row_count: 50_000 }
    }
}

/// Rows that are not final, such as open flows: made when someone asks for them.
pub type OpenRows = Box<dyn Fn() -> Columns + Send + Sync>;

/// A table.
pub struct Table {
    name: String,
    about: &'static str,
    schema: Schema,
    limits: TableLimits,
    rows: Mutex<Rows>,
    /// Apart from the rows, and never held for long: the thread that reads packets puts them here,
    /// which must not wait while a chunk is copied.
    open: Mutex<BTreeMap<(usize, usize), Open>>,
    /// As of the rows.
    received: AtomicU64,
    /// Rows were taken, so that there is room for others.
    has_room: Condvar,
    /// Of the store; see [`Store::sequence`](crate::Store::sequence).
    sequence: Arc<AtomicU64>,
}

#[derive(Default)]
struct Rows {
    chunks: VecDeque<Arc<Chunk>>,
    row_count: usize,
    byte_count: usize,
    received: u64,
    evicted: u64,
    /// So many of the rows were taken by who takes every row; nothing where no one does.
    taken: Option<u64>,
}

struct Open {
    rows: Arc<OpenRows>,
    row_count: usize,
    /// Rows that had been received by then: one that comes later may be the same, final.
    received: u64,
}

/// Some rows, in the order in which they came.
#[derive(Clone)]
struct Chunk {
    columns: Columns,
    byte_count: usize,
}

/// How much of a table there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableState {
    /// Rows that are kept.
    pub row_count: usize,
    /// Bytes that they take.
    pub byte_count: usize,
    /// Rows that came.
    pub received: u64,
    /// Rows evicted by later ones.
    pub evicted: u64,
    /// Rows that are not final.
    pub open_row_count: usize,
}

/// Rows as they are at a moment, for a query.
pub struct View {
    schema: Schema,
    chunks: Vec<Arc<Chunk>>,
    open: Vec<(Arc<OpenRows>, u64)>,
    received: u64,
}

/// A chunk of rows of a [`View`].
pub struct RowChunk(Source);

enum Source {
    Shared(Arc<Chunk>),
    Kept(Arc<Columns>),
    Own(Columns),
}

impl RowChunk {
    /// Rows that are not of a table in memory.
    #[must_use]
    pub const fn own(columns: Columns) -> Self {
        Self(Source::Own(columns))
    }

    /// The same, of which another holds them too.
    #[must_use]
    pub const fn shared(columns: Arc<Columns>) -> Self {
        Self(Source::Kept(columns))
    }

    /// The rows.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        match &self.0 {
            Source::Shared(chunk) => &chunk.columns,
            Source::Kept(columns) => columns,
            Source::Own(columns) => columns,
        }
    }
}

impl Table {
    pub(crate) fn new(
        name: String,
        about: &'static str,
        schema: Schema,
        limits: TableLimits,
        sequence: Arc<AtomicU64>,
    ) -> Self {
        let (rows, open, received) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        let has_room = Condvar::new();
        Self { name, about, schema, limits, rows, open, received, has_room, sequence }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it answers, in a line.
    #[must_use]
    pub const fn about(&self) -> &'static str {
        self.about
    }

    /// Its columns.
    #[must_use]
    pub const fn schema(&self) -> Schema {
        self.schema
    }

    /// How much of it there is.
    #[must_use]
    pub fn state(&self) -> TableState {
        let open_row_count = self.lock_open().values().map(|open| open.row_count).sum();
        let Rows { row_count, byte_count, received, evicted, .. } = *self.lock();
        TableState { row_count, byte_count, received, evicted, open_row_count }
    }

    /// Times of the first and the last final row, in the order in which they came.
    #[must_use]
    pub fn ends_ns(&self) -> (Option<i64>, Option<i64>) {
        let Some(time) = time_column(self.schema) else { return (None, None) };
        let rows = self.lock();
        let of = |chunk: Option<&Arc<Chunk>>, row: fn(&Columns) -> usize| {
            let columns = &chunk?.columns;
            cell(columns, time, row(columns)).time()
        };
        let last = |columns: &Columns| columns.row_count().saturating_sub(1);
        (of(rows.chunks.front(), |_| 0), of(rows.chunks.back(), last))
    }

    /// Takes in rows; the oldest go where there are more than are kept. Rows of other columns are
    /// no rows of this table, and are not taken. Where every row is [taken](Self::put_taken) it
    /// waits, rather than lose one.
    pub fn push(&self, added: &Columns) {
        if added.schema() != self.schema || added.row_count() == 0 {
            return;
        }
        let rows = self.lock();
        let is_full = |rows: &mut Rows| rows.has_no_room_for(added, &self.limits);
        let waited = self.has_room.wait_while(rows, is_full);
        let mut rows = waited.unwrap_or_else(PoisonError::into_inner);
        rows.push(added, &self.limits);
        self.received.store(rows.received, Ordering::Release);
        drop(rows);
        self.sequence.fetch_add(1, Ordering::AcqRel);
    }

    /// Who takes every row has so many by now, of those received: rows wait for it where there is
    /// no room for more. With nothing no one waits any more, as where a disk is full.
    pub fn put_taken(&self, received: Option<u64>) {
        self.lock().taken = received;
        self.has_room.notify_all();
    }

    /// Rows that were not taken yet, as a share of those that may wait; 1 and more where rows
    /// come faster than they are taken.
    #[must_use]
    pub fn untaken(&self) -> f64 {
        let rows = self.lock();
        rows.share(rows.untaken(), &self.limits)
    }

    /// Takes in rows that are not final, in place of those of the same part and segment before.
    /// Beyond the limit they are not taken.
    pub fn put_open(&self, part: usize, segment: usize, row_count: usize, open: OpenRows) {
        let open = Open {
            rows: Arc::new(open),
            row_count,
            received: self.received.load(Ordering::Acquire),
        };
        let mut all = self.lock_open();
        let before = all.remove(&(part, segment));
        let sum: usize = all.values().map(|open| open.row_count).sum();
        if row_count > 0 && sum + row_count <= self.limits.open_row_count {
            all.insert((part, segment), open);
        }
        drop(all);
        // Its rows are freed here, not under the lock.
        drop(before);
        self.sequence.fetch_add(1, Ordering::AcqRel);
    }

    /// Forgets the segments of a part from this one on: there are no rows in them.
    pub fn end_open(&self, part: usize, segment: usize) {
        self.lock_open().retain(|&(of, at), _| of != part || at < segment);
    }

    /// The rows as they are now.
    #[must_use]
    pub fn view(&self) -> View {
        // First: a flow that ends meanwhile is then here and among the rows, and counts once.
        let open = self.lock_open();
        let open = open.values().map(|open| (Arc::clone(&open.rows), open.received)).collect();
        let rows = self.lock();
        View {
            schema: self.schema,
            chunks: rows.chunks.iter().cloned().collect(),
            open,
            received: rows.received,
        }
    }

    /// The rows that came after so many; of those that went already, none.
    #[must_use]
    pub fn since(&self, received: u64) -> View {
        let mut view = self.view();
        view.open.clear();
        let mut first = view.received - view.row_count() as u64;
        view.chunks.retain(|chunk| {
            first += chunk.columns.row_count() as u64;
            first > received
        });
        view
    }

    fn lock_open(&self) -> MutexGuard<'_, BTreeMap<(usize, usize), Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of what a table keeps, so much may wait to be taken: chunks go as a whole.
const UNTAKEN_MAX: f64 = 0.75;

impl Rows {
    /// Rows that wait to be taken.
    fn untaken(&self) -> u64 {
        self.taken.map_or(0, |taken| self.received.saturating_sub(taken))
    }

    /// So many rows as a share of those that may wait.
    #[allow(clippy::cast_precision_loss)]
    fn share(&self, row_count: u64, limits: &TableLimits) -> f64 {
        let rows = row_count as f64;
        let bytes = rows * self.byte_count as f64 / self.row_count.max(1) as f64;
        let share = (rows / limits.row_count as f64).max(bytes / limits.byte_count as f64);
        share / UNTAKEN_MAX
    }

    fn has_no_room_for(&self, added: &Columns, limits: &TableLimits) -> bool {
        let untaken = self.untaken();
        untaken > 0 && self.share(untaken + added.row_count() as u64, limits) > 1.0
    }

    fn push(&mut self, added: &Columns, limits: &TableLimits) {
        let (row_count, byte_count) = (added.row_count(), added.byte_count());
        match self.chunks.back_mut() {
            Some(chunk) if chunk.columns.row_count() + row_count <= ROWS_PER_CHUNK => {
                let chunk = Arc::make_mut(chunk);
                chunk.columns.append(added);
                chunk.byte_count += byte_count;
            }
            _ => self.chunks.push_back(Arc::new(Chunk { columns: added.clone(), byte_count })),
        }
        self.row_count += row_count;
        self.byte_count += byte_count;
        self.received += row_count as u64;
        let is_over =
            |rows: &Self| rows.row_count > limits.row_count || rows.byte_count > limits.byte_count;
        while is_over(self) && self.chunks.len() > 1 {
            let front = self.chunks.front().map_or(0, |chunk| chunk.columns.row_count() as u64);
            let is_untaken = |taken: u64| self.evicted + front > taken;
            if self.taken.is_some_and(is_untaken) {
                // Who takes all of them is waited for before there are many more.
                break;
            }
            let Some(chunk) = self.chunks.pop_front() else { break };
            self.row_count -= chunk.columns.row_count();
            self.byte_count -= chunk.byte_count;
            self.evicted += chunk.columns.row_count() as u64;
        }
    }
}

impl View {
    /// Rows of somewhere else than memory.
    #[must_use]
    pub const fn empty(schema: Schema) -> Self {
        Self { schema, chunks: Vec::new(), open: Vec::new(), received: 0 }
    }

    /// Its columns.
    #[must_use]
    pub const fn schema(&self) -> Schema {
        self.schema
    }

    /// Rows that were received when it was made.
    #[must_use]
    pub const fn received(&self) -> u64 {
        self.received
    }

    /// Final rows in it.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.columns.row_count()).sum()
    }

    /// All rows, chunk by chunk in the order in which they came, open ones last. An open row goes
    /// where a final one of the same flow came after it.
    #[must_use]
    pub fn chunks(&self) -> Vec<RowChunk> {
        self.after(0)
    }

    /// The same without the first final rows that were received, so many: those are elsewhere.
    #[must_use]
    pub fn after(&self, received: u64) -> Vec<RowChunk> {
        let after = self.received.saturating_sub(received);
        let mut held = self.latest(usize::try_from(after).unwrap_or(usize::MAX));
        let ended =
            super::query::EndedFlows::since(self.open.iter().map(|(_, at)| *at).min(), self);
        for (rows, _) in &self.open {
            held.push(RowChunk(Source::Own(ended.without(rows()))));
        }
        held
    }

    /// The final rows, chunk by chunk.
    #[must_use]
    pub fn final_rows(&self) -> Vec<&Columns> {
        self.chunks.iter().map(|chunk| &chunk.columns).collect()
    }

    /// The last so many of the final rows.
    #[must_use]
    pub fn latest(&self, row_count: usize) -> Vec<RowChunk> {
        let mut skipped = self.row_count().saturating_sub(row_count);
        let mut held = Vec::new();
        for chunk in &self.chunks {
            let len = chunk.columns.row_count();
            if skipped == 0 {
                held.push(RowChunk(Source::Shared(Arc::clone(chunk))));
            } else if skipped < len {
                let places: Vec<_> = (skipped..len).collect();
                held.push(RowChunk(Source::Own(chunk.columns.picked(&places))));
            }
            skipped = skipped.saturating_sub(len);
        }
        held
    }

    /// The chunks of final rows, with how many rows came before each.
    pub(crate) fn final_chunks(&self) -> impl Iterator<Item = (u64, &Columns)> {
        let mut before = self.received - self.row_count() as u64;
        self.chunks.iter().map(move |chunk| {
            let at = before;
            before += chunk.columns.row_count() as u64;
            (at, &chunk.columns)
        })
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind, Value};

    use super::*;

    const SCHEMA: Schema = &[
        Field::new("community_id", Kind::Text, ""),
        Field::new("first_ns", Kind::TimestampNs, "").nullable(),
        Field::new("bytes", Kind::U64, ""),
    ];

    fn rows(range: std::ops::Range<u64>) -> Columns {
        let mut rows = Columns::new(SCHEMA);
        for at in range {
            let id = format!("1:{at}");
            rows.push_row(&[Value::Str(&id), Value::TimestampNs(1), Value::U64(at)]).unwrap();
        }
        rows
    }

    fn table(limits: TableLimits) -> Table {
        Table::new("flows".into(), "", SCHEMA, limits, Arc::default())
    }

    fn ids(view: &View) -> Vec<String> {
        let of = |held: &RowChunk| {
            let columns = held.columns();
            let id = |row| crate::query::cell(columns, 0, row).text().unwrap_or_default().into();
            (0..columns.row_count()).map(id).collect::<Vec<String>>()
        };
        view.chunks().iter().flat_map(of).collect()
    }

    #[test]
    fn the_oldest_rows_go_and_are_counted() {
        let limits = TableLimits { row_count: 10_000, ..TableLimits::default() };
        let table = table(limits);
        for start in (0..50_000).step_by(100) {
            table.push(&rows(start..start + 100));
        }
        let state = table.state();
        assert_eq!(state.received, 50_000);
        assert_eq!(state.evicted + state.row_count as u64, 50_000);
        assert!(state.row_count <= 10_000 && state.row_count > 7_000, "{state:?}");
        assert_eq!(ids(&table.view()).last().unwrap(), "1:49999");
    }

    #[test]
    fn rows_are_bounded_by_bytes_too() {
        let table = table(TableLimits { byte_count: 100_000, ..TableLimits::default() });
        for start in (0..50_000).step_by(100) {
            table.push(&rows(start..start + 100));
        }
        assert!(table.state().byte_count < 200_000, "{:?}", table.state());
    }

    #[test]
    fn rows_wait_for_who_takes_all_of_them() {
        let limits = TableLimits { row_count: 10_000, ..TableLimits::default() };
        let table = table(limits);
        table.put_taken(Some(0));
        let mut taken = 0;
        std::thread::scope(|scope| {
            let pushing = scope.spawn(|| {
                for start in (0..100_000).step_by(100) {
                    table.push(&rows(start..start + 100));
                }
            });
            while !pushing.is_finished() || table.untaken() > 0.0 {
                let view = table.since(taken);
                taken += view
                    .latest(usize::try_from(view.received() - taken).unwrap())
                    .iter()
                    .map(|held| held.columns().row_count() as u64)
                    .sum::<u64>();
                assert_eq!(taken, view.received(), "one has gone");
                table.put_taken(Some(taken));
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        assert_eq!(taken, 100_000);
        table.put_taken(None);
        table.push(&rows(0..20_000));
        table.push(&rows(0..20_000));
        assert_eq!(table.state().received, 140_000, "no one is waited for any more");
    }

    #[test]
    fn an_open_flow_goes_once_it_has_ended() {
        let table = table(TableLimits::default());
        table.push(&rows(0..3));
        table.put_open(0, 0, 2, Box::new(|| rows(10..12)));
        assert_eq!(ids(&table.view()), ["1:0", "1:1", "1:2", "1:10", "1:11"]);
        table.push(&rows(10..11));
        assert_eq!(ids(&table.view()), ["1:0", "1:1", "1:2", "1:10", "1:11"]);
        table.end_open(0, 0);
        assert_eq!(ids(&table.view()), ["1:0", "1:1", "1:2", "1:10"]);
    }

    #[test]
    fn what_a_reader_holds_does_not_change() {
        let table = table(TableLimits::default());
        table.push(&rows(0..3));
        let view = table.view();
        table.push(&rows(3..6));
        assert_eq!(ids(&view).len(), 3);
        assert_eq!(ids(&table.view()).len(), 6);
        assert_eq!(ids(&table.since(3)).len(), 6, "whole chunks");
        assert_eq!(ids(&table.since(6)).len(), 0);
    }
}
