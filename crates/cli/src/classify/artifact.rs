//! The files of a trained cascade.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use classify::Cascade;

use crate::Host;
use crate::failure::Failure;

/// Reads the cascade in a folder.
pub(crate) fn read(folder: &Path, host: &Host) -> Result<Cascade, Failure> {
    if folder.is_file() {
        return Err(Failure::usage(format_args!(
            "{}: a file; a model is a folder with cascade.json in it",
            folder.display()
        )));
    }
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
    let cascade = Cascade::read_with(file, || crate::onnx::library(host));
    #[cfg(not(feature = "onnx"))]
    let cascade = {
        let _ = host;
        Cascade::read(file)
    };
    cascade.map_err(|error| {
        // The error begins with the file's name.
        Failure::error(format_args!("{}/{error}", folder.display()))
    })
}
