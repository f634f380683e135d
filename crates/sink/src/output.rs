//! Output files that are complete or absent.
//!
//! Rows go to `NAME.partial` next to the target, which gets its name in one
//! step at the end: no reader ever sees an incomplete file under the name it waits
//! for. A run that fails removes its partial file; one that is killed leaves
//! it, marked by its name, and the next run replaces it. So does one whose disk
//! takes no more, where [`recover`](crate::recover()) finds rows in it. The open
//! partial file is locked, so two runs cannot fill one.
//!
//! Nothing is forced to the disk (no fsync), except by [`OutputFile::finish_synced`]: after a power
//! cut the file may be short. A file system that reports a full disk only when a file is closed
//! (NFS may) is not caught either.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::{self, Write};
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt as _, FileTypeExt, MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use files::FileMode;

use crate::{FailedOutput, OutputError, recover};

const PARTIAL_SUFFIX: &str = ".partial";

/// What is recovered must not grow where its source lies.
const RECOVERED_SUFFIX: &str = ".recovered.partial";

/// Pieces that may lie side by side before we give up looking for a free name.
const PIECES_MAX: u32 = 1_000_000;

const FAILED_BEFORE: &str = "an earlier write failed";

/// Other runs that may come between our looking and our creating before we give up.
const RACES_MAX: usize = 16;

/// What to do with a target that exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Existing {
    /// Leave it and fail.
    Refuse,
    /// Put the new output in its place, once that is complete.
    Replace,
}

/// An output that gets its name when it is complete.
///
/// Pipes and devices (`/dev/stdout`, a FIFO) have no such moment: they are
/// written straight. Dropped without [`finish`](Self::finish), nothing of a
/// file remains.
#[derive(Debug)]
pub struct OutputFile {
    /// As the user gave it: what messages name.
    path: PathBuf,
    file: File,
    written_bytes: u64,
    place: Place,
    /// Pieces finished before this one.
    piece_count: u32,
    /// Whether rows grow in it that can be recovered from half of it.
    holds_rows: bool,
}

/// A finished piece of an output that continues in another file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its name; nothing if another program renamed it while it grew.
    pub path: Option<PathBuf>,
    /// Its length.
    pub size_bytes: u64,
}

#[derive(Debug)]
enum Place {
    /// Written straight.
    Stream,
    /// To be put in place.
    Partial { partial: PathBuf, target: PathBuf, existing: Existing },
    /// Its last write failed, or it is in place.
    Gone { left: FailedOutput },
}

impl OutputFile {
    /// Opens the partial file next to `path`, or `path` itself if it is a pipe or device.
    ///
    /// A symbolic link is refused: where others may write, one of theirs would lead anywhere. In
    /// place of a file of this user the new one has its permissions, unless the front end asked for
    /// some; other new files have what [`FileMode::asked`] says. A file of another user in a folder
    /// where all users may put files is refused.
    ///
    /// # Errors
    /// [`OutputError`], before anything was changed.
    pub fn create(path: &Path, existing: Existing) -> Result<Self, OutputError> {
        Self::create_as(path, existing, PARTIAL_SUFFIX)
    }

    /// The same, but leaves alone what lies under the partial name of `path`.
    pub(crate) fn create_recovered(path: &Path, existing: Existing) -> Result<Self, OutputError> {
        Self::create_as(path, existing, RECOVERED_SUFFIX)
    }

    fn create_as(path: &Path, existing: Existing, suffix: &str) -> Result<Self, OutputError> {
        if let Some(file) = files::descriptor(path) {
            return Self::stream(path, file);
        }
        let found = match fs::symlink_metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(no_folder(path, path));
            }
            Err(source) => return Err(OutputError::Create { path: path.to_owned(), source }),
        };
        match &found {
            Some(found) if found.is_dir() => return Err(OutputError::IsFolder(path.to_owned())),
            Some(found) if found.is_symlink() => {
                let to = fs::read_link(path).unwrap_or_default();
                return Err(OutputError::IsLink { path: path.to_owned(), to });
            }
            // A block device holds data, as a file does.
            Some(found)
                if (found.is_file() || found.file_type().is_block_device())
                    && existing == Existing::Refuse =>
            {
                return Err(OutputError::Exists(path.to_owned()));
            }
            None if path.file_name().is_none() => {
                let source = io::Error::new(io::ErrorKind::InvalidInput, "the file name is empty");
                return Err(OutputError::Create { path: path.to_owned(), source });
            }
            None if path.as_os_str().as_bytes().ends_with(b"/") => {
                return Err(OutputError::IsFolder(path.to_owned()));
            }
            _ => {}
        }
        match found {
            Some(found) if !found.is_file() => Self::stream(path, files::open_stream(path)),
            found => Self::partial(path, existing, found.as_ref(), suffix),
        }
    }

    /// Whether this is a pipe or device, where
    /// [`Writer::streaming`](crate::Writer::streaming) serves the reader best.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self.place, Place::Stream)
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// From here on rows grow in it that [`recover`](crate::recover()) understands: where a write
    /// fails they are kept under the partial name.
    pub fn holds_rows(&mut self) {
        self.holds_rows = true;
    }

    /// Writes over the first bytes, which were written before: for a format whose beginning is
    /// known at its end. Not for a pipe or device.
    ///
    /// # Errors
    /// [`OutputError::Write`]; nothing of the file remains.
    pub fn rewrite_start(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        let written = match self.place {
            Place::Partial { .. } if bytes.len() as u64 <= self.written_bytes => {
                self.file.write_all_at(bytes, 0)
            }
            _ => Err(io::ErrorKind::NotSeekable.into()),
        };
        written.map_err(|error| self.failed(error))
    }

    /// Gives the complete output its name; says how many bytes it has.
    ///
    /// # Errors
    /// [`OutputError::Appeared`] or [`OutputError::Publish`]: the output is
    /// kept under its partial name. [`OutputError::Write`] where an earlier write had failed.
    pub fn finish(mut self) -> Result<u64, OutputError> {
        self.put_in_place(false)?;
        Ok(self.written_bytes)
    }

    /// The same, once the disk has all of it, and then waits until the disk has the name: for a
    /// file that takes the place of others.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_synced(self) -> Result<u64, OutputError> {
        let path = self.path.clone();
        if let Err(source) = self.file.sync_data() {
            let mut failed = self;
            return Err(failed.failed(source));
        }
        let written_bytes = self.finish()?;
        let refused = |source| OutputError::Create { path: path.clone(), source };
        files::sync_folder(files::folder_of(&path)).map_err(refused)?;
        Ok(written_bytes)
    }

    /// Gives what was written its name, as [`finish`](Self::finish) does, and
    /// begins a new file for what comes. For output without an end, whose
    /// files are moved away from time to time.
    ///
    /// No piece replaces another: where the one before still has the name, this
    /// one becomes `NAME-1.SUFFIX`, or `-2`, whichever is free. Where the
    /// growing file itself was renamed, as log rotation does, it stays where it is.
    /// Of a pipe or device nothing is finished.
    ///
    /// # Errors
    /// As [`finish`](Self::finish) and [`create`](Self::create); what was finished stays.
    pub fn reopen(mut self) -> Result<(Self, Piece), OutputError> {
        let Place::Partial { partial, target, existing } = &self.place else {
            self.flush_file()?;
            let size_bytes = self.written_bytes;
            return Ok((self, Piece { path: None, size_bytes }));
        };
        let (partial, target, existing) = (partial.clone(), target.clone(), *existing);
        self.flush_file()?;
        let was_renamed = !is_named(&self.file, &partial)
            && self.file.metadata().is_ok_and(|metadata| metadata.nlink() > 0);
        let path = if was_renamed {
            self.place = Place::Gone { left: FailedOutput::AsItWas };
            None
        } else {
            self.put_in_place(true)?
        };
        let piece = Piece { path, size_bytes: self.written_bytes };
        let file = open_partial(&self.path, &partial)?;
        if let Ok(before) = self.file.metadata() {
            // Better a piece than none because its permissions could not be those before.
            let _ = inherit(&file, &before);
        }
        let mut next = Self::at(&self.path, file, Place::Partial { partial, target, existing });
        next.piece_count = self.piece_count + 1;
        next.holds_rows = self.holds_rows;
        Ok((next, piece))
    }

    /// Names what is complete; says how, unless it has no name to get.
    fn put_in_place(&mut self, goes_on: bool) -> Result<Option<PathBuf>, OutputError> {
        self.flush_file()?;
        let Place::Partial { partial, target, existing } = &self.place else { return Ok(None) };
        let (is_first, written_bytes) = (self.piece_count == 0, self.written_bytes);
        let named = match existing {
            Existing::Replace if is_first => fs::rename(partial, target).map(|()| target.clone()),
            Existing::Refuse if is_first && !goes_on => {
                name_new(partial, target).map(|()| target.clone())
            }
            _ => name_free(partial, target, self.piece_count),
        };
        let outcome = named.map(Some).map_err(|error| {
            let (path, partial) = (self.path.clone(), partial.clone());
            match error.kind() {
                io::ErrorKind::AlreadyExists => OutputError::Appeared { path, partial },
                io::ErrorKind::NotFound if fs::symlink_metadata(&partial).is_err() => {
                    OutputError::Vanished { path, written_bytes }
                }
                _ => OutputError::Publish { path, partial, source: error },
            }
        });
        // Named or not, what was written stays.
        self.place = Place::Gone { left: FailedOutput::AsItWas };
        outcome
    }

    fn at(path: &Path, file: File, place: Place) -> Self {
        let path = path.to_owned();
        Self { path, file, written_bytes: 0, place, piece_count: 0, holds_rows: false }
    }

    fn stream(path: &Path, file: io::Result<File>) -> Result<Self, OutputError> {
        match file {
            Ok(file) => Ok(Self::at(path, file, Place::Stream)),
            Err(source) => Err(OutputError::Create { path: path.to_owned(), source }),
        }
    }

    fn partial(
        path: &Path,
        existing: Existing,
        replaced: Option<&Metadata>,
        suffix: &str,
    ) -> Result<Self, OutputError> {
        let refused = |source| OutputError::Create { path: path.to_owned(), source };
        replaced.map_or(Ok(()), |found| files::check_owner(found, path)).map_err(refused)?;
        let target = path.to_owned();
        let partial = with_suffix(path, suffix);
        let file = open_partial(path, &partial)?;
        if let Some(replaced) = replaced
            && let Err(source) = inherit(&file, replaced)
        {
            let _ = fs::remove_file(&partial);
            return Err(OutputError::Create { path: partial, source });
        }
        let place = Place::Partial { partial, target, existing };
        Ok(Self::at(path, file, place))
    }

    fn flush_file(&mut self) -> Result<(), OutputError> {
        match (&self.place, self.file.flush()) {
            (Place::Gone { .. }, _) => Err(self.failed(io::Error::other(FAILED_BEFORE))),
            (_, Ok(())) => Ok(()),
            (_, Err(error)) => Err(self.failed(error)),
        }
    }

    /// Removes what cannot become whole any more, unless rows can be recovered from it; says what
    /// happened.
    fn failed(&mut self, source: io::Error) -> OutputError {
        match &self.place {
            Place::Partial { partial, .. } if self.holds_rows && recover::has_row(partial) => {
                let left = FailedOutput::Rows(partial.clone());
                self.place = Place::Gone { left };
            }
            _ => self.abandon(),
        }
        let left = match &self.place {
            Place::Gone { left } => left.clone(),
            _ => FailedOutput::AsItWas,
        };
        let (path, written_bytes) = (self.path.clone(), self.written_bytes);
        OutputError::Write { path, written_bytes, left, source }
    }

    fn abandon(&mut self) {
        if let Place::Partial { partial, .. } = &self.place {
            let removed = fs::remove_file(partial).is_ok();
            let left = if removed { FailedOutput::Nothing } else { FailedOutput::AsItWas };
            self.place = Place::Gone { left };
        }
    }
}

impl Write for OutputFile {
    /// An error holds an [`OutputError::Write`], so that its text names the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Place::Gone { .. } = self.place {
            return Err(self.failed(io::Error::other(FAILED_BEFORE)).into());
        }
        match self.file.write(bytes) {
            Ok(0) if !bytes.is_empty() => Err(self.failed(io::ErrorKind::WriteZero.into()).into()),
            Ok(len) => {
                self.written_bytes += len as u64;
                Ok(len)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => Err(self.failed(error).into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.flush_file()?)
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// The name under which an output of this name grows.
pub(crate) fn partial_name(path: &Path) -> PathBuf {
    with_suffix(path, PARTIAL_SUFFIX)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

/// Gives a file the permissions of the one before it: those that a user asks for go first, another
/// user's say nothing about ours, and no output is a program.
fn inherit(file: &File, before: &Metadata) -> io::Result<()> {
    const READ_AND_WRITE: u32 = 0o666;
    if FileMode::explicit().is_some() || !files::is_ours(before) {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(before.mode() & READ_AND_WRITE))
}

/// Creates the partial file and locks it, having removed one that a killed run left.
///
/// A run that removes a partial file holds its lock and has seen that the name
/// still leads to it. So no run removes a file that another is filling: the
/// other holds the lock, or has yet to take it and will find its file gone.
fn open_partial(path: &Path, partial: &Path) -> Result<File, OutputError> {
    let create_failed = |source| OutputError::Create { path: partial.to_owned(), source };
    let busy = || OutputError::Busy { path: path.to_owned(), partial: partial.to_owned() };
    for _ in 0..RACES_MAX {
        match files::create(partial, FileMode::asked()) {
            Ok(file) => {
                if !lock(&file) {
                    return Err(busy());
                }
                if is_named(&file, partial) {
                    return Ok(file);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let Ok(found) = fs::symlink_metadata(partial) else { continue };
                if !found.is_file() {
                    return Err(OutputError::PartialNotOurs(partial.to_owned()));
                }
                let stale = match files::open(partial) {
                    Ok(stale) => stale,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    // Of another user.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(OutputError::PartialNotOurs(partial.to_owned()));
                    }
                    Err(error) => return Err(create_failed(error)),
                };
                if !lock(&stale) {
                    return Err(busy());
                }
                if is_named(&stale, partial) {
                    fs::remove_file(partial).map_err(create_failed)?;
                }
            }
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && !folder_of(partial).is_dir() =>
            {
                return Err(no_folder(path, partial));
            }
            Err(error) => return Err(create_failed(error)),
        }
    }
    Err(busy())
}

/// False where another process has the lock. A file system without locks
/// leaves the name as the only guard.
fn lock(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// Whether `path` leads to this very file.
fn is_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Gives a file its name unless something has it. A second link fails where
/// the name is taken, a rename would not; where links cannot be made, looking
/// first leaves a gap in which another process's file may be replaced.
fn name_new(partial: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(partial, target) {
        Ok(()) => {
            // Both names lead to the complete file: one too many loses nothing.
            let _ = fs::remove_file(partial);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => match fs::symlink_metadata(target) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => fs::rename(partial, target),
        },
    }
}

/// Gives a file its name, or that name with the first free number from `number` on.
fn name_free(partial: &Path, target: &Path, number: u32) -> io::Result<PathBuf> {
    // A run that rotates every minute has had as many pieces after two years, and they were moved.
    let first = number.max(1);
    let numbers = (first..=first.saturating_add(PIECES_MAX)).map(|number| numbered(target, number));
    for name in iter::once(target.to_owned()).chain(numbers) {
        match name_new(partial, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(name),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// `flows-3.parquet` of `flows.parquet`.
fn numbered(target: &Path, number: u32) -> PathBuf {
    let mut name = target.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(suffix) = target.extension() {
        name.push(".");
        name.push(suffix);
    }
    target.with_file_name(name)
}

fn no_folder(path: &Path, beside: &Path) -> OutputError {
    OutputError::NoFolder { path: path.to_owned(), folder: folder_of(beside).to_owned() }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that is full from the first byte on, behind a partial file.
    fn full_disk(name: &str) -> (OutputFile, PathBuf) {
        let partial =
            std::env::temp_dir().join(format!("wirelens-{}-{name}.partial", std::process::id()));
        fs::write(&partial, "").unwrap();
        let output = OutputFile {
            path: "flows.csv".into(),
            piece_count: 0,
            file: fs::OpenOptions::new().write(true).open("/dev/full").unwrap(),
            written_bytes: 4096,
            holds_rows: false,
            place: Place::Partial {
                partial: partial.clone(),
                target: "flows.csv".into(),
                existing: Existing::Refuse,
            },
        };
        (output, partial)
    }

    #[test]
    fn a_full_disk_leaves_nothing_and_says_so() {
        let (mut output, partial) = full_disk("write");
        let error = output.write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(
            error.to_string(),
            "cannot write `flows.csv`: No space left on device (os error 28) after 4096 bytes; \
             the incomplete file was removed; free some space, or write to another disk"
        );
        assert!(!partial.exists(), "removed at once, not only when dropped");
        assert!(output.write_all(b"x").unwrap_err().to_string().contains(FAILED_BEFORE));
        assert!(output.finish().is_err(), "a failed output is never given its name");
    }

    #[test]
    fn rows_that_were_written_outlive_a_full_disk() {
        let (mut output, partial) = full_disk("rows");
        fs::write(&partial, "bytes\n1\n2\n3").unwrap();
        output.holds_rows();
        let said = output.write_all(b"x").unwrap_err().to_string();
        assert!(said.contains(&format!("rows are in `{}`", partial.display())), "{said}");
        assert!(output.write_all(b"x").unwrap_err().to_string().contains(FAILED_BEFORE));
        drop(output);
        let target = partial.with_extension("recovered");
        let recovered = crate::recover(&partial, &target, Existing::Replace).unwrap();
        assert_eq!((recovered.row_count, fs::read(&target).unwrap()), (2, b"bytes\n1\n2\n".into()));
        fs::remove_file(&partial).unwrap();
        fs::remove_file(&target).unwrap();

        let (mut output, partial) = full_disk("header");
        fs::write(&partial, "bytes\n1").unwrap();
        output.holds_rows();
        let said = output.write_all(b"x").unwrap_err().to_string();
        assert!(said.contains("the incomplete file was removed") && !partial.exists(), "{said}");
    }

    #[test]
    fn a_piece_that_follows_holds_rows_as_the_one_before() {
        let home = tempfile::tempdir().unwrap();
        let mut output =
            OutputFile::create(&home.path().join("eve.json"), Existing::Refuse).unwrap();
        output.holds_rows();
        output.write_all(b"{}\n").unwrap();
        assert!(output.reopen().unwrap().0.holds_rows);
    }

    #[test]
    fn a_piece_after_a_million_others_gets_a_name() {
        let home = tempfile::tempdir().unwrap();
        let (partial, target) = (home.path().join("a.csv.partial"), home.path().join("a.csv"));
        fs::write(&partial, "new").unwrap();
        fs::write(&target, "first").unwrap();
        let name = name_free(&partial, &target, PIECES_MAX + 1).unwrap();
        assert_eq!(name, home.path().join(format!("a-{}.csv", PIECES_MAX + 1)));
    }

    #[test]
    fn a_new_name_is_not_taken_from_another_file() {
        let (_output, partial) = full_disk("name");
        let target = partial.with_extension("csv");
        fs::write(&target, "precious").unwrap();
        assert_eq!(name_new(&partial, &target).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"precious");
        fs::remove_file(&target).unwrap();
        name_new(&partial, &target).unwrap();
        assert!(!partial.exists());
        fs::remove_file(&target).unwrap();
    }
}
