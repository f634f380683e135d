//! The files of a history folder, known by their names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::hour::Hour;

/// One file: some rows of a table and an hour. Its name says all of it, so that a folder is known
/// without opening a file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StoredFile {
    pub(crate) hour: Hour,
    /// The first and last number of the files that it holds the rows of; its own twice, unless
    /// it was compacted of several.
    pub(crate) numbers: (u64, u64),
    /// The earliest and latest time of its rows; those of the hour where rows have none.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) byte_count: u64,
}

/// The files of a table.
#[derive(Clone, Default)]
pub(crate) struct StoredTable {
    pub(crate) files: BTreeSet<StoredFile>,
    /// Rows of the table in memory that are in files, or were missed.
    pub(crate) taken: u64,
    /// The latest time of the rows that earlier runs left.
    pub(crate) latest_before_ns: Option<i64>,
    /// Rows of this run that were taken, and the latest time among so many, in rising order.
    pub(crate) marks: VecDeque<(u64, i64)>,
}

impl StoredTable {
    /// Rows up to this count were taken, the latest of them of this time. Marks of rows before
    /// those that went from memory say no more than the last of them.
    pub(crate) fn mark(&mut self, taken: u64, latest_ns: Option<i64>, evicted: u64) {
        self.taken = taken;
        let before = self.marks.back().map(|&(_, ns)| ns);
        if let Some(latest_ns) = latest_ns.max(before) {
            self.marks.push_back((taken, latest_ns));
        }
        while self.marks.get(1).is_some_and(|&(taken, _)| taken <= evicted) {
            self.marks.pop_front();
        }
    }

    /// Whether all rows from a time on are in memory, from which so many have gone.
    pub(crate) fn is_in_memory(&self, from_ns: i64, evicted: u64) -> bool {
        let of_this_run = || self.marks.iter().find(|&&(taken, _)| taken >= evicted);
        let gone =
            if evicted > 0 { Some(of_this_run().map_or(i64::MAX, |one| one.1)) } else { None };
        self.latest_before_ns.max(gone).is_none_or(|latest| latest < from_ns)
    }
}

/// The files of all tables.
#[derive(Clone, Default)]
pub(crate) struct Index {
    pub(crate) tables: BTreeMap<String, StoredTable>,
    pub(crate) next_number: u64,
}

const SUFFIX: &str = ".parquet";

impl StoredFile {
    pub(crate) fn path(&self, root: &Path, table: &str) -> PathBuf {
        let Self { numbers: (from, to), first_ns, last_ns, .. } = self;
        let name = format!("{first_ns}_{last_ns}_{from}_{to}{SUFFIX}");
        root.join(table).join(self.hour.folder()).join(name)
    }

    fn read(hour: Hour, name: &str, byte_count: u64) -> Option<Self> {
        let parts: Vec<_> = name.strip_suffix(SUFFIX)?.split('_').collect();
        let [first, last, from, to] = parts[..] else { return None };
        let numbers: (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        let (first_ns, last_ns) = (first.parse().ok()?, last.parse().ok()?);
        let is_one = numbers.0 <= numbers.1 && first_ns <= last_ns;
        is_one.then_some(Self { hour, numbers, first_ns, last_ns, byte_count })
    }

    /// Whether the other was compacted of this one and more.
    fn is_in(&self, other: &Self) -> bool {
        self.numbers != other.numbers
            && self.hour == other.hour
            && other.numbers.0 <= self.numbers.0
            && self.numbers.1 <= other.numbers.1
    }
}

impl Index {
    /// Finds what earlier runs left. Unfinished files go, and so do files whose rows are in a
    /// compacted one: a run ended between its being named and their removal.
    pub(crate) fn scan(root: &Path) -> io::Result<Self> {
        let mut index = Self::default();
        for (name, table) in folders(root)? {
            let mut files = BTreeSet::new();
            for (date, day) in folders(&table)? {
                for (of_day, folder) in folders(&day)? {
                    if let Some(hour) = Hour::read(&date, &of_day) {
                        scan_hour(&folder, hour, &mut files)?;
                    }
                }
            }
            let gone: Vec<_> = files.iter().filter(|file| is_superseded(file, &files)).collect();
            for file in &gone {
                fs::remove_file(file.path(root, &name))?;
            }
            let gone: BTreeSet<_> = gone.into_iter().cloned().collect();
            files.retain(|file| !gone.contains(file));
            let last = files.iter().map(|file| file.numbers.1 + 1).max();
            index.next_number = index.next_number.max(last.unwrap_or(0));
            let latest_before_ns = files.iter().map(|file| file.last_ns).max();
            let table = StoredTable { files, latest_before_ns, ..StoredTable::default() };
            index.tables.insert(name, table);
        }
        Ok(index)
    }

    pub(crate) fn byte_count(&self) -> u64 {
        self.files().map(|(_, file)| file.byte_count).sum()
    }

    /// Every file with its table.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &StoredFile)> {
        self.tables
            .iter()
            .flat_map(|(name, table)| table.files.iter().map(move |file| (name.as_str(), file)))
    }
}

fn is_superseded(file: &StoredFile, files: &BTreeSet<StoredFile>) -> bool {
    // Of one hour only, which lie next to each other.
    let lowest = StoredFile {
        numbers: (0, 0),
        first_ns: i64::MIN,
        last_ns: i64::MIN,
        byte_count: 0,
        ..file.clone()
    };
    files.range(lowest..).take_while(|other| other.hour == file.hour).any(|one| file.is_in(one))
}

fn scan_hour(folder: &Path, hour: Hour, files: &mut BTreeSet<StoredFile>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.ends_with(".partial") {
            fs::remove_file(entry.path())?;
            continue;
        }
        files.extend(StoredFile::read(hour, &name, entry.metadata()?.len()));
    }
    Ok(())
}

fn folders(of: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(of)? {
        let entry = entry?;
        if let (true, Ok(name)) = (entry.file_type()?.is_dir(), entry.file_name().into_string()) {
            folders.push((name, entry.path()));
        }
    }
    Ok(folders)
}

/// Whether a table's name can be that of a folder.
pub(crate) fn is_folder_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-@".contains(&byte);
    !name.is_empty() && name.len() <= 100 && name.bytes().all(is_plain)
}
