//! A child tries what an attacker would: in the jail each attempt is refused, and without it each
//! succeeds, so that none of them is refused by something else.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::ptr;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::{Acts, Needs, enter};

/// What the child is: `free` or `jailed`, and its folders.
const ROLE: &str = "WIRELENS_JAIL_CHILD";
const FOLDER: &str = "WIRELENS_JAIL_FOLDER";

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A process that waits, to be attacked.
fn victim() -> libc::pid_t {
    // SAFETY: the child makes system calls alone, the last of which never returns.
    let id = unsafe { libc::fork() };
    if id == 0 {
        // It ends with the thread that started it, which the jail does not let end it.
        // SAFETY: numbers alone.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        loop {
            // SAFETY: takes nothing.
            unsafe { libc::pause() };
        }
    }
    id
}

/// The attempts, by name; each returns its outcome.
fn attempts(folder: &Path, victim: libc::pid_t) -> Vec<(&'static str, io::Result<()>)> {
    let (inside, outside) = (folder.join("granted"), folder.join("other"));
    let call = |number, one: libc::c_long, two: libc::c_long| {
        // SAFETY: numbers alone, or null where the kernel takes an address.
        done(unsafe { libc::syscall(number, one, two, 0, 0, 0, 0) })
    };
    let id = libc::c_long::from(victim);
    let attach = libc::c_long::from(libc::PTRACE_SEIZE);
    let stop = libc::c_long::from(libc::SIGCONT);
    let names = libc::c_long::from(libc::CLONE_NEWUTS);
    let none = ptr::null::<libc::c_char>();
    // SAFETY: makes the root of this mount namespace private, where that is allowed.
    let mount = || unsafe {
        libc::mount(none, c"/".as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, ptr::null())
    };
    vec![
        ("write inside", fs::write(inside.join("kept"), "x")),
        ("rename inside", fs::rename(inside.join("kept"), inside.join("renamed"))),
        ("remove inside", fs::remove_file(inside.join("renamed"))),
        ("thread", thread::Builder::new().spawn(|| ()).map(|thread| thread.join().unwrap())),
        ("own signal", call(libc::SYS_kill, std::process::id().into(), 0)),
        ("read outside", fs::read(outside.join("there")).map(drop)),
        ("execve", Command::new("true").status().map(drop)),
        ("write outside", fs::write(outside.join("there"), "x")),
        ("create outside", fs::write(outside.join("new"), "x")),
        ("remove outside", fs::remove_file(outside.join("old"))),
        ("mount", done(mount().into())),
        ("ptrace", call(libc::SYS_ptrace, attach, id)),
        ("signal", call(libc::SYS_kill, id, stop)),
        ("socket", UdpSocket::bind("127.0.0.1:0").map(drop)),
        ("raw socket", call(libc::SYS_socket, libc::AF_PACKET.into(), libc::SOCK_RAW.into())),
        ("unshare", call(libc::SYS_unshare, names, 0)),
    ]
}

const ALLOWED: [&str; 6] =
    ["write inside", "rename inside", "remove inside", "thread", "own signal", "read outside"];
/// Only root can, even without a jail.
const OF_ROOT: [&str; 3] = ["mount", "raw socket", "unshare"];

/// Not a test of its own: what the other tests start, in a process that can be given up.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = std::env::var_os(FOLDER).unwrap();
    let folder = Path::new(&folder);
    let victim = victim();
    if is_root() {
        // What is mounted is its own. SAFETY: a flag alone.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0);
    }
    // A thread from before, which makes its attempts later.
    let (go, waiting) = mpsc::channel::<()>();
    let (to, answers) = mpsc::channel();
    let early = {
        let folder = folder.to_owned();
        thread::spawn(move || {
            waiting.recv().unwrap();
            to.send(fs::write(folder.join("other/early"), "x").is_ok()).unwrap();
        })
    };
    if role == "jailed" {
        let written = vec![folder.join("granted")];
        let entered = enter(&Needs { written, ..Needs::default() });
        println!("\nmissing: {:?}", entered.missing);
        println!("kept: {:?}", entered.kept);
    }
    for id in fs::read_dir("/proc/self/task").unwrap() {
        let status = fs::read_to_string(id.unwrap().path().join("status")).unwrap();
        let lines = status.lines().filter(|line| {
            ["Cap", "NoNewPrivs", "Seccomp:"].iter().any(|name| line.starts_with(name))
        });
        println!("\nthread: {}", lines.collect::<Vec<_>>().join("; ").replace('\t', " "));
    }
    go.send(()).unwrap();
    println!("attempt early thread: {}", answers.recv().unwrap());
    early.join().unwrap();
    for (name, result) in attempts(folder, victim) {
        println!("attempt {name}: {}", result.is_ok());
    }
}

fn is_root() -> bool {
    // SAFETY: takes nothing and never fails.
    unsafe { libc::geteuid() == 0 }
}

/// What a child printed, and its attempts.
fn run(role: &str) -> (String, BTreeMap<String, bool>) {
    let home = tempfile::tempdir().unwrap();
    for folder in ["granted", "other"] {
        fs::create_dir(home.path().join(folder)).unwrap();
    }
    for file in ["other/there", "other/old"] {
        fs::write(home.path().join(file), "x").unwrap();
    }
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sys::tests::child", "--nocapture"])
        .env(ROLE, role)
        .env(FOLDER, home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let attempts = said.lines().filter_map(|line| line.strip_prefix("attempt ")?.split_once(": "));
    let attempts = attempts.map(|(name, is_done)| (name.to_owned(), is_done == "true")).collect();
    (said, attempts)
}

#[test]
fn without_a_jail_every_attempt_succeeds() {
    let (said, attempts) = run("free");
    assert_eq!(attempts.len(), 17, "{said}");
    for (name, is_done) in attempts {
        let is_beyond = OF_ROOT.contains(&&*name) && !is_root();
        assert!(is_done || is_beyond, "{name}: {said}");
    }
}

#[test]
fn in_a_jail_only_what_is_granted_succeeds_on_every_thread() {
    let version = landlock_version().unwrap_or(0);
    let (said, attempts) = run("jailed");
    assert_eq!(attempts.len(), 17, "{said}");
    if version >= 3 {
        assert!(said.contains("missing: []"), "{said}");
    }
    assert!(said.contains("kept: []"), "{said}");
    for (name, is_done) in attempts {
        let needs_landlock = name.ends_with("outside") || name == "early thread";
        if name != "read outside" && needs_landlock && version < 1 {
            continue;
        }
        assert_eq!(is_done, ALLOWED.contains(&&*name), "{name}: {said}");
    }
    let threads: Vec<_> = said.lines().filter(|line| line.starts_with("thread: ")).collect();
    assert!(threads.len() >= 3, "{said}");
    for status in threads {
        for wanted in ["NoNewPrivs: 1", "Seccomp: 2", "CapEff: 0000000000000000"] {
            assert!(status.contains(wanted), "{status}");
        }
        let is_bare = status.contains("CapPrm: 0000000000000000");
        let is_bound = status.contains("CapBnd: 0000000000000000");
        assert!(is_bare && (is_bound || !is_root()), "{status}");
    }
}

#[test]
fn what_a_run_needs_is_kept_and_named() {
    let acts = Acts { has_taps: true, starts_programs: true, enters_namespaces: false };
    let kept = crate::kept(&Needs { acts, has_ring: true, ..Needs::default() });
    assert_eq!(kept, ["bpf(2)", "starting programs", "io_uring for writes"]);
}
