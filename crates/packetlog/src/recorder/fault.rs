//! What goes wrong while recording.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::log::LogError;

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
    /// The file for heads of the ledger cannot be opened, or is in the log's own folder.
    Anchor {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
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
            Self::Anchor { path, error } => write!(
                f,
                "{}: {error}; anchor the ledger in a file outside of the log's folder that can be \
                 appended to",
                path.display()
            ),
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
