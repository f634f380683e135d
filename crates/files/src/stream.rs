//! Pipes and devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::folder::{check_named, check_owner};
use crate::open::{bits, refused};

/// Opens a pipe or device to write.
///
/// # Errors
/// What the system says; a link, and a pipe of another user where all users may put files.
pub fn open_stream(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(bits(OFlags::NOFOLLOW));
    let opened = check_named(path).and_then(|()| options.open(path));
    let file = opened.map_err(|error| refused(path, error))?;
    check_owner(&file.metadata()?, path).map(|()| file)
}

/// Whether [`descriptor`] opens this path.
#[must_use]
pub fn is_descriptor(path: &Path) -> bool {
    let Some(text) = path.to_str() else { return false };
    let number = ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|folder| text.strip_prefix(folder));
    matches!(text, "/dev/stdout" | "/dev/stderr")
        || number.is_some_and(|number| number.parse::<u32>().is_ok())
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
        _ if is_descriptor(path) => return Some(OpenOptions::new().append(true).open(path)),
        _ => return None,
    };
    Some(owned.map(File::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_known_by_their_exact_paths() {
        for path in ["/dev/stdout", "/dev/stderr", "/dev/fd/63", "/proc/self/fd/3"] {
            assert!(is_descriptor(Path::new(path)), "{path}");
        }
        for path in ["/dev/null", "/dev/fd", "/dev/fd/", "/dev/fd/x", "/dev/fd/1/x", "stdout"] {
            assert!(!is_descriptor(Path::new(path)), "{path}");
            assert!(descriptor(Path::new(path)).is_none(), "{path}");
        }
    }
}
