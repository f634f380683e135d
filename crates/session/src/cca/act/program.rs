//! Programs of iproute2: found once, and started by their path, without settings of this process.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

/// Where administrators' programs lie, if not where the user's do.
const PLACES: &str = "/usr/sbin:/sbin";

/// A program, by its path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Program(PathBuf);

/// Why a program did not do its work.
#[derive(Debug)]
pub(super) enum ProgramError {
    /// It cannot be started.
    Start(io::Error),
    /// In its words.
    Refused(String),
}

impl Program {
    /// Looks for it in the folders of `PATH`, and in those of administrators.
    ///
    /// # Errors
    /// `NotFound`
    pub(super) fn find(name: &str, path: Option<OsString>) -> io::Result<Self> {
        let mut path = path.unwrap_or_default();
        path.push(":");
        path.push(PLACES);
        let places = std::env::split_paths(&path).filter(|place| place.is_absolute());
        let found = places.map(|place| place.join(name)).find(|file| file.is_file());
        found.map(Self).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Starts it with these words and this input; what it prints.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub(super) fn run(&self, words: &[&str], input: &str) -> Result<String, ProgramError> {
        let running = || -> io::Result<_> {
            let mut running = Command::new(&self.0)
                .args(words)
                .env_clear()
                .env("LC_ALL", "C")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = running.stdin.take() {
                // What it does not read it tells the reason of.
                let _ = stdin.write_all(input.as_bytes());
            }
            running.wait_with_output()
        };
        let ran = running().map_err(ProgramError::Start)?;
        if ran.status.success() {
            return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&ran.stderr);
        let said = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let said = said.collect::<Vec<_>>().join("; ").replace(char::is_control, " ");
        Err(ProgramError::Refused(said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_absolute_folders_alone() {
        let path = |text: &str| Some(OsString::from(text));
        let found = Program::find("sh", path("bin:/no-such-folder:/bin")).unwrap();
        assert_eq!(found.path(), Path::new("/bin/sh"));
        let none = Program::find("no-such-program", path("/bin")).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        let said = found.run(&["-c", "read x; echo $x$HOME"], "given\n").unwrap();
        assert_eq!(said, "given\n");
        match found.run(&["-c", "echo one >&2; echo two >&2; exit 3"], "") {
            Err(ProgramError::Refused(said)) => assert_eq!(said, "one; two"),
            other => unreachable!("{other:?}"),
        }
    }
}
