//! Takes rows from the tables of a run, compacts hours that are over, and removes the oldest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};

use engine::columns::Schema;
use sink::OutputFile;
use store::{RowChunk, Store, Table};

use crate::cache::Cache;
use crate::hour::{HOUR_NS, Hour};
use crate::index::{Index, StoredFile, is_folder_name};
use crate::read::HistoryFile;
use crate::rollup::{Rollup, rollups};
use crate::state::Counters;
use crate::write::{ColumnsCow, split, write};

/// Later files of an hour that was compacted before it is compacted again: rows that come late
/// would otherwise have all of it written with every flush.
const LATE_FILES_MIN: usize = 8;

/// Of all bytes that may be kept, an hour with a larger part than this is neither compacted, which
/// would hold its rows twice, nor removed as one, which would leave little.
const HOUR_SHARE: u64 = 4;

/// Of all bytes that may be kept, so large a part may wait for queries to be removed. Then a flush
/// waits for them, and queries that begin later wait for it: the disk is bounded, too.
const GONE_SHARE: u64 = 8;

/// Of the rows that may wait, so many are written before their time.
const FILLING: f64 = 0.5;

/// What the writing thread and queries share.
pub(crate) struct Keeper {
    pub(crate) root: PathBuf,
    pub(crate) keep_ns: i64,
    pub(crate) keep_bytes: u64,
    pub(crate) now_ns: fn() -> i64,
    pub(crate) store: Arc<Store>,
    /// Locked for a moment alone: a query keeps the index that it began with, so that no flush
    /// waits for it, for which packets would.
    pub(crate) index: RwLock<Arc<Index>>,
    /// Held for reading while a query reads files, so that none is removed under it.
    pub(crate) files: RwLock<()>,
    /// Files that are in the index no more, by table: removed when no query reads.
    pub(crate) gone: Mutex<Vec<(String, StoredFile)>>,
    pub(crate) cache: Mutex<Cache>,
    pub(crate) rollups: Mutex<BTreeMap<String, Arc<Vec<Rollup>>>>,
    /// Files that could not be read: not tried again.
    pub(crate) damaged: Mutex<BTreeSet<(u64, u64)>>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) flushing: Mutex<()>,
    /// Of the next file.
    pub(crate) next_number: AtomicU64,
    /// Open for as long as the folder is ours.
    pub(crate) _lock: File,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keeper {
    /// The index as it is now.
    pub(crate) fn read_index(&self) -> Arc<Index> {
        Arc::clone(&self.lock_index())
    }

    /// While it is held, no row moves from memory to a file.
    pub(crate) fn lock_index(&self) -> RwLockReadGuard<'_, Arc<Index>> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_index(&self) -> RwLockWriteGuard<'_, Arc<Index>> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be held before an index is taken whose files are read, until they were.
    pub(crate) fn read_files(&self) -> RwLockReadGuard<'_, ()> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tables of sums of a table.
    pub(crate) fn rollups_of(&self, table: &Table) -> Arc<Vec<Rollup>> {
        let mut all = locked(&self.rollups);
        let made = || Arc::new(rollups(table.name(), table.schema()));
        Arc::clone(all.entry(table.name().to_owned()).or_insert_with(made))
    }

    /// Whether rows of a table would soon wait.
    pub(crate) fn is_filling(&self) -> bool {
        self.store.tables().iter().any(|table| table.untaken() > FILLING)
    }

    /// Writes what is new. Rows that cannot be written are tried again with the next call, as long
    /// as the table has them; those of the last call are missed.
    pub(crate) fn flush(&self, is_last: bool) {
        let _one_at_a_time = locked(&self.flushing);
        let tables = self.store.tables();
        for table in &tables {
            let is_storable = is_folder_name(table.name());
            debug_assert!(is_storable, "a table is named in code, in letters and digits");
            if is_storable {
                self.flush_table(table, is_last);
            }
        }
        // First: what goes need not be compacted.
        self.remove_oldest();
        self.remove_gone(false);
        let large = self.large_hours();
        for table in &tables {
            self.compact(table.name(), table.schema(), &large);
            for rollup in self.rollups_of(table).iter() {
                self.compact(&rollup.name, rollup.schema, &large);
            }
        }
        self.remove_oldest();
        self.remove_gone(is_last);
        self.counters.put_size(&self.read_index());
    }

    fn flush_table(&self, table: &Table, is_last: bool) {
        let taken = self.read_index().tables.get(table.name()).map_or(0, |table| table.taken);
        let view = table.since(taken);
        let new = view.received().saturating_sub(taken);
        if new == 0 {
            return;
        }
        let held = view.latest(usize::try_from(new).unwrap_or(usize::MAX));
        let count: usize = held.iter().map(|held| held.columns().row_count()).sum();
        let mut written = Vec::new();
        match self.write_table(table, &held, &mut written) {
            Ok(()) => {
                let mut index = self.write_index();
                let tables = &mut Arc::make_mut(&mut index).tables;
                let of_table = written.iter().filter(|(name, _)| name == table.name());
                let latest_ns = of_table.map(|(_, file)| file.last_ns).max();
                for (name, file) in written {
                    tables.entry(name).or_default().files.insert(file);
                }
                let stored = tables.entry(table.name().to_owned()).or_default();
                stored.mark(view.received(), latest_ns, table.state().evicted);
                drop(index);
                table.put_taken(Some(view.received()));
                self.counters.took(count as u64, new.saturating_sub(count as u64));
            }
            Err(why) => {
                // A disk that is full holds up no one.
                table.put_taken(None);
                // All or nothing, so that no row is there twice after the next try.
                for (name, file) in written {
                    let _ = fs::remove_file(file.path(&self.root, &name));
                }
                self.counters.failed(&why);
                if is_last {
                    self.counters.took(0, new);
                }
            }
        }
    }

    fn write_table(
        &self,
        table: &Table,
        held: &[RowChunk],
        written: &mut Vec<(String, StoredFile)>,
    ) -> Result<(), String> {
        // A process that is killed in between leaves sums of rows that are lost, which is what was
        // on the network; rows without sums would be missing in every long series.
        for rollup in self.rollups_of(table).iter() {
            let sums = [RowChunk::own(rollup.sums(held))];
            self.write_rows(&rollup.name, rollup.schema, &sums, written)?;
        }
        self.write_rows(table.name(), table.schema(), held, written)
    }

    fn write_rows(
        &self,
        name: &str,
        schema: Schema,
        held: &[RowChunk],
        written: &mut Vec<(String, StoredFile)>,
    ) -> Result<(), String> {
        let now_ns = self.store.time_ns().unwrap_or_else(self.now_ns);
        for (hour, batch) in split(held, schema, now_ns) {
            let number = self.next_number.fetch_add(1, Relaxed);
            let file = batch.write(&self.root, name, hour, schema, number)?;
            written.push((name.to_owned(), file));
        }
        Ok(())
    }

    /// Hours that stay in the files in which they were written.
    fn large_hours(&self) -> BTreeSet<Hour> {
        let mut hours: BTreeMap<Hour, u64> = BTreeMap::new();
        for (_, file) in self.read_index().files() {
            *hours.entry(file.hour).or_default() += file.byte_count;
        }
        hours.retain(|_, byte_count| self.is_large(*byte_count));
        hours.into_keys().collect()
    }

    const fn is_large(&self, hour_bytes: u64) -> bool {
        hour_bytes > self.keep_bytes / HOUR_SHARE
    }

    /// Makes one file of the files of each hour that is over.
    fn compact(&self, name: &str, schema: Schema, large: &BTreeSet<Hour>) {
        let mut hours: BTreeMap<Hour, Vec<StoredFile>> = BTreeMap::new();
        if let Some(table) = self.read_index().tables.get(name) {
            for file in &table.files {
                hours.entry(file.hour).or_default().push(file.clone());
            }
        }
        // Of the newest hour more rows come, and of this one, if one stamp is from the future.
        let now = Hour::of((self.now_ns)());
        let Some(newest) = hours.keys().next_back().map(|newest| now.min(*newest)) else { return };
        hours.retain(|hour, _| *hour < newest && !large.contains(hour));
        for files in hours.into_values() {
            let late = files.iter().filter(|file| file.numbers.0 == file.numbers.1).count();
            let was_compacted = late < files.len();
            if files.len() < 2 || (was_compacted && late < LATE_FILES_MIN) {
                continue;
            }
            for run in self.runs(name, schema, files) {
                self.compact_run(name, schema, &run);
            }
        }
    }

    /// Files next to each other that can be one. A compacted file takes the place of all numbers
    /// from its first to its last, so that none may be left out between them.
    fn runs(&self, name: &str, schema: Schema, files: Vec<StoredFile>) -> Vec<Vec<StoredFile>> {
        let mut runs = vec![Vec::new()];
        for file in files {
            let is_damaged = locked(&self.damaged).contains(&file.numbers);
            let opened = HistoryFile::new(&file.path(&self.root, name), schema);
            let is_same = !is_damaged && opened.is_ok_and(|opened| opened.is_same());
            match runs.last_mut() {
                Some(run) if is_same => run.push(file),
                _ => runs.push(Vec::new()),
            }
        }
        runs.retain(|run| run.len() > 1);
        runs
    }

    fn compact_run(&self, name: &str, schema: Schema, run: &[StoredFile]) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let compacted = StoredFile {
            hour: first.hour,
            numbers: (first.numbers.0, last.numbers.1),
            first_ns: run.iter().map(|file| file.first_ns).min().unwrap_or(first.first_ns),
            last_ns: run.iter().map(|file| file.last_ns).max().unwrap_or(first.last_ns),
            byte_count: 0,
        };
        let columns: Vec<usize> = (0..schema.len()).collect();
        let groups = run.iter().flat_map(|file| {
            let path = file.path(&self.root, name);
            let opened = HistoryFile::new(&path, schema);
            let count = opened.as_ref().map_or(1, HistoryFile::group_count);
            let columns = &columns;
            (0..count).map(move |group| {
                let opened = opened.as_ref().map_err(Clone::clone)?;
                let rows = guarded(|| opened.read(group, columns));
                rows.map(ColumnsCow::Own).inspect_err(|why| self.found_damaged(name, file, why))
            })
        });
        // On the disk before it has the name with which the others go: they may be old.
        match write(&self.root, name, compacted, schema, groups, OutputFile::finish_synced) {
            Ok(compacted) => {
                let mut index = self.write_index();
                let tables = &mut Arc::make_mut(&mut index).tables;
                let files = &mut tables.entry(name.to_owned()).or_default().files;
                files.insert(compacted);
                for file in run {
                    files.remove(file);
                }
                drop(index);
                let gone = run.iter().map(|file| (name.to_owned(), file.clone()));
                locked(&self.gone).extend(gone);
            }
            Err(why) => self.counters.failed(&why),
        }
    }

    fn remove_oldest(&self) {
        let mut index = self.write_index();
        let index = Arc::make_mut(&mut index);
        let newest = index.files().map(|(_, file)| file.last_ns).max();
        // One stamp from the future, as a broken capture may have, does not end the history.
        let latest_ns = (self.now_ns)().saturating_add(HOUR_NS);
        let newest = newest.map(|ns| ns.min(latest_ns));
        let Some(oldest_ns) = newest.map(|ns| ns.saturating_sub(self.keep_ns)) else { return };
        let mut byte_count = index.byte_count();
        loop {
            let hours = || index.files().map(|(_, file)| file.hour);
            let (Some(oldest), Some(newest)) = (hours().min(), hours().max()) else { return };
            let end_ns = oldest.start_ns().saturating_add(HOUR_NS);
            let is_old = end_ns <= oldest_ns;
            if !is_old && byte_count <= self.keep_bytes {
                return;
            }
            let of_hour = index.files().filter(|(_, file)| file.hour == oldest);
            let mut gone: Vec<_> =
                of_hour.map(|(name, file)| (name.to_owned(), file.clone())).collect();
            let hour_bytes = gone.iter().map(|(_, file)| file.byte_count).sum();
            // One that was compacted has a file for each table, and goes with all of them.
            let is_compacted = gone.iter().any(|(_, file)| file.numbers.0 < file.numbers.1);
            let is_large = self.is_large(hour_bytes) && !is_compacted;
            if !is_old && (oldest == newest || is_large) {
                // Only as much as has to go.
                gone.sort_by_key(|(_, file)| file.numbers);
                gone.truncate(1);
            } else {
                self.counters.evicted_hour();
            }
            for (name, file) in gone {
                if let Some(table) = index.tables.get_mut(&name) {
                    table.files.remove(&file);
                }
                byte_count = byte_count.saturating_sub(file.byte_count);
                self.counters.evicted(file.byte_count);
                locked(&self.gone).push((name, file));
            }
        }
    }

    /// Removes the files that are in no index any more, which queries may still read. If a run ends
    /// before, the next one finds them as if it had ended between two removals.
    fn remove_gone(&self, is_last: bool) {
        let mut gone = locked(&self.gone);
        let byte_count: u64 = gone.iter().map(|(_, file)| file.byte_count).sum();
        let may_wait = !is_last && byte_count <= self.keep_bytes / GONE_SHARE;
        let _no_query_reads = match self.files.try_write() {
            Ok(files) => files,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if may_wait || gone.is_empty() => return,
            Err(TryLockError::WouldBlock) => {
                self.files.write().unwrap_or_else(PoisonError::into_inner)
            }
        };
        for (name, file) in gone.drain(..) {
            self.remove(&name, &file);
        }
    }

    /// Removes a file, and its folders where nothing is left in them.
    fn remove(&self, name: &str, file: &StoredFile) {
        let path = file.path(&self.root, name);
        if let Err(error) = fs::remove_file(&path) {
            self.counters.failed(&format!("cannot remove `{}`: {error}", path.display()));
        }
        for folder in path.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(folder);
        }
        locked(&self.cache).forget(file.numbers);
    }

    /// Counts a file once, and names it.
    pub(crate) fn found_damaged(&self, name: &str, file: &StoredFile, why: &str) {
        if locked(&self.damaged).insert(file.numbers) {
            let path = file.path(&self.root, name);
            self.counters.damaged(&format!("`{}` cannot be read: {why}", path.display()));
        }
    }
}

/// What reads a file may stumble over what is in it: the library checks much, not all.
pub(crate) fn guarded<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let caught = catch_unwind(AssertUnwindSafe(read));
    caught.unwrap_or_else(|_| Err("it is damaged".to_owned()))
}
