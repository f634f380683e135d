//! Folders of models, by path or by the name of one that ships.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use model::sums::{SUMS_FILE, SUMS_LEN_MAX, Sums};

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
    /// The folder that is meant: the model of this name that ships, or, by a path that has a
    /// separator in it, a folder of the user's.
    ///
    /// A folder of the current one never goes before a model that ships: who runs a command in a
    /// place that others can write to would take theirs.
    pub(crate) fn find(self, asked: &Path, host: &Host) -> Result<PathBuf, Failure> {
        let places = places(host);
        let Some(folder) = self.meant(asked, &places) else {
            let hint = if asked.join(self.marker).is_file() {
                format!("for the folder of this name give ./{}", asked.display())
            } else {
                format!("give ./NAME or another path to the folder that `{}` wrote", self.made_by)
            };
            return Err(Failure::error(format_args!(
                "{}: {}; {hint}",
                asked.display(),
                self.known(&places),
            )));
        };
        if !folder.exists() {
            return Err(Failure::error(format_args!(
                "{}: no such folder; give the folder that `{}` wrote, or the name of a model that \
                 ships",
                asked.display(),
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

    /// Reads a file of such a folder, which has to be as the folder's `SHA256SUMS` lists it. Longer
    /// files than this are handed out cut, one byte longer.
    pub(crate) fn read_sealed(
        self,
        folder: &Path,
        name: &str,
        len_max: usize,
    ) -> Result<Vec<u8>, Failure> {
        let shown = folder.display();
        let read = |name: &str, len_max: usize| {
            read_up_to(&folder.join(name), len_max).map_err(|error| {
                let (file, made_by) = (folder.join(name), self.made_by);
                let file = file.display();
                Failure::error(format_args!(
                    "{file}: {error}; give a folder that `{made_by}` wrote, with all its files"
                ))
            })
        };
        let bytes = read(name, len_max)?;
        let sums = Sums::read(&read(SUMS_FILE, SUMS_LEN_MAX)?);
        sums.and_then(|sums| sums.check(name, &bytes))
            .map_err(|error| Failure::error(format_args!("{shown}: {error}")))?;
        Ok(bytes)
    }

    fn meant(self, folder: &Path, places: &[PathBuf]) -> Option<PathBuf> {
        // `./web` has the same single component as `web`, but not the same bytes.
        let is_name =
            matches!(folder.components().collect::<Vec<_>>().as_slice(), [Component::Normal(_)])
                && !folder.as_os_str().as_bytes().contains(&b'/');
        if !is_name {
            return Some(folder.to_path_buf());
        }
        let mut found = places.iter().map(|models| models.join(folder));
        found.find(|model| model.join(self.marker).is_file())
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
            [] => String::from("no model that ships is here (they are in `models` of a checkout)"),
            names => {
                format!("no model that ships has this name (they are {})", names.join(", "))
            }
        }
    }
}

fn read_up_to(path: &Path, len_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(len_max as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
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
    use model::sums::sha256;

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
        assert_eq!(KIND.meant(Path::new("web"), &places), Some(model.clone()));
        for own in ["./web", "sub/web", "web/", "..", "."] {
            assert_eq!(KIND.meant(Path::new(own), &places), Some(own.into()), "{own}");
        }
        let told = KIND.find(Path::new("wbe"), &host).unwrap_err().message().to_owned();
        assert!(told.starts_with("wbe: no model that ships has this name"), "{told}");
        assert!(told.contains("web") && told.contains("wirelens train something"), "{told}");
        let told = KIND.find(&model.join(KIND.marker), &host).unwrap_err().message().to_owned();
        assert!(told.ends_with("a model is a folder with model.json in it"), "{told}");
    }

    #[test]
    fn a_file_that_was_changed_after_training_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (file, sums) = (root.path().join(KIND.marker), root.path().join(SUMS_FILE));
        let refusal = || {
            let read = KIND.read_sealed(root.path(), KIND.marker, 10);
            read.unwrap_err().message().to_owned()
        };
        std::fs::write(&file, "{}").unwrap();
        let told = refusal();
        assert!(told.contains("SHA256SUMS: ") && told.contains("`wirelens train something`"));
        std::fs::write(&sums, format!("{}  model.json\n", sha256(b"{}"))).unwrap();
        assert_eq!(KIND.read_sealed(root.path(), KIND.marker, 10).unwrap(), b"{}");
        std::fs::write(&file, "{ }").unwrap();
        assert!(refusal().contains("was changed after training"));
        std::fs::write(&sums, "").unwrap();
        assert!(refusal().contains("model.json is not listed"));
    }
}
