//! Why something could not be done, on its way to Python: each kind has an exception of its own,
//! all with the texts of the command.

use std::fmt;

use capture::{FilterError, OpenError};
use engine::columns::RowMismatch;
use pyo3::prelude::*;
use session::reading::{AccountingError, InputError};
use sink::{OutputError, WriteError};

/// The classes of `wirelens/errors.py`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    CaptureNotFound,
    CaptureUnreadable,
    EmptyCapture,
    NotACapture,
    Filter,
    FilterUnavailable,
    Option,
    Output,
    OutputExists,
    Forked,
    Internal,
    Model,
    Settings,
    Application,
    Loss,
}

/// A kind and its text.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    kind: Kind,
    text: String,
}

impl Kind {
    fn class(self) -> &'static str {
        match self {
            Self::CaptureNotFound => "CaptureNotFoundError",
            Self::CaptureUnreadable => "CaptureUnreadableError",
            Self::EmptyCapture => "EmptyCaptureError",
            Self::NotACapture => "NotACaptureError",
            Self::Filter => "FilterError",
            Self::FilterUnavailable => "FilterUnavailableError",
            Self::Option => "OptionError",
            Self::Output => "OutputError",
            Self::OutputExists => "OutputExistsError",
            Self::Forked => "ForkedError",
            Self::Internal => "InternalError",
            Self::Model => "ModelError",
            Self::Settings => "SettingsError",
            Self::Application => "ApplicationError",
            Self::Loss => "LossError",
        }
    }
}

impl Refusal {
    pub(crate) fn new(kind: Kind, text: impl fmt::Display) -> Self {
        Self { kind, text: text.to_string() }
    }

    /// Nobody waits for results any more, so nobody will read this.
    pub(crate) fn unheard() -> Self {
        Self::new(Kind::Internal, "the results are no longer needed")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        let kind = match &error {
            InputError::Nothing
            | InputError::Both
            | InputError::StdinTwice
            | InputError::SnaplenShort { .. } => Kind::Option,
            InputError::Open(error) => match error {
                OpenError::NotFound(_) => Kind::CaptureNotFound,
                OpenError::Unreadable(..) => Kind::CaptureUnreadable,
                OpenError::Empty(_) => Kind::EmptyCapture,
                OpenError::NotACapture { .. }
                | OpenError::HeaderDamaged(..)
                | OpenError::FolderWithoutCaptures { .. } => Kind::NotACapture,
                OpenError::Filter(FilterError::LibraryMissing { .. }) => Kind::FilterUnavailable,
                OpenError::Filter(FilterError::Refused { .. }) => Kind::Filter,
                OpenError::Live(_) => Kind::CaptureUnreadable,
            },
        };
        Self::new(kind, error)
    }
}

impl From<AccountingError> for Refusal {
    fn from(error: AccountingError) -> Self {
        Self::new(Kind::Internal, error)
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::Io(_) => Kind::Output,
            _ => Kind::Internal,
        };
        Self::new(kind, error)
    }
}

/// In the command's words, but for the flag that it names.
impl From<OutputError> for Refusal {
    fn from(error: OutputError) -> Self {
        let kind = match &error {
            OutputError::Exists(_) | OutputError::Appeared { .. } => Kind::OutputExists,
            _ => Kind::Output,
        };
        Self::new(kind, error.to_string().replace("give --force", "give overwrite=True"))
    }
}

impl From<RowMismatch> for Refusal {
    fn from(error: RowMismatch) -> Self {
        Self::new(Kind::Internal, error)
    }
}

impl From<arrow_schema::ArrowError> for Refusal {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::new(Kind::Internal, error)
    }
}

impl From<Refusal> for PyErr {
    fn from(refusal: Refusal) -> Self {
        Python::attach(|py| {
            let class = py.import("wirelens.errors").and_then(|m| m.getattr(refusal.kind.class()));
            match class.and_then(|class| class.call1((&refusal.text,))) {
                Ok(exception) => Self::from_value(exception),
                Err(error) => error,
            }
        })
    }
}
