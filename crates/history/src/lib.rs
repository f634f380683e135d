//! The rows of a run's tables on disk, for queries over earlier hours and earlier runs.
//!
//! A thread takes what is new in every [`Table`](store::Table) of a [`Store`](store::Store) and
//! writes it as Parquet by table and hour: `flows/date=2026-11-25/hour=13/….parquet`. Beside each
//! table are tables of sums by minute (`flows@1m-dst_port`), for long ranges. Queries run over
//! stored rows and the rows in memory together; a row is in one of them.

#![forbid(unsafe_code)]

mod cache;
mod error;
mod hour;
mod index;
mod keeper;
mod lock;
mod query;
mod read;
mod rollup;
mod state;
mod text;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::columns::Schema;
use packet::Span;
use store::query::{Groups, GroupsQuery, Rows, RowsQuery, Series, SeriesQuery};
use store::{Store, Table};

pub use error::HistoryError;
pub use query::{Ask, QueryResult};
pub use state::{HistoryState, TableHistory};

use cache::{CACHE_BYTES_MAX, Cache};
use index::Index;
use keeper::{Keeper, locked};
use state::Counters;

/// Where rows are stored, and how many.
#[derive(Clone, Debug)]
pub struct HistoryOptions {
    /// The folder; it is made where it is not there.
    pub folder: PathBuf,
    /// Hours older than this, seen from the newest row, are removed.
    pub keep: Span,
    /// The oldest hours are removed where files have more bytes than this. While an hour is
    /// compacted, its rows are there twice.
    pub keep_bytes: u64,
    /// How often new rows are written; more often where they fill what a table keeps.
    pub flush_every: Duration,
    /// The clock of the front end, in nanoseconds since the epoch: for rows without a time, and
    /// so that stamps from the future remove nothing.
    pub now_ns: fn() -> i64,
}

impl HistoryOptions {
    /// Written once a minute.
    #[must_use]
    pub const fn new(folder: PathBuf, keep: Span, keep_bytes: u64, now_ns: fn() -> i64) -> Self {
        Self { folder, keep, keep_bytes, flush_every: Duration::from_secs(60), now_ns }
    }
}

/// Stored rows, and the thread that stores more.
pub struct History {
    keeper: Arc<Keeper>,
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl History {
    /// Whether a run of this user could begin with a folder, as far as can be said without making
    /// anything, and whether or not another run writes it now.
    ///
    /// # Errors
    /// [`HistoryError`] where it cannot be used.
    pub fn check(folder: &Path) -> Result<(), HistoryError> {
        let refused = |source| HistoryError::Folder { folder: folder.to_owned(), source };
        files::check_folder(folder).map_err(refused)
    }

    /// Finds what earlier runs stored, and starts to store the rows of this one.
    ///
    /// # Errors
    /// [`HistoryError`] where another run writes the folder, or it cannot be used.
    pub fn begin(options: HistoryOptions, store: Arc<Store>) -> Result<Self, HistoryError> {
        let HistoryOptions { folder, keep, keep_bytes, flush_every, now_ns } = options;
        let lock = lock::lock(&folder)?;
        let index = Index::scan(&folder)
            .map_err(|source| HistoryError::Folder { folder: folder.clone(), source })?;
        let next_number = AtomicU64::new(index.next_number);
        let counters = Arc::new(Counters::default());
        counters.put_size(&index);
        let counting = Arc::clone(&counters);
        store.count_by("history", Box::new(move || counting.counts()));
        let keeper = Arc::new(Keeper {
            root: folder,
            keep_ns: keep.as_ns(),
            keep_bytes,
            now_ns,
            store,
            index: RwLock::new(Arc::new(index)),
            files: RwLock::new(()),
            gone: Mutex::new(Vec::new()),
            cache: Mutex::new(Cache::new(CACHE_BYTES_MAX)),
            rollups: Mutex::new(BTreeMap::new()),
            damaged: Mutex::new(BTreeSet::new()),
            counters,
            flushing: Mutex::new(()),
            next_number,
            _lock: lock,
        });
        keeper.store.take_rows(true);
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (of_thread, stopped) = (Arc::clone(&keeper), Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || flush_until(&of_thread, &stopped, flush_every))
            .map_err(HistoryError::Thread)?;
        Ok(Self { keeper, stop, thread: Mutex::new(Some(thread)) })
    }

    /// Stores what is new now.
    pub fn flush(&self) {
        self.keeper.flush(false);
    }

    /// Stores what is new for the last time; the folder stays locked until this is dropped.
    /// Queries go on.
    pub fn end(&self) -> HistoryState {
        let thread = locked(&self.thread).take();
        if let Some(thread) = thread {
            *locked(&self.stop.0) = true;
            self.stop.1.notify_all();
            // Its panic would have been reported where it happened.
            let _ = thread.join();
            self.keeper.flush(true);
            self.keeper.store.take_rows(false);
        }
        self.state()
    }

    /// How much is stored, and what went wrong.
    #[must_use]
    pub fn state(&self) -> HistoryState {
        self.keeper.counters.state()
    }

    /// Rows of a table in memory that are in files, or were missed: with stored rows go those of
    /// [`View::after`](store::View::after) this count. Between two calls it may grow;
    /// [`chunks`](Self::chunks) takes both at one moment.
    #[must_use]
    pub fn taken(&self, table: &str) -> u64 {
        self.keeper.read_index().tables.get(table).map_or(0, |table| table.taken)
    }

    /// Stored rows of a table, which need not be one of this run.
    #[must_use]
    pub fn stored(&self, table: &str, schema: Schema, ask: &Ask<'_>) -> QueryResult {
        let _files = self.keeper.read_files();
        self.keeper.stored(&self.keeper.read_index(), table, schema, ask)
    }

    /// Stored rows of a table and those in memory, open ones included, each once: for queries that
    /// take chunks.
    #[must_use]
    pub fn chunks(&self, table: &Table, ask: &Ask<'_>) -> QueryResult {
        self.keeper.all(table, ask)
    }

    /// Finds rows. All columns are read of rows that are returned; of others those of the filter
    /// and the order.
    #[must_use]
    pub fn rows(&self, table: &Table, query: &RowsQuery) -> Rows {
        self.keeper.rows(table, query)
    }

    /// Finds groups.
    #[must_use]
    pub fn groups(&self, table: &Table, query: &GroupsQuery) -> Groups {
        self.keeper.groups(table, query)
    }

    /// Puts values together over time.
    #[must_use]
    pub fn series(&self, table: &Table, query: &SeriesQuery) -> Series {
        self.keeper.series(table, query)
    }

    /// The first table of sums by minute that has columns of all these names, as sums or as its
    /// key, with its columns: `start_ns`, `rows`, the key, sums under the names of the columns that
    /// they are of, and `max_NAME`. Rows are counted by the sum of `rows`; those of one minute and
    /// key may be several, which add up.
    #[must_use]
    pub fn sums_with(&self, table: &Table, names: &[&str]) -> Option<(String, Schema)> {
        let rollups = self.keeper.rollups_of(table);
        let has = |schema: Schema, name: &str| schema.iter().any(|field| field.name == name);
        let has_all = |schema: Schema| names.iter().all(|name| has(schema, name));
        let found = rollups.iter().find(|rollup| has_all(rollup.schema))?;
        Some((found.name.clone(), found.schema))
    }

    /// Sums by minute of stored rows and of those in memory; nothing where there is no such table.
    /// The filter and the columns are those of the table of sums.
    #[must_use]
    pub fn sums(&self, table: &Table, name: &str, ask: &Ask<'_>) -> Option<QueryResult> {
        self.keeper.sums(table, name, ask)
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.end();
    }
}

/// How often it is looked whether rows wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Whoever hands in rows waits for this thread, but not for one that has fallen.
struct Release<'a>(&'a Keeper);

impl Drop for Release<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store.take_rows(false);
        }
    }
}

fn flush_until(keeper: &Keeper, stop: &(Mutex<bool>, Condvar), every: Duration) {
    let _release = Release(keeper);
    let mut waited = Duration::ZERO;
    loop {
        let look = LOOK_EVERY.min(every);
        let stopped = locked(&stop.0);
        let result = stop.1.wait_timeout_while(stopped, look, |is_stopped| !*is_stopped);
        if result.map_or(true, |(is_stopped, _)| *is_stopped) {
            return;
        }
        waited += look;
        if waited >= every || keeper.is_filling() {
            keeper.flush(false);
            waited = Duration::ZERO;
        }
    }
}
