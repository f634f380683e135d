//! What can go wrong between a row and the disk.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use engine::columns::Schema;

use crate::Format;

/// A [`Writer`](crate::Writer) could not write.
#[derive(Debug)]
pub enum WriteError {
    /// The output refused the bytes. Where it is an [`OutputFile`](crate::OutputFile), the text
    /// names the file.
    Io(io::Error),
    /// The rows have other columns than the writer was made for.
    OtherSchema {
        /// What the writer was made for.
        wanted: Schema,
        /// What the rows have.
        seen: Schema,
    },
    /// A schema without columns: no format has a place for such rows.
    NoColumns,
    /// Two columns of one name: readers would take one and lose the other.
    DuplicateColumn(&'static str),
    /// So much text in so few rows that one batch of them cannot be addressed.
    TextTooLong(&'static str),
    /// The library that encodes the format refused.
    Encoding {
        /// The format.
        format: Format,
        /// What the library said.
        cause: String,
    },
    /// An earlier write failed, so the output has a hole and is not gone on with.
    AfterFailure,
}

/// An [`OutputFile`](crate::OutputFile) could not be made, filled or put in place.
#[derive(Debug)]
pub enum OutputError {
    /// The target exists and was not to be replaced.
    Exists(PathBuf),
    /// The target is a folder.
    IsFolder(PathBuf),
    /// The target is a symbolic link.
    IsLink {
        /// The target.
        path: PathBuf,
        /// What it leads to.
        to: PathBuf,
    },
    /// The folder that the target would be in does not exist, or is no folder.
    NoFolder {
        /// The target.
        path: PathBuf,
        /// The folder it would be in.
        folder: PathBuf,
    },
    /// Another run is writing the same target at this moment.
    Busy {
        /// The target.
        path: PathBuf,
        /// The file that the other run has open.
        partial: PathBuf,
    },
    /// Something that no run of ours leaves behind has the name of the partial file.
    PartialNotOurs(PathBuf),
    /// The operating system refused to create or open a file.
    Create {
        /// What was to be created or opened.
        path: PathBuf,
        /// Its refusal.
        source: io::Error,
    },
    /// The operating system refused some bytes: mostly a full disk.
    Write {
        /// The target.
        path: PathBuf,
        /// How many bytes it had taken before.
        written_bytes: u64,
        /// What there is of it now.
        left: FailedOutput,
        /// Its refusal.
        source: io::Error,
    },
    /// The target appeared while its rows were being written; they are kept under the partial name.
    Appeared {
        /// The target.
        path: PathBuf,
        /// The complete output.
        partial: PathBuf,
    },
    /// The folder of the output was removed, or unmounted, while its rows were being written.
    Vanished {
        /// The target.
        path: PathBuf,
        /// How many bytes are gone with it.
        written_bytes: u64,
    },
    /// The output is complete, but could not be given its name.
    Publish {
        /// The target.
        path: PathBuf,
        /// The complete output.
        partial: PathBuf,
        /// The refusal.
        source: io::Error,
    },
}

/// What there is of an output of which a write failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FailedOutput {
    /// It was removed.
    Nothing,
    /// Complete rows, in this partial file: [`recover`](crate::recover()) makes a file of them.
    Rows(PathBuf),
    /// What it was: a pipe or device, or a file that could not be removed.
    AsItWas,
}

impl WriteError {
    /// Whether the reader of a pipe went away, as `head` does: a reason to stop, not to complain.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::OtherSchema { wanted, seen } => {
                f.write_str("rows with the columns ")?;
                names(f, seen)?;
                f.write_str(" were written to an output made for ")?;
                names(f, wanted)?;
                f.write_str("; write each kind of row to an output of its own")
            }
            Self::NoColumns => f.write_str(
                "a schema without columns has no rows to write; declare at least one column",
            ),
            Self::DuplicateColumn(name) => write!(f, "two columns are named `{name}`; rename one"),
            Self::TextTooLong(name) => {
                write!(
                    f,
                    "column `{name}` has over 2 GiB of text in one batch of rows; write fewer rows \
                     per batch"
                )
            }
            Self::Encoding { format, cause } => {
                write!(f, "cannot write {format}: {cause}; try another --format")
            }
            Self::AfterFailure => {
                f.write_str("an earlier write failed, so the output is incomplete; start again")
            }
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            // Its text is this error's text, so the chain goes on behind it.
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists(path) => {
                write!(
                    f,
                    "`{}` exists already; give --force to replace it, or another name",
                    path.display()
                )
            }
            Self::IsFolder(path) => {
                let path = path.display();
                write!(f, "`{path}` is a folder; an output file is wanted: name one inside it")
            }
            Self::IsLink { path, to } => {
                let (path, to) = (path.display(), to.display());
                write!(
                    f,
                    "`{path}` is a symbolic link to `{to}`, and no output goes through a link; \
                     name that file itself, or remove the link"
                )
            }
            Self::NoFolder { path, folder } => {
                let (path, folder) = (path.display(), folder.display());
                write!(
                    f,
                    "cannot create `{path}`: there is no folder `{folder}`; create it first (mkdir -p)"
                )
            }
            Self::Busy { path, partial } => {
                let (path, partial) = (path.display(), partial.display());
                write!(
                    f,
                    "`{path}` is being written by another run, which has `{partial}` open; wait, or give another name"
                )
            }
            Self::PartialNotOurs(partial) => {
                write!(
                    f,
                    "`{}` exists and is not a file of Wirelens; move it, or give another name",
                    partial.display()
                )
            }
            Self::Create { path, source } => create_failed(f, path, source),
            Self::Write { path, written_bytes, left, source } => {
                write_failed(f, path, *written_bytes, left, source)
            }
            Self::Appeared { path, partial } => {
                let (path, partial) = (path.display(), partial.display());
                write!(
                    f,
                    "`{path}` appeared while its rows were being written; they are complete \
                     in `{partial}`: move that before the next run replaces it, or give \
                     --force next time"
                )
            }
            Self::Vanished { path, written_bytes } => vanished(f, path, *written_bytes),
            Self::Publish { path, partial, source } => {
                let (path, partial) = (path.display(), partial.display());
                write!(
                    f,
                    "cannot name the output `{path}`: {source}; it is complete in `{partial}`: \
                     move that before the next run replaces it"
                )
            }
        }
    }
}

fn create_failed(f: &mut fmt::Formatter<'_>, path: &Path, source: &io::Error) -> fmt::Result {
    write!(f, "cannot create `{}`: {source}", path.display())?;
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            f.write_str("; choose a folder that you may write to")
        }
        _ => Ok(()),
    }
}

fn vanished(f: &mut fmt::Formatter<'_>, path: &Path, written_bytes: u64) -> fmt::Result {
    write!(
        f,
        "`{}` is gone: its folder, or the file itself, was removed while it was being written, \
         and {written_bytes} bytes with it; write to a folder that stays",
        path.display()
    )
}

fn write_failed(
    f: &mut fmt::Formatter<'_>,
    path: &Path,
    written_bytes: u64,
    left: &FailedOutput,
    source: &io::Error,
) -> fmt::Result {
    if path == Path::new("/dev/stdout") {
        write!(f, "cannot write to standard output: {source} after {written_bytes} bytes")?;
    } else {
        write!(f, "cannot write `{}`: {source} after {written_bytes} bytes", path.display())?;
    }
    match left {
        FailedOutput::Nothing => f.write_str("; the incomplete file was removed")?,
        FailedOutput::Rows(partial) => {
            let partial = partial.display();
            write!(
                f,
                "; the previous rows are in `{partial}`, and `wirelens recover` makes a file of \
                 them"
            )?;
        }
        FailedOutput::AsItWas => {}
    }
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            f.write_str("; free some space, or write to another disk")
        }
        _ => Ok(()),
    }
}

impl Error for OutputError {}

impl From<OutputError> for io::Error {
    fn from(error: OutputError) -> Self {
        let kind = match &error {
            OutputError::Create { source, .. }
            | OutputError::Write { source, .. }
            | OutputError::Publish { source, .. } => source.kind(),
            OutputError::Exists(_)
            | OutputError::IsLink { .. }
            | OutputError::Appeared { .. }
            | OutputError::PartialNotOurs(_) => io::ErrorKind::AlreadyExists,
            OutputError::IsFolder(_) => io::ErrorKind::IsADirectory,
            OutputError::NoFolder { .. } | OutputError::Vanished { .. } => io::ErrorKind::NotFound,
            OutputError::Busy { .. } => io::ErrorKind::ResourceBusy,
        };
        Self::new(kind, error)
    }
}

fn names(f: &mut fmt::Formatter<'_>, schema: Schema) -> fmt::Result {
    f.write_str("`")?;
    for (index, field) in schema.iter().enumerate() {
        write!(f, "{}{}", if index == 0 { "" } else { "," }, field.name)?;
    }
    f.write_str("`")
}
