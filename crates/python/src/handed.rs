//! Rows on their way from whoever finds them to Python.

use std::mem;

use engine::columns::{Columns, Schema};
use session::outlet::{RowsError, TakeRows};
use sink::WriteError;
use sink::arrow::Batches;

use crate::reader::Outlet;
use crate::refusal::Refusal;

/// Rows in a batch at most.
pub(crate) const BATCH_ROWS_MAX: usize = 1 << 20;

/// Bytes of text, frames and payloads after which a batch ends before its rows are full.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Gathers rows into batches and hands these over, waiting for room; for a finder of its own, and
/// for a session, whose rows it takes on a thread of theirs.
pub(crate) struct BatchSender {
    outlet: Outlet,
    columns: Schema,
    batch_rows: usize,
    batches: Batches,
}

impl BatchSender {
    pub(crate) fn new(outlet: &Outlet, columns: Schema, batch_rows: usize) -> Self {
        let batches = Batches::bounded(columns, batch_rows, BATCH_BYTES_MAX);
        Self { outlet: outlet.clone(), columns, batch_rows, batches }
    }

    /// Takes rows in; refused where nobody wants them any more.
    pub(crate) fn push(&mut self, rows: &Columns) -> Result<(), Refusal> {
        self.put(rows).map_err(refused)
    }

    /// Hands over what is left.
    pub(crate) fn finish(mut self) -> Result<(), Refusal> {
        self.flush().map_err(refused)
    }

    fn put(&mut self, rows: &Columns) -> Result<(), WriteError> {
        self.batches.push(rows)?;
        self.batches.take_full().into_iter().try_for_each(|batch| self.outlet.batch(batch))?;
        // Of an interface rows may come rarely, and are wanted when they do.
        if self.outlet.is_live { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), WriteError> {
        let empty = Batches::bounded(self.columns, self.batch_rows, BATCH_BYTES_MAX);
        let held = mem::replace(&mut self.batches, empty);
        held.finish()?.into_iter().try_for_each(|batch| self.outlet.batch(batch))
    }
}

impl TakeRows for BatchSender {
    fn begin(&mut self, schema: Schema, _: Option<fn(&str)>) -> Result<(), RowsError> {
        debug_assert_eq!(schema, self.columns, "the reader announced other columns");
        Ok(())
    }

    fn take(&mut self, rows: &Columns) -> Result<(), RowsError> {
        Ok(self.put(rows)?)
    }

    fn finish(mut self: Box<Self>) -> Result<(), RowsError> {
        Ok(self.flush()?)
    }
}

/// Why rows did not arrive.
pub(crate) fn refused(error: WriteError) -> Refusal {
    if error.is_broken_pipe() { Refusal::unheard() } else { error.into() }
}
