//! The jail of a live capture: what this process can no longer do, once its sources, outputs,
//! models and sockets are open.
//!
//! A dissector reads what strangers send. Should one of them find a fault in it, what they get is a
//! process that starts no program, gains no rights, holds no capability that the run does not
//! need, writes below the folders of its outputs alone, and makes no sockets unless the run does.
//!
//! Everything here is for good: nothing leaves a jail. A part that the kernel does not have is
//! named in [`JailReport::missing`], and the others hold.

#![deny(unsafe_code)]

mod calls;
mod capabilities;
mod folders;
mod programs;
#[allow(unsafe_code)]
mod sys;
mod threads;
mod user;

use std::path::PathBuf;

pub use user::{UserError, change_user, check_user};

/// What a run still does after its first packet. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Folders below which files are created, renamed and removed, and files that are written. Of
    /// one that does not exist yet, the nearest folder above it that does.
    pub written: Vec<PathBuf>,
    /// Files and folders that are opened again to be read, such as settings.
    pub read_again: Vec<PathBuf>,
    /// Whether files that are made get the owner of those that are there, as root can give them.
    pub gives_files: bool,
    /// Whether sockets are made, for a broker or a webhook.
    pub has_network: bool,
    /// Whether a thread asks for real time when it begins to read (`SCHED_RR`).
    pub is_realtime: bool,
    /// Whether a packet log is written by an `io_uring` that is open. What goes through it is done
    /// by threads of the kernel, which enter no jail: it has to be restricted to writes.
    pub has_ring: bool,
    /// Whether maps of programs in the kernel, which are open, are read and written. Since Linux
    /// 5.19 that takes no capability.
    pub has_maps: bool,
    /// How network devices are changed.
    pub changes: DeviceChanges,
    /// Whether sockets are opened that receive what passes an interface, for another process.
    pub opens_interfaces: bool,
}

/// How a process changes network devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum DeviceChanges {
    /// It does not.
    #[default]
    None,
    /// By sockets that are open.
    BySockets,
    /// By a program, which is started again and again. No other program may be.
    ByProgram(PathBuf),
}

/// Outcome of entering.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JailReport {
    /// What the process can still do because the run needs it.
    pub kept: Vec<String>,
    /// Parts that this system does not have or refuses; the others hold.
    pub missing: Vec<String>,
}

/// What a run without the jail gives up, in a line.
pub const GIVEN_UP: &str = "packets are read with all rights of this process: it can start \
                            programs, write any file that its user can, and use every capability \
                            that it holds";

/// Enters the jail, with all threads of this process and for good.
///
/// Threads that were started before enter it as well: each is asked by a signal, as system calls
/// about capabilities and Landlock are about the calling thread alone.
#[must_use]
pub fn enter(needs: &Needs) -> JailReport {
    let mut entered = JailReport { kept: kept(needs), missing: Vec::new() };
    let held = capabilities::held();
    let keeps = capabilities::kept(needs, held);
    let names = capabilities::names(keeps & held);
    if !names.is_empty() {
        entered.kept.push(names.join(", "));
    }
    let ruleset = folders::ruleset(needs, &mut entered.missing);
    threads::enter(keeps, ruleset, &mut entered.missing);
    if let Err(error) = calls::forbid(needs) {
        let told = "system calls are not restricted: the filter of seccomp was refused";
        entered.missing.push(format!("{told}: {error}"));
    }
    entered
}

/// What is kept, in the words of users, but for capabilities.
fn kept(needs: &Needs) -> Vec<String> {
    let mut kept = Vec::new();
    if let DeviceChanges::ByProgram(program) = &needs.changes {
        kept.push(format!("starting {}", program.display()));
    }
    if needs.has_maps {
        kept.push(String::from("maps of BPF programs that are open"));
    }
    if needs.has_ring {
        kept.push(String::from("io_uring for writes"));
    }
    kept
}

/// Ignores the signals by which a person or a service manager ends a process: what this one holds
/// ends with the end of another.
pub fn ignore_ends() {
    sys::ignore(&[libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM]);
}
