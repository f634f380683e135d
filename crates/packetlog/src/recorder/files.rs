//! The files of a log: their names, the one that is open, those that are closed.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use packet::Timestamp;

use super::disk::Way;
use crate::index::{COMPRESSED_SUFFIX, ClassRow, FILE_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX};
use crate::own::{Access, create_own};

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
    pub(super) fn new(priority: u8, first_ns: i64, number: u64) -> Self {
        let text = Timestamp::from_ns(first_ns).to_string();
        let time = text.split('.').next().unwrap_or_default().replace(['-', ':'], "");
        Self { priority, number, time: format!("{time}Z") }
    }

    /// From the name of a file without what follows its number.
    fn parse(stem: &str) -> Option<Self> {
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

/// A file that grows.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) name: FileName,
    pub(super) data: Arc<File>,
    pub(super) index: File,
    pub(super) keys: File,
    /// Where the next chunk, record and list go.
    pub(super) end: u64,
    pub(super) index_end: u64,
    pub(super) keys_end: u64,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// Descriptions of interfaces in it; readers number them all.
    pub(super) interfaces: u32,
    pub(super) rows: Vec<ClassRow>,
    /// Places of blocks that could not be written, and their ends; the file ends before those at
    /// its end.
    pub(super) holes: Vec<(u64, u64)>,
    /// Nothing more goes here: something in it failed.
    pub(super) is_spoilt: bool,
}

impl OpenFile {
    pub(super) fn create(
        folder: &Path,
        name: FileName,
        way: &Way,
        access: Access,
    ) -> io::Result<Self> {
        let open = |suffix| create_own(&name.path(folder, suffix), access);
        let data = Arc::new(way.open_options(access).open(name.path(folder, FILE_SUFFIX))?);
        let made = open(INDEX_SUFFIX).and_then(|index| Ok((index, open(KEYS_SUFFIX)?)));
        let (index, keys) = made.inspect_err(|_| delete_files(folder, &name))?;
        Ok(Self {
            name,
            data,
            index,
            keys,
            end: 0,
            index_end: 0,
            keys_end: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            interfaces: 0,
            rows: Vec::new(),
            holes: Vec::new(),
            is_spoilt: false,
        })
    }

    /// What could not be written is no part of the file, as far as it is at its end.
    pub(super) fn take_back(&mut self, start: u64, end: u64) {
        self.holes.push((start, end));
        let len = self.end;
        while let Some((start, _)) = self.holes.pop_if(|(_, end)| *end == self.end) {
            self.end = start;
        }
        if self.end < len {
            let _ = self.data.set_len(self.end);
        }
        // Others behind it may be whole: readers that know the index pass over the hole.
        self.is_spoilt |= !self.holes.is_empty();
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.end + self.index_end + self.keys_end
    }

    /// Whether somebody deleted it: a file without a name takes writes, and is gone afterwards.
    pub(super) fn is_gone(&self) -> bool {
        self.data.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Whether its index or its hashes were deleted, so that what follows would not be found.
    pub(super) fn is_bare(&self) -> bool {
        [&self.index, &self.keys]
            .iter()
            .any(|file| file.metadata().is_ok_and(|metadata| metadata.nlink() == 0))
    }

    pub(super) fn close(self) -> ClosedFile {
        let (bytes, is_own) = (self.bytes(), true);
        ClosedFile { bytes, name: self.name, last_ns: self.last_ns, rows: self.rows, is_own }
    }
}

/// A file that is complete.
#[derive(Clone, Debug)]
pub(super) struct ClosedFile {
    pub(super) name: FileName,
    pub(super) bytes: u64,
    pub(super) last_ns: i64,
    pub(super) rows: Vec<ClassRow>,
    /// Whether this recorder wrote it.
    pub(super) is_own: bool,
}

/// The files of one priority.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) priority: u8,
    pub(super) next_number: u64,
    pub(super) next_sequence: u64,
    pub(super) open: Option<OpenFile>,
    /// Oldest first.
    pub(super) closed: VecDeque<ClosedFile>,
    /// What is still to be said about packets that were lost or overwritten.
    pub(super) owed: Vec<ClassRow>,
    /// First stamps of the last two chunks: the lesser is the age of the log, so that one packet
    /// from the future deletes nothing.
    pub(super) firsts: [i64; 2],
}

impl Series {
    pub(super) fn new(priority: u8) -> Self {
        Self {
            priority,
            next_number: 0,
            next_sequence: 0,
            open: None,
            closed: VecDeque::new(),
            owed: Vec::new(),
            firsts: [i64::MIN; 2],
        }
    }
}

/// Deletes a file with all that belongs to it; what is not there is not missed.
pub(super) fn delete_files(folder: &Path, name: &FileName) {
    for suffix in [FILE_SUFFIX, COMPRESSED_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX] {
        let _ = std::fs::remove_file(name.path(folder, suffix));
    }
}

/// Bytes of a file with all that belongs to it.
pub(super) fn file_bytes(folder: &Path, name: &FileName) -> u64 {
    [FILE_SUFFIX, COMPRESSED_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX]
        .iter()
        .filter_map(|suffix| std::fs::symlink_metadata(name.path(folder, suffix)).ok())
        .fold(0, |sum: u64, metadata| sum.saturating_add(metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        delete_files(folder.path(), &late);
        assert_eq!(file_names(folder.path()).unwrap().len(), 2);
    }
}
