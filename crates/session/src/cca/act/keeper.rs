//! A queue that is cut into classes, in the hands of the helper: it alone starts `tc`, and what it
//! is asked are numbers.

use capture::tap::FLOW_COUNT_MAX;
use jail::{DeviceChanges, Needs};
use serde::{Deserialize, Serialize};

use super::by::NAME_COUNT_MAX;
use super::program::{Program, ProgramError};
use super::tc::{self, Queue};
use crate::device_keeper::{Chore, OrderOutcome};

/// The queue, and the program that changes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueTask {
    pub(super) tc: Program,
    pub(super) queue: Queue,
}

/// What changes the queue.
pub(super) struct QueueKeeper(QueueTask);

impl QueueKeeper {
    fn run(&self, commands: &[String]) -> Result<(), String> {
        let lines: String = commands.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
        self.0.tc.run(&["-batch", "-"], &lines).map(drop).map_err(in_words)
    }
}

/// In the words of `tc`, but where it does not start.
fn in_words(error: ProgramError) -> String {
    match error {
        ProgramError::Start(error) => error.to_string(),
        ProgramError::Refused(said) => said,
    }
}

impl Chore for QueueKeeper {
    const NAME: &'static str = "queue";
    type Task = QueueTask;
    /// Flows of each class that exists, by its minor number.
    type Order = Vec<(u32, usize)>;

    fn prepare(task: QueueTask) -> Result<Self, String> {
        let changes = DeviceChanges::ByProgram(task.tc.path().to_owned());
        // What a kernel lacks the run reports, which enters a jail as well.
        let _ = jail::enter(&Needs { changes, ..Needs::default() });
        Ok(Self(task))
    }

    fn begin(&mut self) -> Result<String, String> {
        self.run(&self.0.queue.begin()).map(|()| String::new())
    }

    fn carry_out(&mut self, sizes: Self::Order) -> Result<OrderOutcome, String> {
        check(&sizes)?;
        let queue = &self.0.queue;
        let commands = queue.parts(&sizes).into_iter().flat_map(|part| queue.part(part));
        self.run(&commands.collect::<Vec<_>>()).map(|()| OrderOutcome::default())
    }

    fn end(&mut self) -> Result<String, String> {
        let QueueTask { tc, queue } = &self.0;
        let shown = tc.run(&tc::show(&queue.device), "").unwrap_or_default();
        self.run(&[queue.end()])?;
        Ok(shown)
    }
}

/// Whether there are such classes: that of the rest, and then those of controls in order.
fn check(sizes: &[(u32, usize)]) -> Result<(), String> {
    let ((rest, _), controls) = sizes.split_first().ok_or("no classes; wanted: one at least")?;
    let is_control = |minor: u32| (0..NAME_COUNT_MAX).any(|of| tc::minor(Some(of)) == minor);
    let are_controls = controls.iter().all(|&(minor, _)| is_control(minor));
    if *rest != tc::minor(None) || !are_controls || !controls.is_sorted_by(|a, b| a.0 < b.0) {
        return Err(format!(
            "wanted: a class of the rest, and of {NAME_COUNT_MAX} controls at most"
        ));
    }
    if sizes.iter().any(|&(_, flows)| flows > FLOW_COUNT_MAX as usize) {
        return Err(format!("wanted: {FLOW_COUNT_MAX} flows at most in a class"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_cannot_be_are_refused() {
        let most = FLOW_COUNT_MAX as usize;
        for sizes in [&[(2, 0)][..], &[(2, 1), (0x10, most), (0x13, 0)], &[(2, 0), (0x4f, 1)]] {
            check(sizes).unwrap();
        }
        for sizes in [
            &[][..],
            &[(1, 0)],
            &[(0x10, 1)],
            &[(2, 0), (2, 1)],
            &[(2, 0), (0x10, 1), (0x10, 1)],
            &[(2, 0), (0x11, 1), (0x10, 1)],
            &[(2, 0), (0x50, 1)],
            &[(2, most + 1)],
        ] {
            assert!(check(sizes).is_err(), "{sizes:?}");
        }
    }
}
