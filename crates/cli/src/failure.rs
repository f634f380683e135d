//! Errors leave by this door, with one line and one exit status.

use std::fmt;

use capture::{FilterError, OpenError};
use session::reading::InputError;
use session::shipped::ModelError;
use sink::{FormatError, OutputError, RecoverError, WriteError};

/// How a run ended; README's table of exit statuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// All was read and written.
    Fine = 0,
    /// Something could not be done, or rows or alerts were lost.
    Error = 1,
    /// The arguments make no sense.
    Usage = 2,
    /// Done, but an input was damaged: the results cover what came before.
    Damaged = 3,
}

/// What ends a run early.
#[derive(Debug)]
pub(crate) struct Failure {
    status: Status,
    message: String,
}

impl Failure {
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { status: Status::Usage, message: message.to_string() }
    }

    pub(crate) fn error(message: impl fmt::Display) -> Self {
        Self { status: Status::Error, message: message.to_string() }
    }

    /// The reader of our output has seen enough, as `head` has: no error.
    pub(crate) fn enough() -> Self {
        Self { status: Status::Fine, message: String::new() }
    }

    pub(crate) fn report(&self) -> Status {
        if !self.message.is_empty() {
            eprintln!("wirelens: {}", self.message);
        }
        self.status
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Filter(error) => error.into(),
            error => Self::error(error),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::IsFile { .. } => Self::usage(error),
            error => Self::error(error),
        }
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Open(error) => error.into(),
            error => Self::usage(error),
        }
    }
}

impl From<FilterError> for Failure {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::LibraryMissing { .. } => Self::error(error),
            FilterError::Refused { .. } => Self::usage(error),
        }
    }
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        Self::usage(error)
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        Self::error(error)
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            _ if error.is_broken_pipe() => Self::enough(),
            // What goes to a file says which; rows that name none went to standard output.
            WriteError::Io(error) if error.get_ref().is_none() => error.into(),
            error => Self::error(error),
        }
    }
}

impl From<RecoverError> for Failure {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::OtherFormat { .. } => Self::usage(error),
            RecoverError::Output(error) => error.into(),
            RecoverError::Write(error) => error.into(),
            RecoverError::Source { .. } | RecoverError::NoRows(_) => Self::error(error),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::enough()
        } else {
            let hint = match error.kind() {
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                    "; free some space, or write to another disk"
                }
                _ => "",
            };
            Self::error(format_args!("standard output: {error}{hint}"))
        }
    }
}
