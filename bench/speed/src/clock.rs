//! The two clocks of a measurement: the wall's, and the processor time of all threads.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A stopwatch over both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

/// What passed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElapsedTime {
    /// On the wall's clock.
    pub(crate) wall: Duration,
    /// Processor time of every thread of this process, waiting by spinning included.
    pub(crate) cpu: Duration,
}

impl Stopwatch {
    // The clock is read to time the machine, never to decide what a packet means.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn start() -> Self {
        Self { wall: Instant::now(), cpu: process_cpu() }
    }

    pub(crate) fn stop(&self) -> ElapsedTime {
        ElapsedTime { wall: self.wall.elapsed(), cpu: process_cpu().saturating_sub(self.cpu) }
    }
}

fn process_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let ns = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, ns)
}
