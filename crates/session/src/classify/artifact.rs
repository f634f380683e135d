//! The files of a trained cascade.

use std::io;
use std::path::Path;

use classify::Cascade;

use crate::shipped::{Kind, ModelError};
use crate::{Environment, Host};

const KIND: Kind = Kind { marker: "cascade.json", made_by: "wirelens train classify" };

/// Reads the cascade in a folder, or the one of this name that ships.
///
/// # Errors
/// [`ModelError`]: there is none, or it cannot be served.
pub fn read(asked: &Path, host: &Host, environment: Environment) -> Result<Cascade, ModelError> {
    let files = KIND.find(asked)?;
    let file = |name: &str, len_max: usize| {
        let bytes = files.read(name, len_max)?;
        if bytes.len() > len_max {
            let message = format!("more than {len_max} bytes; no such file is written in training");
            return Err(io::Error::other(message));
        }
        Ok(bytes)
    };
    #[cfg(feature = "onnx")]
    let cascade = Cascade::read_with(file, || crate::onnx::library(host, environment));
    #[cfg(not(feature = "onnx"))]
    let cascade = {
        let _ = (host, environment);
        Cascade::read(file)
    };
    cascade.map_err(|error| ModelError::Cascade { folder: files.place().to_owned(), error })
}
