//! Models that predict packet latencies, from their folder: causal networks of our own, and
//! networks in ONNX, which ONNX Runtime runs.

use std::fmt;
use std::path::{Path, PathBuf};

use l4s::Model;
use l4s::predictor::{FILE_LEN_MAX, ModelError as FileError};

use crate::shipped::{Kind, ModelError};
use crate::{Environment, Host};

#[cfg(feature = "onnx")]
mod lent;

const MADE_BY: &str = "wirelens train l4s";
const KIND: Kind = Kind { marker: "model.safetensors", made_by: MADE_BY };
/// The network in ONNX; what it says of itself is beside it.
const ONNX: Kind = Kind { marker: "model.onnx", made_by: MADE_BY };
const SAID_FILE: &str = "model.json";
const SAID_LEN_MAX: usize = 1 << 20;

/// Why there is no model.
#[derive(Debug)]
pub enum ReadError {
    /// It cannot be found or read, or was changed.
    Model(ModelError),
    /// Its file is none.
    File(PathBuf, FileError),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<ModelError> for ReadError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

/// Reads the model in a folder, or the one of this name that ships.
///
/// # Errors
/// [`ReadError`]
pub fn read(asked: &Path, host: &Host, environment: Environment) -> Result<Model, ReadError> {
    let files = KIND.find(asked)?;
    if files.has(ONNX.marker) {
        let said = ONNX.read_sealed(&files, SAID_FILE, SAID_LEN_MAX)?;
        let network = ONNX.read_sealed(&files, ONNX.marker, FILE_LEN_MAX)?;
        return of_onnx(&said, network, host, environment)
            .map_err(|error| ReadError::File(files.path(ONNX.marker), error));
    }
    let bytes = KIND.read_sealed(&files, KIND.marker, FILE_LEN_MAX)?;
    Model::parse(&bytes).map_err(|error| ReadError::File(files.path(KIND.marker), error))
}

/// A model of the bytes of its files: what it says of itself, and the network in ONNX.
///
/// # Errors
/// [`FileError`]: they are no model, or ONNX Runtime is not there.
#[cfg(feature = "onnx")]
pub fn of_onnx(
    said: &[u8],
    network: Vec<u8>,
    host: &Host,
    environment: Environment,
) -> Result<Model, FileError> {
    Model::lent(said, |window| {
        let library = crate::onnx::library(host, environment).map_err(FileError::new)?;
        lent::of(library, network, window)
    })
}

/// A model of the bytes of its files; here none can be run.
///
/// # Errors
/// [`FileError`], always.
#[cfg(not(feature = "onnx"))]
pub fn of_onnx(_: &[u8], _: Vec<u8>, _: &Host, _: Environment) -> Result<Model, FileError> {
    Err(FileError::new(
        "a model in ONNX, and this program was built without ONNX Runtime; wanted: a causal \
         network, or a build with the feature `onnx`",
    ))
}
