//! What each thread has to do for itself, done by all of them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use crate::capabilities::hexadecimal;
use crate::sys::{self, Roll, Step};

/// Has all threads give up capabilities other than those in `keeps`, and take up the rules.
pub(crate) fn enter(keeps: u64, ruleset: Option<OwnedFd>, missing: &mut Vec<String>) {
    let Some(roll) = Roll::begin(keeps, ruleset) else {
        missing.push(String::from("no part of it: no signal is free to ask threads by"));
        return;
    };
    let mut seen = BTreeSet::new();
    let mut late = BTreeSet::new();
    // A thread that has not entered may start others meanwhile: until there are no new ones.
    loop {
        let new: Vec<i32> = ids().into_iter().filter(|id| !seen.contains(id)).collect();
        if new.is_empty() {
            break;
        }
        for id in new {
            seen.insert(id);
            if !roll.of_thread(id) {
                late.insert(id);
            }
        }
    }
    for (step, error) in roll.end(late.is_empty()) {
        missing.push(refused(step, &error));
    }
    let name = |id: &i32| fs::read_to_string(format!("/proc/self/task/{id}/comm"));
    for name in late.iter().filter_map(|id| name(id).ok()) {
        missing.push(format!("the thread {} has not entered it yet", name.trim()));
    }
    let held: u64 = ids().into_iter().filter(|id| !late.contains(id)).map(effective).fold(0, or);
    if held & !keeps != 0 {
        missing.push(format!("capabilities are still held: {:#x}", held & !keeps));
    }
}

const fn or(one: u64, other: u64) -> u64 {
    one | other
}

/// What a thread may do now; nothing of one that is gone.
fn effective(id: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{id}/status")).unwrap_or_default();
    hexadecimal(&status, "CapEff:").unwrap_or(0)
}

fn refused(step: Step, error: &io::Error) -> String {
    let what = match step {
        Step::NoNewPrivileges => "no_new_privs could not be set",
        Step::Capabilities => "capabilities were not given up (capset)",
        Step::Folders => "files are not restricted: Landlock refused the rules",
    };
    format!("{what}: {error}")
}

/// The threads of this process, this one first: it has to have entered when others are looked at.
fn ids() -> Vec<i32> {
    let own = sys::thread_id();
    let entries = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let others = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let others = others.filter(|id| *id != own && !is_of_kernel(*id));
    [own].into_iter().chain(others).collect()
}

/// Whether the kernel runs a thread for an `io_uring`: it takes no signals, and no code of ours
/// runs there.
fn is_of_kernel(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap_or_default();
    flags(&stat).is_some_and(|flags| flags & IO_WORKER != 0)
}

/// `PF_IO_WORKER` of the kernel.
const IO_WORKER: u32 = 0x10;

/// The flags of the kernel in a stat of proc(5), behind a name that may hold anything.
fn flags(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    behind.split_whitespace().nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_known_by_their_flags() {
        let stat = "77 (iou-wrk-7) x) S 1 77 77 0 -1 4194384 8 0";
        assert_eq!(flags(stat).map(|flags| flags & IO_WORKER), Some(IO_WORKER));
        assert_eq!(
            flags("77 (x) S 1 77 77 0 -1 4194368 8").map(|flags| flags & IO_WORKER),
            Some(0)
        );
        assert!(!is_of_kernel(sys::thread_id()));
    }
}
