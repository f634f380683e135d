//! Where rows of a run go that no file is named for: they are kept in memory, or handed to an
//! application in Python.
//!
//! **Bounds.** All rows that are kept share a [`Budget`] of bytes: what comes once it is spent is
//! dropped and counted. Rows for Python wait in a channel of the run; while that is full their
//! outlet is, which on an interface drops rows and counts them, and on captures waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, mem};

use arrow_array::RecordBatch;
use engine::columns::{Columns, Schema};
use session::outlet::{RowsError, TakeRows};
use sink::WriteError;
use sink::arrow::Batches;

use super::Message;

/// Rows of a batch that is kept, and bytes of text after which one ends before its rows are full.
const KEPT_ROWS: usize = 1 << 16;
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Bytes for all rows that a run keeps.
pub(super) struct Budget {
    left: AtomicU64,
}

impl Budget {
    pub(super) fn new(bytes: u64) -> Self {
        Self { left: AtomicU64::new(bytes) }
    }

    /// Whether there was room for so many bytes; then they are taken.
    pub(super) fn take(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let taken = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }
}

/// A table in memory.
pub(super) struct MemoryTable {
    rows: Mutex<Table>,
}

#[derive(Default)]
pub(super) struct Table {
    pub(super) columns: Schema,
    pub(super) batches: Vec<RecordBatch>,
    /// Rows for which there was no room.
    pub(super) dropped: u64,
}

impl MemoryTable {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { rows: Mutex::default() })
    }

    /// What is there, which is there no more afterwards.
    pub(super) fn take(&self) -> Table {
        mem::take(&mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Keeps rows.
pub(super) struct Keeping {
    kept: Arc<MemoryTable>,
    budget: Arc<Budget>,
    batches: Option<Batches>,
    is_full: bool,
}

impl Keeping {
    pub(super) fn new(kept: Arc<MemoryTable>, budget: Arc<Budget>) -> Self {
        Self { kept, budget, batches: None, is_full: false }
    }

    fn keep(&mut self, batches: Vec<RecordBatch>) {
        let mut table = self.kept.rows.lock().unwrap_or_else(PoisonError::into_inner);
        for batch in batches {
            self.is_full |= !self.budget.take(batch.get_array_memory_size());
            if self.is_full {
                table.dropped += batch.num_rows() as u64;
            } else {
                table.batches.push(batch);
            }
        }
    }
}

impl TakeRows for Keeping {
    fn begin(&mut self, schema: Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
        self.batches = Some(Batches::bounded(schema, KEPT_ROWS, BATCH_BYTES_MAX));
        self.kept.rows.lock().unwrap_or_else(PoisonError::into_inner).columns = schema;
        Ok(())
    }

    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        if self.is_full {
            let mut table = self.kept.rows.lock().unwrap_or_else(PoisonError::into_inner);
            table.dropped += rows.row_count() as u64;
            return Ok(());
        }
        let Some(batches) = &mut self.batches else { return Ok(()) };
        batches.push(rows)?;
        let full = batches.take_full();
        self.keep(full);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), RowsError> {
        if let Some(batches) = self.batches.take() {
            let rest = batches.finish()?;
            self.keep(rest);
        }
        Ok(())
    }
}

/// Hands rows to an application in Python.
pub(super) struct Handing {
    /// Which of them.
    at: usize,
    to: SyncSender<Message>,
    batch_rows: usize,
    /// Whether rows are handed over as they come, which may be rarely.
    is_live: bool,
    schema: Schema,
    batches: Option<Batches>,
}

impl Handing {
    pub(super) fn new(
        at: usize,
        to: SyncSender<Message>,
        batch_rows: usize,
        is_live: bool,
    ) -> Self {
        Self { at, to, batch_rows, is_live, schema: &[], batches: None }
    }

    fn hand(&self, batches: Vec<RecordBatch>) -> Result<(), RowsError> {
        // Whoever does not listen any more has ended the run.
        let unheard = |_| RowsError::from(WriteError::Io(io::ErrorKind::BrokenPipe.into()));
        let mut batches = batches.into_iter();
        batches.try_for_each(|batch| self.to.send(Message::Rows(self.at, batch)).map_err(unheard))
    }
}

impl TakeRows for Handing {
    fn begin(&mut self, schema: Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
        self.schema = schema;
        self.batches = Some(Batches::bounded(schema, self.batch_rows, BATCH_BYTES_MAX));
        Ok(())
    }

    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        let Some(batches) = &mut self.batches else { return Ok(()) };
        batches.push(rows)?;
        let full = batches.take_full();
        self.hand(full)?;
        if self.is_live
            && let Some(rest) = self.batches.take()
        {
            self.begin(self.schema, None)?;
            self.hand(rest.finish()?)?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), RowsError> {
        match self.batches.take() {
            Some(batches) => self.hand(batches.finish()?),
            None => Ok(()),
        }
    }
}
