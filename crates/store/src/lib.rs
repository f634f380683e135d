//! The rows of every table of a run, bounded, and queries over them.
//!
//! A computing thread hands rows in ([`Table::push`]); a server asks ([`query`]). Neither waits
//! for the other longer than it takes to append some rows: a query reads chunks that no one changes
//! any more.

#![forbid(unsafe_code)]

pub mod counts;
pub mod packets;
pub mod query;
mod table;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use engine::columns::Schema;
use engine::event_time::STEP_BACK;

pub use counts::{Count, CountKind, Spread};
pub use table::{OpenRows, RowChunk, Table, TableLimits, TableState, View};

use counts::AllCounts;

/// Counts that are handed in before they are taken over, where no one asks.
const HANDED_MAX: usize = 1_000;

/// Counts that are made when someone asks.
pub type Counting = Box<dyn Fn() -> Vec<Count> + Send + Sync>;

/// What a run has found, for readers during the run.
#[derive(Default)]
pub struct Store {
    tables: RwLock<Vec<Arc<Table>>>,
    counts: Mutex<AllCounts>,
    /// Counts that were handed in since the last question: a computing thread waits for no sum.
    handed: Mutex<Vec<(&'static str, usize, Vec<Count>)>>,
    countings: RwLock<Vec<(&'static str, Counting)>>,
    sequence: Arc<AtomicU64>,
    asked: AtomicU64,
    asked_for_rows: AtomicU64,
    time_ns: AtomicI64,
    /// The time that was put last, if it was [`STEP_BACK`] or more behind; else the maximum.
    behind_ns: AtomicI64,
    /// Whether time steps back.
    has_epochs: AtomicBool,
    is_over: AtomicBool,
    /// Whether someone takes every row; see [`Table::put_taken`].
    are_taken: AtomicBool,
}

impl Store {
    /// Without tables.
    #[must_use]
    pub fn new() -> Arc<Self> {
        let store = Self::default();
        store.time_ns.store(i64::MIN, Ordering::Relaxed);
        store.behind_ns.store(i64::MAX, Ordering::Relaxed);
        Arc::new(store)
    }

    /// Adds a table. A name that there is gets a number, as do the tables of two applications of
    /// one kind.
    pub fn add(
        &self,
        name: &str,
        about: &'static str,
        schema: Schema,
        limits: TableLimits,
    ) -> Arc<Table> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let is_taken = |name: &str| tables.iter().any(|table| table.name() == name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names.find(|name| !is_taken(name)).unwrap_or_default();
        let table = Table::new(name, about, schema, limits, Arc::clone(&self.sequence));
        let table = Arc::new(table);
        if self.are_taken.load(Ordering::Acquire) {
            table.put_taken(Some(0));
        }
        tables.push(Arc::clone(&table));
        table
    }

    /// The tables, in the order in which they were added.
    #[must_use]
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A table by its name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Arc<Table>> {
        self.tables().into_iter().find(|table| table.name() == name)
    }

    /// From here on someone takes every row of every table, also of those that are added later:
    /// none leaves memory before. Or no one does any more.
    pub fn take_rows(&self, are_taken: bool) {
        self.are_taken.store(are_taken, Ordering::Release);
        for table in self.tables() {
            table.put_taken(are_taken.then_some(0));
        }
    }

    /// Changes with every row and count that is handed in.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Acquire)
    }

    /// Asks the computing threads for what is open now: open flows and counts. They answer at the
    /// end of a batch.
    pub fn ask(&self) {
        self.asked_for_rows.fetch_add(1, Ordering::Release);
        self.ask_for_counts();
    }

    /// The same of counts alone, which cost packets less.
    pub fn ask_for_counts(&self) {
        self.asked.fetch_add(1, Ordering::Release);
    }

    /// How often it was asked so far.
    #[must_use]
    #[inline]
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// How often it was asked for open flows, too.
    #[must_use]
    pub fn asked_for_rows(&self) -> u64 {
        self.asked_for_rows.load(Ordering::Acquire)
    }

    /// From here on [`put_time`](Self::put_time) may set time back. For runs whose passes are all
    /// at the present, as on an interface: parts of captures are not, and sensors send rows later.
    pub fn allow_epochs(&self) {
        self.has_epochs.store(true, Ordering::Release);
    }

    /// Event time has come so far: it is the latest that was put. Where
    /// [epochs](Self::allow_epochs) are allowed, two times in a row that rise and are
    /// [`STEP_BACK`] or more behind begin one, so that no stamp stops time; see
    /// [`engine::event_time`]. One alone may be the stamp that is wrong.
    pub fn put_time(&self, ns: i64) {
        let latest = self.time_ns.fetch_max(ns, Ordering::AcqRel);
        let is_behind = latest.saturating_sub(ns) >= STEP_BACK.as_ns();
        let now_behind = if is_behind { ns } else { i64::MAX };
        let before = self.behind_ns.swap(now_behind, Ordering::AcqRel);
        if is_behind && ns > before && self.has_epochs.load(Ordering::Acquire) {
            // If another thread has put a later time meanwhile, that one counts.
            let (set, seen) = (Ordering::AcqRel, Ordering::Acquire);
            let _ = self.time_ns.compare_exchange(latest, ns, set, seen);
            self.behind_ns.store(i64::MAX, Ordering::Release);
        }
    }

    /// How far event time has come; nothing before the first packet with a time.
    #[must_use]
    pub fn time_ns(&self) -> Option<i64> {
        Some(self.time_ns.load(Ordering::Acquire)).filter(|&ns| ns != i64::MIN)
    }

    /// Nothing comes any more.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.sequence.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether nothing comes any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Takes in the counts of a part of an application, in place of those before.
    pub fn put_counts(&self, application: &'static str, part: usize, counts: Vec<Count>) {
        let mut handed = self.handed.lock().unwrap_or_else(PoisonError::into_inner);
        handed.push((application, part, counts));
        let is_much = handed.len() >= HANDED_MAX;
        drop(handed);
        if is_much {
            drop(self.lock_counts());
        }
        self.sequence.fetch_add(1, Ordering::AcqRel);
    }

    /// The same in place of those of all these parts: nothing comes any more.
    pub fn put_last_counts(
        &self,
        application: &'static str,
        parts: Range<usize>,
        counts: Vec<Count>,
    ) {
        self.lock_counts().put_last(application, parts, counts);
        self.sequence.fetch_add(1, Ordering::AcqRel);
    }

    /// Adds counts that are made when someone asks.
    pub fn count_by(&self, application: &'static str, counting: Counting) {
        let mut countings = self.countings.write().unwrap_or_else(PoisonError::into_inner);
        countings.push((application, counting));
    }

    /// The counts that were handed in, without those that are made when someone asks.
    #[must_use]
    pub fn handed_counts(&self) -> Vec<(&'static str, Vec<Count>)> {
        self.lock_counts().summed().into_list()
    }

    /// All counts, those of several parts added up: application, counts.
    #[must_use]
    pub fn counts(&self) -> Vec<(&'static str, Vec<Count>)> {
        let mut sums = self.lock_counts().summed();
        let countings = self.countings.read().unwrap_or_else(PoisonError::into_inner);
        for (application, counting) in countings.iter() {
            sums.add(application, &counting());
        }
        sums.into_list()
    }

    /// With all that was handed in.
    fn lock_counts(&self) -> MutexGuard<'_, AllCounts> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let handed =
            std::mem::take(&mut *self.handed.lock().unwrap_or_else(PoisonError::into_inner));
        for (application, part, of_part) in handed {
            counts.put(application, part, of_part);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    const HOURS: i64 = 3 * 3_600;

    /// The time after these seconds were put.
    fn time_after(store: &Store, seconds: &[i64]) -> Option<i64> {
        seconds.iter().for_each(|seconds| store.put_time(seconds * SECOND));
        store.time_ns().map(|ns| ns / SECOND)
    }

    #[test]
    fn time_steps_back_with_the_second_time_that_is_behind() {
        let store = Store::new();
        assert_eq!(store.time_ns(), None);
        store.allow_epochs();
        assert_eq!(time_after(&store, &[100, HOURS, 101]), Some(HOURS));
        assert_eq!(time_after(&store, &[102]), Some(102));
        assert_eq!(time_after(&store, &[103, 60, 61, 62]), Some(103), "late is not behind");
    }

    #[test]
    fn one_time_that_is_behind_moves_nothing() {
        let store = Store::new();
        store.allow_epochs();
        // Tables of one pass put the same time.
        assert_eq!(time_after(&store, &[HOURS, 0, 0, 0, HOURS + 1, 7]), Some(HOURS + 1));
    }

    #[test]
    fn without_epochs_time_is_the_latest() {
        let store = Store::new();
        assert_eq!(time_after(&store, &[HOURS, 100, 101, 102]), Some(HOURS));
    }
}
