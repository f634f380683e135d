//! Models that predict packet latencies, from their folder.

use std::fmt;
use std::path::{Path, PathBuf};

use l4s::Model;
use l4s::predictor::{FILE_LEN_MAX, ModelError as FileError};

use crate::Host;
use crate::shipped::{Kind, ModelError};

const KIND: Kind = Kind { marker: "model.safetensors", made_by: "wirelens train l4s" };

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
pub fn read(asked: &Path, host: &Host) -> Result<Model, ReadError> {
    let folder = KIND.find(asked, host)?;
    let bytes = KIND.read_sealed(&folder, KIND.marker, FILE_LEN_MAX)?;
    Model::parse(&bytes).map_err(|error| ReadError::File(folder.join(KIND.marker), error))
}
