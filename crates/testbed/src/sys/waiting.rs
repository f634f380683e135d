//! Waiting for descriptors, to the nanosecond.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

/// What a wait found of one descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Something can be read, or the end was reached.
    pub is_readable: bool,
    /// Nothing will come any more: what it stood for is gone.
    pub is_gone: bool,
}

/// Waits until one of `descriptors` has something, or `timeout_ns` have passed; with `None`
/// without end. `None` among the descriptors is not looked at.
///
/// # Errors
/// The system's; a signal is none, but nothing was found then.
pub fn wait<const COUNT: usize>(
    descriptors: [Option<BorrowedFd<'_>>; COUNT],
    timeout_ns: Option<u64>,
) -> io::Result<[Readiness; COUNT]> {
    let mut polled = descriptors.map(|descriptor| libc::pollfd {
        // The kernel passes over a negative one.
        fd: descriptor.map_or(-1, |descriptor| descriptor.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: COUNT valid entries whose descriptors are borrowed for the call; the time-out
    // is null or valid, and there is no signal mask.
    let ready = unsafe {
        libc::ppoll(polled.as_mut_ptr(), COUNT as libc::nfds_t, timeout, std::ptr::null())
    };
    if ready < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok([Readiness::default(); COUNT]),
            _ => Err(error),
        };
    }
    Ok(polled.map(|entry| Readiness {
        is_readable: entry.revents & (libc::POLLIN | libc::POLLHUP) != 0,
        is_gone: entry.revents & (libc::POLLERR | libc::POLLNVAL) != 0,
    }))
}
