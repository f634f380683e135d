//! Locks.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::{FileMode, create, open_to_write};

/// Opens the file of a lock, or makes it: other users cannot open it, so that none of them can
/// take the lock. Whoever may open a file, or a folder, may lock it (flock(2)), if only to read.
///
/// # Errors
/// What the system says; a link, a folder or a pipe is none of ours.
pub fn open_lock(path: &Path) -> io::Result<File> {
    let file = match create(path, FileMode::OWNER) {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

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
}
