//! Folders of models, by path or by the name of one that ships.

use std::path::{Component, Path, PathBuf};

use crate::Host;
use crate::failure::Failure;

/// Folders above the program in which models are looked for: `target/release`, `target`, all.
const PLACES_ABOVE: usize = 3;

/// A kind of model.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// A file that each of its folders has.
    pub(crate) marker: &'static str,
    /// The command that writes such folders.
    pub(crate) made_by: &'static str,
}

impl Kind {
    /// The folder that is meant: this one, or the one of this name that ships.
    pub(crate) fn find(self, asked: &Path, host: &Host) -> Result<PathBuf, Failure> {
        let places = places(host);
        let folder = self.meant(asked, &places);
        if !folder.exists() {
            return Err(Failure::error(format_args!(
                "{}: no such folder{}; give the folder that `{}` wrote",
                asked.display(),
                self.known(&places),
                self.made_by
            )));
        }
        if folder.is_file() {
            return Err(Failure::usage(format_args!(
                "{}: a file; a model is a folder with {} in it",
                folder.display(),
                self.marker
            )));
        }
        Ok(folder)
    }

    fn meant(self, folder: &Path, places: &[PathBuf]) -> PathBuf {
        let mut parts = folder.components();
        let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
        // A folder of that name is the one that is meant, unless it is something else altogether.
        if folder.join(self.marker).is_file() || folder.exists() && !is_name {
            return folder.to_path_buf();
        }
        let mut found = places.iter().map(|models| models.join(folder));
        let shipped = found.find(|model| is_name && model.join(self.marker).is_file());
        shipped.unwrap_or_else(|| folder.to_path_buf())
    }

    /// What ships, as a part of a message.
    fn known(self, places: &[PathBuf]) -> String {
        let folders = places.iter().filter_map(|models| models.read_dir().ok()).flatten().flatten();
        let models = folders.filter(|folder| folder.path().join(self.marker).is_file());
        let mut names: Vec<_> =
            models.map(|model| model.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.dedup();
        match names.as_slice() {
            [] => String::from(
                ", and no model that ships is here (they are in `models` of a checkout)",
            ),
            names => {
                format!(", and no model that ships has this name (they are {})", names.join(", "))
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind { marker: "model.json", made_by: "wirelens train something" };

    #[test]
    fn a_model_that_ships_is_found_by_its_name_from_anywhere() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("site-packages/wirelens");
        let model = package.join("models/web");
        std::fs::create_dir_all(&model).unwrap();
        std::fs::write(model.join(KIND.marker), "").unwrap();
        let host = Host::Python { interpreter: PathBuf::from("/bin/python3"), package };
        let places = places(&host);
        assert_eq!(KIND.meant(Path::new("web"), &places), model);
        assert_eq!(KIND.meant(Path::new("./web"), &places), Path::new("./web"));
        assert_eq!(KIND.meant(Path::new("sub/web"), &places), Path::new("sub/web"));
        let told = KIND.find(Path::new("wbe"), &host).unwrap_err().message().to_owned();
        assert!(
            told.starts_with("wbe: no such folder, and no model that ships has this"),
            "{told}"
        );
        assert!(told.contains("web") && told.contains("wirelens train something"), "{told}");
        let told = KIND.find(&model.join(KIND.marker), &host).unwrap_err().message().to_owned();
        assert!(told.ends_with("a model is a folder with model.json in it"), "{told}");
    }
}
