//! Some rows, for Python and for whoever speaks Arrow.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array as _, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::{ArrowError, SchemaRef};
use engine::columns::Schema;
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyList};
use sink::arrow::Batches;

use crate::parquet::ParquetFile;
use crate::refusal::{Kind, Refusal};
use crate::values;

/// Some rows, column by column.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct Batch(RecordBatch);

/// Rows that were found, all of them.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct RowBatches {
    /// As they are declared; none of a table that was made in Python.
    columns: Option<Schema>,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

/// How Python names a column.
#[derive(FromPyObject)]
pub(crate) enum Which {
    Index(usize),
    Name(String),
}

type ArrayCapsules<'py> = (Bound<'py, PyCapsule>, Bound<'py, PyCapsule>);

/// A schema on its way out.
pub(crate) fn schema_capsule(
    py: Python<'_>,
    schema: Result<FFI_ArrowSchema, ArrowError>,
) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, schema.map_err(Refusal::from)?, c"arrow_schema")
}

impl Batch {
    pub(crate) fn new(batch: RecordBatch) -> Self {
        Self(batch)
    }

    pub(crate) fn record_batch(&self) -> &RecordBatch {
        &self.0
    }

    fn column_at(&self, which: &Which) -> PyResult<&dyn arrow_array::Array> {
        let column = match which {
            Which::Index(index) => self.0.columns().get(*index),
            Which::Name(name) => self.0.column_by_name(name),
        };
        column.map(AsRef::as_ref).ok_or_else(|| {
            let names = self.names().join(", ");
            match which {
                Which::Index(index) => {
                    PyIndexError::new_err(format!("no column has the index {index}: {names}"))
                }
                Which::Name(name) => PyKeyError::new_err(format!(
                    "`{name}` is not a column; the columns are {names}"
                )),
            }
        })
    }
}

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<wirelens.Batch: {} rows of {}>", self.0.num_rows(), self.names().join(", "))
    }

    /// The names of the columns, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The values of each column as Python's own, `None` where there is none; of the first rows
    /// alone where these are counted.
    #[pyo3(signature = (rows = None))]
    fn columns<'py>(
        &self,
        py: Python<'py>,
        rows: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyList>>> {
        let len = rows.unwrap_or(usize::MAX).min(self.0.num_rows());
        let columns = self.0.columns().iter();
        columns.map(|column| values::list(py, column.slice(0, len).as_ref())).collect()
    }

    /// The values of one column, by name or index, as Python's own.
    fn column<'py>(&self, py: Python<'py>, which: Which) -> PyResult<Bound<'py, PyList>> {
        values::list(py, self.column_at(&which)?)
    }

    /// The values of one column of numbers as they lie in memory, and a byte for each row that
    /// says whether there is none, where that can be.
    fn memory<'py>(
        &self,
        py: Python<'py>,
        which: Which,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<Bound<'py, PyBytes>>)> {
        let column = self.column_at(&which)?;
        let missing = column.is_nullable().then(|| {
            let missing: Vec<u8> =
                (0..column.len()).map(|row| u8::from(column.is_null(row))).collect();
            PyBytes::new(py, &missing)
        });
        Ok((PyBytes::new(py, values::memory(column)?), missing))
    }

    /// The bytes of one column of bytes, row after row.
    fn joined<'py>(&self, py: Python<'py>, which: Which) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, values::joined(self.column_at(&which)?)?))
    }

    /// These rows as one Arrow array: schema and array.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<ArrayCapsules<'py>> {
        // As the protocol allows, another schema is not promised.
        let _ = requested_schema;
        let array = FFI_ArrowArray::new(&StructArray::from(self.0.clone()).into_data());
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        Ok((self.__arrow_c_schema__(py)?, array))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref()))
    }
}

impl RowBatches {
    pub(crate) fn new(columns: Schema, schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { columns: Some(columns), schema, batches }
    }

    /// Rows with declared columns.
    pub(crate) fn declared(columns: Schema, batches: Vec<RecordBatch>) -> Self {
        Self::new(columns, Batches::new(columns).schema(), batches)
    }

    /// Rows whose columns nobody declared.
    pub(crate) fn made(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { columns: None, schema, batches }
    }

    /// Whether its rows have these columns.
    pub(crate) fn is_of(&self, columns: Schema) -> bool {
        self.columns == Some(columns)
    }

    pub(crate) fn record_batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

#[pymethods]
impl RowBatches {
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// The batches; they share their memory with this.
    fn batches(&self) -> Vec<Batch> {
        self.batches.iter().cloned().map(Batch::new).collect()
    }

    /// The same rows and those of others behind them, which have the same columns.
    fn joined(&self, others: Vec<PyRef<'_, Self>>) -> PyResult<Self> {
        let mut batches = self.batches.clone();
        for other in others {
            if other.schema.fields() != self.schema.fields() {
                let names = |schema: &SchemaRef| {
                    let fields = schema.fields().iter();
                    let fields =
                        fields.map(|field| format!("{}: {}", field.name(), field.data_type()));
                    fields.collect::<Vec<_>>().join(", ")
                };
                let (first, later) = (names(&self.schema), names(&other.schema));
                let text = format!("rows with other columns than before: {first}; then {later}");
                return Err(Refusal::new(Kind::Option, text).into());
            }
            batches.extend(other.batches.iter().cloned());
        }
        Ok(Self { columns: self.columns, schema: Arc::clone(&self.schema), batches })
    }

    /// Bytes of memory.
    #[getter]
    fn byte_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// Whether its columns are declared, which is what our own writer of Parquet needs.
    #[getter]
    fn is_declared(&self) -> bool {
        self.columns.is_some()
    }

    /// Name, Arrow type, whether it may be missing, and meaning of each column.
    #[getter]
    fn fields(&self) -> Vec<(String, String, bool, &'static str)> {
        let about = |at: usize| self.columns.and_then(|columns| columns.get(at)?.about.into());
        let fields = self.schema.fields().iter().enumerate();
        let field = |(at, field): (usize, &Arc<arrow_schema::Field>)| {
            let about: Option<&str> = about(at);
            let kind = field.data_type().to_string();
            (field.name().clone(), kind, field.is_nullable(), about.unwrap_or_default())
        };
        fields.map(field).collect()
    }

    /// Writes all rows to a Parquet file.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let written = py.detach(|| {
            let Some(columns) = self.columns else {
                let text = "columns of a table created in Python cannot be written";
                return Err(Refusal::new(Kind::Internal, text));
            };
            let mut file = ParquetFile::create(&path, overwrite, columns)?;
            self.batches.iter().try_for_each(|batch| file.write(batch))?;
            file.finish()
        });
        Ok(written?)
    }

    /// All rows as an Arrow stream; may be asked for again.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let batches = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, FFI_ArrowSchema::try_from(self.schema.as_ref()))
    }
}
