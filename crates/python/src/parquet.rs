//! Batches written to a Parquet file, by the same writer as the command's.

use std::path::Path;

use arrow_array::RecordBatch;
use engine::columns::{Columns, Schema};
use sink::{Existing, Format, OutputFile, Writer};

use crate::refusal::Refusal;

/// A file that has its name when it is complete, and leaves nothing when it is dropped before.
pub(crate) struct ParquetFile {
    writer: Writer<OutputFile>,
    /// Memory of the rows on their way.
    rows: Columns,
}

/// Rows taken over at once, so that a large batch is not there three times.
const ROWS_PER_PIECE: usize = 8192;

impl ParquetFile {
    pub(crate) fn create(path: &Path, overwrite: bool, columns: Schema) -> Result<Self, Refusal> {
        let existing = if overwrite { Existing::Replace } else { Existing::Refuse };
        let file = OutputFile::create(path, existing)?;
        let writer = Writer::to_file(Format::Parquet, columns, file)?;
        Ok(Self { writer, rows: Columns::new(columns) })
    }

    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Refusal> {
        for start in (0..batch.num_rows()).step_by(ROWS_PER_PIECE) {
            let len = ROWS_PER_PIECE.min(batch.num_rows() - start);
            self.rows.clear();
            sink::arrow::append(&batch.slice(start, len), &mut self.rows)?;
            self.writer.write(&self.rows)?;
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), Refusal> {
        self.writer.finish()?.finish()?;
        Ok(())
    }
}
