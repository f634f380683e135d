//! The wall clock, for the ticks of live sources and for programs in the kernel.

use packet::{Span, Timestamp};

/// `CLOCK_REALTIME`, the clock that stamps frames.
#[must_use]
pub fn realtime_now() -> Timestamp {
    now(libc::CLOCK_REALTIME)
}

/// `CLOCK_MONOTONIC`, the clock of programs in the kernel, and of waits: it cannot be set.
#[must_use]
pub fn monotonic_now() -> Timestamp {
    now(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` less the clock of programs in the kernel.
#[must_use]
pub fn realtime_ahead() -> Span {
    realtime_now().since(monotonic_now())
}

/// Whether the wall clock follows another one, as adjtimex(2) reports it, and by how many
/// microseconds it may be wrong at most.
///
/// # Errors
/// The system's, such as a sandbox that does not let the clock be asked.
pub fn discipline() -> std::io::Result<(bool, u64)> {
    // SAFETY: a structure of integers, for which zeros are a value; no mode is set.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer; without a mode the clock is only asked.
    let status = unsafe { libc::adjtimex(&raw mut state) };
    if status < 0 {
        return Err(std::io::Error::last_os_error());
    }
    let is_synchronised = status != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    Ok((is_synchronised, u64::try_from(state.maxerror).unwrap_or(0)))
}

fn now(clock: libc::clockid_t) -> Timestamp {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer; the clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    Timestamp::from_parts(now.tv_sec, now.tv_nsec)
}
