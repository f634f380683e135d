//! The scheduling class of the calling thread (`sched(7)`).

use std::io;

/// Lets the calling thread run before all threads of the usual class, as soon as it has work.
/// Threads that it starts are of the usual class.
///
/// # Errors
/// Needs `CAP_SYS_NICE`, or an `RLIMIT_RTPRIO` of 1.
pub fn become_realtime() -> io::Result<()> {
    set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, 1)
}

/// Back to the usual class, which is always allowed.
///
/// # Errors
/// None is known.
pub fn become_usual() -> io::Result<()> {
    set(libc::SCHED_OTHER, 0)
}

fn set(policy: libc::c_int, priority: libc::c_int) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: reads the parameters alone; thread 0 is the caller.
    let set = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
