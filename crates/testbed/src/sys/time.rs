//! The monotonic clock, and being woken by it in time.

use std::io;

/// Of `SCHED_FIFO`'s 1 to 99: any goes before all that is not real time, and low leaves room.
const REALTIME_PRIORITY: libc::c_int = 10;

/// `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    // Counted from the start of the machine: neither is negative.
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Has the calling thread woken at the nanosecond it asks for, instead of up to 50 µs later,
/// when other timers are due as well.
///
/// # Errors
/// The system's.
pub fn set_least_timer_slack() -> io::Result<()> {
    let one_ns: libc::c_ulong = 1;
    // SAFETY: this request takes a number and changes nothing but the thread's timers.
    let status = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, one_ns) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts the calling thread before all that is not real time.
///
/// # Errors
/// It takes `CAP_SYS_NICE`, or a limit that allows it.
pub fn set_realtime() -> io::Result<()> {
    // SAFETY: a structure of integers, for which zeros are values.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = REALTIME_PRIORITY;
    // A child, did we start one, would not be real time.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: thread 0 is the calling one; the parameters are only read.
    let status = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
