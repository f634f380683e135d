//! The files of a trained cascade.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use classify::Cascade;

use crate::Host;
use crate::failure::Failure;

/// Folders above the program in which models are looked for: `target/release`, `target`, all.
const PLACES_ABOVE: usize = 3;

/// Reads the cascade in a folder, or the one of this name that ships.
pub(crate) fn read(folder: &Path, host: &Host) -> Result<Cascade, Failure> {
    let found = meant(folder);
    let folder = found.as_path();
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

/// The folder that is meant: this one or, of a name that is no folder here, a model that ships.
///
/// Those lie in `models` beside the program or above it, as in a checkout, or where an installed
/// program has its `share`.
fn meant(folder: &Path) -> PathBuf {
    let mut parts = folder.components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if folder.exists() || !is_name {
        return folder.to_path_buf();
    }
    let program = std::env::current_exe().unwrap_or_default();
    program
        .ancestors()
        .skip(1)
        .take(PLACES_ABOVE)
        .flat_map(|above| [above.join("models"), above.join("share/wirelens/models")])
        .map(|models| models.join(folder))
        .find(|model| model.join("cascade.json").is_file())
        .unwrap_or_else(|| folder.to_path_buf())
}
