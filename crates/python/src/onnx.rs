//! `wirelens.onnx`: models in ONNX, run by `model` as the command runs them.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use model::onnx::{FILE_LEN_MAX, OnnxError, OnnxFile, Wiring};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use session::Host;

use crate::first::FeatureOptions;
use crate::refusal::{Kind, Refusal};
use crate::world::environment;

/// Rows that are copied before they are scored.
const ROWS_TOGETHER: usize = 64;

/// A model of one file.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct OnnxModel {
    model: Mutex<model::onnx::OnnxModel>,
    row_len: usize,
    number_count: usize,
    class_count: usize,
}

/// How rows are given to a model.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OnnxOptions {
    columns: Vec<String>,
    class_count: usize,
    input: String,
    output: String,
}

fn refused(text: impl std::fmt::Display) -> PyErr {
    Refusal::new(Kind::Model, text).into()
}

/// The Python that runs this; its packages are looked through first.
pub(crate) fn host(py: Python<'_>) -> PyResult<Host> {
    let module: PathBuf = py.import("wirelens")?.getattr("__file__")?.extract()?;
    Ok(Host::Python {
        interpreter: py.import("sys")?.getattr("executable")?.extract()?,
        package: module.parent().map(Path::to_path_buf).unwrap_or_default(),
    })
}

impl OnnxModel {
    fn scores(
        &self,
        records: &[u8],
        numbers: &[u8],
        together: usize,
    ) -> Result<Vec<u8>, OnnxError> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers: Vec<f64> =
            numbers.as_chunks().0.iter().map(|&bytes| f64::from_ne_bytes(bytes)).collect();
        let row_count = records.len() / self.row_len;
        let mut rows = model.rows(together);
        let mut scores = vec![0.0; together * self.class_count];
        let mut bytes = Vec::with_capacity(row_count * self.class_count * 8);
        for (index, records) in records.chunks_exact(self.row_len).enumerate() {
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
    fn load(
        py: Python<'_>,
        path: PathBuf,
        features: FeatureOptions,
        options: OnnxOptions,
    ) -> PyResult<Self> {
        let (features, host) = (features.features()?, host(py)?);
        let OnnxOptions { columns, class_count, input, output } = options;
        py.detach(|| {
            let name = path.display();
            let mut bytes = Vec::new();
            let end = FILE_LEN_MAX as u64 + 1;
            File::open(&path)
                .and_then(|file| file.take(end).read_to_end(&mut bytes))
                .map_err(|error| refused(format_args!("{name}: {error}")))?;
            let library = session::onnx::library(&host, environment).map_err(refused)?;
            let (row_len, number_count) = (features.records_len(), features.names().len());
            let wiring = Wiring { features, columns, class_count, input, output };
            let model = OnnxFile::new(library, bytes, wiring)
                .and_then(|file| file.open())
                .map_err(|error| refused(format_args!("{name}: {error}")))?;
            Ok(Self { model: Mutex::new(model), row_len, number_count, class_count })
        })
    }

    /// How many classes it tells apart.
    #[getter]
    fn class_count(&self) -> usize {
        self.class_count
    }

    /// A probability for each class of each row, as 64-bit numbers of this machine. `records` are
    /// those of all packets of each row, `numbers` what stands beside them, 64 bits each.
    #[pyo3(signature = (records, numbers, together = 64))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyBytes>,
        numbers: &Bound<'py, PyBytes>,
        together: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (records, numbers) = (records.as_bytes(), numbers.as_bytes());
        let wrong = |text: String| PyErr::from(Refusal::new(Kind::Option, text));
        if records.len() % self.row_len != 0 {
            let size = records.len();
            let wanted = format!("a multiple of {}, a row's", self.row_len);
            return Err(wrong(format!("records: {size} bytes; wanted: {wanted}")));
        }
        let wanted = records.len() / self.row_len * self.number_count * 8;
        if numbers.len() != wanted {
            let size = numbers.len();
            return Err(wrong(format!("numbers: {size} bytes; wanted: {wanted}")));
        }
        if !(1..=ROWS_TOGETHER).contains(&together) {
            let wanted = format!("from 1 to {ROWS_TOGETHER}");
            return Err(wrong(format!("together: {together}; wanted: {wanted}")));
        }
        let scores = py.detach(|| self.scores(records, numbers, together));
        Ok(PyBytes::new(py, &scores.map_err(refused)?))
    }
}
