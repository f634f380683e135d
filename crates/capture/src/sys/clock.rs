//! The wall clock, for the ticks of live sources and nothing else.

use packet::Timestamp;

/// `CLOCK_REALTIME`, the clock that stamps frames.
#[must_use]
pub fn realtime_now() -> Timestamp {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    Timestamp::from_parts(now.tv_sec, now.tv_nsec)
}
