//! `wirelens.onnx`: models in ONNX, run by `model` as the command runs them.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cli::Host;
use model::Layout;
use model::onnx::{FILE_LEN_MAX, OnnxError, Wiring};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::refusal::{Kind, Refusal};
use crate::trees::blocks_named;

/// Rows that are copied before they are scored.
const ROWS_TOGETHER: usize = 64;

/// A model of one file.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct OnnxModel {
    model: Mutex<model::onnx::OnnxModel>,
    record_len: usize,
    packet_count: usize,
    number_count: usize,
    class_count: usize,
}

/// What rows are, and how they are given to the model.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OnnxOptions {
    blocks: Vec<String>,
    payload_bytes: u16,
    packets: usize,
    numbers: Vec<String>,
    columns: Vec<String>,
    class_count: usize,
    input: String,
    output: String,
}

fn refused(text: impl std::fmt::Display) -> PyErr {
    Refusal::new(Kind::Model, text).into()
}

/// The Python that runs this; its packages are looked through first.
fn host(py: Python<'_>) -> PyResult<Host> {
    Ok(Host::Python(py.import("sys")?.getattr("executable")?.extract()?))
}

impl OnnxModel {
    fn scores(
        &self,
        records: &[u8],
        numbers: &[u8],
        row_len: usize,
        together: usize,
    ) -> Result<Vec<u8>, OnnxError> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers: Vec<f64> =
            numbers.as_chunks().0.iter().map(|&bytes| f64::from_ne_bytes(bytes)).collect();
        let row_count = records.len() / row_len;
        let mut rows = model.rows(together);
        let mut scores = vec![0.0; together * self.class_count];
        let mut bytes = Vec::with_capacity(row_count * self.class_count * 8);
        for (index, records) in records.chunks_exact(row_len).enumerate() {
            let first = index * self.number_count;
            let numbers = numbers.get(first..first + self.number_count).unwrap_or_default();
            model.push(&mut rows, records, numbers)?;
            if rows.len() == together || index + 1 == row_count {
                scores.truncate(rows.len() * self.class_count);
                model.score(&rows, &mut scores)?;
                bytes.extend(scores.iter().flat_map(|score| score.to_ne_bytes()));
                rows.clear();
            }
        }
        Ok(bytes)
    }
}

#[pymethods]
impl OnnxModel {
    /// Reads a model, and checks that it fits what is said of it.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, options: OnnxOptions) -> PyResult<Self> {
        let (blocks, host) = (blocks_named(&options.blocks)?, host(py)?);
        py.detach(|| {
            let name = path.display();
            let mut bytes = Vec::new();
            let end = FILE_LEN_MAX as u64 + 1;
            File::open(&path)
                .and_then(|file| file.take(end).read_to_end(&mut bytes))
                .map_err(|error| refused(format_args!("{name}: {error}")))?;
            let library = cli::onnx::library(&host).map_err(refused)?;
            let layout = Layout::new(&blocks, options.payload_bytes);
            let wiring = Wiring {
                layout,
                packet_count: options.packets,
                numbers: &options.numbers,
                columns: &options.columns,
                class_count: options.class_count,
                input: &options.input,
                output: &options.output,
            };
            let model = model::onnx::OnnxModel::new(library, &bytes, &wiring)
                .map_err(|error| refused(format_args!("{name}: {error}")))?;
            Ok(Self {
                record_len: layout.record_len(),
                packet_count: options.packets,
                number_count: options.numbers.len(),
                class_count: options.class_count,
                model: Mutex::new(model),
            })
        })
    }

    /// Bytes of a packet's record.
    #[getter]
    fn record_len(&self) -> usize {
        self.record_len
    }

    /// Packets of a row.
    #[getter]
    fn packet_count(&self) -> usize {
        self.packet_count
    }

    /// A probability for each class of each row, as 64-bit numbers of this machine. `records` are
    /// those of all packets of each row, `numbers` what stands beside them, 64 bits each.
    #[pyo3(signature = (records, numbers, together = ROWS_TOGETHER))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyBytes>,
        numbers: &Bound<'py, PyBytes>,
        together: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (records, numbers) = (records.as_bytes(), numbers.as_bytes());
        let row_len = self.record_len * self.packet_count;
        let wrong = |text: String| PyErr::from(Refusal::new(Kind::Option, text));
        if row_len == 0 || records.len() % row_len != 0 {
            let size = records.len();
            let wanted = format!("a multiple of {row_len}, a row's");
            return Err(wrong(format!("records: {size} bytes; wanted: {wanted}")));
        }
        let wanted = records.len() / row_len * self.number_count * 8;
        if numbers.len() != wanted {
            let size = numbers.len();
            return Err(wrong(format!("numbers: {size} bytes; wanted: {wanted}")));
        }
        if !(1..=ROWS_TOGETHER).contains(&together) {
            let wanted = format!("from 1 to {ROWS_TOGETHER}");
            return Err(wrong(format!("together: {together}; wanted: {wanted}")));
        }
        let scores = py.detach(|| self.scores(records, numbers, row_len, together));
        Ok(PyBytes::new(py, &scores.map_err(refused)?))
    }
}
