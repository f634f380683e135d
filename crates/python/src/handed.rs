//! Rows on their way from whoever finds them to Python.

use std::mem;

use engine::columns::{Columns, Schema};
use sink::arrow::Batches;

use crate::reader::Outlet;
use crate::refusal::Refusal;

/// Rows in a batch at most.
pub(crate) const BATCH_ROWS_MAX: usize = 1 << 20;

/// Bytes of text, frames and payloads after which a batch ends before its rows are full.
const BATCH_BYTES_MAX: usize = 16 << 20;

/// Gathers rows into batches and hands these over, waiting for room.
pub(crate) struct Handed<'a> {
    outlet: &'a Outlet,
    columns: Schema,
    batch_rows: usize,
    batches: Batches,
}

impl<'a> Handed<'a> {
    pub(crate) fn new(outlet: &'a Outlet, columns: Schema, batch_rows: usize) -> Self {
        let batches = Batches::bounded(columns, batch_rows, BATCH_BYTES_MAX);
        Self { outlet, columns, batch_rows, batches }
    }

    /// Takes rows in; refused where nobody wants them any more.
    pub(crate) fn push(&mut self, rows: &Columns) -> Result<(), Refusal> {
        self.batches.push(rows)?;
        self.batches.take_full().into_iter().try_for_each(|batch| self.outlet.batch(batch))?;
        // Of an interface rows may come rarely, and are wanted when they do.
        if self.outlet.is_live { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        let empty = Batches::bounded(self.columns, self.batch_rows, BATCH_BYTES_MAX);
        let held = mem::replace(&mut self.batches, empty);
        held.finish()?.into_iter().try_for_each(|batch| self.outlet.batch(batch))
    }

    /// Hands over what is left.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        let Self { outlet, batches, .. } = self;
        batches.finish()?.into_iter().try_for_each(|batch| outlet.batch(batch))
    }
}
