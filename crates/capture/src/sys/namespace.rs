//! Network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// The namespace of the calling thread, which is not always that of the process.
const OF_THIS_THREAD: &str = "/proc/thread-self/ns/net";

/// Opens the namespace in which the calling thread is.
///
/// # Errors
/// The system's.
pub fn current() -> io::Result<File> {
    File::open(OF_THIS_THREAD)
}

/// Opens the namespace behind a file.
///
/// # Errors
/// There is no such file.
pub fn open(file: &Path) -> io::Result<File> {
    File::open(file)
}

/// Moves the calling thread, and no other, into a namespace.
///
/// # Errors
/// It takes `CAP_SYS_ADMIN`, and a file that is a network namespace.
pub fn enter(namespace: &File) -> io::Result<()> {
    // SAFETY: an open descriptor; sockets and memory of this process stay as they are.
    let status = unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
