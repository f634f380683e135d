//! One recorder a log: a lock on a file in its folder, which ends with the process.

use std::fs::{self, File, TryLockError};
use std::path::Path;

use crate::failure::Failure;

/// Name of the file that is locked.
const NAME: &str = "lock";

/// Keeps others from writing a log while it lives.
pub(super) struct Lock(#[allow(dead_code)] File);

impl Lock {
    /// Takes the lock of a log; nothing where another process has it.
    pub(super) fn take(folder: &Path) -> Result<Option<Self>, Failure> {
        let path = folder.join(NAME);
        let refused =
            |error: std::io::Error| Failure::error(format_args!("{}: {error}", path.display()));
        let file = File::options().create(true).append(true).open(&path).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            // A file system without locks: the socket still tells of a recorder that runs.
            Err(TryLockError::Error(_)) => Ok(Some(Self(file))),
        }
    }

    /// Takes the lock to write, and makes the folder where there is none.
    pub(super) fn take_to_write(folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(folder).map_err(|error| {
            let wanted = "give a folder that can be made and written";
            Failure::error(format_args!("{}: {error}; {wanted}", folder.display()))
        })?;
        Self::take(folder)?.ok_or_else(|| {
            Failure::error(format_args!(
                "{}: another recorder writes this log; give another folder with -o",
                folder.display()
            ))
        })
    }
}
