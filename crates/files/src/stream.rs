//! Pipes and devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::folder::check_owner;
use crate::open::{bits, refused};

/// Opens a pipe or device to write.
///
/// # Errors
/// What the system says; a link, and a pipe of another user where all users may put files.
pub fn open_stream(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(bits(OFlags::NOFOLLOW));
    let file = options.open(path).map_err(|error| refused(path, error))?;
    check_owner(&file, path).map(|()| file)
}

/// A path that refers to a descriptor we hold, which is a link by its nature. It is duplicated
/// rather than opened again: opening `/dev/stdout` after `>> log` would start at the log's
/// beginning.
#[must_use]
pub fn descriptor(path: &Path) -> Option<io::Result<File>> {
    let owned = match path.to_str()? {
        "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1" => {
            io::stdout().as_fd().try_clone_to_owned()
        }
        "/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2" => {
            io::stderr().as_fd().try_clone_to_owned()
        }
        other if other.starts_with("/dev/fd/") || other.starts_with("/proc/self/fd/") => {
            return Some(OpenOptions::new().append(true).open(path));
        }
        _ => return None,
    };
    Some(owned.map(File::from))
}
