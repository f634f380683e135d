//! The files of a log by their names: which there are, and in which order.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packet::Timestamp;

use crate::index::{COMPRESSED_SUFFIX, FILE_SUFFIX};

/// Held while a file is deleted, and while its compressed form takes its place.
pub(crate) type Replacing = Arc<Mutex<()>>;

/// A file a nanosecond for centuries.
const NUMBER_MAX: u64 = 1 << 62;

/// The name of a file of the log: `p<priority>-<UTC of its first packet>-<number>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileName {
    pub(crate) priority: u8,
    /// Counted within the priority; what orders files, since clocks may step.
    pub(crate) number: u64,
    time: String,
}

impl FileName {
    pub(crate) fn new(priority: u8, first_ns: i64, number: u64) -> Self {
        let text = Timestamp::from_ns(first_ns).to_string();
        let time = text.split('.').next().unwrap_or_default().replace(['-', ':'], "");
        Self { priority, number, time: format!("{time}Z") }
    }

    /// From the name of a file without what follows its number.
    pub(crate) fn parse(stem: &str) -> Option<Self> {
        let mut parts = stem.strip_prefix('p')?.splitn(3, '-');
        let priority = parts.next()?.parse().ok()?;
        let time = parts.next()?.to_owned();
        let number = parts.next()?.parse().ok()?;
        let name = Self { priority, number, time };
        // What we would not have named so is not ours.
        (name.number <= NUMBER_MAX && name.stem() == stem).then_some(name)
    }

    pub(crate) fn stem(&self) -> String {
        format!("p{}-{}-{:06}", self.priority, self.time, self.number)
    }

    pub(crate) fn path(&self, folder: &Path, suffix: &str) -> PathBuf {
        folder.join(format!("{}{suffix}", self.stem()))
    }
}

/// The files of a log in order: priority, then number. What is none of ours is passed over.
pub(crate) fn file_names(folder: &Path) -> io::Result<Vec<FileName>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        let suffixes = [COMPRESSED_SUFFIX, FILE_SUFFIX];
        let stem = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
        names.extend(stem.and_then(FileName::parse));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::INDEX_SUFFIX;

    #[test]
    fn names_sort_by_priority_and_number_and_others_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let late = FileName::new(0, 1_795_253_400_000_000_000, 10);
        assert_eq!(late.stem(), "p0-20261121T093000Z-000010");
        // An earlier clock and a later number.
        let later = FileName::new(0, 0, 11);
        let other = FileName::new(1, 0, 2);
        for name in [&other, &later, &late] {
            std::fs::write(name.path(folder.path(), FILE_SUFFIX), "").unwrap();
            std::fs::write(name.path(folder.path(), INDEX_SUFFIX), "").unwrap();
        }
        std::fs::write(other.path(folder.path(), COMPRESSED_SUFFIX), "").unwrap();
        for stranger in ["a.pcapng", "p0-x-1.pcapng", "p300-x-000001.pcapng", "p0-.pcapng"] {
            std::fs::write(folder.path().join(stranger), "").unwrap();
        }
        assert_eq!(file_names(folder.path()).unwrap(), [late.clone(), later, other]);
    }
}
