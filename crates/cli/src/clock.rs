//! The clocks, which are read here alone.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use packet::Timestamp;
use session::clock::Clock;

/// What runs are lent.
pub(crate) const CLOCK: Clock = Clock { now, realtime, monotonic };

/// Monotonic time, for people who wait: nothing that is computed depends on it.
#[allow(clippy::disallowed_methods)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// The clock that stamps are taken from, and that other logs have.
#[allow(clippy::disallowed_methods)]
pub(crate) fn realtime() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ns(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Time since the first call, on a clock that only goes forward.
fn monotonic() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let at = now();
    at.saturating_duration_since(*FIRST.get_or_init(|| at))
}
