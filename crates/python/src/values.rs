//! Arrow's values as Python's own.

use std::collections::HashMap;

use arrow_array::Array;
use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampNanosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, TimeUnit};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::refusal::{Kind, Refusal};

/// Texts of a batch that are made once: addresses repeat, and so do protocols. A batch of
/// which every text is another does not profit, and holds no more than this.
const KNOWN_TEXTS_MAX: usize = 4096;

/// Lists of numbers by type, and what is left.
macro_rules! numbers {
    ($py:expr, $array:expr, $($kind:pat => $type:ty),+ $(,)?) => {
        match $array.data_type() {
            $($kind => PyList::new($py, $array.as_primitive::<$type>().iter()),)+
            DataType::Utf8 => texts($py, $array),
            // Of tables that others made.
            DataType::LargeUtf8 => PyList::new($py, $array.as_string::<i64>().iter()),
            DataType::Utf8View => PyList::new($py, $array.as_string_view().iter()),
            DataType::Boolean => PyList::new($py, $array.as_boolean().iter()),
            DataType::Binary => {
                let bytes = $array.as_binary::<i32>().iter();
                PyList::new($py, bytes.map(|bytes| bytes.map(|bytes| PyBytes::new($py, bytes))))
            }
            other => Err(unknown(other).into()),
        }
    };
}

/// A column as a list, `None` where there is no value. A stamp is a count of nanoseconds.
pub(crate) fn list<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyList>> {
    numbers!(py, array,
        DataType::UInt64 => UInt64Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt8 => UInt8Type,
        DataType::Int8 => Int8Type,
        DataType::Int64 => Int64Type,
        DataType::Int32 => Int32Type,
        DataType::Int16 => Int16Type,
        DataType::Float64 => Float64Type,
        DataType::Float32 => Float32Type,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
    )
}

fn texts<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyList>> {
    let mut known: HashMap<&str, Bound<'py, PyString>> = HashMap::new();
    let texts = array.as_string::<i32>();
    let values: Vec<Option<Bound<'py, PyString>>> = (0..texts.len())
        .map(|row| {
            let text = texts.is_valid(row).then(|| texts.value(row))?;
            if let Some(text) = known.get(text) {
                return Some(text.clone());
            }
            let made = PyString::new(py, text);
            if known.len() < KNOWN_TEXTS_MAX {
                known.insert(text, made.clone());
            }
            Some(made)
        })
        .collect();
    PyList::new(py, values)
}

/// The numbers of a column as they lie in memory.
pub(crate) fn memory(array: &dyn Array) -> Result<&[u8], Refusal> {
    let bytes = match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().values().inner().as_slice(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().values().inner().as_slice(),
        DataType::UInt16 => array.as_primitive::<UInt16Type>().values().inner().as_slice(),
        DataType::UInt8 => array.as_primitive::<UInt8Type>().values().inner().as_slice(),
        DataType::Int8 => array.as_primitive::<Int8Type>().values().inner().as_slice(),
        DataType::Int64 => array.as_primitive::<Int64Type>().values().inner().as_slice(),
        DataType::Int32 => array.as_primitive::<Int32Type>().values().inner().as_slice(),
        DataType::Int16 => array.as_primitive::<Int16Type>().values().inner().as_slice(),
        DataType::Float64 => array.as_primitive::<Float64Type>().values().inner().as_slice(),
        DataType::Float32 => array.as_primitive::<Float32Type>().values().inner().as_slice(),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            array.as_primitive::<TimestampNanosecondType>().values().inner().as_slice()
        }
        other => return Err(unknown(other)),
    };
    Ok(bytes)
}

/// The bytes of a column of bytes, row after row.
pub(crate) fn joined(array: &dyn Array) -> Result<&[u8], Refusal> {
    let bytes = array.as_binary_opt::<i32>().ok_or_else(|| unknown(array.data_type()))?;
    let ends = bytes.value_offsets();
    let offset = |end: Option<&i32>| end.and_then(|&end| usize::try_from(end).ok()).unwrap_or(0);
    Ok(bytes.value_data().get(offset(ends.first())..offset(ends.last())).unwrap_or_default())
}

fn unknown(data_type: &DataType) -> Refusal {
    let text = format_args!("a column of {data_type} has no values in Python; take it as Arrow");
    Refusal::new(Kind::Option, text)
}
