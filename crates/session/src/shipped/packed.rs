//! The models that ship, packed into the program by `build.rs`.

use std::io;

/// One of them in the archive.
pub(super) struct PackedModel {
    pub(super) name: &'static str,
    /// Where its frame begins and ends in the archive.
    frame: (usize, usize),
    /// Bytes of its files together.
    len: usize,
    /// Of each file its name, and where it begins and ends among those bytes.
    files: &'static [(&'static str, usize, usize)],
}

include!(concat!(env!("OUT_DIR"), "/models.rs"));

/// A zstd frame a model.
const ARCHIVE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/models.zst"));

impl PackedModel {
    /// All of them, by name.
    pub(super) const ALL: &[Self] = MODELS;

    pub(super) fn has(&self, file: &str) -> bool {
        self.files.iter().any(|(name, ..)| *name == file)
    }

    /// Unpacks this one; the others stay packed.
    pub(super) fn unpack(&'static self) -> io::Result<UnpackedModel> {
        let frame = ARCHIVE.get(self.frame.0..self.frame.1).unwrap_or_default();
        let bytes = zstd::bulk::decompress(frame, self.len)?;
        Ok(UnpackedModel { files: self.files, bytes })
    }
}

/// The files of one of them, in memory.
#[derive(Debug)]
pub(super) struct UnpackedModel {
    files: &'static [(&'static str, usize, usize)],
    bytes: Vec<u8>,
}

impl UnpackedModel {
    /// A file's bytes, where the model has it.
    pub(super) fn get(&self, file: &str) -> Option<&[u8]> {
        let (_, from, to) = self.files.iter().find(|(name, ..)| *name == file)?;
        self.bytes.get(*from..*to)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_model_of_the_repository_is_packed_as_it_is() {
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
        let folders = models.read_dir().unwrap().map(|folder| folder.unwrap().path());
        let mut names: Vec<_> = folders
            .filter(|folder| folder.join("SHA256SUMS").is_file())
            .map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        names.sort();
        assert_eq!(PackedModel::ALL.iter().map(|model| model.name).collect::<Vec<_>>(), names);
        for model in PackedModel::ALL {
            let unpacked = model.unpack().unwrap();
            for entry in models.join(model.name).read_dir().unwrap() {
                let file = entry.unwrap().path();
                let name = file.file_name().unwrap().to_str().unwrap();
                let is_read = !name.ends_with(".md");
                assert_eq!(model.has(name), is_read, "{}: {name}", model.name);
                let wanted = is_read.then(|| std::fs::read(&file).unwrap());
                assert!(unpacked.get(name) == wanted.as_deref(), "{}: {name}", model.name);
            }
        }
    }
}
