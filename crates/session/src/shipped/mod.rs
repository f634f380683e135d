//! Models: folders by their path, or by name those that ship, which the program carries.

mod packed;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use classify::CascadeError;
use model::sums::{SUMS_FILE, SUMS_LEN_MAX, Sums, SumsError};

use self::packed::{PackedModel, UnpackedModel};

/// Why there is no model.
#[derive(Debug)]
pub enum ModelError {
    /// A bare name, and no model that ships has it.
    NoneShips {
        /// What was asked for.
        asked: PathBuf,
        /// The names of those that ship.
        ships: Vec<&'static str>,
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
                write!(f, "no shipped model has this name (they are {})", ships.join(", "))?;
                if *is_folder {
                    write!(f, "; for the folder of this name give ./{asked}")
                } else {
                    write!(f, "; give ./NAME or another path to the folder that `{made_by}` wrote")
                }
            }
            Self::NoFolder { folder, made_by } => write!(
                f,
                "{}: no such folder; give the folder that `{made_by}` wrote, or the name of a \
                 shipped model",
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
    /// The model that is meant: the one of this name that ships, or, by a path that has a
    /// separator in it, a folder of the user's.
    ///
    /// No folder goes before a model that ships: who runs a command in a place that others can
    /// write to would take theirs.
    ///
    /// # Errors
    /// [`ModelError`]: none that ships has the name, or the path leads to no folder.
    pub fn find(self, asked: &Path) -> Result<ModelFiles, ModelError> {
        let Some(name) = bare_name(asked) else { return self.folder(asked) };
        let Some(model) = self.ships().find(|model| name == model.name) else {
            return Err(ModelError::NoneShips {
                asked: asked.to_owned(),
                ships: self.ships().map(|model| model.name).collect(),
                is_folder: asked.join(self.marker).is_file(),
                made_by: self.made_by,
            });
        };
        let unpacked = model.unpack().map_err(|error| ModelError::Unreadable {
            file: asked.to_owned(),
            error,
            made_by: self.made_by,
        })?;
        Ok(ModelFiles { place: asked.to_owned(), unpacked: Some(unpacked) })
    }

    fn folder(self, asked: &Path) -> Result<ModelFiles, ModelError> {
        let folder = asked.to_owned();
        if !folder.exists() {
            return Err(ModelError::NoFolder { folder, made_by: self.made_by });
        }
        if folder.is_file() {
            return Err(ModelError::IsFile { file: folder, marker: self.marker });
        }
        Ok(ModelFiles { place: folder, unpacked: None })
    }

    /// Reads a file of a model, which has to be as the model's `SHA256SUMS` lists it. Longer
    /// files than this are handed out cut, one byte longer.
    ///
    /// # Errors
    /// [`ModelError`]: it cannot be read, or was changed.
    pub fn read_sealed(
        self,
        files: &ModelFiles,
        name: &str,
        len_max: usize,
    ) -> Result<Vec<u8>, ModelError> {
        let read = |name: &str, len_max: usize| {
            files.read(name, len_max).map_err(|error| ModelError::Unreadable {
                file: files.path(name),
                error,
                made_by: self.made_by,
            })
        };
        let bytes = read(name, len_max)?;
        let sums = Sums::read(&read(SUMS_FILE, SUMS_LEN_MAX)?);
        sums.and_then(|sums| sums.check(name, &bytes))
            .map_err(|error| ModelError::Unsealed { folder: files.place().to_owned(), error })?;
        Ok(bytes)
    }

    /// Those of this kind that ship, by name.
    fn ships(self) -> impl Iterator<Item = &'static PackedModel> {
        PackedModel::ALL.iter().filter(move |model| model.has(self.marker))
    }
}

/// The name of a model that ships, where no path is meant.
fn bare_name(asked: &Path) -> Option<&OsStr> {
    let mut components = asked.components();
    match (components.next(), components.next()) {
        // `./web` and `web/` have the same single component as `web`, but not the same bytes.
        (Some(Component::Normal(name)), None) if name == asked.as_os_str() => Some(name),
        _ => None,
    }
}

/// The files of one model: those of a folder, or of a model that ships, unpacked in memory.
#[derive(Debug)]
pub struct ModelFiles {
    /// The folder, or the name of the one that ships.
    place: PathBuf,
    unpacked: Option<UnpackedModel>,
}

impl ModelFiles {
    /// What it is called in messages: its folder, or its name.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// What a file of it is called in messages.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.join(name)
    }

    /// Whether it has a file of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        match &self.unpacked {
            Some(unpacked) => unpacked.get(name).is_some(),
            None => self.path(name).is_file(),
        }
    }

    /// Reads a file of it; of a longer one than this no more than one byte more.
    ///
    /// # Errors
    /// It has none of this name, or that cannot be read.
    pub fn read(&self, name: &str, len_max: usize) -> io::Result<Vec<u8>> {
        let len_max = len_max.saturating_add(1);
        if let Some(unpacked) = &self.unpacked {
            let bytes = unpacked.get(name).ok_or(io::ErrorKind::NotFound)?;
            return Ok(bytes[..bytes.len().min(len_max)].to_vec());
        }
        let mut bytes = Vec::new();
        File::open(self.path(name))?.take(len_max as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use model::sums::sha256;

    use super::*;

    const KIND: Kind = Kind { marker: "model.json", made_by: "wirelens train something" };

    #[test]
    fn a_bare_name_is_a_model_that_ships_and_all_else_a_path() {
        assert_eq!(bare_name("web".as_ref()), Some("web".as_ref()));
        for path in ["./web", "sub/web", "web/", "..", ".", "", "/"] {
            assert_eq!(bare_name(path.as_ref()), None, "{path}");
        }
        let found = Kind { marker: "cascade.json", ..KIND }.find("services".as_ref()).unwrap();
        assert!(found.has("fast.trees.jsonl") && !found.has("card.md"));
        assert_eq!(found.path("cascade.json"), Path::new("services/cascade.json"));
        assert_eq!(found.read("cascade.json", 3).unwrap().len(), 4);
        assert_eq!(found.read("other", 3).unwrap_err().kind(), io::ErrorKind::NotFound);
        // Of another kind.
        let told = KIND.find("services".as_ref()).unwrap_err().to_string();
        assert!(told.starts_with("services: no shipped model has this name (they are "));
        assert!(told.contains("are packetlog, packetlog-kernel)"), "{told}");
        assert!(told.contains(KIND.made_by), "{told}");
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = KIND.find(file.path()).unwrap_err().to_string();
        assert!(told.ends_with("a model is a folder with model.json in it"), "{told}");
        let told = KIND.find("./none".as_ref()).unwrap_err().to_string();
        assert!(told.starts_with("./none: no such folder"), "{told}");
    }

    #[test]
    fn the_models_that_ship_are_as_their_sums_say() {
        for model in PackedModel::ALL {
            let files =
                ModelFiles { place: model.name.into(), unpacked: Some(model.unpack().unwrap()) };
            let sums = files.read(SUMS_FILE, SUMS_LEN_MAX).unwrap();
            let sums = String::from_utf8(sums).unwrap();
            let names = sums.lines().map(|line| &line[66..]).filter(|name| *name != "card.md");
            let mut count = 0;
            for name in names {
                let read = KIND.read_sealed(&files, name, usize::MAX);
                assert!(read.is_ok_and(|bytes| !bytes.is_empty()), "{}: {name}", model.name);
                count += 1;
            }
            assert!(count > 0, "{}", model.name);
        }
    }

    #[test]
    fn a_file_that_was_changed_after_training_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let (file, sums) = (root.path().join(KIND.marker), root.path().join(SUMS_FILE));
        let model = KIND.find(root.path()).unwrap();
        let refusal = || {
            let read = KIND.read_sealed(&model, KIND.marker, 10);
            read.unwrap_err().to_string()
        };
        std::fs::write(&file, "{}").unwrap();
        let told = refusal();
        assert!(told.contains("SHA256SUMS: ") && told.contains("`wirelens train something`"));
        std::fs::write(&sums, format!("{}  model.json\n", sha256(b"{}"))).unwrap();
        assert_eq!(KIND.read_sealed(&model, KIND.marker, 10).unwrap(), b"{}");
        std::fs::write(&file, "{ }").unwrap();
        assert!(refusal().contains("was changed after training"));
        std::fs::write(&sums, "").unwrap();
        assert!(refusal().contains("model.json is not listed"));
    }
}
