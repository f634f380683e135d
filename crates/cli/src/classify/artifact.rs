//! The files of a trained cascade.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use classify::Cascade;

use crate::Host;
use crate::failure::Failure;

const CASCADE: &str = "cascade.json";

/// Folders above the program in which models are looked for: `target/release`, `target`, all.
const PLACES_ABOVE: usize = 3;

/// Reads the cascade in a folder, or the one of this name that ships.
pub(crate) fn read(asked: &Path, host: &Host) -> Result<Cascade, Failure> {
    let places = places(host);
    let found = meant(asked, &places);
    let folder = found.as_path();
    if !folder.exists() {
        return Err(Failure::error(format_args!(
            "{}: no such folder{}; give the folder that `wirelens train classify` wrote",
            asked.display(),
            shipped(&places)
        )));
    }
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

/// Where models may lie that ship: in the package for Python, in `models` beside the program or
/// above it, as in a checkout, or where an installed program has its `share`.
fn places(host: &Host) -> Vec<PathBuf> {
    let package = match host {
        Host::Python { package, .. } => Some(package.join("models")),
        Host::Program => None,
    };
    let program = std::env::current_exe().unwrap_or_default();
    let above = program.ancestors().skip(1).take(PLACES_ABOVE);
    let beside =
        above.flat_map(|above| [above.join("models"), above.join("share/wirelens/models")]);
    package.into_iter().chain(beside).collect()
}

/// The folder that is meant: this one or, of a name that is no folder here, a model that ships.
fn meant(folder: &Path, places: &[PathBuf]) -> PathBuf {
    let mut parts = folder.components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if folder.exists() || !is_name {
        return folder.to_path_buf();
    }
    let mut found = places.iter().map(|models| models.join(folder));
    found.find(|model| model.join(CASCADE).is_file()).unwrap_or_else(|| folder.to_path_buf())
}

/// What ships, as a part of a message.
fn shipped(places: &[PathBuf]) -> String {
    let folders = places.iter().filter_map(|models| models.read_dir().ok()).flatten().flatten();
    let models = folders.filter(|folder| folder.path().join(CASCADE).is_file());
    let mut names: Vec<_> =
        models.map(|model| model.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.dedup();
    match names.as_slice() {
        [] => {
            String::from(", and no model that ships is here (they are in `models` of a checkout)")
        }
        names => format!(", and no model that ships has this name (they are {})", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_ships_is_found_by_its_name_from_anywhere() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("site-packages/wirelens");
        let model = package.join("models/web");
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(model.join(CASCADE), "").unwrap();
        let host = Host::Python { interpreter: PathBuf::from("/bin/python3"), package };
        let places = places(&host);
        assert_eq!(meant(Path::new("web"), &places), model);
        assert_eq!(meant(Path::new("./web"), &places), Path::new("./web"));
        assert_eq!(meant(Path::new("sub/web"), &places), Path::new("sub/web"));
        let told = read(Path::new("wbe"), &host).unwrap_err().message().to_owned();
        assert!(
            told.starts_with("wbe: no such folder, and no model that ships has this"),
            "{told}"
        );
        assert!(told.contains("web"), "{told}");
    }
}
