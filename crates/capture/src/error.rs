//! Why a capture cannot be opened.

use std::fmt;
use std::io;
use std::path::PathBuf;

use packet::file::{FileFault, Magic};

use crate::filter::FilterError;

/// Why a capture cannot be opened: what was seen, what was wanted, what to try.
#[derive(Debug)]
pub enum OpenError {
    /// There is nothing under this name.
    NotFound(PathBuf),
    /// The system refuses.
    Unreadable(PathBuf, io::Error),
    /// There is a file, and no byte in it.
    Empty(String),
    /// The file is something else.
    NotACapture {
        /// The file as it was named.
        name: String,
        /// Its first bytes.
        prefix: Vec<u8>,
        /// What those are, if that is known.
        magic: Option<Magic>,
    },
    /// The first header is wrong.
    HeaderDamaged(String, FileFault),
    /// A folder in which no file is a capture.
    FolderWithoutCaptures {
        /// The folder.
        path: PathBuf,
        /// Files in it, all of them something else.
        file_count: usize,
    },
    /// A filter that cannot be used.
    Filter(FilterError),
    /// An interface that cannot be listened on.
    #[cfg(target_os = "linux")]
    Live(crate::live::LiveError),
}

#[cfg(target_os = "linux")]
impl From<crate::live::LiveError> for OpenError {
    fn from(error: crate::live::LiveError) -> Self {
        Self::Live(error)
    }
}

impl From<FilterError> for OpenError {
    fn from(error: FilterError) -> Self {
        Self::Filter(error)
    }
}

const WANTED: &str = "wanted pcap or pcapng, plain or compressed with gzip or zstd";

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(path) => write!(
                f,
                "{}: no such file or folder; give a capture, a folder of captures, or - for standard input",
                path.display()
            ),
            Self::Unreadable(path, error) => {
                write!(f, "{}: cannot be read: {error}", path.display())?;
                if error.kind() == io::ErrorKind::PermissionDenied {
                    f.write_str(
                        "; try as the owner of the file, or make it readable with chmod +r",
                    )?;
                }
                Ok(())
            }
            Self::Empty(name) => {
                write!(
                    f,
                    "{name}: is empty (0 bytes); {WANTED}; was the capture stopped before it was written?"
                )
            }
            Self::NotACapture { name, prefix, magic } => match magic {
                Some(magic) => {
                    write!(f, "{name}: is {magic}; {WANTED}; try to convert it with editcap")
                }
                None => {
                    write!(f, "{name}: begins with")?;
                    for byte in prefix.iter().take(4) {
                        write!(f, " {byte:02x}")?;
                    }
                    write!(f, ", which is not a capture; {WANTED}")
                }
            },
            Self::HeaderDamaged(name, fault) => write!(f, "{name}: {fault}; {WANTED}"),
            Self::FolderWithoutCaptures { path, file_count: 0 } => {
                write!(f, "{}: a folder without files; {WANTED}", path.display())
            }
            Self::FolderWithoutCaptures { path, file_count } => write!(
                f,
                "{}: none of its {file_count} files is a capture; {WANTED}; is it the right \
                 folder?",
                path.display()
            ),
            Self::Filter(error) => error.fmt(f),
            #[cfg(target_os = "linux")]
            Self::Live(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}
