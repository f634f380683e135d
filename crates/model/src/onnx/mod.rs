//! Models in ONNX, run by ONNX Runtime: networks, and whatever was trained elsewhere.
//!
//! Trees are faster where they are ([`trees`](crate::trees)), so nothing that ships needs this; it
//! is for models that are no trees. The library is loaded while the program runs, so that it is
//! needed by those alone who have such a model.
//!
//! - [`Library::load`] loads the shared library, from a path that the caller found.
//! - [`OnnxFile::new`] reads a model, checks that it can be given rows and gives probabilities, and
//!   tries it on a row.
//! - [`OnnxFile::open`] makes it ready to score, once for each thread that does.
//! - [`OnnxRows`] holds what is to be scored, as the numbers that the model reads.
//!
//! A model has one input, rows of numbers, 32 or 64 bits each; the names of its columns come from
//! the artifact that the model belongs to. Its output is a probability for each class.
//!
//! A [`WindowFile`] is of another kind: it scores queries about a window of tokens.
//!
//! ONNX Runtime may add in another order for one row than for several, so a probability may differ
//! by some 10⁻⁷ with the rows scored with it. Where that must not be, rows are scored
//! [one by one](OnnxModel::one_by_one).

mod columns;
mod library;
mod reason;
#[cfg(test)]
mod tests;
mod window;

use std::sync::Arc;

use ort::logging::LogLevel;
use ort::session::builder::{GraphOptimizationLevel, SessionBuilder};
use ort::session::{HasSelectedOutputs, OutputSelector, RunOptions};
use ort::session::{Session, SessionInputValue, SessionOutputs};
use ort::value::{DynValue, Outlet, TensorElementType, TensorRef, ValueType};

use crate::device::Device;
use crate::first::FlowFeatures;
use columns::InputColumns;
pub use library::Library;
pub use reason::OnnxError;
use reason::one_line;
pub use window::{WindowFile, WindowNetwork, WindowShape};

/// Bytes of a file.
pub const FILE_LEN_MAX: usize = 256 << 20;
/// Columns of a model's input.
pub const COLUMN_COUNT_MAX: usize = 1 << 16;

/// Rows that the library is given per call: what it allocates for them is bounded by it.
const ROWS_TOGETHER: usize = 64;
/// The same on a card, where a call costs as much as hundreds of rows.
const ROWS_TOGETHER_CARD: usize = 4096;
/// How far the probabilities of a row may be from 1 together: those of 32 bits are rounded.
const SUM_SLACK: f64 = 1e-3;

/// What stands around a model: what rows are, and how they are given to it.
#[derive(Clone, Debug)]
pub struct Wiring {
    /// What rows are made of.
    pub features: FlowFeatures,
    /// Names of what the input's columns are, in their order: header bits and numbers.
    pub columns: Vec<String>,
    /// How many classes there are.
    pub class_count: usize,
    /// The name of the input.
    pub input: String,
    /// The name of the output with the probabilities.
    pub output: String,
}

/// A model's file, checked; what threads open to score.
#[derive(Clone, Debug)]
pub struct OnnxFile {
    library: Library,
    bytes: Arc<[u8]>,
    columns: InputColumns,
    wiring: Arc<Wiring>,
    device: Device,
}

/// A model, ready to score.
pub struct OnnxModel {
    session: Session,
    options: RunOptions<HasSelectedOutputs>,
    file: OnnxFile,
    is_double: bool,
    rows_together: usize,
}

/// Rows for one model, as the numbers of its input. Made once and used again, it allocates nothing.
#[derive(Clone, Debug)]
pub struct OnnxRows {
    values: Vec<f32>,
    column_count: usize,
    /// Room for the bits of one.
    bits: Vec<i8>,
}

impl OnnxRows {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.column_count.max(1)
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Forgets all of them and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
    }
}

impl OnnxFile {
    /// Reads a model from the bytes of its file, and tries it on a row of which nothing is there.
    ///
    /// # Errors
    /// [`OnnxError`], where the file is no model, or none that fits `wiring`.
    pub fn new(library: Library, bytes: Vec<u8>, wiring: Wiring) -> Result<Self, OnnxError> {
        if bytes.len() > FILE_LEN_MAX {
            return Err(OnnxError::TooLong { size_bytes: bytes.len() });
        }
        let column_count = wiring.columns.len();
        if !(1..=COLUMN_COUNT_MAX).contains(&column_count) {
            return Err(OnnxError::ColumnCount { seen: column_count });
        }
        let columns = InputColumns::new(&wiring.features, &wiring.columns)?;
        let (bytes, wiring) = (bytes.into(), Arc::new(wiring));
        let file = Self { library, bytes, columns, wiring, device: Device::Processor };
        file.open()?.try_on_nothing()?;
        Ok(file)
    }

    /// The same model, computed elsewhere, and tried there.
    ///
    /// # Errors
    /// [`OnnxError::Device`], where that is not to be had; others as in [`new`](Self::new).
    pub fn on(self, device: Device) -> Result<Self, OnnxError> {
        let file = Self { device, ..self };
        file.open()?.try_on_nothing()?;
        Ok(file)
    }

    /// What computes it.
    #[must_use]
    pub const fn device(&self) -> Device {
        self.device
    }

    /// What stands around the model.
    #[must_use]
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// Makes the model ready to score.
    ///
    /// # Errors
    /// [`OnnxError`], as in [`new`](Self::new); later only where memory is short.
    pub fn open(&self) -> Result<OnnxModel, OnnxError> {
        let wiring = self.wiring();
        let session = session(self.library, &self.bytes, self.device)?;
        let (is_double, takes_many) = check_input(session.inputs(), wiring)?;
        let rows_together = match (takes_many, self.device) {
            (false, _) => 1,
            (true, Device::Processor) => ROWS_TOGETHER,
            (true, Device::Cuda { .. }) => ROWS_TOGETHER_CARD,
        };
        check_output(session.outputs(), wiring)?;
        let mut options = RunOptions::new().map_err(failed)?;
        // Who scores says what failed; the library would add a line for each row.
        options.set_log_level(LogLevel::Fatal).map_err(failed)?;
        let options = options.with_outputs(OutputSelector::no_default().with(&wiring.output));
        Ok(OnnxModel { session, options, file: self.clone(), is_double, rows_together })
    }

    /// How many columns its input has.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// No rows yet, with room for so many.
    #[must_use]
    pub fn rows(&self, capacity: usize) -> OnnxRows {
        let column_count = self.column_count();
        let values = Vec::with_capacity(column_count * capacity);
        OnnxRows { values, column_count, bits: Vec::new() }
    }

    /// Adds a row: the records of a flow's first packets, one behind the other, and the numbers
    /// in addition to them. Packets that are not there are left out at the end, or zeros.
    ///
    /// # Errors
    /// [`OnnxError`], where the row is not one of this model's; then it is not added.
    pub fn push(
        &self,
        rows: &mut OnnxRows,
        records: &[u8],
        numbers: &[f64],
    ) -> Result<(), OnnxError> {
        let features = &self.wiring.features;
        if rows.column_count != self.column_count() {
            return Err(OnnxError::OtherModel);
        }
        if records.len() > features.records_len() {
            return Err(OnnxError::RecordsLen {
                seen: records.len(),
                wanted: features.records_len(),
            });
        }
        if numbers.len() != features.names().len() {
            let (seen, wanted) = (numbers.len(), features.names().len());
            return Err(OnnxError::NumberCount { seen, wanted });
        }
        let start = rows.values.len();
        rows.values.resize(start + rows.column_count, 0.0);
        let row = rows.values.get_mut(start..).unwrap_or_default();
        self.columns.put(records, numbers, &mut rows.bits, row);
        Ok(())
    }
}

impl OnnxModel {
    /// The same model, which gives the library one row at a time: what it says of a row is then
    /// the same whatever other rows are scored with it.
    #[must_use]
    pub fn one_by_one(self) -> Self {
        Self { rows_together: 1, ..self }
    }

    /// How many classes it distinguishes.
    #[must_use]
    pub fn class_count(&self) -> usize {
        self.file.wiring.class_count
    }

    /// [`OnnxFile::rows`].
    #[must_use]
    pub fn rows(&self, capacity: usize) -> OnnxRows {
        self.file.rows(capacity)
    }

    /// [`OnnxFile::push`].
    ///
    /// # Errors
    /// As there.
    pub fn push(
        &self,
        rows: &mut OnnxRows,
        records: &[u8],
        numbers: &[f64],
    ) -> Result<(), OnnxError> {
        self.file.push(rows, records, numbers)
    }

    /// Writes for each row a probability for each class, row by row, as the model gives them.
    ///
    /// # Errors
    /// [`OnnxError`], where rows are of another model, `scores` has another length, or the library
    /// fails.
    pub fn score(&mut self, rows: &OnnxRows, scores: &mut [f64]) -> Result<(), OnnxError> {
        let (column_count, class_count) = (self.file.column_count(), self.class_count());
        let wanted = rows.len() * class_count;
        if rows.column_count != column_count {
            return Err(OnnxError::OtherModel);
        }
        if scores.len() != wanted {
            return Err(OnnxError::ScoreCount { seen: scores.len(), wanted });
        }
        let values = rows.values.chunks(column_count * self.rows_together);
        for (values, scores) in values.zip(scores.chunks_mut(class_count * self.rows_together)) {
            self.run(values, scores)?;
        }
        Ok(())
    }

    fn run(&mut self, values: &[f32], scores: &mut [f64]) -> Result<(), OnnxError> {
        let column_count = self.file.column_count();
        let shape = [values.len() / column_count, column_count];
        let doubles: Vec<f64>;
        let tensor: SessionInputValue<'_> = if self.is_double {
            doubles = values.iter().map(|&value| value.into()).collect();
            TensorRef::from_array_view((shape, doubles.as_slice())).map_err(failed)?.into()
        } else {
            TensorRef::from_array_view((shape, values)).map_err(failed)?.into()
        };
        let inputs = ort::inputs![self.file.wiring.input.as_str() => tensor];
        let outputs = self.session.run_with_options(inputs, &self.options).map_err(failed)?;
        copy_scores(&outputs, &self.file.wiring.output, scores)
    }

    /// Sees that it gives probabilities, and lets the library allocate what it needs.
    fn try_on_nothing(mut self) -> Result<(), OnnxError> {
        let mut rows = self.rows(1);
        self.push(&mut rows, &[], &vec![-1.0; self.file.wiring.features.names().len()])?;
        let mut scores = vec![0.0; self.class_count()];
        self.score(&rows, &mut scores)?;
        let sum: f64 = scores.iter().sum();
        let is_row =
            scores.iter().all(|&score| score >= -SUM_SLACK) && (sum - 1.0).abs() < SUM_SLACK;
        if is_row {
            return Ok(());
        }
        let cause = format!(
            "output {:?} gave {scores:.3?} for a row; wanted: probabilities, together 1: end the \
             model with a softmax",
            self.file.wiring.output
        );
        Err(OnnxError::Output { cause })
    }
}

fn failed(error: ort::Error) -> OnnxError {
    OnnxError::Run { cause: one_line(error.message()) }
}

/// One thread, which does not wait for work by spinning.
fn session(library: Library, file: &[u8], device: Device) -> Result<Session, OnnxError> {
    let refused = |error: ort::Error| OnnxError::File { cause: one_line(error.message()) };
    let plain = || {
        Session::builder(library.environment())?
            .with_intra_threads(1)?
            .with_inter_threads(1)?
            .with_optimization_level(GraphOptimizationLevel::All)
            .map_err(ort::Error::from)
    };
    let mut builder = computed_on(plain().map_err(refused)?, device)?;
    builder.commit_from_memory(file).map_err(refused)
}

/// Sessions of the builder are computed there, or none is made: a card that is asked for and does
/// not answer is no reason to compute on processors.
fn computed_on(builder: SessionBuilder, device: Device) -> Result<SessionBuilder, OnnxError> {
    let Device::Cuda { index } = device else { return Ok(builder) };
    let card = ort::ep::CUDA::default().with_device_id(index.into()).build().error_on_failure();
    let found = builder.with_execution_providers([card]);
    found.map_err(|error| OnnxError::Device { device, cause: one_line(error.message()) })
}

/// What an input or output is, as ONNX writes it.
fn shown(outlet: &Outlet) -> String {
    format!("{:?} is {}", outlet.name(), outlet.dtype())
}

fn named<'a>(outlets: &'a [Outlet], name: &str) -> Result<&'a Outlet, String> {
    outlets.iter().find(|outlet| outlet.name() == name).ok_or_else(|| {
        let names: Vec<_> = outlets.iter().map(Outlet::name).collect();
        format!("none is named {name:?}; the model has {names:?}")
    })
}

/// Whether the input wants 64 bits, and whether it takes several rows per call.
fn check_input(inputs: &[Outlet], wiring: &Wiring) -> Result<(bool, bool), OnnxError> {
    let refused = |cause: String| OnnxError::Input { cause: format!("input: {cause}") };
    let input = named(inputs, &wiring.input).map_err(refused)?;
    let column_count = wiring.columns.len();
    let wanted = || {
        let seen = shown(input);
        refused(format!("{seen}; wanted: a tensor of floats, rows of {column_count} columns"))
    };
    if inputs.len() != 1 {
        let names: Vec<_> = inputs.iter().map(Outlet::name).collect();
        return Err(refused(format!("{names:?}; wanted: one, rows of {column_count} columns")));
    }
    let ValueType::Tensor { ty, shape, .. } = input.dtype() else { return Err(wanted()) };
    let is_double = match ty {
        TensorElementType::Float32 => false,
        TensorElementType::Float64 => true,
        _ => return Err(wanted()),
    };
    let [rows, columns] = shape[..] else { return Err(wanted()) };
    if columns >= 0 && usize::try_from(columns) != Ok(column_count) {
        return Err(wanted());
    }
    match rows {
        ..=-1 => Ok((is_double, true)),
        1 => Ok((is_double, false)),
        _ => Err(wanted()),
    }
}

fn check_output(outputs: &[Outlet], wiring: &Wiring) -> Result<(), OnnxError> {
    let refused = |cause: String| OnnxError::Output { cause: format!("output: {cause}") };
    let output = named(outputs, &wiring.output).map_err(refused)?;
    let class_count = wiring.class_count;
    let fits = match output.dtype() {
        ValueType::Tensor { ty, shape, .. } => {
            let is_float = matches!(ty, TensorElementType::Float32 | TensorElementType::Float64);
            let is_wide =
                |&columns: &i64| columns < 0 || usize::try_from(columns) == Ok(class_count);
            is_float && shape.len() == 2 && shape.last().is_some_and(is_wide)
        }
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let seen = shown(output);
    Err(refused(format!(
        "{seen}; wanted: a tensor of floats, a probability for each of {class_count} classes \
         (exporters of scikit-learn and LightGBM: zipmap off)"
    )))
}

fn copy_scores(
    outputs: &SessionOutputs<'_>,
    name: &str,
    scores: &mut [f64],
) -> Result<(), OnnxError> {
    let seen = |seen: usize| OnnxError::Output {
        cause: format!("output {name:?} has {seen} numbers; wanted: {}", scores.len()),
    };
    let value: &DynValue = outputs.get(name).ok_or_else(|| seen(0))?;
    if let Ok((_, values)) = value.try_extract_tensor::<f32>() {
        if values.len() != scores.len() {
            return Err(seen(values.len()));
        }
        scores.iter_mut().zip(values).for_each(|(score, &value)| *score = value.into());
    } else {
        let (_, values) = value.try_extract_tensor::<f64>().map_err(failed)?;
        if values.len() != scores.len() {
            return Err(seen(values.len()));
        }
        scores.copy_from_slice(values);
    }
    Ok(())
}
