//! Rows that an application in Python returns, as a table: Arrow of whatever package, or Python's
//! own values.

use std::sync::Arc;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchReader,
    StringArray,
};
use arrow_schema::{Field, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyCapsule, PyFloat, PyInt, PyList, PyString};

use crate::batch::{Batch, RowBatches};
use crate::refusal::{Kind, Refusal};

/// Rows of something that speaks Arrow: a stream of batches, or one of our own batches.
#[pyfunction]
pub(crate) fn made_of_arrow(rows: &Bound<'_, PyAny>) -> PyResult<RowBatches> {
    if let Ok(batch) = rows.cast::<Batch>() {
        let batch = batch.get().record_batch().clone();
        return Ok(RowBatches::made(batch.schema(), vec![batch]));
    }
    let capsule = rows.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream =
        capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: by Arrow's PyCapsule protocol a capsule of this name, which was checked, points to a
    // stream that is valid while the capsule is, and it is, to the end of this function. What is
    // read from is moved out, and a stream that is released already is left in its place.
    #[allow(unsafe_code)]
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    let reader = reader.map_err(refused)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    Ok(RowBatches::made(schema, batches))
}

fn refused(error: arrow_schema::ArrowError) -> Refusal {
    Refusal::new(Kind::Option, format_args!("rows in Arrow: {error}"))
}

/// Rows in columns of Python's own values, `None` where there is none.
#[pyfunction]
pub(crate) fn made_of_columns(
    names: Vec<String>,
    columns: Vec<Bound<'_, PyList>>,
) -> PyResult<RowBatches> {
    let mut fields = Vec::with_capacity(names.len());
    let mut arrays = Vec::with_capacity(names.len());
    for (name, values) in names.into_iter().zip(&columns) {
        let array = array(&name, values)?;
        fields.push(Field::new(name, array.data_type().clone(), array.is_nullable()));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(refused)?;
    Ok(RowBatches::made(schema, vec![batch]))
}

/// What the values of a column are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Truth,
    Whole,
    Number,
    Text,
    Bytes,
}

fn kind_of(name: &str, value: &Bound<'_, PyAny>) -> Result<Option<Values>, Refusal> {
    // Truths are whole numbers to Python, so they are asked about first.
    Ok(Some(if value.is_none() {
        return Ok(None);
    } else if value.is_instance_of::<PyBool>() {
        Values::Truth
    } else if value.is_instance_of::<PyInt>() {
        Values::Whole
    } else if value.is_instance_of::<PyFloat>() {
        Values::Number
    } else if value.is_instance_of::<PyString>() {
        Values::Text
    } else if value.is_instance_of::<PyBytes>() {
        Values::Bytes
    } else {
        let seen = value.get_type();
        let wanted = "wanted bool, int, float, str, bytes or None";
        return Err(Refusal::new(Kind::Option, format_args!("column {name}: {seen}; {wanted}")));
    }))
}

fn array(name: &str, values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    let mut kind = None;
    for value in values {
        kind = match (kind, kind_of(name, &value)?) {
            (None, seen) | (seen, None) => seen,
            (Some(one), Some(other)) if one == other => Some(one),
            (Some(Values::Whole | Values::Number), Some(Values::Whole | Values::Number)) => {
                Some(Values::Number)
            }
            _ => {
                let text = format!("column {name}: values of several types; wanted one");
                return Err(Refusal::new(Kind::Option, text).into());
            }
        };
    }
    made_of(kind, values).map_err(|error| {
        let wanted = "wanted: numbers of at most 64 bits, and text that is Unicode";
        Refusal::new(Kind::Option, format_args!("column {name}: {error}; {wanted}")).into()
    })
}

fn made_of(kind: Option<Values>, values: &Bound<'_, PyList>) -> PyResult<ArrayRef> {
    Ok(match kind {
        Some(Values::Truth) => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        Some(Values::Whole) => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        Some(Values::Number) => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        // Of a column without any value nothing is known.
        None | Some(Values::Text) => {
            Arc::new(StringArray::from(values.extract::<Vec<Option<String>>>()?))
        }
        Some(Values::Bytes) => {
            let bytes = values.extract::<Vec<Option<Vec<u8>>>>()?;
            Arc::new(BinaryArray::from_iter(bytes))
        }
    })
}
