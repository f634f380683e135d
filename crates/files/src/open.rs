//! Files.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Gid, OFlags, Uid, fchown};
use rustix::io::Errno;

use crate::folder::{check_named, check_owner, user};
use crate::{FileMode, descriptor};

/// Programs that may come between our looking and our creating before we give up.
const RACES_MAX: usize = 16;

/// Flags with which a file of ours is opened again: a link is an error, and a pipe that another
/// user put there does not block.
const OWN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);

/// Makes a file that is not there, to write and to read.
///
/// # Errors
/// What the system says; whatever has the name, a link included, is there already.
pub fn create(path: &Path, mode: FileMode) -> io::Result<File> {
    create_with(path, mode, OFlags::empty())
}

/// The same, for writes that pass by the page cache.
///
/// # Errors
/// As [`create`], and where the file system has no such writes.
pub fn create_direct(path: &Path, mode: FileMode) -> io::Result<File> {
    create_with(path, mode, OFlags::DIRECT)
}

/// The same as [`create`], next to a file that it belongs to: one that root makes gets the owner of
/// that file, who could not open root's. Who owns the folder alone gets nothing that way.
///
/// # Errors
/// As [`create`].
pub fn create_like(path: &Path, mode: FileMode, like: &Path) -> io::Result<File> {
    let file = create(path, mode)?;
    let found = fs::symlink_metadata(like).ok().filter(Metadata::is_file);
    if let Some(found) = found.filter(|found| user() == 0 && found.uid() != 0) {
        let owner = (Uid::from_raw(found.uid()), Gid::from_raw(found.gid()));
        // A file system without owners has none to keep out.
        let _ = fchown(&file, Some(owner.0), Some(owner.1));
    }
    Ok(file)
}

fn create_with(path: &Path, mode: FileMode, flags: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(FileMode::OWNER.file());
    let file = options.custom_flags(bits(OFlags::NOFOLLOW | flags)).open(path)?;
    if mode != FileMode::OWNER {
        // The umask takes from what is asked of open(2), and a setting says more than it.
        file.set_permissions(fs::Permissions::from_mode(mode.file()))?;
    }
    Ok(file)
}

/// Opens a file to add to its end, or makes it; a pipe or device is written directly.
///
/// # Errors
/// What the system says; a link, and a file of another user where all users may put files.
pub fn append(path: &Path, mode: FileMode) -> io::Result<File> {
    match descriptor(path) {
        Some(file) => file,
        None => append_with(path, mode, OFlags::NOFOLLOW),
    }
}

/// The same of a file of ours, which is never a pipe or device.
///
/// # Errors
/// As [`append`]; a link, a folder or a pipe is none of ours.
pub fn append_log(path: &Path, mode: FileMode) -> io::Result<File> {
    regular(append_with(path, mode, OWN)?)
}

fn append_with(path: &Path, mode: FileMode, flags: OFlags) -> io::Result<File> {
    for _ in 0..RACES_MAX {
        let mut options = OpenOptions::new();
        options.append(true).custom_flags(bits(flags));
        match check_named(path).and_then(|()| options.open(path)) {
            Ok(file) => return check_owner(&file.metadata()?, path).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(refused(path, error)),
        }
        match create_with(path, mode, OFlags::APPEND) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Whether the last line of a file that is open to add to has no end: a full disk or a power cut
/// took it. Of one that may be written and not read this is not known; a pipe has no last line.
#[must_use]
pub fn ends_torn(path: &Path, file: &File) -> bool {
    let metadata = file.metadata().ok().filter(Metadata::is_file);
    let Some(last) = metadata.and_then(|found| found.len().checked_sub(1)) else { return false };
    let mut byte = [0];
    let read = open(path).and_then(|file| file.read_exact_at(&mut byte, last));
    read.is_ok() && byte != *b"\n"
}

/// Opens a file of ours for reading.
///
/// # Errors
/// What the system says; a link, a folder or a pipe is none of ours.
pub fn open(path: &Path) -> io::Result<File> {
    open_own(path, OpenOptions::new().read(true))
}

/// Opens a file of ours for reading and writing.
///
/// # Errors
/// As [`open`].
pub fn open_to_write(path: &Path) -> io::Result<File> {
    open_own(path, OpenOptions::new().read(true).write(true))
}

fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    regular(options.custom_flags(bits(OWN)).open(path).map_err(|error| refused(path, error))?)
}

pub(crate) fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "no regular file, so none of ours"))
}

/// Says of a link what it is: the system's "too many levels" puzzles.
pub(crate) fn refused(path: &Path, error: io::Error) -> io::Error {
    let is_link = fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink());
    if !is_link || error.raw_os_error() != Some(Errno::LOOP.raw_os_error()) {
        return error;
    }
    let to = fs::read_link(path).unwrap_or_default();
    let text = format!(
        "a symbolic link to `{}`, which is not followed here; name that file itself, or remove the \
         link",
        to.display()
    );
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{chown, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn new_files_are_private_unless_asked_otherwise() {
        let home = tempfile::tempdir().unwrap();
        for (name, mode) in [("a", FileMode::OWNER), ("b", FileMode::GROUP)] {
            create(&home.path().join(name), mode).unwrap();
            let log = home.path().join(format!("{name}.log"));
            for line in ["one\n", "two\n"] {
                append(&log, mode).unwrap().write_all(line.as_bytes()).unwrap();
            }
            for path in [home.path().join(name), log.clone()] {
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, mode.file(), "{path:?}");
            }
            assert_eq!(fs::read_to_string(log).unwrap(), "one\ntwo\n");
        }
    }

    #[test]
    fn a_file_that_root_makes_next_to_another_users_is_that_users() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("theirs"), "").unwrap();
        // Only root can try it: the tests of the repository also run as other users.
        if chown(at("theirs"), Some(65_534), Some(65_534)).is_err() {
            return;
        }
        symlink("theirs", at("link")).unwrap();
        for (name, like, owner) in
            [("a", "theirs", 65_534), ("b", "none", 0), ("c", "link", 0), ("d", ".", 0)]
        {
            create_like(&at(name), FileMode::OWNER, &at(like)).unwrap();
            let made = fs::metadata(at(name)).unwrap();
            assert_eq!((made.uid(), made.mode() & 0o777), (owner, 0o600), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_added_to_keeps_its_mode() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        append(&path, FileMode::OWNER).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o644);
    }

    #[test]
    fn a_line_without_an_end_is_torn() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        for (text, is_torn) in [("", false), ("a\n", false), ("a\nb", true), ("a\n\0\0", true)] {
            fs::write(&path, text).unwrap();
            let file = append(&path, FileMode::OWNER).unwrap();
            assert_eq!(ends_torn(&path, &file), is_torn, "{text:?}");
        }
        let device = Path::new("/dev/null");
        assert!(!ends_torn(device, &append(device, FileMode::OWNER).unwrap()));
    }

    #[test]
    fn no_name_leads_through_a_link_and_a_folder_on_the_way_does() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("far"), "precious").unwrap();
        for (name, to) in [("near", "far"), ("lost", "none"), ("device", "/dev/null")] {
            symlink(to, at(name)).unwrap();
            for opened in [append, append_log] {
                let said = opened(&at(name), FileMode::OWNER).unwrap_err().to_string();
                assert!(said.starts_with(&format!("a symbolic link to `{to}`")), "{said}");
            }
            assert!(create(&at(name), FileMode::OWNER).is_err());
            assert!(open(&at(name)).is_err() && open_to_write(&at(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read(at("far")).unwrap(), b"precious");
        assert!(!at("none").exists());
        fs::create_dir(at("real")).unwrap();
        symlink("real", at("alias")).unwrap();
        append(&at("alias/log"), FileMode::OWNER).unwrap();
        assert!(at("real/log").exists());
    }

    #[test]
    fn devices_take_what_is_added_and_are_no_logs() {
        append(Path::new("/dev/null"), FileMode::OWNER).unwrap().write_all(b"x").unwrap();
        assert!(append_log(Path::new("/dev/null"), FileMode::OWNER).is_err());
        append(Path::new("/dev/stderr"), FileMode::OWNER).unwrap();
    }

    #[test]
    fn a_file_of_another_user_where_everybody_puts_files_is_not_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("log");
        fs::write(&path, "").unwrap();
        // Only root can try it: the tests of the repository also run as other users.
        if chown(&path, Some(65_534), None).is_err() {
            return;
        }
        append(&path, FileMode::OWNER).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let pipe = home.path().join("pipe");
        mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o666)).unwrap();
        chown(&pipe, Some(65_534), None).unwrap();
        // Nothing reads the pipe: where it was opened before it is looked at, this would hang.
        let opened = [&path, &pipe].map(|path| append(path, FileMode::OWNER));
        for opened in opened.into_iter().chain([crate::open_stream(&pipe)]) {
            let said = opened.unwrap_err().to_string();
            assert!(said.contains("belongs to another user"), "{said}");
        }
    }
}
