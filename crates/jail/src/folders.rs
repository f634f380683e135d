//! Where files may be written, and which program may be started: Landlock (landlock(7)).

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, AccessFs, BitFlags, Compatible as _, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError,
};

use crate::{DeviceChanges, Needs, programs, sys};

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
        let what = "files of this user outside of the outputs can be truncated";
        missing.push(format!("{what}: Landlock has version {version}; wanted: Linux 6.2"));
    }
    match rules(needs, missing) {
        Ok(rules) => rules.into(),
        Err(error) => {
            missing.push(format!("files are not restricted: no rules of Landlock: {error}"));
            None
        }
    }
}

/// A rule that is refused is left out and named: what it grants cannot be written, and the others
/// hold.
fn rules(needs: &Needs, missing: &mut Vec<String>) -> Result<RulesetCreated, RulesetError> {
    // Best effort: what the kernel does not know is left out.
    let mut ruleset = Ruleset::default().handle_access(writes())?;
    if let DeviceChanges::ByProgram(_) = &needs.changes {
        ruleset = ruleset.handle_access(AccessFs::Execute)?;
    }
    let rules = ruleset.create()?;
    let mut rules = rules.set_compatibility(landlock::CompatLevel::BestEffort);
    let paths = needs.written.iter().map(|path| existing(path)).chain([Path::new(NULL)]);
    for path in paths {
        // One that is gone in the meantime is no output.
        let Ok(open) = PathFd::new(path) else { continue };
        let of_file = AccessFs::from_file(ABI::V3);
        let access = if path.is_dir() { writes() } else { writes() & of_file };
        if let Err(error) = (&mut rules).add_rule(PathBeneath::new(open, access)) {
            let what = "cannot be opened again: Landlock refused a rule";
            missing.push(format!("{} {what}: {error}", path.display()));
        }
    }
    if let DeviceChanges::ByProgram(program) = &needs.changes {
        let files = programs::files(program).unwrap_or_else(|_| vec![program.clone()]);
        for open in files.iter().filter_map(|file| PathFd::new(file).ok()) {
            (&mut rules).add_rule(PathBeneath::new(open, AccessFs::Execute))?;
        }
    }
    Ok(rules)
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

    #[test]
    fn a_rule_that_is_refused_is_named_and_the_others_hold() {
        let (read, _write) = std::io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&read));
        let needs = Needs { written: vec![path.clone().into()], ..Needs::default() };
        let mut missing = Vec::new();
        let made = ruleset(&needs, &mut missing);
        // Without Landlock there are no rules to refuse.
        if sys::landlock_version().is_ok() {
            assert!(made.is_some());
            assert!(missing.iter().any(|part| part.starts_with(&path)), "{missing:?}");
        }
    }
}
