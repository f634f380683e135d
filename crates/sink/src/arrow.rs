//! Rows as Arrow arrays, for a reader in the same process: nothing is encoded.

use std::mem;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use engine::columns::{Columns, Schema};

use crate::WriteError;
use crate::ipc::{array, arrow_schema, refused};
use crate::rows::Rows;

/// Gathers rows into record batches of the size that the Arrow format is written with. What is
/// held is bounded by rows and by bytes of text.
pub struct Batches {
    schema: SchemaRef,
    held: Rows,
    full: Vec<RecordBatch>,
}

impl Batches {
    /// For rows with these columns.
    #[must_use]
    pub fn new(schema: Schema) -> Self {
        Self { schema: Arc::new(arrow_schema(schema)), held: Rows::new(schema), full: Vec::new() }
    }

    /// The columns as Arrow describes them.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Takes rows in.
    ///
    /// # Errors
    /// [`WriteError::TextTooLong`] where a batch cannot hold the text.
    pub fn push(&mut self, rows: &Columns) -> Result<(), WriteError> {
        let mut next = 0;
        while next < rows.row_count() {
            next = self.held.fill(rows, next)?;
            if self.held.is_full() {
                self.end_batch()?;
            }
        }
        Ok(())
    }

    /// The batches that are full.
    #[must_use]
    pub fn take_full(&mut self) -> Vec<RecordBatch> {
        mem::take(&mut self.full)
    }

    /// All that is left.
    ///
    /// # Errors
    /// [`WriteError::Encoding`] where Arrow refuses the arrays.
    pub fn finish(mut self) -> Result<Vec<RecordBatch>, WriteError> {
        if !self.held.is_empty() {
            self.end_batch()?;
        }
        Ok(self.full)
    }

    fn end_batch(&mut self) -> Result<(), WriteError> {
        let arrays = self.held.take().into_iter().map(array).collect::<Result<_, _>>();
        let batch = arrays.and_then(|arrays| RecordBatch::try_new(self.schema(), arrays));
        self.full.push(batch.map_err(refused)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind, Value};

    use super::*;

    const SCHEMA: Schema =
        &[Field::new("source", Kind::Text, ""), Field::new("packets", Kind::U64, "")];

    #[test]
    fn windows_share_a_batch() {
        let mut batches = Batches::new(SCHEMA);
        for window in 0..1000_u64 {
            let mut rows = Columns::new(SCHEMA);
            rows.push_row(&[Value::Text(&"192.0.2.1"), Value::U64(window)]).unwrap();
            batches.push(&rows).unwrap();
        }
        assert!(batches.take_full().is_empty());
        let batches = batches.finish().unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [1000]);
        assert!(Batches::new(SCHEMA).finish().unwrap().is_empty());
    }
}
