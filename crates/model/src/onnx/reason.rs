//! Why an ONNX model cannot be had, or rows not be scored.

use std::fmt;
use std::path::PathBuf;

use crate::device::Device;
use crate::first::FeaturesError;

/// Why an ONNX model is refused, or does not score.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OnnxError {
    /// The library cannot be loaded, or is another one.
    Library {
        /// Where it was looked for.
        path: PathBuf,
        /// What the loader said.
        cause: String,
    },
    /// Another library is loaded already: a process has one.
    OtherLibrary {
        /// The one that was asked for.
        path: PathBuf,
        /// The one that is there.
        loaded: PathBuf,
    },
    /// The file is longer than [`FILE_LEN_MAX`](super::FILE_LEN_MAX).
    TooLong {
        /// Its bytes.
        size_bytes: usize,
    },
    /// The library does not take the file for a model that it can run.
    File {
        /// What it said.
        cause: String,
    },
    /// What is to compute it does not answer.
    Device {
        /// What it is.
        device: Device,
        /// What the library said.
        cause: String,
    },
    /// A column of the input is none that rows have.
    Column(FeaturesError),
    /// There are no columns, or too many.
    ColumnCount {
        /// Columns seen.
        seen: usize,
    },
    /// The input is not what rows can be given to.
    Input {
        /// What was seen and what was wanted.
        cause: String,
    },
    /// The output is not a probability for each class of each row.
    Output {
        /// What was seen and what was wanted.
        cause: String,
    },
    /// A row's records have more bytes than those of all packets.
    RecordsLen {
        /// Bytes seen.
        seen: usize,
        /// Most bytes.
        wanted: usize,
    },
    /// A row has more or fewer numbers in addition to its records than the model's features have.
    NumberCount {
        /// Numbers seen.
        seen: usize,
        /// Numbers wanted.
        wanted: usize,
    },
    /// The rows were filled for another model.
    OtherModel,
    /// There is not one place for each class of each row.
    ScoreCount {
        /// Places seen.
        seen: usize,
        /// Places wanted.
        wanted: usize,
    },
    /// The library failed while it ran the model.
    Run {
        /// What it said.
        cause: String,
    },
}

/// A text of unknown origin in one line.
pub(super) fn one_line(text: impl fmt::Display) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

impl fmt::Display for OnnxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library { path, cause } => write!(
                f,
                "{}: {cause}; models in ONNX need ONNX Runtime 1.17 or newer: install it with \
                 `pip install onnxruntime`, or set ORT_DYLIB_PATH to the path of libonnxruntime.so",
                path.display()
            ),
            Self::OtherLibrary { path, loaded } => write!(
                f,
                "{}: {} is loaded already, and a process can load only one; use that",
                path.display(),
                loaded.display()
            ),
            Self::TooLong { size_bytes } => write!(
                f,
                "an ONNX model of {size_bytes} bytes; {} are read at most: train a smaller one",
                super::FILE_LEN_MAX
            ),
            Self::File { cause } => write!(
                f,
                "not an ONNX model that ONNX Runtime can run ({cause}); export it again, as one \
                 file with its weights inside"
            ),
            Self::Device { device, cause } => write!(
                f,
                "{device}: ONNX Runtime has no such device ({cause}); wanted: a card, its driver, \
                 CUDA and cuDNN, and ONNX Runtime with CUDA, such as the package onnxruntime-gpu"
            ),
            Self::Column(error) => error.fmt(f),
            Self::ColumnCount { seen } => write!(
                f,
                "{seen} columns of the input; wanted: from 1 to {}",
                super::COLUMN_COUNT_MAX
            ),
            Self::Input { cause } | Self::Output { cause } => f.write_str(cause),
            Self::RecordsLen { seen, wanted } => {
                write!(f, "a row of {seen} bytes of records; the model reads {wanted} at most")
            }
            Self::NumberCount { seen, wanted } => {
                write!(
                    f,
                    "{seen} numbers in addition to the records; the model's features have \
                           {wanted}"
                )
            }
            Self::OtherModel => f.write_str("these rows were filled for another model"),
            Self::ScoreCount { seen, wanted } => {
                write!(f, "{seen} places for scores; wanted: {wanted}, one a class and row")
            }
            Self::Run { cause } => {
                write!(f, "ONNX Runtime failed on rows of the model: {cause}; export it again")
            }
        }
    }
}

impl std::error::Error for OnnxError {}

impl From<FeaturesError> for OnnxError {
    fn from(error: FeaturesError) -> Self {
        Self::Column(error)
    }
}
