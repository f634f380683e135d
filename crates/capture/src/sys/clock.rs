//! The wall clock, for the ticks of live sources and for programs in the kernel.

#[cfg(feature = "tap")]
use packet::Span;
use packet::Timestamp;

/// `CLOCK_REALTIME`, the clock that stamps frames.
#[must_use]
pub fn realtime_now() -> Timestamp {
    now(libc::CLOCK_REALTIME)
}

/// `CLOCK_MONOTONIC`, the clock of programs in the kernel.
#[cfg(feature = "tap")]
#[must_use]
pub fn monotonic_now() -> Timestamp {
    now(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` less the clock of programs in the kernel.
#[cfg(feature = "tap")]
#[must_use]
pub fn realtime_ahead() -> Span {
    realtime_now().since(monotonic_now())
}

fn now(clock: libc::clockid_t) -> Timestamp {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer; the clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Timestamp::from_parts(now.tv_sec, now.tv_nsec)
}
