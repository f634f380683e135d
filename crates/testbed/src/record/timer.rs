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

/// Stops the thread when dropped, so that none outlives a recording that failed.
#[derive(Debug)]
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A thread that is woken every millisecond, as [`TimerThread::end`] reports.
#[derive(Debug)]
pub(super) struct TimerThread {
    stop: Stop,
    thread: JoinHandle<Result<Lateness, TestbedError>>,
}

impl TimerThread {
    pub(super) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            // As a relay's thread, so that both are late for the same reasons. Without the rights
            // it is later, never earlier, and the run is rejected rather than believed.
            let _ = set_least_timer_slack();
            let _ = set_realtime();
            measure(&stopped, monotonic_ns())
        };
        Self { stop: Stop(stop), thread: thread::spawn(run) }
    }

    /// How late the thread was woken, each time since the start.
    pub(super) fn end(self) -> Result<Lateness, TestbedError> {
        let Self { stop, thread } = self;
        drop(stop);
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn measure(stop: &AtomicBool, start_ns: u64) -> Result<Lateness, TestbedError> {
    let mut lateness = Lateness::default();
    let mut due_ns = start_ns + PERIOD_NS;
    loop {
        // Before the clock is read, so that a stall that the end falls into counts as well.
        let is_last = stop.load(Ordering::Relaxed);
        let now_ns = monotonic_ns();
        // Periods that were missed entirely count as well: a stall of 5 ms is five late slots.
        while due_ns <= now_ns {
            lateness.add(now_ns - due_ns);
            due_ns += PERIOD_NS;
        }
        if is_last {
            return Ok(lateness);
        }
        wait([None], Some(due_ns - now_ns)).map_err(TestbedError::Wait)?;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_millisecond_counts_once_however_late_the_thread_is_woken() {
        let (stop, start_ns) = (AtomicBool::new(false), monotonic_ns());
        let (lateness, least_ns) = thread::scope(|scope| {
            let measuring = scope.spawn(|| measure(&stop, start_ns));
            thread::sleep(Duration::from_millis(50));
            let least_ns = monotonic_ns() - start_ns;
            stop.store(true, Ordering::Relaxed);
            (measuring.join().unwrap().unwrap(), least_ns)
        });
        let most_ns = monotonic_ns() - start_ns;
        let possible = least_ns / PERIOD_NS..=most_ns / PERIOD_NS;
        assert!(possible.contains(&lateness.count()), "{lateness:?}, {possible:?}");
        assert!(lateness.mean_ns() > 0.0);
    }

    #[test]
    fn a_timer_that_is_dropped_ends_its_thread() {
        let timer = TimerThread::start();
        let stop = Arc::clone(&timer.stop.0);
        drop(timer);
        // The thread has the other one.
        let has_ended = (0..10_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            Arc::strong_count(&stop) == 1
        });
        assert!(has_ended);
    }
}
