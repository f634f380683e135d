//! `wirelens.run`: a plan of settings and applications in Python, run on a thread of ours while
//! Python takes what is for it.

mod begin;
mod kept;
mod made;

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{mem, process};

use arrow_array::RecordBatch;
use engine::run::Control;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use session::application::Closing;
use session::reading::ReceiveOutcome;

pub(crate) use begin::{run, stdout};
pub(crate) use made::{made_of_arrow, made_of_columns};

use crate::batch::{Batch, RowBatches};
use crate::reader::{outcome_into, report_into};
use crate::refusal::{Kind, Refusal};
use kept::{Budget, MemoryTable};

/// How long an interrupt may go unseen.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// What comes from the thread of the run.
enum Message {
    /// Inputs and outputs are open.
    Begun,
    /// Rows for an application in Python.
    Rows(usize, RecordBatch),
    /// It is over.
    Ended(Box<Result<Ended, Refusal>>),
}

/// What is left of a run.
struct Ended {
    received: ReceiveOutcome,
    refused: Vec<String>,
    closings: Vec<(&'static str, Closing)>,
    losses: Vec<String>,
    summary: String,
    is_interrupted: bool,
}

enum State {
    Running(Receiver<Message>),
    Ended(Option<Box<Ended>>),
}

enum Step {
    Begun,
    Rows(usize, RecordBatch),
    Waiting,
    Ended,
}

/// A run: an iterator of batches for applications in Python, and what is left at the end.
#[pyclass(frozen, module = "wirelens._wirelens")]
pub(crate) struct Run {
    state: Mutex<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
    control: Arc<Control>,
    budget: Arc<Budget>,
    /// By the place of the application that makes it.
    kept: Vec<(usize, Arc<MemoryTable>)>,
    is_live: bool,
    /// Tables of the settings that only the command acts on.
    unused: Vec<&'static str>,
    /// The process that has the thread of the run; a fork of it has not.
    process: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    fn step(&self) -> Result<Step, Refusal> {
        if self.process != process::id() {
            let text = "a run begun before a fork cannot continue after it; begin another";
            return Err(Refusal::new(Kind::Forked, text));
        }
        let mut state = lock(&self.state);
        let State::Running(receiver) = &*state else { return Ok(Step::Ended) };
        let (ended, result) = match receiver.recv_timeout(SIGNALS_EVERY) {
            Ok(Message::Begun) => return Ok(Step::Begun),
            Ok(Message::Rows(at, batch)) => return Ok(Step::Rows(at, batch)),
            Err(RecvTimeoutError::Timeout) => return Ok(Step::Waiting),
            Ok(Message::Ended(ended)) => match *ended {
                Ok(ended) => (Some(Box::new(ended)), Ok(Step::Ended)),
                Err(refusal) => (None, Err(refusal)),
            },
            Err(RecvTimeoutError::Disconnected) => {
                let text = "the thread of the run ended unexpectedly; please report this";
                (None, Err(Refusal::new(Kind::Internal, text)))
            }
        };
        *state = State::Ended(ended);
        drop(state);
        self.join();
        result
    }

    /// The next rows; nothing at the end.
    fn wait(&self, py: Python<'_>) -> PyResult<Option<(usize, RecordBatch)>> {
        loop {
            match py.detach(|| self.step())? {
                Step::Begun | Step::Ended => return Ok(None),
                Step::Rows(at, batch) => return Ok(Some((at, batch))),
                Step::Waiting => py.check_signals()?,
            }
        }
    }

    fn join(&self) {
        if let Some(thread) = lock(&self.thread).take() {
            // What it met was reported before.
            let _ = thread.join();
        }
    }

    fn ended<T>(&self, read: impl FnOnce(&Ended) -> T) -> PyResult<T> {
        match &*lock(&self.state) {
            State::Ended(Some(ended)) => Ok(read(ended)),
            _ => Err(Refusal::new(Kind::Internal, "the run has not ended").into()),
        }
    }
}

#[pymethods]
impl Run {
    fn __iter__(run: PyRef<'_, Self>) -> PyRef<'_, Self> {
        run
    }

    /// The number of an application in Python, and rows for it.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<(usize, Batch)>> {
        Ok(self.wait(py)?.map(|(at, batch)| (at, Batch::new(batch))))
    }

    /// Has the run end as an interrupt does: what was computed is still handed over.
    fn stop(&self) {
        self.control.stop();
    }

    /// Ends the run, whatever it has left, and waits for that.
    fn close(&self, py: Python<'_>) {
        self.control.stop();
        if self.process == process::id() {
            py.detach(|| {
                let ended = State::Ended(None);
                let before = {
                    let mut state = lock(&self.state);
                    match &*state {
                        State::Running(_) => mem::replace(&mut *state, ended),
                        State::Ended(_) => ended,
                    }
                };
                // Whoever hands in rows notices that nobody takes them.
                drop(before);
                self.join();
            });
        }
    }

    /// Takes so many bytes of the memory for rows; whether there was room.
    fn charge(&self, bytes: usize) -> bool {
        self.budget.take(bytes)
    }

    /// Whether frames come from an interface.
    #[getter]
    fn is_live(&self) -> bool {
        self.is_live
    }

    /// Tables of the settings that only the command acts on.
    #[getter]
    fn unused(&self) -> Vec<&'static str> {
        self.unused.clone()
    }

    /// The tables that are in memory: the place of its application among the closings, rows, and
    /// how many had no room.
    fn tables(&self) -> Vec<(usize, RowBatches, u64)> {
        let table = |(place, kept): &(usize, Arc<MemoryTable>)| {
            let kept::Table { columns, batches, dropped } = kept.take();
            (*place, RowBatches::declared(columns, batches), dropped)
        };
        self.kept.iter().map(table).collect()
    }

    /// Whether it was stopped.
    #[getter]
    fn is_interrupted(&self) -> PyResult<bool> {
        self.ended(|ended| ended.is_interrupted)
    }

    /// Results that were to be kept and are not.
    #[getter]
    fn losses(&self) -> PyResult<Vec<String>> {
        self.ended(|ended| ended.losses.clone())
    }

    /// The lines that the command prints at the end.
    #[getter]
    fn summary(&self) -> PyResult<String> {
        self.ended(|ended| ended.summary.clone())
    }

    /// Why captures could not be read, or not to their ends.
    #[getter]
    fn damages(&self) -> PyResult<Vec<String>> {
        self.ended(|ended| {
            let own = || ended.closings.iter().flat_map(|(_, closing)| &closing.own);
            let refused = own().flat_map(|source| &source.inputs.resolved.refused);
            let damages = own().flat_map(|source| &source.received.damages);
            let damages = ended.received.damages.iter().chain(damages).map(ToString::to_string);
            ended.refused.iter().chain(refused).cloned().chain(damages).collect()
        })
    }

    /// What is not as it should be about packets that were read.
    #[getter]
    fn notices(&self) -> PyResult<Vec<String>> {
        self.ended(|ended| ended.received.notices())
    }

    /// Outcome of the packets before applications saw them.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.ended(|ended| ended.received.report.clone())?;
        let counts = PyDict::new(py);
        report_into(&counts, &report, self.is_live)?;
        Ok(counts)
    }

    /// What each application did with them, in the order of the settings.
    #[getter]
    fn closings<'py>(&self, py: Python<'py>) -> PyResult<Vec<(&'static str, Bound<'py, PyDict>)>> {
        let state = lock(&self.state);
        let State::Ended(Some(ended)) = &*state else { return Ok(Vec::new()) };
        let mut told = Vec::new();
        for (name, closing) in &ended.closings {
            let counts = PyDict::new(py);
            outcome_into(&counts, &closing.outcome)?;
            counts.set_item("late", closing.late)?;
            counts.set_item("beyond_max_keys", closing.beyond_max_keys)?;
            counts.set_item("dropped_rows", closing.dropped_rows)?;
            told.push((*name, counts));
        }
        Ok(told)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.control.stop();
        if self.process != process::id() {
            // As for a reader: a lock inside the channel may be held for ever.
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            mem::forget(mem::replace(state, State::Ended(None)));
        }
    }
}
