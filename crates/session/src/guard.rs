//! Putting a device back also if this process is killed: a lock, and a guard that outlives it.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// A guard of a run that was killed a moment ago has its work done by then.
const LOCK_TRIES: u32 = 40;
const LOCK_TRY_EVERY: Duration = Duration::from_millis(50);

/// Where administrators' programs lie, if not where the shell looks.
pub(crate) const PROGRAM_PATHS: &str = "/usr/sbin:/sbin";

/// Waits for the end of its input, which comes with the end of whoever holds the other end, however
/// that ends; then runs the command lines, unless a line reported that all is done. Their words are
/// taken as they are: no name of a device is a pattern.
const GUARD: &str = r#"trap '' HUP INT QUIT TERM
set -f
PATH=$PATH:$1
shift
read -r word
[ "$word" = done ] && exit
for line; do $line; done"#;

/// A device on which no other run acts, in the network namespace of the calling thread. The name is
/// known there alone, and goes with whoever holds it.
pub(crate) struct Lock(UnixListener);

impl Lock {
    /// Takes it; waits for the guard of a run that was killed.
    ///
    /// # Errors
    /// `AddrInUse`: another process holds it; the system's.
    pub(crate) fn take(name: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        let mut tries = 1;
        loop {
            match UnixListener::bind_addr(&address) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < LOCK_TRIES => {
                    tries += 1;
                    thread::sleep(LOCK_TRY_EVERY);
                }
                bound => return bound.map(Self),
            }
        }
    }
}

/// A process of its own, which runs commands when this one ends without having dismissed it, or
/// when this is dropped.
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts it in the network namespace of the calling thread. It holds the lock as well: nobody
    /// begins before it has ended. Words of a command line are separated by spaces.
    ///
    /// # Errors
    /// There is no shell; the system's.
    pub(crate) fn start(lock: &Lock, command_lines: &[String]) -> io::Result<Self> {
        let lock: OwnedFd = lock.0.try_clone()?.into();
        let starting = Command::new("sh")
            .args(["-c", GUARD, "wirelens-act", PROGRAM_PATHS])
            .args(command_lines)
            .stdin(Stdio::piped())
            .stdout(Stdio::from(lock))
            .stderr(Stdio::null())
            // What is sent to us from a keyboard is not for it.
            .process_group(0)
            .spawn();
        starting.map(Self)
    }

    /// Reports to it that all is done.
    pub(crate) fn dismiss(mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}

/// Whether a guard would find a program.
pub(crate) fn is_installed(program: &str) -> bool {
    let looking = Command::new("sh")
        .args(["-c", r#"PATH=$PATH:$1; command -v "$2""#, "wirelens-act", PROGRAM_PATHS, program])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    looking.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(name: &str) -> Lock {
        Lock::take(&format!("wirelens-test-{}-{name}", std::process::id())).unwrap()
    }

    #[test]
    fn a_guard_that_is_dropped_runs_all_of_its_commands_and_one_that_is_dismissed_none() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| folder.path().join(name);
        let lines = |name: &str| {
            let [first, second] = ["a", "b"].map(|part| made(&format!("{name}{part}")));
            [
                format!("touch {}", first.display()),
                String::from("no-such-program * x"),
                format!("touch {}", second.display()),
            ]
        };
        Guard::start(&lock("dismissed"), &lines("dismissed")).unwrap().dismiss();
        drop(Guard::start(&lock("dropped"), &lines("dropped")).unwrap());
        // The guard held it until it was done.
        drop(lock("dropped"));
        let is_there = |name: &str| made(name).exists();
        assert!(is_there("droppeda") && is_there("droppedb"));
        assert!(!is_there("dismisseda") && !is_there("dismissedb"));
    }

    #[test]
    fn programs_are_found_where_the_guard_finds_them() {
        assert!(is_installed("sh") && !is_installed("no-such-program"));
    }
}
