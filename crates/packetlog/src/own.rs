//! Who may read a log: the permissions of what a recorder makes. `files` opens it.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use files::FileMode;
use rustix::fs::{Mode, OFlags};

pub(crate) use files::{open as open_own, open_to_write as open_own_to_write};

/// Who may read a log besides its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// No one else: it holds what people sent.
    #[default]
    Owner,
    /// The folder's group.
    Group,
}

impl Access {
    /// As the folder itself says.
    pub(crate) fn of_folder(folder: &Path) -> Self {
        let mode = std::fs::metadata(folder).map_or(0, |folder| folder.permissions().mode());
        if mode & 0o040 == 0 { Self::Owner } else { Self::Group }
    }

    /// Permissions.
    #[must_use]
    pub const fn mode(self) -> FileMode {
        match self {
            Self::Owner => FileMode::OWNER,
            Self::Group => FileMode::GROUP,
        }
    }
}

/// Makes a file that is not there.
///
/// # Errors
/// What the system says.
pub fn create_own(path: &Path, access: Access) -> io::Result<File> {
    files::create(path, access.mode())
}

/// The same, next to a file of the log that it belongs to, whose owner it gets if root makes it.
pub(crate) fn create_like(path: &Path, access: Access, like: &Path) -> io::Result<File> {
    files::create_like(path, access.mode(), like)
}

/// Names the time since the machine was started; empty where the system does not say.
#[must_use]
pub fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Opens a file of a folder that is open, wherever it is mounted, to write.
///
/// # Errors
/// What the system says.
pub(crate) fn open_in_to_write(folder: &File, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

/// Opens a file to add to its end, or makes it.
///
/// # Errors
/// What the system says; a link, a folder or a pipe is none of ours.
pub fn append_own(path: &Path, access: Access) -> io::Result<File> {
    files::append_log(path, access.mode())
}

/// Makes a folder with those above it, where it is not there.
///
/// # Errors
/// What the system says.
pub fn create_folder(folder: &Path, access: Access) -> io::Result<()> {
    files::create_folder(folder, access.mode())
}

/// Whether a file of a log's name could not be opened because it is something else: a link, a
/// pipe, a folder.
pub(crate) fn is_none_of_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}
