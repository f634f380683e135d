//! The files of a trained cascade.

use std::fs::File;
use std::io::{self, Read as _};
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
    let folder = KIND.find(asked, host)?;
    let file = |name: &str, len_max: usize| {
        let file = File::open(folder.join(name))?;
        let mut bytes = Vec::new();
        file.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
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
        let _ = environment;
        Cascade::read(file)
    };
    cascade.map_err(|error| ModelError::Cascade { folder, error })
}
