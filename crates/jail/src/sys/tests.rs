//! A child tries what an attacker would: in the jail each attempt is refused, and without it each
//! succeeds, so that none of them is refused by something else.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::{DeviceChanges, Needs, enter};

/// What the child is: `free`, `jailed`, `helper` or `opener`, and its folders.
const ROLE: &str = "WIRELENS_JAIL_CHILD";
const FOLDER: &str = "WIRELENS_JAIL_FOLDER";

fn done(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn call_of_three(
    number: libc::c_long,
    one: libc::c_long,
    two: libc::c_long,
    three: libc::c_long,
) -> io::Result<()> {
    // SAFETY: numbers, or an address and the length of what is there, which is only read.
    done(unsafe { libc::syscall(number, one, two, three) })
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

/// A packet socket from before the jail, which has no interface yet; -1 where that is refused.
fn packet_socket() -> libc::c_int {
    // SAFETY: numbers alone.
    unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) }
}

/// Binds it to loopback, whose index is 1 in every network.
fn bind(packets: libc::c_int) -> io::Result<()> {
    // SAFETY: zeros are an address.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = 1;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: an address of that length, which is only read.
    done(unsafe { libc::bind(packets, (&raw const address).cast(), len) }.into())
}

/// The attempts, by name; each returns its outcome.
fn attempts(
    folder: &Path,
    victim: libc::pid_t,
    packets: libc::c_int,
) -> Vec<(&'static str, io::Result<()>)> {
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
    // A command of bpf(2) with no argument that it could carry out.
    let bpf = |command: libc::c_long| {
        let nothing = [0_u64; 18];
        let (at, len) = (nothing.as_ptr() as libc::c_long, size_of_val(&nothing) as libc::c_long);
        match call_of_three(libc::SYS_bpf, command, at, len) {
            Err(error) if error.raw_os_error() != Some(libc::EPERM) => Ok(()),
            other => other,
        }
    };
    let netlink = libc::c_long::from(libc::AF_NETLINK);
    // The same call by the number that x32 has for it, which a kernel without x32 does not know.
    let again = || match call(0x4000_0000 | libc::SYS_getpid, 0, 0) {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => Ok(()),
        other => other,
    };
    let setuid = fs::Permissions::from_mode(0o4755);
    let files = ["b", "c"].map(|name| fs::File::create(inside.join(name)).unwrap());
    let mut making = OpenOptions::new();
    making.write(true).create_new(true).mode(0o4755);
    let by_open = || making.open(inside.join("a"));
    vec![
        ("write inside", fs::write(inside.join("kept"), "x")),
        ("rename inside", fs::rename(inside.join("kept"), inside.join("renamed"))),
        ("remove inside", fs::remove_file(inside.join("renamed"))),
        ("thread", thread::Builder::new().spawn(|| ()).map(|thread| thread.join().unwrap())),
        ("own signal", call(libc::SYS_kill, std::process::id().into(), 0)),
        ("read outside", fs::read(outside.join("there")).map(drop)),
        ("execve", Command::new("true").status().map(drop)),
        ("execve of another", Command::new("false").status().map(drop)),
        ("element of a map", bpf(BPF_MAP_LOOKUP_ELEM)),
        ("map", bpf(BPF_MAP_CREATE)),
        ("program of bpf", bpf(BPF_PROG_LOAD)),
        ("netlink socket", call(libc::SYS_socket, netlink, libc::SOCK_RAW.into())),
        ("write outside", fs::write(outside.join("there"), "x")),
        ("create outside", fs::write(outside.join("new"), "x")),
        ("remove outside", fs::remove_file(outside.join("old"))),
        ("mount", done(mount().into())),
        ("ptrace", call(libc::SYS_ptrace, attach, id)),
        ("signal", call(libc::SYS_kill, id, stop)),
        ("socket", UdpSocket::bind("127.0.0.1:0").map(drop)),
        ("raw socket", call(libc::SYS_socket, libc::AF_PACKET.into(), libc::SOCK_RAW.into())),
        ("another interface", bind(packets)),
        ("unshare", call(libc::SYS_unshare, names, 0)),
        ("limits of another", call(libc::SYS_prlimit64, id, libc::RLIMIT_CPU.into())),
        ("call of x32", again()),
        ("setuid by open", by_open().map(drop)),
        ("setuid by name", fs::set_permissions(inside.join("b"), setuid.clone())),
        ("setuid by descriptor", files[1].set_permissions(setuid)),
    ]
}

const ALLOWED: [&str; 6] =
    ["write inside", "rename inside", "remove inside", "thread", "own signal", "read outside"];
/// What a process that changes devices by a program, and uses maps, can do as well.
const OF_HELPER: [&str; 3] = ["execve", "element of a map", "netlink socket"];
/// Only root can, even without a jail.
const OF_ROOT: [&str; 6] =
    ["mount", "raw socket", "another interface", "unshare", "map", "program of bpf"];
/// What a process that opens interfaces for another can do as well.
const OF_OPENER: [&str; 4] = ["netlink socket", "socket", "raw socket", "another interface"];
const ATTEMPT_COUNT: usize = 28;

/// Commands of bpf(2).
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_long = 1;
const BPF_PROG_LOAD: libc::c_long = 5;

/// Where `true` is.
fn program() -> PathBuf {
    let folders = std::env::split_paths(&std::env::var_os("PATH").unwrap()).collect::<Vec<_>>();
    folders.iter().map(|folder| folder.join("true")).find(|path| path.is_file()).unwrap()
}

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
    let packets = packet_socket();
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
    if role != "free" {
        let needs = Needs { written: vec![folder.join("granted")], ..Needs::default() };
        let changes = DeviceChanges::ByProgram(program());
        let needs = match &*role {
            "helper" => Needs { has_maps: true, changes, ..needs },
            "opener" => Needs { opens_interfaces: true, ..needs },
            _ => needs,
        };
        let entered = enter(&needs);
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
    for (name, result) in attempts(folder, victim, packets) {
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
    assert_eq!(attempts.len(), ATTEMPT_COUNT, "{said}");
    for (name, is_done) in attempts {
        let is_beyond = OF_ROOT.contains(&&*name) && !is_root();
        assert!(is_done || is_beyond, "{name}: {said}");
    }
}

#[test]
fn in_a_jail_only_what_is_granted_succeeds_on_every_thread() {
    let version = landlock_version().unwrap_or(0);
    let (said, attempts) = run("jailed");
    assert_eq!(attempts.len(), ATTEMPT_COUNT, "{said}");
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
fn a_process_that_changes_devices_starts_one_program_and_uses_maps_that_are_open() {
    let version = landlock_version().unwrap_or(0);
    let (said, attempts) = run("helper");
    assert_eq!(attempts.len(), ATTEMPT_COUNT, "{said}");
    for (name, is_done) in attempts {
        let needs_landlock =
            name.ends_with("outside") || name == "early thread" || name == "execve of another";
        if name != "read outside" && needs_landlock && version < 1 {
            continue;
        }
        let is_allowed = ALLOWED.contains(&&*name) || OF_HELPER.contains(&&*name);
        assert_eq!(is_done, is_allowed, "{name}: {said}");
    }
    // CAP_NET_ADMIN.
    assert!(!is_root() || said.contains("CapEff: 0000000000001000"), "{said}");
}

#[test]
fn a_process_that_opens_interfaces_makes_their_sockets_and_nothing_else() {
    let version = landlock_version().unwrap_or(0);
    let (said, attempts) = run("opener");
    assert_eq!(attempts.len(), ATTEMPT_COUNT, "{said}");
    for (name, is_done) in attempts {
        let needs_landlock = name.ends_with("outside") || name == "early thread";
        if name != "read outside" && needs_landlock && version < 1 {
            continue;
        }
        let is_opening = OF_OPENER.contains(&&*name);
        let is_beyond = OF_ROOT.contains(&&*name) && !is_root();
        let is_allowed = ALLOWED.contains(&&*name) || (is_opening && !is_beyond);
        assert_eq!(is_done, is_allowed, "{name}: {said}");
    }
    // CAP_NET_RAW.
    assert!(!is_root() || said.contains("CapEff: 0000000000002000"), "{said}");
}

#[test]
fn what_a_run_needs_is_kept_and_named() {
    let changes = DeviceChanges::ByProgram("/sbin/tc".into());
    let needs = Needs { changes, has_maps: true, has_ring: true, ..Needs::default() };
    let named = ["starting /sbin/tc", "maps of BPF programs that are open", "io_uring for writes"];
    assert_eq!(crate::kept(&needs), named);
}
