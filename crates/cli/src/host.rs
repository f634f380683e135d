//! The host of this process.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use session::Host;

use crate::environment;
use crate::python::PYTHON_SETTING;

/// Whether this program was installed by itself or is carried by the Python package.
pub(crate) fn own() -> Host {
    let program = std::env::current_exe().unwrap_or_default();
    Host::of(&program, environment(PYTHON_SETTING))
}

/// The checkout in which a program was built, which is the folder above its `target`, if it belongs
/// to the owner of the program. No other folder above is looked at: programs are run from there,
/// and in `/tmp`, or above a home, other users may have put some.
pub(crate) fn checkout(program: &Path) -> Option<PathBuf> {
    let owner = fs::metadata(program).ok()?.uid();
    let target = program.ancestors().skip(1).find(|folder| folder.ends_with("target"))?;
    let root = target.parent()?;
    files::is_of(root, owner).then(|| root.to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_checkout_is_the_folder_above_target_unless_others_may_write_there() {
        let root = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let program = root.path().join(name);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            fs::write(&program, "").unwrap();
            program
        };
        let (built, copied) = (made("target/release/wirelens"), made("bin/wirelens"));
        assert_eq!(checkout(&built).as_deref(), Some(root.path()));
        assert_eq!(checkout(&copied), None);
        assert_eq!(checkout(&root.path().join("target/release/none")), None);
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(checkout(&built), None);
    }
}
