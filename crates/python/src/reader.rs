//! Results while they are being found: a thread of ours finds them, Python takes them.
//!
//! The channel between the two holds [`CHANNEL_BATCHES`] batches; when it is full the finder
//! waits, and nothing is dropped. The finder never touches Python, so it cannot wait for the
//! interpreter's lock, and a process may end while it runs. Whoever waits for it has let go of
//! the lock, and looks for signals every [`SIGNALS_EVERY`].

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{mem, process, thread};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use engine::columns::Schema;
use engine::flow::{EndReason, FlowCounts};
use engine::group::Outcome;
use engine::run::Control;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use session::reading::Received;
use sink::arrow::Batches;

use crate::batch::{Batch, Collected, schema_capsule};
use crate::parquet::ParquetFile;
use crate::refusal::{Kind, Refusal};

/// Batches that wait for Python: one that it takes next, one in reserve.
const CHANNEL_BATCHES: usize = 2;

/// How long an interrupt may go unseen.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// What became of the packets, once all were read.
pub(crate) struct Ending {
    pub(crate) received: Received,
    /// Why files in folders were left out, a line each.
    pub(crate) refused: Vec<String>,
    pub(crate) outcome: Option<Outcome>,
    /// What else was counted, by name.
    pub(crate) others: Vec<(&'static str, u64)>,
    /// Flows by how they ended, where there are flows.
    pub(crate) ended: Option<FlowCounts>,
    pub(crate) summary: String,
}

enum Message {
    /// Inputs were found and opened.
    Opened,
    Batch(RecordBatch),
    Ended(Box<Result<Ending, Refusal>>),
}

/// Where the finder puts what it finds.
pub(crate) struct Outlet(SyncSender<Message>);

impl Outlet {
    /// Says that all inputs could be opened.
    pub(crate) fn opened(&self) -> Result<(), Refusal> {
        self.0.send(Message::Opened).map_err(|_| Refusal::unheard())
    }

    /// Hands over a batch, waiting for room; refused where nobody takes it any more.
    pub(crate) fn batch(&self, batch: RecordBatch) -> Result<(), Refusal> {
        self.0.send(Message::Batch(batch)).map_err(|_| Refusal::unheard())
    }
}

enum State {
    Running(Receiver<Message>),
    Ended(Option<Box<Ending>>),
}

/// What the Python object and an Arrow stream made of it share.
struct Shared {
    state: Mutex<State>,
    control: Arc<Control>,
    /// The process that has the finder's thread; a fork of it has not.
    process: u32,
}

enum Step {
    Opened,
    Batch(RecordBatch),
    Waiting,
    Ended,
}

impl Shared {
    /// The next message, if it comes soon.
    fn step(&self) -> Result<Step, Refusal> {
        if self.process != process::id() {
            return Err(Refusal::new(
                Kind::Forked,
                "results that were begun before a fork cannot be read after it; ask anew in the \
                 child, or start it with the method `spawn`",
            ));
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Running(receiver) = &*state else { return Ok(Step::Ended) };
        match receiver.recv_timeout(SIGNALS_EVERY) {
            Ok(Message::Opened) => Ok(Step::Opened),
            Ok(Message::Batch(batch)) => Ok(Step::Batch(batch)),
            Ok(Message::Ended(ended)) => {
                let (ending, result) = match *ended {
                    Ok(ending) => (Some(Box::new(ending)), Ok(Step::Ended)),
                    Err(refusal) => (None, Err(refusal)),
                };
                *state = State::Ended(ending);
                result
            }
            Err(RecvTimeoutError::Timeout) => Ok(Step::Waiting),
            Err(RecvTimeoutError::Disconnected) => {
                *state = State::Ended(None);
                let text = "the thread that reads ended without a word; please report this";
                Err(Refusal::new(Kind::Internal, text))
            }
        }
    }

    /// Ends the finder: it stops after the batch in hand.
    fn close(&self) {
        self.control.stop();
        if self.process == process::id() {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let State::Running(_) = *state {
                *state = State::Ended(None);
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.control.stop();
        if self.process != process::id() {
            // A lock inside the channel may have been held by the finder when the process
            // forked, and nobody is left who would let go of it: better to leak the channel.
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::replace(state, State::Ended(None)));
        }
    }
}

/// Results while they are being found: an iterator of batches, to be read once.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct Reader {
    shared: Arc<Shared>,
    columns: Schema,
    schema: SchemaRef,
}

impl Reader {
    /// Starts a thread that finds results; returns when it has opened its inputs.
    pub(crate) fn start(
        py: Python<'_>,
        columns: Schema,
        find: impl FnOnce(Arc<Control>, &Outlet) -> Result<Ending, Refusal> + Send + 'static,
    ) -> PyResult<Self> {
        let control = Arc::new(Control::default());
        let (sender, receiver) = mpsc::sync_channel(CHANNEL_BATCHES);
        let outlet = Outlet(sender);
        let finders = Arc::clone(&control);
        let work = move || {
            let ended = find(finders, &outlet);
            // Where nobody listens any more, nobody wants to know.
            let _ = outlet.0.send(Message::Ended(Box::new(ended)));
        };
        thread::Builder::new().name(String::from("wirelens-reader")).spawn(work)?;
        let state = Mutex::new(State::Running(receiver));
        let shared = Arc::new(Shared { state, control, process: process::id() });
        let reader = Self { shared, columns, schema: Batches::new(columns).schema() };
        reader.wait(py)?;
        Ok(reader)
    }

    /// The next batch; nothing at the end.
    fn wait(&self, py: Python<'_>) -> PyResult<Option<RecordBatch>> {
        loop {
            match py.detach(|| self.shared.step())? {
                Step::Opened | Step::Ended => return Ok(None),
                Step::Batch(batch) => return Ok(Some(batch)),
                Step::Waiting => {
                    if let Err(interrupt) = py.check_signals() {
                        py.detach(|| self.shared.close());
                        return Err(interrupt);
                    }
                }
            }
        }
    }

    fn ending<T>(&self, py: Python<'_>, read: impl FnOnce(&Ending) -> T + Send) -> Option<T>
    where
        T: Send,
    {
        py.detach(|| {
            let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Ended(Some(ending)) => Some(read(ending)),
                _ => None,
            }
        })
    }
}

#[pymethods]
impl Reader {
    fn __iter__(reader: PyRef<'_, Self>) -> PyRef<'_, Self> {
        reader
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        Ok(self.wait(py)?.map(Batch::new))
    }

    /// All batches, or the first rows of them.
    #[pyo3(signature = (rows = None))]
    fn collect(&self, py: Python<'_>, rows: Option<usize>) -> PyResult<Collected> {
        let mut left = rows.unwrap_or(usize::MAX);
        let mut batches = Vec::new();
        while left > 0 {
            let Some(batch) = self.wait(py)? else { break };
            let taken = batch.num_rows().min(left);
            batches.push(batch.slice(0, taken));
            left -= taken;
        }
        Ok(Collected::new(self.columns, Arc::clone(&self.schema), batches))
    }

    /// Writes all that is left to a Parquet file, batch by batch.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let mut file = py.detach(|| ParquetFile::create(&path, overwrite, self.columns))?;
        while let Some(batch) = self.wait(py)? {
            py.detach(|| file.write(&batch))?;
        }
        Ok(py.detach(|| file.finish())?)
    }

    /// Stops reading and forgets what was read.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.shared.close());
    }

    /// Whether it was begun in a process of which this one is a fork.
    #[getter]
    fn is_forked(&self) -> bool {
        self.shared.process != process::id()
    }

    /// Name, Arrow type, whether it may be missing, and meaning of each column.
    #[getter]
    fn fields(&self) -> Vec<(&'static str, String, bool, &'static str)> {
        let field = |(field, declared): (&Arc<arrow_schema::Field>, &engine::columns::Field)| {
            (declared.name, field.data_type().to_string(), field.is_nullable(), declared.about)
        };
        self.schema.fields().iter().zip(self.columns).map(field).collect()
    }

    /// Why captures could not be read, or not to their ends; known at the end.
    #[getter]
    fn damages(&self, py: Python<'_>) -> Vec<String> {
        let texts = |ending: &Ending| {
            let damages = ending.received.damages.iter().map(ToString::to_string);
            ending.refused.iter().cloned().chain(damages).collect()
        };
        self.ending(py, texts).unwrap_or_default()
    }

    /// What is not as it should be about packets that were read; known at the end.
    #[getter]
    fn notices(&self, py: Python<'_>) -> Vec<String> {
        self.ending(py, |ending| ending.received.notices()).unwrap_or_default()
    }

    /// The lines that the command prints at the end; known at the end.
    #[getter]
    fn summary(&self, py: Python<'_>) -> Option<String> {
        self.ending(py, |ending| ending.summary.clone())
    }

    /// What became of the packets; known at the end.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let read = |ending: &Ending| {
            let Ending { received, outcome, others, ended, .. } = ending;
            (received.report.clone(), outcome.clone(), others.clone(), *ended)
        };
        let Some((report, outcome, others, ended)) = self.ending(py, read) else {
            return Ok(None);
        };
        let counts = PyDict::new(py);
        counts.set_item("received", report.received)?;
        counts.set_item("filtered", report.filtered)?;
        counts.set_item("clamped_stamps", report.clamped_stamps)?;
        let undecoded = PyDict::new(py);
        for (link, count) in &report.undecoded {
            undecoded.set_item(link.to_string(), count)?;
        }
        counts.set_item("undecoded", undecoded)?;
        if let Some(outcome) = outcome {
            counts.set_item("processed", outcome.processed())?;
            counts.set_item("counted", outcome.keyed)?;
            counts.set_item("without_key", outcome.without_key)?;
            counts.set_item("cut", outcome.cut)?;
            let malformed = PyDict::new(py);
            for (cause, count) in outcome.malformed.iter() {
                malformed.set_item(cause.name(), count)?;
            }
            counts.set_item("malformed", malformed)?;
        }
        for (name, count) in others {
            counts.set_item(name, count)?;
        }
        if let Some(ended) = ended {
            let reasons = PyDict::new(py);
            for reason in EndReason::ALL {
                reasons.set_item(reason.name(), ended.of(reason))?;
            }
            counts.set_item("ended", reasons)?;
        }
        Ok(Some(counts))
    }

    /// What is left as an Arrow stream, for a consumer that never asks Python.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // As the protocol allows, another schema is not promised.
        let _ = requested_schema;
        let stream = Stream { shared: Arc::clone(&self.shared), schema: Arc::clone(&self.schema) };
        let stream = FFI_ArrowArrayStream::new(Box::new(stream));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, FFI_ArrowSchema::try_from(self.schema.as_ref()))
    }
}

/// The finder's results as an Arrow stream. It is called by threads of which nothing is known, so
/// it keeps away from Python: no signals are looked for here.
struct Stream {
    shared: Arc<Shared>,
    schema: SchemaRef,
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.shared.step() {
                Ok(Step::Batch(batch)) => return Some(Ok(batch)),
                Ok(Step::Waiting | Step::Opened) => {}
                Ok(Step::Ended) => return None,
                Err(refusal) => return Some(Err(ArrowError::ExternalError(Box::new(refusal)))),
            }
        }
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
