//! Work alongside the passes, each on a thread of its own, for as long as they run.

use std::thread;
use std::time::Duration;

use engine::run::{Control, spawn};

use crate::application::{Beside, BesideReport};

/// How long a stop, or a hangup, may go unnoticed where there is no packet to notice it at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// All of a run, by application.
#[derive(Default)]
pub(super) struct Besides {
    list: Vec<(&'static str, Box<dyn Beside>)>,
    /// Whether no application reads packets in user space: then they run until the run is stopped.
    pub are_alone: bool,
}

impl Besides {
    pub(super) fn add(&mut self, name: &'static str, beside: Option<Box<dyn Beside>>) {
        self.list.extend(beside.map(|beside| (name, beside)));
    }

    /// Runs them while `passes` does. Of those that end before, the passes take no notice.
    pub(super) fn run<T, A: FnMut()>(
        self,
        control: &Control,
        after_batch: &mut A,
        passes: impl FnOnce(&mut A) -> T,
    ) -> (T, Vec<(&'static str, BesideReport)>) {
        let Self { list, are_alone } = self;
        // Passes end by themselves too, where their source does.
        let over = Control::default();
        let over = &over;
        thread::scope(|scope| {
            let begun: Vec<_> = list
                .into_iter()
                .map(|(name, beside)| (name, spawn(scope, name, move || beside.run(over))))
                .collect();
            let are_over = || begun.iter().all(|(_, thread)| thread.is_finished());
            while are_alone && !control.is_stopped() && !are_over() {
                thread::sleep(LOOK_EVERY);
                after_batch();
            }
            let passed = passes(after_batch);
            over.stop();
            let joined = begun.into_iter().map(|(name, thread)| {
                (name, thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            });
            (passed, joined.collect())
        })
    }
}
