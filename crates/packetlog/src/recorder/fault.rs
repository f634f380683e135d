//! What goes wrong while recording.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::log::LogError;

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why packets that were to be stored are not.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(usize)]
        pub enum Cause { $($(#[$doc])* $name,)* }

        impl Cause {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// A name for settings, events and metrics.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

causes! {
    /// All chunks are on their way to the disk.
    WriterBehind = "writer_behind",
    /// The disk has no room.
    DiskFull = "disk_full",
    /// The file system takes no writes.
    ReadOnly = "read_only",
    /// The file or the folder is gone, and could not be made again.
    Gone = "gone",
    /// The disk failed in another way.
    WriteFailed = "write_failed",
    /// The log has as many bytes as it may have.
    LogFull = "log_full",
    /// The recorder's thread has ended.
    WriterEnded = "writer_ended",
}

impl Cause {
    /// What an error of a write means.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        use io::ErrorKind;
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::DiskFull,
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Self::ReadOnly,
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::StaleNetworkFileHandle => {
                Self::Gone
            }
            _ => Self::WriteFailed,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why no recorder could be made.
#[derive(Debug)]
pub enum RecorderError {
    /// An option has a value that cannot be.
    Option {
        /// Which.
        name: &'static str,
        /// What was wanted.
        wanted: &'static str,
    },
    /// The folder cannot be made or written.
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is there already cannot be read.
    Log(LogError),
    /// The disk has no room for the log's account, or it cannot be written.
    Account {
        /// The log's folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
        /// Bytes that are free on the disk, where it says so.
        free: Option<u64>,
        /// Bytes that are wanted.
        wanted: u64,
    },
    /// Direct writing was asked for and is not possible.
    Direct(io::Error),
    /// No thread could be started, or it panicked.
    Thread(String),
}

impl fmt::Display for RecorderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option { name, wanted } => write!(f, "{name}: wanted {wanted}"),
            Self::Folder { path, error } => {
                write!(f, "{}: {error}; give a folder that can be written", path.display())
            }
            Self::Account { path, error, free, wanted } => {
                write!(f, "{}: {error}; ", path.display())?;
                if let Some(free) = free {
                    write!(f, "the disk has {free} bytes free, {wanted} are wanted to begin; ")?;
                }
                f.write_str("free some space, or give a folder on another disk")
            }
            Self::Log(error) => error.fmt(f),
            Self::Direct(error) => {
                write!(f, "direct writing is not possible here ({error}); leave it out")
            }
            Self::Thread(text) => write!(f, "the recorder's thread: {text}"),
        }
    }
}

impl std::error::Error for RecorderError {}

impl From<LogError> for RecorderError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}
