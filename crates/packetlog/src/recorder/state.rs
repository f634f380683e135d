//! What others read of a recorder while it works.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::cause::Cause;
use crate::index::{ClassRow, add_rows};
use crate::log::LogError;

/// What others read of a recorder while it works. Each number is right by itself; two of them may
/// be of neighbouring moments.
#[derive(Debug)]
pub struct RecorderState {
    /// Chunks in memory.
    pub chunk_count: u64,
    /// Those of them that wait to be filled.
    pub chunks_free: AtomicU64,
    /// Those on their way to the disk.
    pub chunks_queued: AtomicU64,
    /// Chunks acknowledged: written, and indexed.
    pub chunks_written: AtomicU64,
    /// Their packets.
    pub packets_written: AtomicU64,
    /// Their bytes, with those of index and hashes.
    pub bytes_written: AtomicU64,
    /// Bytes by which files became smaller when they were compressed.
    pub bytes_saved: AtomicU64,
    /// Nanoseconds that the last chunk took from its turn to its acknowledgement.
    pub write_ns_last: AtomicU64,
    /// Nanoseconds during which at least one chunk was on its way: never more than have passed.
    pub write_ns_total: AtomicU64,
    /// Bytes that can still be written to the disk, as last asked.
    pub disk_free: AtomicU64,
    /// Bytes of the disk.
    pub disk_total: AtomicU64,
    /// Bytes of the log's files.
    pub log_bytes: AtomicU64,
    /// Files deleted to make room or for their age.
    pub files_overwritten: AtomicU64,
    /// Files that another process deleted.
    pub files_gone: AtomicU64,
    /// Files compressed in the background.
    pub files_compressed: AtomicU64,
    /// Files that the disk may not have, where the recorder has ended.
    pub files_unsynced: AtomicU64,
    /// Reasons of marked packets in the log, or that were until their file was deleted.
    pub reasons_written: AtomicU64,
    /// Those that could not be stored.
    pub reasons_lost: AtomicU64,
    /// Records of the ledger, since it was begun.
    pub ledger_records: AtomicU64,
    /// Those that could not be kept.
    pub ledger_omitted: AtomicU64,
    /// Whether files are written around the page cache: 0 or 1.
    pub is_direct: AtomicU64,
    errors: [AtomicU64; Cause::ALL.len()],
    lost: [AtomicU64; Cause::ALL.len()],
    /// Packets that the capture lost before the log saw them.
    pub ring_lost: AtomicU64,
    /// Packets that had been given to the writer and are not in the log.
    pub packets_unwritten: AtomicU64,
    /// Those of them that were in the log before: of files that others deleted, or that the disk
    /// did not keep.
    pub packets_gone: AtomicU64,
    /// Bytes of the last block that found no room.
    pub wanted_bytes: AtomicU64,
    streams: Vec<StreamState>,
    last_error: Mutex<Option<String>>,
    acknowledged: Mutex<Vec<ClassRow>>,
    overwritten: Mutex<Vec<ClassRow>>,
    unwritten: Mutex<Vec<ClassRow>>,
    stopped: Mutex<Option<Cause>>,
    is_stopped: AtomicBool,
    account_error: Mutex<Option<String>>,
}

/// What was acknowledged of one stream.
#[derive(Debug)]
pub struct StreamState {
    /// Its priority.
    pub priority: u8,
    /// Chunks acknowledged.
    pub chunks: AtomicU64,
    /// Their packets.
    pub packets: AtomicU64,
}

impl RecorderState {
    pub(super) fn new(chunk_count: usize, priorities: &[u8]) -> Self {
        let zero = || AtomicU64::new(0);
        let streams = priorities
            .iter()
            .map(|&priority| StreamState { priority, chunks: zero(), packets: zero() })
            .collect();
        Self {
            chunk_count: chunk_count as u64,
            chunks_free: AtomicU64::new(chunk_count as u64),
            chunks_queued: zero(),
            chunks_written: zero(),
            packets_written: zero(),
            bytes_written: zero(),
            bytes_saved: zero(),
            write_ns_last: zero(),
            write_ns_total: zero(),
            disk_free: zero(),
            disk_total: zero(),
            log_bytes: zero(),
            files_overwritten: zero(),
            files_gone: zero(),
            files_compressed: zero(),
            files_unsynced: zero(),
            reasons_written: zero(),
            reasons_lost: zero(),
            ledger_records: zero(),
            ledger_omitted: zero(),
            is_direct: zero(),
            errors: std::array::from_fn(|_| zero()),
            lost: std::array::from_fn(|_| zero()),
            ring_lost: zero(),
            packets_unwritten: zero(),
            packets_gone: zero(),
            wanted_bytes: zero(),
            streams,
            last_error: Mutex::new(None),
            acknowledged: Mutex::new(Vec::new()),
            overwritten: Mutex::new(Vec::new()),
            unwritten: Mutex::new(Vec::new()),
            stopped: Mutex::new(None),
            is_stopped: AtomicBool::new(false),
            account_error: Mutex::new(None),
        }
    }

    /// Writes and synchronisations that failed for `cause`, tries that were repeated included.
    #[must_use]
    pub fn errors(&self, cause: Cause) -> u64 {
        self.errors.get(cause as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Packets lost for `cause`.
    #[must_use]
    pub fn lost(&self, cause: Cause) -> u64 {
        self.lost.get(cause as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Packets lost for any cause.
    #[must_use]
    pub fn lost_total(&self) -> u64 {
        Cause::ALL.iter().fold(0, |sum, &cause| sum.saturating_add(self.lost(cause)))
    }

    /// What was acknowledged of each stream, by priority.
    #[must_use]
    pub fn streams(&self) -> &[StreamState] {
        &self.streams
    }

    /// The last thing that went wrong, in a line.
    #[must_use]
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().ok()?.clone()
    }

    /// Outcome of packets by class, as chunks that are acknowledged say it.
    #[must_use]
    pub fn acknowledged(&self) -> Vec<ClassRow> {
        self.acknowledged.lock().map(|rows| rows.clone()).unwrap_or_default()
    }

    /// What was overwritten or deleted by others, by class.
    #[must_use]
    pub fn overwritten(&self) -> Vec<ClassRow> {
        self.overwritten.lock().map(|rows| rows.clone()).unwrap_or_default()
    }

    /// Why a recorder that need not lose anything takes no more packets.
    #[must_use]
    pub fn stopped(&self) -> Option<Cause> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return None;
        }
        *self.stopped.lock().ok()?
    }

    pub(super) fn stop(&self, cause: Cause) {
        if let Ok(mut stopped) = self.stopped.lock() {
            stopped.get_or_insert(cause);
        }
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Why the account is not up to date.
    #[must_use]
    pub fn account_error(&self) -> Option<String> {
        self.account_error.lock().ok()?.clone()
    }

    pub(super) fn set_account_error(&self, text: Option<String>) {
        if let Ok(mut error) = self.account_error.lock() {
            *error = text;
        }
    }

    /// Packets that had been taken as stored, by class, and are not.
    pub(super) fn unwritten(&self) -> Vec<ClassRow> {
        self.unwritten.lock().map(|rows| rows.clone()).unwrap_or_default()
    }

    pub(super) fn count_unwritten(&self, cause: Cause, rows: &[ClassRow]) {
        let packets = ClassRow::total(rows).stored_packets;
        self.count_lost(cause, packets);
        Self::add(&self.packets_unwritten, packets);
        if let Ok(mut sums) = self.unwritten.lock() {
            add_rows(&mut sums, rows);
        }
    }

    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn set(counter: &AtomicU64, value: u64) {
        counter.store(value, Ordering::Relaxed);
    }

    pub(super) fn count_error(&self, cause: Cause, text: String) {
        if let Some(counter) = self.errors.get(cause as usize) {
            Self::add(counter, 1);
        }
        if let Ok(mut last) = self.last_error.lock() {
            *last = Some(text);
        }
    }

    /// Counts files that are compressed, and keeps a line about one that could not be.
    pub(super) fn counts_compressed(self: &Arc<Self>) -> impl Fn(Result<(), LogError>) + use<> {
        let state = Arc::clone(self);
        move |outcome| match outcome {
            Ok(()) => Self::add(&state.files_compressed, 1),
            Err(error) => state.note_error(error.to_string()),
        }
    }

    /// Keeps a line about something that failed without a packet being lost.
    pub(super) fn note_error(&self, text: String) {
        if let Ok(mut last) = self.last_error.lock() {
            *last = Some(text);
        }
    }

    pub(super) fn count_lost(&self, cause: Cause, packets: u64) {
        if let Some(counter) = self.lost.get(cause as usize) {
            Self::add(counter, packets);
        }
    }

    pub(super) fn count_acknowledged(&self, rows: &[ClassRow]) {
        if let Ok(mut sums) = self.acknowledged.lock() {
            add_rows(&mut sums, rows);
        }
    }

    pub(super) fn count_overwritten(&self, rows: &[ClassRow]) {
        if let Ok(mut sums) = self.overwritten.lock() {
            add_rows(&mut sums, rows);
        }
    }
}
