//! Why trees cannot be read, or rows not be scored.

use std::fmt;

/// Characters of a file that a message repeats.
const SHOWN_LEN_MAX: usize = 40;

/// Why a file of trees is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ForestError {
    /// It is longer than [`FILE_LEN_MAX`](super::FILE_LEN_MAX).
    TooLong {
        /// Its bytes.
        size_bytes: usize,
    },
    /// Its first line is not that of a file of trees.
    NotTrees {
        /// How it begins.
        start: String,
    },
    /// It was written for another version of the format.
    Version {
        /// The version that it names.
        version: u64,
    },
    /// Its last line, which seals it, is not there or not complete.
    Cut,
    /// Its bytes are not those that were sealed.
    Changed {
        /// The SHA-256 that its last line names.
        sealed: String,
        /// The SHA-256 of what stands before.
        found: String,
    },
    /// A line says what cannot be.
    Line {
        /// Which, from 1.
        number: usize,
        /// What was seen and what was wanted.
        cause: String,
    },
}

/// Why a row cannot be scored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowError {
    /// Its records have more bytes than those of all packets.
    RecordsLen {
        /// Bytes seen.
        seen: usize,
        /// Most bytes.
        wanted: usize,
    },
    /// It has more or fewer numbers in addition to the records than the trees read.
    NumberCount {
        /// Numbers seen.
        seen: usize,
        /// Numbers wanted.
        wanted: usize,
    },
    /// The rows were filled for another forest.
    OtherForest,
    /// There is not one place for each class of each row.
    ScoreCount {
        /// Places seen.
        seen: usize,
        /// Places wanted.
        wanted: usize,
    },
}

impl ForestError {
    pub(super) fn line(number: usize, cause: impl fmt::Display) -> Self {
        Self::Line { number, cause: cause.to_string() }
    }
}

/// The beginning of a text of unknown origin, fit for a message.
pub(super) fn shown(text: &str) -> String {
    let short: String = text.chars().take(SHOWN_LEN_MAX).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("{short:?}{dots}")
}

impl fmt::Display for ForestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { size_bytes } => write!(
                f,
                "{size_bytes} bytes of trees; {} are read at most: train fewer or smaller trees",
                super::FILE_LEN_MAX
            ),
            Self::NotTrees { start } => write!(
                f,
                "not a file of trees (starts with {start}); give one written by wirelens.trees"
            ),
            Self::Version { version } => write!(
                f,
                "trees of format version {version}, this Wirelens reads version 1; \
                 export the model with this version's wirelens.trees"
            ),
            Self::Cut => f.write_str(
                "the last line with the file's SHA-256 is missing: the file is truncated; copy or \
                 export it again",
            ),
            Self::Changed { sealed, found } => write!(
                f,
                "the content has SHA-256 {found}, its last line says {sealed}: the file was \
                 changed after it was written; copy or export it again"
            ),
            Self::Line { number, cause } => write!(f, "line {number}: {cause}"),
        }
    }
}

impl std::error::Error for ForestError {}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecordsLen { seen, wanted } => {
                write!(f, "a row of {seen} bytes of records; the trees read {wanted} at most")
            }
            Self::NumberCount { seen, wanted } => {
                write!(f, "{seen} numbers in addition to the records; the trees read {wanted}")
            }
            Self::OtherForest => f.write_str("these rows were filled for other trees"),
            Self::ScoreCount { seen, wanted } => {
                write!(f, "{seen} places for scores; wanted: {wanted}, one a class and row")
            }
        }
    }
}

impl std::error::Error for RowError {}
