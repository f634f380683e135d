//! Folders of models, by path or by the name of one that ships.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use classify::CascadeError;
use model::sums::{SUMS_FILE, SUMS_LEN_MAX, Sums, SumsError};

use crate::Host;

/// Folders above the program in which models are looked for: `target/release`, `target`, all.
const PLACES_ABOVE: usize = 3;

/// Why there is no model.
#[derive(Debug)]
pub enum ModelError {
    /// A bare name, and no model that ships has it.
    NoneShips {
        /// What was asked for.
        asked: PathBuf,
        /// The names of those that ship.
        ships: Vec<String>,
        /// Whether a folder of the current one has this name, and a model in it.
        is_folder: bool,
        /// The command that writes such models.
        made_by: &'static str,
    },
    /// A path to nothing.
    NoFolder {
        /// The path.
        folder: PathBuf,
        /// The command that writes such models.
        made_by: &'static str,
    },
    /// A path to a file.
    IsFile {
        /// The path.
        file: PathBuf,
        /// A file that a model's folder has.
        marker: &'static str,
    },
    /// A file of it cannot be read.
    Unreadable {
        /// Which.
        file: PathBuf,
        /// Why.
        error: io::Error,
        /// The command that writes such models.
        made_by: &'static str,
    },
    /// A file is not as the folder's `SHA256SUMS` lists it.
    Unsealed {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        error: SumsError,
    },
    /// A cascade that cannot be served.
    Cascade {
        /// Its folder.
        folder: PathBuf,
        /// Why; begins with the file's name.
        error: CascadeError,
    },
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneShips { asked, ships, is_folder, made_by } => {
                let asked = asked.display();
                write!(f, "{asked}: ")?;
                match ships.as_slice() {
                    [] => f.write_str(
                        "no model that ships is here (they are in `models` of a checkout)",
                    )?,
                    names => write!(
                        f,
                        "no model that ships has this name (they are {})",
                        names.join(", ")
                    )?,
                }
                if *is_folder {
                    write!(f, "; for the folder of this name give ./{asked}")
                } else {
                    write!(f, "; give ./NAME or another path to the folder that `{made_by}` wrote")
                }
            }
            Self::NoFolder { folder, made_by } => write!(
                f,
                "{}: no such folder; give the folder that `{made_by}` wrote, or the name of a \
                 model that ships",
                folder.display()
            ),
            Self::IsFile { file, marker } => {
                write!(f, "{}: a file; a model is a folder with {marker} in it", file.display())
            }
            Self::Unreadable { file, error, made_by } => write!(
                f,
                "{}: {error}; give a folder that `{made_by}` wrote, with all its files",
                file.display()
            ),
            Self::Unsealed { folder, error } => write!(f, "{}: {error}", folder.display()),
            Self::Cascade { folder, error } => write!(f, "{}/{error}", folder.display()),
        }
    }
}

impl std::error::Error for ModelError {}

/// A kind of model.
#[derive(Clone, Copy)]
pub struct Kind {
    /// A file that each of its folders has.
    pub marker: &'static str,
    /// The command that writes such folders.
    pub made_by: &'static str,
}

impl Kind {
    /// The folder that is meant: the model of this name that ships, or, by a path that has a
    /// separator in it, a folder of the user's.
    ///
    /// A folder of the current one never goes before a model that ships: who runs a command in a
    /// place that others can write to would take theirs.
    pub fn find(self, asked: &Path, host: &Host) -> Result<PathBuf, ModelError> {
        let places = places(host);
        let Some(folder) = self.meant(asked, &places) else {
            return Err(ModelError::NoneShips {
                asked: asked.to_owned(),
                ships: self.known(&places),
                is_folder: asked.join(self.marker).is_file(),
                made_by: self.made_by,
            });
        };
        if !folder.exists() {
            return Err(ModelError::NoFolder { folder, made_by: self.made_by });
        }
        if folder.is_file() {
            return Err(ModelError::IsFile { file: folder, marker: self.marker });
        }
        Ok(folder)
    }

    /// Reads a file of such a folder, which has to be as the folder's `SHA256SUMS` lists it. Longer
    /// files than this are handed out cut, one byte longer.
    pub fn read_sealed(
        self,
        folder: &Path,
        name: &str,
        len_max: usize,
    ) -> Result<Vec<u8>, ModelError> {
        let read = |name: &str, len_max: usize| {
            let file = folder.join(name);
            read_up_to(&file, len_max).map_err(|error| ModelError::Unreadable {
                file,
                error,
                made_by: self.made_by,
            })
        };
        let bytes = read(name, len_max)?;
        let sums = Sums::read(&read(SUMS_FILE, SUMS_LEN_MAX)?);
        sums.and_then(|sums| sums.check(name, &bytes))
            .map_err(|error| ModelError::Unsealed { folder: folder.to_owned(), error })?;
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

    /// The names of those that ship.
    fn known(self, places: &[PathBuf]) -> Vec<String> {
        let folders = places.iter().filter_map(|models| models.read_dir().ok()).flatten().flatten();
        let models = folders.filter(|folder| folder.path().join(self.marker).is_file());
        let mut names: Vec<_> =
            models.map(|model| model.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names.dedup();
        names
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
        let told = KIND.find(Path::new("wbe"), &host).unwrap_err().to_string();
        assert!(told.starts_with("wbe: no model that ships has this name"), "{told}");
        assert!(told.contains("web") && told.contains("wirelens train something"), "{told}");
        let told = KIND.find(&model.join(KIND.marker), &host).unwrap_err().to_string();
        assert!(told.ends_with("a model is a folder with model.json in it"), "{told}");
    }

    #[test]
    fn a_file_that_was_changed_after_training_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (file, sums) = (root.path().join(KIND.marker), root.path().join(SUMS_FILE));
        let refusal = || {
            let read = KIND.read_sealed(root.path(), KIND.marker, 10);
            read.unwrap_err().to_string()
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
