//! Folders.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{Access, OFlags, access};

use crate::FileMode;

/// Makes a folder with those above it, where they are not there.
///
/// # Errors
/// What the system says.
pub fn create_folder(folder: &Path, mode: FileMode) -> io::Result<()> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.is_dir();
    let missing: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    missing.into_iter().rev().try_for_each(|folder| create_one(folder, mode))
}

/// Whether this user can write a folder, or make it, without making it.
///
/// # Errors
/// What the system would say.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    for above in folder.ancestors() {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match fs::metadata(above) {
            Ok(found) if found.is_dir() => {
                return Ok(access(above, Access::WRITE_OK | Access::EXEC_OK)?);
            }
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            // A link that leads nowhere is in the place of the folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !above.is_symlink() => {}
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Waits until the disk has the names in a folder: a file that was made, renamed or deleted there
/// is so after a power cut, too. A file system that cannot do this for folders is used without.
///
/// # Errors
/// What the system says.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    match fs::File::open(folder)?.sync_all() {
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
        _ => Ok(()),
    }
}

fn create_one(folder: &Path, mode: FileMode) -> io::Result<()> {
    match DirBuilder::new().mode(FileMode::OWNER.folder()).create(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Ok(()) if mode != FileMode::OWNER => {
            let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
            let made = OpenOptions::new().read(true).custom_flags(flags).open(folder)?;
            made.set_permissions(fs::Permissions::from_mode(mode.folder()))
        }
        made => made,
    }
}

/// The user of this process.
pub(crate) fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a file, or a link as such, belongs to this process's user, to root or to this owner,
/// and not all users may change it: what may be taken as part of the program.
#[must_use]
pub fn is_of(path: &Path, owner: u32) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        let is_changeable = !found.is_symlink() && found.mode() & 0o002 != 0;
        [owner, user(), 0].contains(&found.uid()) && !is_changeable
    })
}

/// [`is_of`] of a file, its folder and all folders above, so that none of them can be exchanged. A
/// folder where all users may put files, such as `/tmp`, may be above: entries are their owners'.
/// The path has no links, as of [`fs::canonicalize`].
#[must_use]
pub fn is_path_of(path: &Path, owner: u32) -> bool {
    const STICKY: u32 = 0o1000;
    let is_sticky = |folder: &Path| {
        let found = fs::symlink_metadata(folder);
        found.is_ok_and(|found| {
            found.mode() & STICKY != 0 && [owner, user(), 0].contains(&found.uid())
        })
    };
    let mut parts = path.ancestors().enumerate();
    parts.all(|(above, part)| is_of(part, owner) || above > 1 && is_sticky(part))
}

/// Whether a file belongs to this process's user.
#[must_use]
pub fn is_ours(found: &Metadata) -> bool {
    found.uid() == user()
}

/// The folder of a file.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// [`check_owner`] of what has a name, before it is opened: opening a pipe waits for its reader. A
/// link is left to be refused where it is opened.
pub(crate) fn check_named(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if found.is_symlink() { Ok(()) } else { check_owner(&found, path) }
}

/// Refuses to write into, or to replace, what another user put in a folder such as `/tmp`: that
/// user may read it. The kernel refuses the same where `fs.protected_regular` is 1, of files that
/// it may create.
///
/// # Errors
/// A refusal, or what the system says of the folder.
pub fn check_owner(found: &Metadata, path: &Path) -> io::Result<()> {
    const STICKY_FOR_ALL: u32 = 0o1002;
    let owner = found.uid();
    let folder = fs::metadata(folder_of(path))?;
    let is_shared = folder.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL;
    if !is_shared || owner == user() || owner == folder.uid() {
        return Ok(());
    }
    let text = "it belongs to another user, in a folder where all users may put files; give \
                another name, or a folder of your own";
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn folders_are_made_with_those_above_and_what_exists_keeps_its_mode() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        create_folder(&home.path().join("a/b"), FileMode::OWNER).unwrap();
        create_folder(&home.path().join("a/c/d"), FileMode::GROUP).unwrap();
        let modes = ["", "a", "a/b", "a/c", "a/c/d"].map(|name| mode_of(&home.path().join(name)));
        assert_eq!(modes, [0o755, 0o700, 0o700, 0o750, 0o750]);
        create_folder(&home.path().join("a/b"), FileMode::GROUP).unwrap();
        assert_eq!(mode_of(&home.path().join("a/b")), 0o700);
        fs::write(home.path().join("file"), "").unwrap();
        assert!(create_folder(&home.path().join("file/x"), FileMode::OWNER).is_err());
    }

    #[test]
    fn a_folder_is_checked_as_it_would_be_made_and_not_made() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("file"), "").unwrap();
        symlink("nowhere", at("link")).unwrap();
        fs::create_dir(at("theirs")).unwrap();
        fs::set_permissions(at("theirs"), fs::Permissions::from_mode(0o500)).unwrap();
        // Root can write everywhere.
        let is_checked_alike = |name: &str| {
            let is_fine = check_folder(&at(name)).is_ok();
            is_fine == create_folder(&at(name), FileMode::OWNER).is_ok()
        };
        for name in ["", "new/deep", "file", "file/x", "link", "link/x", "theirs/x"] {
            assert!(is_checked_alike(name), "{name}");
        }
        assert!(check_folder(&at("file")).is_err() && check_folder(&at("unmade/x")).is_ok());
        assert!(!at("unmade").exists());
        assert!(check_folder(Path::new("unmade")).is_ok());
    }

    #[test]
    fn what_everybody_may_change_belongs_to_none() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(is_of(&file, user()) && !is_of(&home.path().join("none"), user()));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(!is_of(&file, user()));
        symlink(&file, home.path().join("link")).unwrap();
        assert!(is_of(&home.path().join("link"), user()));
        // Only root can try it: the tests of the repository also run as other users.
        if user() == 0 {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            chown(&file, Some(65_534), None).unwrap();
            assert!(!is_of(&file, 0) && is_of(&file, 65_534));
        }
    }
}
