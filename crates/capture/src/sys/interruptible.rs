//! Reading that a stop ends, also while nothing comes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How long a stop may go unnoticed while nothing comes.
const POLL_MS: libc::c_int = 100;

/// A pipe or device whose reading ends, as at its end, once a stop is asked for.
pub struct Interruptible {
    file: File,
    stop: Arc<AtomicBool>,
}

impl Interruptible {
    /// Reads `file` until `stop` is set.
    #[must_use]
    pub fn new(file: File, stop: Arc<AtomicBool>) -> Self {
        Self { file, stop }
    }
}

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let mut polled =
                libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid pollfd, whose descriptor this file keeps open.
            let ready = unsafe { libc::poll(&raw mut polled, 1, POLL_MS) };
            // A signal interrupts the call: look at the flag again.
            if ready > 0 {
                return self.file.read(buffer);
            }
            if ready < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
