//! A recording disk: what a program did to a folder, and what the folder has if the program is
//! killed, or the power fails, after any of it.
//!
//! A program runs under strace, so its code has no seam for this and loses no time. Its operations
//! are replayed in memory up to any of them:
//!
//! - [`Cut::Killed`]: all of them were done; the kernel outlives a program.
//! - [`Cut::Torn`]: the last write is half there.
//! - [`Cut::Power`]: what was not synchronised may be missing, in whole writes or by page. A file
//!   may be as long as it was with zeros in it. Names made, changed or removed in a folder come to
//!   the disk in order, as journaling file systems have them, up to any of them; those before the
//!   folder's last fsync are there. No file system that keeps POSIX loses more; many lose less.
//!
//! Writes through io_uring and memory maps are not seen: programs under test do without.

mod strace;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes that a disk writes in one go.
const PAGE_LEN: usize = 4096;

/// An operation on a file or folder, by its path within the recorded folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A file is made.
    Create(PathBuf),
    /// A folder is made.
    MakeFolder(PathBuf),
    /// Bytes are written at an offset; at the end where there is none.
    Write(PathBuf, Option<u64>, Vec<u8>),
    /// A file gets another length.
    Resize(PathBuf, u64),
    /// A name changes; what had the new one is gone.
    Rename(PathBuf, PathBuf),
    /// A file gets a second name.
    Link(PathBuf, PathBuf),
    /// A name goes.
    Remove(PathBuf),
    /// The disk has the content of a file.
    SyncFile(PathBuf),
    /// The disk has the names in a folder.
    SyncFolder(PathBuf),
    /// The program wrote this on standard output.
    Said(String),
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path, at, bytes) => {
                write!(f, "write {} bytes at {at:?} of {}", bytes.len(), path.display())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// How a program ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// By SIGKILL.
    Killed,
    /// The same, in the middle of its last write.
    Torn,
    /// With the machine. The number says what of the rest is on the disk.
    Power(u64),
}

/// Operations in order.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    operations: Vec<Operation>,
}

impl Recording {
    /// Runs the calling test again as a program of its own, with these variables; nothing where
    /// there is no strace.
    ///
    /// # Errors
    /// As [`of`](Self::of), but for that.
    pub fn of_test(
        name: &str,
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> io::Result<Option<Self>> {
        let program = std::env::current_exe()?;
        match Self::of(&program, &["--exact", name, "--nocapture"], environment, folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            recording => recording.map(Some),
        }
    }

    /// Runs a program to its end and records what it does below a folder that is there. It may have
    /// folders, which the disk has, and no files.
    ///
    /// # Errors
    /// There is no strace ([`io::ErrorKind::NotFound`]), it may not trace, or the program fails.
    pub fn of(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
        folder: &Path,
    ) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        let trace = folder.with_extension("strace");
        let mut operations = Vec::new();
        for entry in fs::read_dir(&folder)? {
            operations.push(Operation::MakeFolder(entry?.file_name().into()));
        }
        operations.push(Operation::SyncFolder(PathBuf::new()));
        let output = Command::new("strace")
            .args(["-f", "-y", "-xx", "-s", "16777216", "-e", strace::CALLS, "-o"])
            .arg(&trace)
            .arg(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .output()?;
        let text = fs::read_to_string(&trace);
        let _ = fs::remove_file(&trace);
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!(
                "{}: {}: {said}",
                program.display(),
                output.status
            )));
        }
        operations.extend(strace::operations(&text?, &folder));
        Ok(Self { operations })
    }

    /// All operations.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// What the program had written on standard output before it ended after so many operations.
    #[must_use]
    pub fn said(&self, count: usize) -> String {
        let said = self.operations.iter().take(count).filter_map(|operation| match operation {
            Operation::Said(text) => Some(text.as_str()),
            _ => None,
        });
        said.collect()
    }

    /// What is in the folder if the program ends after so many operations.
    #[must_use]
    pub fn after(&self, count: usize, cut: Cut) -> State {
        let mut disk = Memory::default();
        let mut done = self.operations.iter().take(count).cloned().collect::<Vec<_>>();
        if cut == Cut::Torn
            && let Some(Operation::Write(_, _, bytes)) = done.last_mut()
        {
            bytes.truncate(bytes.len() / 2);
        }
        for operation in &done {
            disk.apply(operation);
        }
        match cut {
            Cut::Killed | Cut::Torn => disk.live(),
            Cut::Power(seed) => disk.after_power_cut(&mut Draws(seed)),
        }
    }
}

/// Files and folders.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Content, by path.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Those that are there although they may be empty.
    pub folders: Vec<PathBuf>,
}

impl State {
    /// Makes these files in a folder.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_to(&self, folder: &Path) -> io::Result<()> {
        for name in &self.folders {
            fs::create_dir_all(folder.join(name))?;
        }
        for (name, bytes) in &self.files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, bytes)?;
        }
        Ok(())
    }
}

/// Draws by splitmix64: the same seed, the same disk.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % (count as u64).max(1)).unwrap_or(0)
    }
}

/// A change of a file's content.
#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Resize(len) => content.resize(*len, 0),
            Self::Write(at, bytes) => {
                content.resize(content.len().max(at + bytes.len()), 0);
                content.splice(*at..at + bytes.len(), bytes.iter().copied());
            }
        }
    }

    /// The parts of a write that a disk does one by one.
    fn pages(&self) -> Vec<Self> {
        let Self::Write(at, bytes) = self else { return vec![self.clone()] };
        let (mut at, mut rest, mut pages) = (*at, bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (page, behind) = rest.split_at(rest.len().min(PAGE_LEN - at % PAGE_LEN));
            pages.push(Self::Write(at, page.to_vec()));
            (at, rest) = (at + page.len(), behind);
        }
        pages
    }
}

/// A file, whatever its names are.
#[derive(Clone, Default)]
struct Content {
    now: Vec<u8>,
    /// As of the last time that it was synchronised, and what changed since.
    synced: Vec<u8>,
    changes: Vec<Change>,
}

/// Names, each with the number of its file; folders have none.
type Names = BTreeMap<PathBuf, Option<usize>>;

/// A folder's names change.
#[derive(Clone)]
enum NameChange {
    Put(PathBuf, Option<usize>),
    Move(PathBuf, PathBuf, Option<usize>),
    Remove(PathBuf),
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            Self::Put(path, file) => drop(names.insert(path.clone(), *file)),
            Self::Move(from, to, file) => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            Self::Remove(path) => drop(names.remove(path)),
        }
    }

    fn folder(&self) -> &Path {
        let (Self::Put(path, _) | Self::Move(_, path, _) | Self::Remove(path)) = self;
        path.parent().unwrap_or(Path::new(""))
    }
}

/// What memory and disk have.
#[derive(Default)]
struct Memory {
    contents: Vec<Content>,
    now: Names,
    synced: Names,
    changes: Vec<NameChange>,
}

impl Memory {
    fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create(path) => {
                self.contents.push(Content::default());
                let file = self.contents.len() - 1;
                self.name(NameChange::Put(path.clone(), Some(file)));
            }
            Operation::MakeFolder(path) => self.name(NameChange::Put(path.clone(), None)),
            Operation::Write(path, at, bytes) => {
                let Some(content) = self.content(path) else { return };
                let at = at.map_or(content.now.len(), |at| usize::try_from(at).unwrap_or(0));
                content.change(Change::Write(at, bytes.clone()));
            }
            Operation::Resize(path, len) => {
                let Some(content) = self.content(path) else { return };
                content.change(Change::Resize(usize::try_from(*len).unwrap_or(0)));
            }
            Operation::Rename(from, to) => {
                let file = self.now.get(from).copied().flatten();
                self.name(NameChange::Move(from.clone(), to.clone(), file));
            }
            Operation::Link(from, to) => {
                let file = self.now.get(from).copied().flatten();
                self.name(NameChange::Put(to.clone(), file));
            }
            Operation::Remove(path) => self.name(NameChange::Remove(path.clone())),
            Operation::SyncFile(path) => {
                let Some(content) = self.content(path) else { return };
                content.synced.clone_from(&content.now);
                content.changes.clear();
            }
            Operation::SyncFolder(path) => {
                let (done, rest) = std::mem::take(&mut self.changes)
                    .into_iter()
                    .partition(|change| change.folder() == path);
                self.changes = rest;
                let done: Vec<NameChange> = done;
                done.iter().for_each(|change| change.apply(&mut self.synced));
            }
            Operation::Said(_) => {}
        }
    }

    fn content(&mut self, path: &Path) -> Option<&mut Content> {
        let file = self.now.get(path).copied().flatten()?;
        self.contents.get_mut(file)
    }

    fn name(&mut self, change: NameChange) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    fn live(&self) -> State {
        self.state(&self.now, |content| content.now.clone())
    }

    fn state(&self, names: &Names, mut of: impl FnMut(&Content) -> Vec<u8>) -> State {
        let mut state = State::default();
        for (path, file) in names {
            match file.and_then(|file| self.contents.get(file)) {
                Some(content) => drop(state.files.insert(path.clone(), of(content))),
                None => state.folders.push(path.clone()),
            }
        }
        state
    }

    fn after_power_cut(&self, draws: &mut Draws) -> State {
        let mut names = self.synced.clone();
        let mut folders: Vec<&Path> = self.changes.iter().map(NameChange::folder).collect();
        folders.sort_unstable();
        folders.dedup();
        for folder in folders {
            let of_folder = self.changes.iter().filter(|change| change.folder() == folder);
            let count = of_folder.clone().count();
            // None, all, or up to any.
            let kept = match draws.below(4) {
                0 => 0,
                1 => count,
                _ => draws.below(count + 1),
            };
            of_folder.take(kept).for_each(|change| change.apply(&mut names));
        }
        // Names in a folder that has none itself are lost with it.
        let there: Vec<PathBuf> = names.keys().cloned().collect();
        names.retain(|path, _| {
            let mut above = path.ancestors().skip(1);
            above.all(|above| above == Path::new("") || there.iter().any(|it| it == above))
        });
        self.state(&names, |content| content.after_power_cut(draws))
    }
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    fn after_power_cut(&self, draws: &mut Draws) -> Vec<u8> {
        let mut content = self.synced.clone();
        let how = draws.below(4);
        for change in &self.changes {
            let parts = if how == 3 { change.pages() } else { vec![change.clone()] };
            let kept = parts.iter().filter(|_| how == 1 || how > 1 && draws.below(2) == 0);
            kept.for_each(|part| part.apply(&mut content));
        }
        // A length may be there before what it is the length of.
        if how == 3 && draws.below(2) == 0 {
            content.resize(content.len().max(self.now.len()), 0);
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording() -> Recording {
        let path = PathBuf::from("log/a");
        Recording {
            operations: vec![
                Operation::MakeFolder("log".into()),
                Operation::SyncFolder("".into()),
                Operation::Create(path.clone()),
                Operation::Write(path.clone(), Some(0), vec![1; 8192]),
                Operation::SyncFile(path.clone()),
                Operation::Write(path.clone(), None, vec![2; 8192]),
                Operation::SyncFolder("log".into()),
                Operation::Said("done\n".into()),
                Operation::Rename(path, "log/b".into()),
            ],
        }
    }

    #[test]
    fn all_that_was_done_outlives_the_program() {
        let recording = recording();
        let whole = recording.after(9, Cut::Killed);
        assert_eq!(whole.files.keys().collect::<Vec<_>>(), [Path::new("log/b")]);
        assert_eq!(whole.files.values().map(Vec::len).sum::<usize>(), 16_384);
        let torn = recording.after(6, Cut::Torn);
        assert_eq!(torn.files.values().map(Vec::len).sum::<usize>(), 12_288);
        assert_eq!((recording.said(7), recording.said(8)), (String::new(), "done\n".into()));
    }

    #[test]
    fn a_power_cut_takes_what_was_not_synchronised_and_nothing_else() {
        let recording = recording();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let early = recording.after(6, Cut::Power(seed));
            assert!(early.files.keys().all(|path| path == Path::new("log/a")), "{seed}");
            let late = recording.after(9, Cut::Power(seed));
            let (path, bytes) = late.files.first_key_value().unwrap();
            assert_eq!((late.files.len(), &bytes[..8192]), (1, &[1; 8192][..]), "{seed}");
            assert!(bytes[8192..].iter().all(|byte| [0, 2].contains(byte)), "{seed}");
            let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
            seen.insert((early.files.len(), path.clone(), bytes.len(), zeros));
        }
        assert!(seen.len() > 8, "{seen:?}");
    }
}
