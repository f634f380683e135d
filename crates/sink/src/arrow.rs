//! Rows as Arrow arrays, for a reader in the same process: nothing is encoded.

use std::mem;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float64Type, Int8Type, TimestampNanosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, BinaryArray, Float64Array, Int8Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, SchemaRef};
use engine::columns::{Columns, RowMismatch, Schema, Value};

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

    /// For batches of so many rows, or so many bytes of text, give or take those of 1,024 rows.
    #[must_use]
    pub fn bounded(schema: Schema, row_count_max: usize, text_bytes_max: usize) -> Self {
        let held = Rows::bounded(schema, row_count_max.max(1), text_bytes_max);
        Self { schema: Arc::new(arrow_schema(schema)), held, full: Vec::new() }
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

/// Appends the rows of a batch that [`Batches`] made to `rows`, which have the same schema.
///
/// # Errors
/// [`RowMismatch`] where they have another, or too much text for one piece of rows.
pub fn append(batch: &RecordBatch, rows: &mut Columns) -> Result<(), RowMismatch> {
    let columns: Vec<Values<'_>> =
        batch.columns().iter().map(|column| Values::of(column.as_ref())).collect();
    let mut row = Vec::with_capacity(columns.len());
    for index in 0..batch.num_rows() {
        row.clear();
        row.extend(columns.iter().map(|column| column.get(index)));
        rows.push_row(&row)?;
    }
    Ok(())
}

/// The values of one array, its type found once for all rows.
enum Values<'a> {
    U64(&'a UInt64Array),
    U32(&'a UInt32Array),
    U16(&'a UInt16Array),
    I8(&'a Int8Array),
    TimestampNs(&'a TimestampNanosecondArray),
    F64(&'a Float64Array),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    /// Of a type that no column has; no row takes it.
    Other,
}

impl<'a> Values<'a> {
    fn of(array: &'a dyn Array) -> Self {
        match array.data_type() {
            DataType::UInt64 => Self::U64(array.as_primitive::<UInt64Type>()),
            DataType::UInt32 => Self::U32(array.as_primitive::<UInt32Type>()),
            DataType::UInt16 => Self::U16(array.as_primitive::<UInt16Type>()),
            DataType::Int8 => Self::I8(array.as_primitive::<Int8Type>()),
            DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, _) => {
                Self::TimestampNs(array.as_primitive::<TimestampNanosecondType>())
            }
            DataType::Float64 => Self::F64(array.as_primitive::<Float64Type>()),
            DataType::Utf8 => Self::Text(array.as_string::<i32>()),
            DataType::Binary => Self::Bytes(array.as_binary::<i32>()),
            _ => Self::Other,
        }
    }

    fn get(&self, row: usize) -> Value<'a> {
        match *self {
            Self::U64(values) => of(values, row, |row| Value::U64(values.value(row))),
            Self::U32(values) => of(values, row, |row| Value::U32(values.value(row))),
            Self::U16(values) => of(values, row, |row| Value::U16(values.value(row))),
            Self::I8(values) => of(values, row, |row| Value::I8(values.value(row))),
            Self::TimestampNs(values) => {
                of(values, row, |row| Value::TimestampNs(values.value(row)))
            }
            Self::F64(values) => of(values, row, |row| Value::F64(values.value(row))),
            Self::Text(values) => of(values, row, |row| Value::Str(values.value(row))),
            Self::Bytes(values) => of(values, row, |row| Value::Bytes(values.value(row))),
            Self::Other => Value::Null,
        }
    }
}

fn of<'a>(array: &dyn Array, row: usize, get: impl Fn(usize) -> Value<'a>) -> Value<'a> {
    if array.is_null(row) { Value::Null } else { get(row) }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind};

    use super::*;

    const SCHEMA: Schema =
        &[Field::new("source", Kind::Text, ""), Field::new("packets", Kind::U64, "").nullable()];

    #[test]
    fn batches_become_columns_again() {
        const ALL: Schema = &[
            Field::new("stamp_ns", Kind::TimestampNs, "").nullable(),
            Field::new("bytes", Kind::U64, "").nullable(),
            Field::new("len", Kind::U32, "").nullable(),
            Field::new("port", Kind::U16, "").nullable(),
            Field::new("share", Kind::F64, "").nullable(),
            Field::new("bit", Kind::I8, "").nullable(),
            Field::new("source", Kind::Text, "").nullable(),
            Field::new("frame", Kind::Bytes, "").nullable(),
        ];
        let mut rows = Columns::new(ALL);
        for row in 0..10_u16 {
            let mut values = [
                Value::TimestampNs(row.into()),
                Value::U64(row.into()),
                Value::U32(row.into()),
                Value::U16(row),
                Value::F64(row.into()),
                Value::I8(-1),
                Value::Text(&row),
                Value::Bytes(&[7; 9][..usize::from(row)]),
            ];
            if let Some(value) = values.get_mut(usize::from(row)) {
                *value = Value::Null;
            }
            rows.push_row(&values).unwrap();
        }
        let mut batches = Batches::bounded(ALL, 3, 1 << 20);
        batches.push(&rows).unwrap();
        let batches = batches.finish().unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [3, 3, 3, 1]);
        let mut again = Columns::new(ALL);
        batches.iter().for_each(|batch| append(batch, &mut again).unwrap());
        assert_eq!(again, rows);
        assert!(append(&batches[0], &mut Columns::new(SCHEMA)).is_err());
    }

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
