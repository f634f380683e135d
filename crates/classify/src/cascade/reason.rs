//! Why an artifact is refused.

use std::fmt;

use model::ForestError;
use model::sums::SumsError;

/// Why a cascade cannot be used. The text begins with the file at fault, by its name there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CascadeError {
    /// A file cannot be read.
    Unreadable {
        /// Which.
        file: String,
        /// What the system says.
        cause: String,
        /// Whether there is no such file.
        is_missing: bool,
    },
    /// A file is not as `SHA256SUMS` lists it.
    Sums(SumsError),
    /// `cascade.json` is something else.
    NotCascade {
        /// What was seen.
        seen: String,
    },
    /// It was written for another version of the format.
    Version {
        /// The version that it names.
        version: u64,
    },
    /// It says what cannot be.
    Field {
        /// What was seen and what was wanted.
        cause: String,
    },
    /// A file of trees is refused.
    Trees {
        /// Which.
        file: String,
        /// Why.
        cause: ForestError,
    },
    /// The features that a model says it was trained on are not those that its own fields name.
    OtherSchema {
        /// The model's file.
        file: String,
        /// The hash that it carries.
        carried: String,
        /// The hash of what its fields name.
        own: String,
    },
    /// A model disagrees with `cascade.json` or with the other models.
    Model {
        /// The model's file.
        file: String,
        /// What was seen and what was wanted.
        cause: String,
    },
}

impl From<SumsError> for CascadeError {
    fn from(error: SumsError) -> Self {
        Self::Sums(error)
    }
}

impl CascadeError {
    pub(super) fn field(cause: impl fmt::Display) -> Self {
        Self::Field { cause: cause.to_string() }
    }

    pub(super) fn model(file: &str, cause: impl fmt::Display) -> Self {
        Self::Model { file: file.to_owned(), cause: cause.to_string() }
    }
}

impl fmt::Display for CascadeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { file, is_missing: true, .. } => write!(
                f,
                "{file}: no such file; give the folder that `wirelens train classify` wrote, \
                 with all its files"
            ),
            Self::Unreadable { file, cause, .. } => write!(f, "{file}: {cause}"),
            Self::Sums(error) => error.fmt(f),
            Self::NotCascade { seen } => write!(
                f,
                "cascade.json: no cascade ({seen}); give the folder that \
                 `wirelens train classify` wrote"
            ),
            Self::Version { version } => write!(
                f,
                "cascade.json: a cascade of format version {version}, this Wirelens reads \
                 versions 1 to 3; train it with this version"
            ),
            Self::Field { cause } => write!(f, "cascade.json: {cause}"),
            Self::Trees { file, cause } => write!(f, "{file}: {cause}"),
            Self::OtherSchema { file, carried, own } => write!(
                f,
                "{file}: trained on features with schema {}, those that it names have {} here; \
                 train it with this version",
                short(carried),
                short(own)
            ),
            Self::Model { file, cause } => write!(f, "{file}: {cause}"),
        }
    }
}

impl std::error::Error for CascadeError {}

/// So many digits tell two hashes apart for a reader.
fn short(hash: &str) -> &str {
    hash.get(..16).unwrap_or(hash)
}
