//! Time outside of event time, for people who wait and for replays: nothing that is computed of
//! packets depends on it.

use std::time::{Duration, Instant};

use packet::Timestamp;

/// The clocks of a front end, which alone reads them.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Monotonic time.
    pub now: fn() -> Instant,
    /// The clock that the kernel's stamps are taken from.
    pub realtime: fn() -> Timestamp,
    /// Time since some moment of this process, which only goes forward.
    pub monotonic: fn() -> Duration,
}
