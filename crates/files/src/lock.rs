//! Locks.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid, fchown, openat};

use crate::folder::{folder_of, user};
use crate::open::bits;
use crate::{FileMode, open_to_write};

/// Opens the file of a lock, or makes it: other users cannot open it, so that none of them can
/// take the lock. All users who may open a file, or a folder, may lock it (flock(2)).
///
/// One that root makes is the folder's owner's: a service could not open root's again.
///
/// # Errors
/// What the system says; a link, a folder or a pipe is none of ours.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let file = match create_lock(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_to_write(path)?,
        made => return made,
    };
    // One of an earlier version could be opened by others. Where it is not ours, its owner decides.
    let owner_alone = Permissions::from_mode(FileMode::OWNER.file());
    if file.metadata()?.permissions().mode() & 0o777 != owner_alone.mode() {
        let _ = file.set_permissions(owner_alone);
    }
    Ok(file)
}

/// By the folder's descriptor, so that the folder whose owner gets the file is the one it is in.
fn create_lock(path: &Path) -> io::Result<File> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(bits(OFlags::PATH | OFlags::DIRECTORY));
    let folder = options.open(folder_of(path))?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, name, flags, Mode::from_raw_mode(FileMode::OWNER.file()))?;
    let owner = folder.metadata()?;
    if user() == 0 && owner.uid() != 0 {
        let owner = (Uid::from_raw(owner.uid()), Gid::from_raw(owner.gid()));
        // A file system without owners has none to keep out.
        let _ = fchown(&file, Some(owner.0), Some(owner.1));
    }
    Ok(File::from(file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn a_lock_is_its_owners_also_if_it_was_not_before() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("lock");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let held = open_lock(&path).unwrap();
        held.try_lock().unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(open_lock(&path).unwrap().try_lock().is_err());
        assert_eq!(mode(), 0o600);
        symlink("lock", home.path().join("link")).unwrap();
        assert!(open_lock(&home.path().join("link")).is_err());
    }

    #[test]
    fn a_lock_that_root_makes_is_the_owners_of_its_folder() {
        let home = tempfile::tempdir().unwrap();
        // Only root can try it: the tests of the repository also run as other users.
        if chown(home.path(), Some(65_534), Some(65_534)).is_err() {
            return;
        }
        let made = open_lock(&home.path().join("lock")).unwrap().metadata().unwrap();
        assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (65_534, 65_534, 0o600));
    }
}
