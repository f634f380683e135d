//! What keeps a log from being read, whole or in part.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::index::ChunkFault;

/// A file or folder that could not be read or written.
#[derive(Debug)]
pub struct LogError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl LogError {
    pub(crate) fn new(path: impl AsRef<Path>, error: io::Error) -> Self {
        Self { path: path.as_ref().to_owned(), error }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; give the folder of a packet log", self.path.display(), self.error)
    }
}

impl std::error::Error for LogError {}

/// A place in a file that is no whole chunk; the rest stays readable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogFault {
    /// Which file.
    pub path: PathBuf,
    /// Where in it, counted as if it were not compressed.
    pub offset: u64,
    /// Bytes that are passed over.
    pub len: u64,
    /// Why.
    pub fault: ChunkFault,
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, len, fault } = self;
        let path = path.display();
        match fault {
            ChunkFault::Index { .. } => {
                write!(f, "{path}: {fault}; the file itself was scanned for blocks")
            }
            ChunkFault::Keys { .. } => {
                write!(f, "{path}: {fault}; those were searched without them")
            }
            ChunkFault::Account => {
                write!(f, "{path}: {fault}; earlier losses and deletions are unknown")
            }
            ChunkFault::NoFile => write!(f, "{path}: {fault}; skipped"),
            _ => write!(f, "{path}: {len} bytes at {offset}: {fault}; skipped"),
        }
    }
}
