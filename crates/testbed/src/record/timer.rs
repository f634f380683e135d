//! How late a thread is woken while taps record.
//!
//! A run whose processors are busy sends its packets in bursts that a real network would not have.
//! A link with delay measures that on each packet that it passes on; a link without delay has
//! no thread of ours on its path, so that this timer is the measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::error::TestbedError;
use crate::lateness::Lateness;
use crate::sys::time::{monotonic_ns, set_least_timer_slack, set_realtime};
use crate::sys::waiting::wait;

/// A slot of the captures' evaluation is as long. At 1,000 a second the timer takes less than
/// 1 % of a processor.
const PERIOD_NS: u64 = 1_000_000;

/// A thread that is woken every millisecond, as [`TimerThread::end`] reports.
#[derive(Debug)]
pub(super) struct TimerThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Lateness, TestbedError>>,
}

impl TimerThread {
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Self { stop, thread: thread::spawn(move || measure(&stopped)) }
    }

    /// How late the thread was woken, each time since the start.
    pub(super) fn end(self) -> Result<Lateness, TestbedError> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn measure(stop: &AtomicBool) -> Result<Lateness, TestbedError> {
    // As a relay's thread, so that both are late for the same reasons. Without the rights it is
    // later, never earlier, and the run is rejected rather than believed.
    let _ = set_least_timer_slack();
    let _ = set_realtime();
    let mut lateness = Lateness::default();
    let mut due_ns = monotonic_ns() + PERIOD_NS;
    while !stop.load(Ordering::Relaxed) {
        let now_ns = monotonic_ns();
        if now_ns < due_ns {
            wait([None], Some(due_ns - now_ns)).map_err(TestbedError::Wait)?;
            continue;
        }
        // Periods that were missed entirely count as well: a stall of 5 ms is five late slots.
        while due_ns <= now_ns {
            lateness.add(now_ns - due_ns);
            due_ns += PERIOD_NS;
        }
    }
    Ok(lateness)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_woken_each_millisecond() {
        let timer = TimerThread::start();
        thread::sleep(std::time::Duration::from_millis(50));
        let lateness = timer.end().unwrap();
        assert!(lateness.count() >= 40, "{lateness:?}");
        assert!(lateness.mean_ns() > 0.0);
    }
}
