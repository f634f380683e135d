//! What the packet log's classifier finds of packets, and what its forests find of snapshots.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::columns::{Field, Kind as Holds, Value};
use engine::run::Control;
use model::numeric::BLOCK_ROWS;
use model::sums::{SUMS_FILE, SUMS_LEN_MAX, Sums, sha256};
use packet::Source as _;
use packetlog::calibration::CalibrationJudge;
use packetlog::model::FILE_LEN_MAX;
use packetlog::pipeline::Judge as _;
use packetlog::{Basis, Model, PacketVerdict};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use session::flows::RunTotals;
use session::packetlog::{PacketModel, read_calibration};
use session::reading::{InputRequest, Inputs, OpenSources, hash_seed};

use crate::options::{InputOptions, seed};
use crate::reader::{Ending, Outlet, Reader};
use crate::refusal::{Kind, Refusal};
use crate::rows::{RowsOut, known, read_each};

pub(crate) const ROWS: [Field; 6] = [
    Field::new("file", Holds::U32, "The capture, counted from 0."),
    Field::new("packet", Holds::U64, "The packet in its capture, counted from 0."),
    Field::new("time_ns", Holds::TimestampNs, "Its timestamp; missing if there is none.")
        .nullable(),
    Field::new("class_index", Holds::U16, "Its class, counted from 0 as the model has them."),
    Field::new("confidence", Holds::F64, "The probability of that class."),
    Field::new("by_flow", Holds::I8, "Whether the flow forest classified it, 0 or 1."),
];

/// A model that was read.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct PacketForests {
    model: Arc<Model>,
}

#[pymethods]
impl PacketForests {
    /// Reads a model's file and checks all of it.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Self { model: py.detach(|| load(&path))?.model })
    }

    /// Names of the classes.
    #[getter]
    fn classes(&self) -> Vec<String> {
        self.model.classes().to_vec()
    }

    /// Names of the columns, in the order of a row.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.model.columns().iter().map(ToString::to_string).collect()
    }

    /// Hash of what these mean.
    #[getter]
    fn schema(&self) -> &str {
        self.model.schema()
    }

    /// How snapshots for it are made, as its file has it.
    #[getter]
    fn features<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        super::json_of(py, self.model.options())
    }

    /// A probability for each class of each row, as 64-bit numbers of this machine; rows are
    /// values of all columns, 32 bits each.
    fn score<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyBytes>,
        by_flow: bool,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let row_len = size_of::<f32>() * self.model.columns().len();
        let values = values.as_bytes();
        if !values.len().is_multiple_of(row_len) {
            let seen = values.len();
            let text =
                format_args!("values: {seen} bytes; wanted: a multiple of {row_len}, a row's");
            return Err(Refusal::new(Kind::Option, text).into());
        }
        let scores = py.detach(|| self.scores(values, by_flow));
        Ok(PyBytes::new(py, &scores))
    }
}

impl PacketForests {
    fn scores(&self, values: &[u8], by_flow: bool) -> Vec<u8> {
        let model = &self.model;
        let forest = if by_flow { model.flow_forest() } else { model.packet_forest() };
        let column_count = model.columns().len();
        let (values, _) = values.as_chunks::<{ size_of::<f32>() }>();
        let mut block = vec![0.0; column_count * BLOCK_ROWS];
        let (mut scores, mut bytes) = (Vec::new(), Vec::new());
        for rows in values.chunks(column_count * BLOCK_ROWS) {
            for (row, values) in rows.chunks_exact(column_count).enumerate() {
                for (column, &value) in values.iter().enumerate() {
                    block[column * BLOCK_ROWS + row] = f32::from_ne_bytes(value);
                }
            }
            let places: Vec<u16> = (0u16..).take(rows.len() / column_count).collect();
            forest.score(&block, &places, &mut scores);
            bytes.extend(scores.iter().flat_map(|score| score.to_ne_bytes()));
        }
        bytes
    }
}

/// A file in a folder with `SHA256SUMS` has to be as that lists it; a file alone has no seal.
fn load(path: &Path) -> Result<PacketModel, Refusal> {
    let refused = |error: &dyn std::fmt::Display| {
        Refusal::new(Kind::Model, format_args!("{}: {error}", path.display()))
    };
    let read = |path: &Path, len_max: usize| {
        let mut bytes = Vec::new();
        let file = File::open(path)?.take(len_max as u64 + 1).read_to_end(&mut bytes);
        file.map(|_| bytes)
    };
    let text = read(path, FILE_LEN_MAX).map_err(|error| refused(&error))?;
    match read(&path.with_file_name(SUMS_FILE), SUMS_LEN_MAX) {
        Ok(sums) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let checked = Sums::read(&sums).and_then(|sums| sums.check(&name, &text));
            checked.map_err(|error| refused(&error))?;
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(refused(&format_args!("{SUMS_FILE}: {error}"))),
    }
    let model = Model::parse(&text).map(Arc::new).map_err(|error| refused(&error))?;
    Ok(PacketModel { model, sha256: sha256(&text) })
}

/// Starts judging packets, capture by capture; each capture has flows of its own.
#[pyfunction]
#[pyo3(signature = (inputs, model, number, calibration))]
pub(crate) fn judgements(
    py: Python<'_>,
    inputs: InputOptions,
    model: PathBuf,
    number: Option<i128>,
    calibration: Option<PathBuf>,
) -> PyResult<Reader> {
    let model = py.detach(|| load(&model))?;
    let calibration = calibration.map(|path| read_calibration(&path, &model)).transpose();
    let calibration = calibration.map_err(|why| Refusal::new(Kind::Model, why))?;
    let seed = hash_seed(seed(number)?);
    let inputs = inputs.request()?;
    Reader::start(py, &ROWS, move |control, outlet| {
        let judge = || CalibrationJudge::new(Arc::clone(&model.model), seed, calibration.as_ref());
        read(&judge, &inputs, &control, outlet)
    })
}

fn read(
    begin: &dyn Fn() -> CalibrationJudge,
    inputs: &InputRequest,
    control: &Arc<Control>,
    outlet: &Outlet,
) -> Result<Ending, Refusal> {
    let mut out = RowsOut::new(outlet, &ROWS);
    let ending = read_each(inputs, control, outlet, |file, one, opened| {
        judge(begin(), file, one, opened, &mut out)
    })?;
    out.finish()?;
    Ok(ending)
}

/// Judges the packets of one capture.
fn judge(
    mut classifier: CalibrationJudge,
    file: u32,
    inputs: &Inputs,
    opened: OpenSources,
    out: &mut RowsOut,
) -> Result<RunTotals, Refusal> {
    let mut source = inputs.in_order(opened);
    let mut judged = Vec::new();
    let mut packet = 0;
    while !inputs.control.is_stopped() {
        let Some(batch) = source.next_batch() else { break };
        classifier.judge(&batch, &mut judged);
        for (record, PacketVerdict { class, confidence, basis, .. }) in
            batch.records.iter().zip(&judged)
        {
            out.push(&[
                Value::U32(file),
                Value::U64(packet),
                known(record.timestamp),
                Value::U16(*class),
                Value::F64((*confidence).into()),
                Value::I8((*basis == Basis::Flow).into()),
            ])?;
            packet += 1;
        }
    }
    let mut done = RunTotals { received: source.received(), ..RunTotals::default() };
    done.outcome.keyed = packet;
    let counts = classifier.counts();
    (done.late, done.clock_steps) = (counts.late, counts.clock_steps);
    Ok(done)
}
