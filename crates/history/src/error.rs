//! Why a history cannot be begun.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A history folder cannot be used.
#[derive(Debug)]
pub enum HistoryError {
    /// Another run writes it.
    Busy {
        /// The folder.
        folder: PathBuf,
        /// What that run wrote about itself.
        holder: String,
    },
    /// It cannot be made, read or locked.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The operating system's refusal.
        source: io::Error,
    },
    /// The thread that writes it cannot be started.
    Thread(io::Error),
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { folder, holder } => write!(
                f,
                "history folder `{}` is in use by {holder}; end that run, or name another folder",
                folder.display()
            ),
            Self::Folder { folder, source } => write!(
                f,
                "history folder `{}` cannot be used: {source}; name a folder that can be written",
                folder.display()
            ),
            Self::Thread(source) => {
                write!(f, "the thread that writes the history cannot be started: {source}")
            }
        }
    }
}

impl Error for HistoryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Busy { .. } => None,
            Self::Folder { source, .. } | Self::Thread(source) => Some(source),
        }
    }
}
