//! The files that a recorder writes: the one that is open, those that are closed.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use super::disk::Way;
use super::why::WhyFile;
use crate::file_name::FileName;
use crate::index::{
    COMPRESSED_SUFFIX, ClassRow, FILE_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX,
};
use crate::ledger::Hole;
use crate::own::{Access, create_own};

/// A file that grows.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) name: FileName,
    pub(super) data: Arc<File>,
    pub(super) index: File,
    pub(super) keys: File,
    pub(super) why: WhyFile,
    /// Where the next chunk, record and list go.
    pub(super) end: u64,
    pub(super) index_end: u64,
    pub(super) keys_end: u64,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// Descriptions of interfaces in it; readers number them all.
    pub(super) interfaces: u32,
    pub(super) rows: Vec<ClassRow>,
    /// Places of blocks that could not be written, until a later one was; the file ends before
    /// those at its end.
    pub(super) holes: Vec<Hole>,
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
        let data = Arc::new(way.create(&name.path(folder, FILE_SUFFIX), access)?);
        let made = open(INDEX_SUFFIX).and_then(|index| Ok((index, open(KEYS_SUFFIX)?)));
        let (index, keys) = made.inspect_err(|_| {
            let _ = delete_files(folder, &name);
        })?;
        Ok(Self {
            name,
            data,
            index,
            keys,
            why: WhyFile::default(),
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
    pub(super) fn take_back(&mut self, hole: Hole) {
        self.holes.push(hole);
        let len = self.end;
        while let Some(hole) = self.holes.pop_if(|hole| hole.end() == self.end) {
            self.end = hole.offset;
        }
        if self.end < len {
            let _ = self.data.set_len(self.end);
        }
        // Others behind it may be whole: readers that know the index pass over the hole.
        self.is_spoilt |= !self.holes.is_empty();
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.end + self.index_end + self.keys_end + self.why.end
    }

    /// Whether it was deleted: a file without a name takes writes, and is gone afterwards.
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

    /// Bytes of its files, so many at most: of a log of thousands of files few are counted.
    pub(super) fn bytes_up_to(&self, limit: u64) -> u64 {
        let mut bytes = self.open.as_ref().map_or(0, OpenFile::bytes);
        for file in &self.closed {
            if bytes >= limit {
                break;
            }
            bytes = bytes.saturating_add(file.bytes);
        }
        bytes.min(limit)
    }
}

/// A file of the log and what belongs to it.
const SUFFIXES: [&str; 5] = [FILE_SUFFIX, COMPRESSED_SUFFIX, INDEX_SUFFIX, KEYS_SUFFIX, WHY_SUFFIX];

/// Deletes a file with all that belongs to it; what is not there is not missed.
///
/// # Errors
/// Why some of it is still there.
pub(super) fn delete_files(folder: &Path, name: &FileName) -> io::Result<()> {
    let mut deleted = Ok(());
    for suffix in SUFFIXES {
        match std::fs::remove_file(name.path(folder, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => deleted = Err(error),
            _ => {}
        }
    }
    deleted
}

/// Bytes of a file with all that belongs to it.
pub(super) fn file_bytes(folder: &Path, name: &FileName) -> u64 {
    SUFFIXES
        .iter()
        .filter_map(|suffix| std::fs::symlink_metadata(name.path(folder, suffix)).ok())
        .fold(0, |sum: u64, metadata| sum.saturating_add(metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_name::file_names;

    #[test]
    fn a_deleted_file_leaves_nothing_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (FileName::new(0, 0, 1), FileName::new(0, 0, 2));
        for suffix in SUFFIXES {
            std::fs::write(one.path(folder.path(), suffix), "").unwrap();
        }
        std::fs::write(other.path(folder.path(), FILE_SUFFIX), "").unwrap();
        delete_files(folder.path(), &one).unwrap();
        assert_eq!(file_names(folder.path()).unwrap(), [other]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
