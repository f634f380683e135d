//! What a front door alone may read: clocks and settings of the process.

use std::ffi::OsString;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use engine::run::Control;
use packet::{Span, Timestamp};
use session::clock::Clock;

/// What runs are lent.
pub(crate) const CLOCK: Clock = Clock { now, realtime, monotonic };

/// A setting of this process.
pub(crate) fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// An alarm that is off when this is dropped.
pub(crate) struct Alarm {
    _on: Sender<()>,
}

/// Stops a run after this time, unless it has ended before.
pub(crate) fn stop_after(time: Span, control: &Arc<Control>) -> Alarm {
    let (on, off) = mpsc::channel::<()>();
    let control = Arc::clone(control);
    let time = Duration::from_nanos(u64::try_from(time.as_ns()).unwrap_or(0));
    thread::spawn(move || {
        if off.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            control.stop();
        }
    });
    Alarm { _on: on }
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
