//! Results while they are being found: a thread of ours finds them, Python takes them.
//!
//! The channel between the two holds [`CHANNEL_BATCHES`] batches; when it is full the finder
//! waits, and nothing is dropped. On an interface it holds [`LIVE_BATCHES`], and the finder does
//! not wait, as packets would be lost meanwhile: rows without room are dropped and counted. The
//! finder never touches Python, so it cannot wait for the interpreter's lock, and a process may end
//! while it runs. Whoever waits for it has let go of the lock, and looks for signals every
//! [`SIGNALS_EVERY`].

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, mem, process, thread};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, SchemaRef};
use capture::Report;
use engine::columns::Schema;
use engine::flow::{EndReason, FlowCounts};
use engine::group::Outcome;
use engine::run::Control;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use session::reading::ReceiveOutcome;
use sink::WriteError;
use sink::arrow::Batches;

use crate::batch::{Batch, RowBatches, schema_capsule};
use crate::parquet::ParquetFile;
use crate::refusal::{Kind, Refusal};

/// Batches that wait for Python: one that it takes next, one in reserve.
const CHANNEL_BATCHES: usize = 2;

/// The same on an interface, where batches hold the rows of a moment.
const LIVE_BATCHES: usize = 1024;

/// How long an interrupt may go unseen.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// What became of the packets, once all were read.
pub(crate) struct Ending {
    pub(crate) received: ReceiveOutcome,
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

/// Where the finder puts what it finds, from whichever of its threads.
#[derive(Clone)]
pub(crate) struct Outlet {
    to: SyncSender<Message>,
    control: Arc<Control>,
    /// Whether the finder must not wait.
    pub(crate) is_live: bool,
    /// Rows for which there was no room.
    dropped: Arc<AtomicU64>,
}

impl Outlet {
    /// Says that all inputs could be opened.
    pub(crate) fn opened(&self) -> Result<(), Refusal> {
        self.to.send(Message::Opened).map_err(|_| Refusal::unheard())
    }

    /// Hands over a batch, waiting for room, unless packets come meanwhile. Where nobody takes it
    /// any more it is as with a pipe whose reader has gone.
    pub(crate) fn batch(&self, batch: RecordBatch) -> Result<(), WriteError> {
        let unheard = || WriteError::Io(io::ErrorKind::BrokenPipe.into());
        if !self.is_live || self.control.is_stopped() {
            return self.to.send(Message::Batch(batch)).map_err(|_| unheard());
        }
        let row_count = batch.num_rows() as u64;
        match self.to.try_send(Message::Batch(batch)) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(unheard()),
            Err(TrySendError::Full(_)) => {
                self.drop_rows(row_count);
                Ok(())
            }
        }
    }

    /// Counts rows that are dropped.
    pub(crate) fn drop_rows(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
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
    is_live: bool,
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
                "results begun before a fork cannot be read after it; start again in the child, or \
                 use the method `spawn`",
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
                let text = "the reading thread ended unexpectedly; please report this";
                Err(Refusal::new(Kind::Internal, text))
            }
        }
    }

    /// Ends the finder: it stops after the batch in hand.
    fn close(&self) {
        self.control.stop();
        if self.process == process::id() {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if let State::Running(receiver) = &*state {
                *state = State::Ended(if self.is_live { last_of(receiver) } else { None });
            }
        }
    }
}

/// What is left of a finder that was stopped: it ends soon, and what was lost is known only then.
fn last_of(receiver: &Receiver<Message>) -> Option<Box<Ending>> {
    let messages = receiver.iter();
    let mut ended = messages.filter_map(|message| match message {
        Message::Ended(ended) => Some(ended),
        Message::Opened | Message::Batch(_) => None,
    });
    ended.next()?.ok().map(Box::new)
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

/// What was lost of an interface, a line each.
fn lost(ending: &Ending) -> Vec<String> {
    let packets = ending.received.report.dropped.ring_full;
    let rows = ending.others.iter().find(|(name, _)| *name == "dropped_rows");
    let texts = [
        (packets, "packets dropped by the kernel: its ring was full"),
        (rows.map_or(0, |(_, count)| *count), "rows dropped: they were not read in time"),
    ];
    let lost = texts.into_iter().filter(|(count, _)| *count > 0);
    lost.map(|(count, text)| format!("{count} {text}")).collect()
}

/// Outcome of packets before anything was computed of them.
pub(crate) fn report_into(
    counts: &Bound<'_, PyDict>,
    report: &Report,
    is_live: bool,
) -> PyResult<()> {
    counts.set_item("received", report.received)?;
    counts.set_item("filtered", report.filtered)?;
    counts.set_item("clamped_stamps", report.clamped_stamps)?;
    let undecoded = PyDict::new(counts.py());
    for (link, count) in &report.undecoded {
        undecoded.set_item(link.to_string(), count)?;
    }
    counts.set_item("undecoded", undecoded)?;
    counts.set_item("duplicates", report.dropped.duplicates)?;
    if is_live {
        counts.set_item("dropped", report.dropped.ring_full)?;
        counts.set_item("unread", report.unread)?;
        counts.set_item("interface_dropped", report.interface_dropped)?;
    }
    Ok(())
}

/// Outcome of those of which something was computed.
pub(crate) fn outcome_into(counts: &Bound<'_, PyDict>, outcome: &Outcome) -> PyResult<()> {
    counts.set_item("processed", outcome.processed())?;
    counts.set_item("counted", outcome.keyed)?;
    counts.set_item("without_key", outcome.without_key)?;
    counts.set_item("cut", outcome.cut)?;
    let malformed = PyDict::new(counts.py());
    for (cause, count) in outcome.malformed.iter() {
        malformed.set_item(cause.name(), count)?;
    }
    counts.set_item("malformed", malformed)
}

/// Results while they are being found: an iterator of batches, to be read once.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct Reader {
    shared: Arc<Shared>,
    columns: Schema,
    schema: SchemaRef,
}

impl Reader {
    /// Starts a thread that finds results in captures; returns when it has opened its inputs.
    pub(crate) fn start(
        py: Python<'_>,
        columns: Schema,
        find: impl FnOnce(Arc<Control>, &Outlet) -> Result<Ending, Refusal> + Send + 'static,
    ) -> PyResult<Self> {
        Self::start_any(py, columns, false, find)
    }

    /// The same of captures or an interface.
    pub(crate) fn start_any(
        py: Python<'_>,
        columns: Schema,
        is_live: bool,
        find: impl FnOnce(Arc<Control>, &Outlet) -> Result<Ending, Refusal> + Send + 'static,
    ) -> PyResult<Self> {
        let control = Arc::new(Control::default());
        let batches_max = if is_live { LIVE_BATCHES } else { CHANNEL_BATCHES };
        let (to, receiver) = mpsc::sync_channel(batches_max);
        let dropped = Arc::default();
        let outlet = Outlet { to, control: Arc::clone(&control), is_live, dropped };
        let finders = Arc::clone(&control);
        let work = move || {
            let mut ended = find(finders, &outlet);
            if let Ok(ending) = &mut ended
                && is_live
            {
                ending.others.push(("dropped_rows", outlet.dropped.load(Ordering::Relaxed)));
            }
            // Where nobody listens any more, nobody wants to know.
            let _ = outlet.to.send(Message::Ended(Box::new(ended)));
        };
        thread::Builder::new().name(String::from("wirelens-reader")).spawn(work)?;
        let state = Mutex::new(State::Running(receiver));
        let shared = Arc::new(Shared { state, control, is_live, process: process::id() });
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
    fn collect(&self, py: Python<'_>, rows: Option<usize>) -> PyResult<RowBatches> {
        let mut left = rows.unwrap_or(usize::MAX);
        let mut batches = Vec::new();
        while left > 0 {
            let Some(batch) = self.wait(py)? else { break };
            let taken = batch.num_rows().min(left);
            batches.push(batch.slice(0, taken));
            left -= taken;
        }
        Ok(RowBatches::new(self.columns, Arc::clone(&self.schema), batches))
    }

    /// Writes all that is left to a Parquet file, batch by batch.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let mut file = py.detach(|| ParquetFile::create(&path, overwrite, self.columns))?;
        while let Some(batch) = self.wait(py)? {
            py.detach(|| file.write(&batch))?;
        }
        Ok(py.detach(|| file.finish())?)
    }

    /// Ends what is read, as an interrupt does: what was found is still handed over.
    fn stop(&self) {
        self.shared.control.stop();
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
        let texts = |ending: &Ending| {
            let mut notices = ending.received.notices();
            notices.extend(lost(ending));
            notices
        };
        self.ending(py, texts).unwrap_or_default()
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
        report_into(&counts, &report, self.shared.is_live)?;
        if let Some(outcome) = outcome {
            outcome_into(&counts, &outcome)?;
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
