//! Fine-tuning of a model's linear layers while it predicts, on the packets of the last minute.
//!
//! As in SwiftQueue (section 4.1.2), only the linear layers change: every five minutes, on the last
//! minute. They take over if they are better on examples that did not train them. Instants are
//! those of packets; nothing here asks a clock. A [`Tuner`] belongs to a [`crate::Predictor`],
//! which asks it for other layers when a batch begins.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

use model::encoder::{EncoderError, Examples, Head, HeadTrainer, TrainingSettings};

mod held_out;
mod recorder;

pub use recorder::{ExampleColumns, Recorder, RecorderCounts, RecorderSettings, Snapshot};

/// When and how a model is fine-tuned.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TuningSettings {
    /// Time from one tuning to the next, and before the first, in ns.
    pub interval_ns: u64,
    /// Which packets it is tuned on.
    pub recorder: RecorderSettings,
    /// With fewer examples a tuning is skipped.
    pub examples_min: usize,
    /// How the linear layers are trained.
    pub training: TrainingSettings,
    /// Whether packets wait for the new model, so that a trace always has the same predictions;
    /// else it is trained on a thread of its own, and used as soon as it is ready.
    pub is_blocking: bool,
}

impl Default for TuningSettings {
    /// Every five minutes on the last minute, with 512 examples or more, on a thread of its own.
    fn default() -> Self {
        Self {
            interval_ns: 300_000_000_000,
            recorder: RecorderSettings::default(),
            examples_min: 512,
            training: TrainingSettings::default(),
            is_blocking: false,
        }
    }
}

/// Settings that cannot be, or a tuning that failed: what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TuningError(String);

impl TuningError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for TuningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TuningError {}

impl TuningSettings {
    /// Whether all of them are in range.
    ///
    /// # Errors
    /// [`TuningError`] says which is not.
    pub fn check(&self) -> Result<(), TuningError> {
        let wrong = |text: String| Err(TuningError(text));
        let RecorderSettings { span_ns, packets_max, alpha } = self.recorder;
        for (name, value) in [
            ("interval_ns", self.interval_ns),
            ("span_ns", span_ns),
            ("packets_max", packets_max as u64),
            ("examples_min", self.examples_min as u64),
        ] {
            if value == 0 {
                return wrong(format!("{name} 0; wanted: 1 or more"));
            }
        }
        if packets_max > u32::MAX as usize {
            return wrong(format!("packets_max {packets_max}; wanted: up to {}", u32::MAX));
        }
        if !alpha.is_finite() || alpha <= 0.0 {
            return wrong(format!("alpha {alpha}; wanted: more than 0"));
        }
        self.training.check().map_err(|error| TuningError(error.to_string()))
    }
}

/// Tunings by outcome. Those that were due are the sum of `done`, `worse`, `failed`, `skipped`,
/// `busy` and `stopped`, and one more while a thread trains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TuningCounts {
    /// Those whose model took over.
    pub done: u64,
    /// Those whose model was no better than the one before on a tenth of the examples, which did
    /// not train it; the model before stayed.
    pub worse: u64,
    /// Those that ended with an error; the model before stayed.
    pub failed: u64,
    /// Those that had too few examples.
    pub skipped: u64,
    /// Those that did not begin, as the one before had not ended.
    pub busy: u64,
    /// Those whose outcome was not used, as the model was exchanged meanwhile.
    pub stopped: u64,
    /// Examples of those that were done.
    pub examples: u64,
}

/// Outcome of a tuning.
enum Outcome {
    Done(Head, usize),
    Worse,
    Skipped,
    Stopped,
    Failed(TuningError),
}

/// A tuning on a thread of its own.
#[derive(Debug)]
struct Running {
    stop: Arc<AtomicBool>,
    /// None once it was joined.
    thread: Option<JoinHandle<Outcome>>,
}

impl Running {
    fn begin(head: Head, snapshot: Snapshot, settings: TuningSettings) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let train = move || tune(&head, snapshot, &settings, || !stopped.load(Ordering::Relaxed));
        let thread = Builder::new().name("l4s-tuning".into()).spawn(train)?;
        Ok(Self { stop, thread: Some(thread) })
    }

    fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn end(mut self) -> Outcome {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Outcome::Failed(TuningError("its thread ended early".into())),
            None => Outcome::Stopped,
        }
    }
}

impl Drop for Running {
    /// Waits for the thread, which ends with its minibatch.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Records packets and fine-tunes linear layers on them at intervals, one tuning at a time.
///
/// When it is dropped while its thread trains, it waits for the end of a minibatch.
#[derive(Debug)]
pub struct Tuner {
    settings: TuningSettings,
    recorder: Recorder,
    due_ns: Option<u64>,
    running: Option<Running>,
    failure: Option<TuningError>,
    counts: TuningCounts,
}

impl Tuner {
    /// Begins without packets; an output of the encoder has `width` numbers.
    ///
    /// # Errors
    /// [`TuningError`]: settings out of range.
    pub fn new(settings: TuningSettings, width: usize) -> Result<Self, TuningError> {
        settings.check()?;
        Ok(Self {
            settings,
            recorder: Recorder::new(settings.recorder, width),
            due_ns: None,
            running: None,
            failure: None,
            counts: TuningCounts::default(),
        })
    }

    /// Tunings by outcome.
    #[must_use]
    pub const fn counts(&self) -> TuningCounts {
        self.counts
    }

    /// Why the last tuning that failed did.
    #[must_use]
    pub const fn failure(&self) -> Option<&TuningError> {
        self.failure.as_ref()
    }

    /// What was recorded.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    pub(crate) const fn recorder_mut(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// A batch begins at this instant: the linear layers that take over, if any are ready. Begins
    /// a tuning of the current ones where one is due.
    pub(crate) fn poll(&mut self, now_ns: u64, head: &Head) -> Option<Head> {
        let finished = self.running.take_if(|running| running.is_finished());
        let mut tuned = finished.and_then(|running| self.take(running.end()));
        let interval_ns = self.settings.interval_ns;
        let due_ns = *self.due_ns.get_or_insert(now_ns.saturating_add(interval_ns));
        if now_ns < due_ns {
            return tuned;
        }
        // After a gap the next one is due an interval after this one, not in its place.
        let is_late = now_ns - due_ns >= interval_ns;
        self.due_ns = Some(if is_late { now_ns } else { due_ns }.saturating_add(interval_ns));
        if self.running.is_some() {
            self.counts.busy += 1;
            return tuned;
        }
        let snapshot = self.recorder.snapshot(now_ns);
        let current = tuned.as_ref().unwrap_or(head);
        if self.settings.is_blocking {
            let outcome = tune(current, snapshot, &self.settings, || true);
            tuned = self.take(outcome).or(tuned);
        } else {
            match Running::begin(current.clone(), snapshot, self.settings) {
                Ok(running) => self.running = Some(running),
                Err(error) => {
                    let text = format!("no thread to train on: {error}");
                    self.take(Outcome::Failed(TuningError(text)));
                }
            }
        }
        tuned
    }

    /// The model was exchanged by others: a tuning of the one before is of no use.
    pub(crate) fn stop(&mut self) {
        if self.running.take().is_some() {
            self.counts.stopped += 1;
        }
    }

    fn take(&mut self, outcome: Outcome) -> Option<Head> {
        match outcome {
            Outcome::Done(head, examples) => {
                self.counts.done += 1;
                self.counts.examples += examples as u64;
                return Some(head);
            }
            Outcome::Worse => self.counts.worse += 1,
            Outcome::Skipped => self.counts.skipped += 1,
            Outcome::Stopped => self.counts.stopped += 1,
            Outcome::Failed(error) => {
                self.counts.failed += 1;
                self.failure = Some(error);
            }
        }
        None
    }
}

fn tune(
    head: &Head,
    snapshot: Snapshot,
    settings: &TuningSettings,
    goes_on: impl Fn() -> bool,
) -> Outcome {
    let columns = snapshot.into_examples();
    let count = columns.targets.len();
    if count < settings.examples_min {
        return Outcome::Skipped;
    }
    let is_held = held_out::held_out(count);
    let train = || -> Result<Outcome, EncoderError> {
        let ExampleColumns { hidden, hidden_index, queries, targets, weights, changes } = &columns;
        let trains = |(&weight, &is_held): (&f32, &bool)| if is_held { 0.0 } else { weight };
        let trained: Vec<f32> = weights.iter().zip(&is_held).map(trains).collect();
        let of = |weights| {
            let hidden = (&hidden[..], &hidden_index[..]);
            Examples::new(head, hidden, queries, targets, weights)?.with_changes(changes)
        };
        let (examples, all) = (of(&trained)?, of(weights)?);
        let mut trainer = HeadTrainer::new(head, settings.training)?;
        if !trainer.train(&examples, goes_on)?.is_finished {
            return Ok(Outcome::Stopped);
        }
        let tuned = trainer.head()?;
        let loss_of = |head| held_out::loss(head, &all, &is_held, &settings.training);
        let is_better = loss_of(&tuned)? < loss_of(head)?;
        Ok(if is_better { Outcome::Done(tuned, count) } else { Outcome::Worse })
    };
    train().unwrap_or_else(|error| Outcome::Failed(TuningError(error.to_string())))
}

#[cfg(test)]
mod tests;
