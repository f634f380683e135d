//! What a front door alone may read: clocks and settings of the process.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use packet::Timestamp;
use session::clock::Clock;

/// What runs are lent.
pub(crate) const CLOCK: Clock = Clock { now, realtime, monotonic };

/// A setting of this process.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

#[allow(clippy::disallowed_methods)]
fn now() -> Instant {
    Instant::now()
}

#[allow(clippy::disallowed_methods)]
fn realtime() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ns(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

/// Time since the first call.
fn monotonic() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    let at = now();
    at.saturating_duration_since(*FIRST.get_or_init(|| at))
}
