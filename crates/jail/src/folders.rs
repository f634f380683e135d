//! Where files may be written: Landlock (landlock(7)).

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, AccessFs, BitFlags, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError,
};

use crate::{Needs, sys};

/// Discards what is written to it, and programs that are started write there.
const NULL: &str = "/dev/null";

/// The version of Linux 6.2, the first that has all that is used here.
const COMPLETE: i32 = 3;

/// All ways to change files. Commands to devices are left alone: what is sent to a terminal is none
/// of the outputs.
fn writes() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V3)
}

/// The path, or the nearest folder above it that exists.
pub(crate) fn existing(path: &Path) -> &Path {
    let mut above = path.ancestors().filter(|above| !above.as_os_str().is_empty());
    above.find(|above| above.exists()).unwrap_or_else(|| Path::new("."))
}

/// The rules, which each thread takes up; none where the kernel has no Landlock.
pub(crate) fn ruleset(needs: &Needs, missing: &mut Vec<String>) -> Option<OwnedFd> {
    let version = match sys::landlock_version() {
        Ok(version) => version,
        Err(error) => {
            let wanted = "wanted: Linux 5.13, with landlock in lsm=";
            missing.push(format!("files are not restricted: no Landlock: {error}; {wanted}"));
            return None;
        }
    };
    if version < COMPLETE {
        let told = "files of this user outside of the outputs can be truncated";
        missing.push(format!("{told}: Landlock has version {version}; wanted: Linux 6.2"));
    }
    match rules(needs) {
        Ok(rules) => rules.into(),
        Err(error) => {
            missing.push(format!("files are not restricted: Landlock refused a rule: {error}"));
            None
        }
    }
}

fn rules(needs: &Needs) -> Result<RulesetCreated, RulesetError> {
    // Best effort: what the kernel does not know is left out.
    let rules = Ruleset::default().handle_access(writes())?.create()?;
    let rules = rules.set_compatibility(landlock::CompatLevel::BestEffort);
    let paths = needs.written.iter().map(|path| existing(path)).chain([Path::new(NULL)]);
    paths.into_iter().try_fold(rules, |rules, path| {
        // One that is gone in the meantime is no output.
        let Ok(open) = PathFd::new(path) else { return Ok(rules) };
        let of_file = AccessFs::from_file(ABI::V3);
        let access = if path.is_dir() { writes() } else { writes() & of_file };
        rules.add_rule(PathBeneath::new(open, access))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_does_not_exist_yet_is_granted_by_the_folder_above_it() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(existing(&home.path().join("a/b")), home.path());
        assert_eq!(existing(home.path()), home.path());
        assert_eq!(existing(Path::new("no-such-folder/x")), Path::new("."));
    }
}
