//! Files of a log's folder: links of other users are not followed, and other users cannot read them
//! unless asked.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

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

    /// Permissions of a file.
    #[must_use]
    pub const fn file_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group => 0o640,
        }
    }

    /// Permissions of a folder.
    #[must_use]
    pub const fn folder_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o750,
        }
    }
}

/// Flags with which a file that is there is opened: a link is an error, and a pipe that another
/// user put there does not block.
const FLAGS: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);

/// How a file that is there is opened for reading.
pub(crate) fn reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(FLAGS.bits().cast_signed());
    options
}

/// How a file that is not there yet is made, with more flags.
pub(crate) fn creating(access: Access, flags: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(access.file_mode());
    options.custom_flags(OFlags::NOFOLLOW.union(flags).bits().cast_signed());
    options
}

/// Opens a file for reading.
///
/// # Errors
/// What the system says; a link, a folder or a pipe is none of ours.
pub(crate) fn open_own(path: &Path) -> io::Result<File> {
    regular(reading().open(path).map_err(link)?)
}

/// Opens a file for reading and writing, under the same conditions.
pub(crate) fn open_own_to_write(path: &Path) -> io::Result<File> {
    regular(reading().write(true).open(path).map_err(link)?)
}

/// Makes a file that is not there.
///
/// # Errors
/// What the system says.
pub fn create_own(path: &Path, access: Access) -> io::Result<File> {
    creating(access, OFlags::empty()).open(path)
}

/// Opens a file to add to its end, or makes it.
///
/// # Errors
/// What the system says; a link, a folder or a pipe is none of ours.
pub fn append_own(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(access.file_mode());
    options.custom_flags(FLAGS.bits().cast_signed());
    regular(options.open(path).map_err(link)?)
}

/// Makes a folder with those above it, where it is not there.
///
/// # Errors
/// What the system says.
pub fn create_folder(folder: &Path, access: Access) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(above) = folder.parent().filter(|above| !above.as_os_str().is_empty()) {
        std::fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(access.folder_mode()).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file, so none of a log's"))
}

fn link(error: io::Error) -> io::Error {
    if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) {
        let text = "a symbolic link, which is not followed here";
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    error
}

/// Whether a file of a log's name could not be opened because it is something else: a link, a
/// pipe, a folder.
pub(crate) fn is_none_of_ours(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::IsADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
}
