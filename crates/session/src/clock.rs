//! Monotonic time, for people who wait and for replays: nothing that is computed of packets depends
//! on it.

use std::time::Instant;

/// The time now.
#[allow(clippy::disallowed_methods)]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}
