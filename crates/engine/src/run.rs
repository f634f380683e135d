//! Drives stages over sources whose order does not matter to them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use packet::Source;

use crate::stage::{Fold, Stage};

/// The way to stop a run from outside: an interrupt, a limit reached.
#[derive(Debug, Default)]
pub struct Control {
    stop: Arc<AtomicBool>,
    has_failed: AtomicBool,
}

impl Control {
    /// Asks every thread to stop after the batch in hand.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops since what was found cannot be handed on: an error, and no interruption.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
        self.stop();
    }

    /// Whether the run was stopped from outside, as by an interrupt.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.is_stopped() && !self.has_failed.load(Ordering::Relaxed)
    }

    /// The flag that a stop sets, for a source that waits where nothing comes.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether a stop was asked for.
    #[inline]
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What a run leaves.
#[derive(Debug)]
pub struct RunOutcome<S, T> {
    /// The stage with everything folded in.
    pub stage: T,
    /// The sources as they ended, in their order: they hold their own reports.
    pub sources: Vec<S>,
}

/// The name of a thread that looks at packets, as its counts have it. Where one thread reads and
/// others help it, that one is the first.
#[must_use]
pub fn shard(number: usize) -> String {
    format!("shard-{number}")
}

/// As [`thread::Scope::spawn`], with a name of at most 15 bytes, by which the kernel knows it.
///
/// # Panics
/// The system starts no more threads; as there.
pub fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> thread::ScopedJoinHandle<'scope, T> {
    begun(thread::Builder::new().name(name.into()).spawn_scoped(scope, work))
}

/// As [`thread::spawn`], with a name of at most 15 bytes, by which the kernel knows it.
///
/// # Panics
/// The system starts no more threads; as there.
pub fn spawn_free<T: Send + 'static>(
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    begun(thread::Builder::new().name(name.into()).spawn(work))
}

fn begun<T>(thread: std::io::Result<T>) -> T {
    thread.unwrap_or_else(|error| {
        std::panic::resume_unwind(Box::new(format!("no thread could be started: {error}")))
    })
}

/// Runs stages over `sources` on up to `thread_count` threads, one source at a
/// time on each, and folds the stages. What comes out does not depend on the
/// number of threads, because [`Fold`] promises that order does not matter.
pub fn run<S, T>(
    sources: Vec<S>,
    thread_count: usize,
    make_stage: impl Fn() -> T + Sync,
    control: &Control,
) -> RunOutcome<S, T>
where
    S: Source + Send,
    T: Stage + Fold + Send,
{
    let slots: Vec<Mutex<S>> = sources.into_iter().map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut stage = make_stage();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = slots.get(index) else { break };
            // Each index is drawn once, so the lock is never waited for.
            let mut source = slot.lock().unwrap_or_else(PoisonError::into_inner);
            stage.on_source(index);
            run_one(&mut *source, &mut stage, control);
        }
        stage
    };
    let helper_count = thread_count.min(slots.len()).saturating_sub(1);
    let stage = thread::scope(|scope| {
        let helpers: Vec<_> = (1..=helper_count).map(|at| spawn(scope, shard(at), work)).collect();
        let mut whole = work();
        for helper in helpers {
            match helper.join() {
                Ok(part) => whole.fold(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        whole
    });
    let sources =
        slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    RunOutcome { stage, sources: sources.collect() }
}

/// Runs one stage over one source on this thread.
pub fn run_one<S: Source, T: Stage>(source: &mut S, stage: &mut T, control: &Control) {
    while !control.is_stopped() || source.ends_by_itself() {
        match source.next_batch() {
            Some(batch) => stage.on_batch(&batch),
            None => break,
        }
    }
}
