//! What a history has taken, removed and not managed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use store::Count;

use crate::index::Index;
use crate::keeper::locked;

/// How much of a table is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableHistory {
    /// Its name; that of a table of sums has `@1m` in it.
    pub name: String,
    /// The earliest time of its rows.
    pub first_ns: i64,
    /// The latest.
    pub last_ns: i64,
    /// Files.
    pub file_count: usize,
    /// Their bytes.
    pub byte_count: u64,
}

/// How much is stored, and what went wrong.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryState {
    /// Tables that have files.
    pub tables: Vec<TableHistory>,
    /// Files of all tables.
    pub file_count: usize,
    /// Their bytes.
    pub byte_count: u64,
    /// Rows that this run stored.
    pub row_count: u64,
    /// Rows that had left memory before they could be stored, or could not be stored at the end.
    pub missed: u64,
    /// Hours that were removed for their age or for the space.
    pub evicted_hours: u64,
    /// Files that were removed for their age or for the space.
    pub evicted_files: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
    /// Files that cannot be read.
    pub damaged_files: u64,
    /// Writes that failed: rows are tried again with the next.
    pub failed_writes: u64,
    /// Files that queries left out, the oldest of what was asked for, for want of memory.
    pub left_out_files: u64,
    /// The first thing that went wrong, in a line.
    pub trouble: Option<String>,
}

impl HistoryState {
    /// Rows that are not stored, in words; nothing where all are.
    #[must_use]
    pub fn losses(&self) -> Option<String> {
        let Self { missed, .. } = self;
        let what = || format!("{missed} rows were not stored; check the disk of its folder");
        (*missed > 0).then(what)
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    file_count: AtomicU64,
    byte_count: AtomicU64,
    row_count: AtomicU64,
    missed: AtomicU64,
    evicted_hours: AtomicU64,
    evicted_files: AtomicU64,
    evicted_bytes: AtomicU64,
    damaged_files: AtomicU64,
    failed_writes: AtomicU64,
    left_out_files: AtomicU64,
    trouble: Mutex<Option<String>>,
    /// As it was after the last write: who asks for it does not wait for a query that reads files.
    tables: Mutex<Vec<TableHistory>>,
}

impl Counters {
    pub(crate) fn took(&self, row_count: u64, missed: u64) {
        self.row_count.fetch_add(row_count, Relaxed);
        self.missed.fetch_add(missed, Relaxed);
    }

    pub(crate) fn failed(&self, why: &str) {
        self.failed_writes.fetch_add(1, Relaxed);
        locked(&self.trouble).get_or_insert_with(|| why.to_owned());
    }

    pub(crate) fn damaged(&self, why: &str) {
        self.damaged_files.fetch_add(1, Relaxed);
        locked(&self.trouble).get_or_insert_with(|| why.to_owned());
    }

    pub(crate) fn left_out(&self, file_count: usize) {
        self.left_out_files.fetch_add(file_count as u64, Relaxed);
    }

    pub(crate) fn evicted_hour(&self) {
        self.evicted_hours.fetch_add(1, Relaxed);
    }

    pub(crate) fn evicted(&self, byte_count: u64) {
        self.evicted_files.fetch_add(1, Relaxed);
        self.evicted_bytes.fetch_add(byte_count, Relaxed);
    }

    pub(crate) fn put_size(&self, index: &Index) {
        self.file_count.store(index.files().count() as u64, Relaxed);
        self.byte_count.store(index.byte_count(), Relaxed);
        let tables = index.tables.iter().filter_map(|(name, table)| {
            Some(TableHistory {
                name: name.clone(),
                first_ns: table.files.iter().map(|file| file.first_ns).min()?,
                last_ns: table.files.iter().map(|file| file.last_ns).max()?,
                file_count: table.files.len(),
                byte_count: table.files.iter().map(|file| file.byte_count).sum(),
            })
        });
        *locked(&self.tables) = tables.collect();
    }

    /// For the metrics page.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn counts(&self) -> Vec<Count> {
        let gauge =
            |name, about, value: &AtomicU64| Count::gauge(name, about, value.load(Relaxed) as f64);
        let total = |name, about, value: &AtomicU64| Count::total(name, about, value.load(Relaxed));
        vec![
            gauge("files", "Files of stored rows.", &self.file_count),
            gauge("size_bytes", "Bytes of stored rows.", &self.byte_count),
            total("rows", "Rows that were stored.", &self.row_count),
            total("missed_rows", "Rows evicted from memory before they were stored.", &self.missed),
            total("evicted_hours", "Hours removed for age or space.", &self.evicted_hours),
            total("evicted_files", "Files removed for age or space.", &self.evicted_files),
            total("evicted_bytes", "Bytes removed for age or space.", &self.evicted_bytes),
            total("damaged_files", "Files that cannot be read.", &self.damaged_files),
            total("failed_writes", "Writes that failed.", &self.failed_writes),
            total(
                "left_out_files",
                "Files skipped by queries for lack of memory.",
                &self.left_out_files,
            ),
        ]
    }

    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn state(&self) -> HistoryState {
        HistoryState {
            tables: locked(&self.tables).clone(),
            file_count: self.file_count.load(Relaxed) as usize,
            byte_count: self.byte_count.load(Relaxed),
            row_count: self.row_count.load(Relaxed),
            missed: self.missed.load(Relaxed),
            evicted_hours: self.evicted_hours.load(Relaxed),
            evicted_files: self.evicted_files.load(Relaxed),
            evicted_bytes: self.evicted_bytes.load(Relaxed),
            damaged_files: self.damaged_files.load(Relaxed),
            failed_writes: self.failed_writes.load(Relaxed),
            left_out_files: self.left_out_files.load(Relaxed),
            trouble: locked(&self.trouble).clone(),
        }
    }
}
