//! System calls that are refused from now on: seccomp(2).
//!
//! A list of what is refused, not of what is allowed: `docs/decisions/0078-*.md` has the reasons.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, Ge, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

use crate::{DeviceChanges, Needs, sys};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// What no run needs once it reads: mounts, modules, keys, other processes, the clock, the machine.
const NEVER: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_chroot,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The same, of one architecture alone.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[i64] = &[
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_kexec_file_load,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[i64] = &[];

const PROGRAMS: &[i64] = &[libc::SYS_execve, libc::SYS_execveat];
const NAMESPACES: &[i64] = &[libc::SYS_setns, libc::SYS_unshare];
const RING: &[i64] = &[libc::SYS_io_uring_enter];

/// Commands of bpf(2) on maps that are open: to look an element up, to update it and to delete it.
/// Their numbers go from 1 to this; 0 makes a map, and the others load, attach and look around.
const OF_ELEMENTS: std::ops::RangeInclusive<u64> = 1..=3;

/// Signals, which a run sends to its own threads alone.
const SIGNALS: &[i64] =
    &[libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo];
const SIGNALS_NEVER: &[i64] = &[libc::SYS_tkill, libc::SYS_pidfd_send_signal];

/// Families of sockets that a run with a network makes; the kernel has many more.
const FAMILIES: &[libc::c_int] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Families of the sockets by which an interface is found and opened.
const FAMILIES_OF_INTERFACES: &[libc::c_int] =
    &[libc::AF_PACKET, libc::AF_UNIX, libc::AF_INET, libc::AF_NETLINK];

/// Bytes of the address of an interface: no shorter one binds a packet socket.
const LINK_ADDRESS_LEN: u64 = size_of::<libc::sockaddr_ll>() as u64;

/// Commands that put words into a terminal as if a person had typed them: `TIOCSTI`, `TIOCLINUX`.
const TYPED: [u64; 2] = [0x5412, 0x541c];

/// Namespaces that clone(2) makes.
const CLONED: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Calls that give a file its permissions, and which argument has them. `fchmodat2` has one number
/// on all architectures.
const MODES: &[(i64, u8)] =
    &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (452, 2), (libc::SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODES_HERE: &[(i64, u8)] =
    &[(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODES_HERE: &[(i64, u8)] = &[];

/// Calls that open a file, and which argument has the flags; the next one has the permissions,
/// where the flags make a file.
const OPENS: &[(i64, u8)] = &[(libc::SYS_openat, 2)];
#[cfg(target_arch = "x86_64")]
const OPENS_HERE: &[(i64, u8)] = &[(libc::SYS_open, 1)];
#[cfg(not(target_arch = "x86_64"))]
const OPENS_HERE: &[(i64, u8)] = &[];
const MAKES: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// By these a file, once it is started, has the rights of its owner: root's, where root writes it.
const SET_ID: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// From this number on x86-64 has the same calls once more, for programs of 32 bits (x32), where
/// the kernel has them. No architecture has others there.
const AGAIN_FROM: u32 = 0x4000_0000;

/// Refuses them in all threads.
///
/// # Errors
/// The system's: no seccomp, or a thread has a filter of its own.
pub(crate) fn forbid(needs: &Needs) -> io::Result<()> {
    let filters = filters(needs).map_err(io::Error::other)?;
    filters.into_iter().try_for_each(|filter| sys::forbid(&filter))
}

fn filters(needs: &Needs) -> Result<[BpfProgram; 2], BackendError> {
    let compile = |rules: Rules, errno: libc::c_int| -> Result<BpfProgram, BackendError> {
        let errno = SeccompAction::Errno(errno.unsigned_abs());
        let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, SeccompAction::Allow, errno, architecture)?.try_into()
    };
    // Their flags are in memory, where no filter can read them. Without them the C library takes
    // clone, and what wants openat2 takes openat.
    let unreadable = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    let refused = compile(refused(needs)?, libc::EPERM)?;
    let refused = refused_numbers().into_iter().chain(refused).collect();
    Ok([refused, compile(Rules::from(unreadable), libc::ENOSYS)?])
}

/// The beginning of a filter, which leaves numbers that are low to what follows.
fn refused_numbers() -> [sock_filter; 3] {
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    // Loads the number, which `struct seccomp_data` begins with; is it at least that; then ends.
    [step(0x20, 0, 0, 0), step(0x35, 0, 1, AGAIN_FROM), step(0x06, 0, 0, errno)]
}

fn refused(needs: &Needs) -> Result<Rules, BackendError> {
    let Needs { has_network, has_ring, has_maps, opens_interfaces, ref changes, .. } = *needs;
    let starts_programs = matches!(changes, DeviceChanges::ByProgram(_));
    let whole = [
        (NEVER, true),
        (NEVER_HERE, true),
        (NAMESPACES, true),
        (SIGNALS_NEVER, true),
        (PROGRAMS, !starts_programs),
        (RING, !has_ring),
    ];
    let whole = whole.into_iter().filter(|(_, is_refused)| *is_refused);
    let mut rules: Rules =
        whole.flat_map(|(calls, _)| calls.iter().map(|call| (*call, Vec::new()))).collect();
    rules.insert(libc::SYS_ioctl, any(TYPED.map(|command| argument(1, Eq, command)))?);
    let cloned = CLONED.map(|flag| {
        let flag = u64::from(flag.unsigned_abs());
        argument(0, MaskedEq(flag), flag)
    });
    rules.insert(libc::SYS_clone, any(cloned)?);
    let elements = OF_ELEMENTS.map(|command| argument(0, Ne, command));
    rules.insert(libc::SYS_bpf, if has_maps { vec![all(elements)?] } else { Vec::new() });
    // A program that changes devices asks the kernel by netlink.
    let families = match (has_network, starts_programs) {
        (true, _) => FAMILIES,
        (false, true) => &[libc::AF_NETLINK],
        (false, false) if opens_interfaces => FAMILIES_OF_INTERFACES,
        (false, false) => &[],
    };
    // A packet socket that is open is bound to another interface without any right. Datagrams to a
    // collector take addresses of IPv6, which are as long, and where they are is in memory.
    if !has_network && !opens_interfaces {
        rules.insert(libc::SYS_bind, any([argument(2, Ge, LINK_ADDRESS_LEN)])?);
    }
    let others = families.iter().map(|family| argument(0, Ne, u64::from(family.unsigned_abs())));
    let others = if families.is_empty() { Vec::new() } else { vec![all(others)?] };
    rules.insert(libc::SYS_socket, others);
    // Of itself, which a program that is started is not.
    let others = || argument(0, Ne, u64::from(std::process::id()));
    for call in SIGNALS {
        rules.insert(*call, any([others()])?);
    }
    // A limit of processor time ends a process as a signal does. 0 is the caller.
    let limits = [argument(0, Ne, 0), others()];
    rules.insert(libc::SYS_prlimit64, vec![all(limits.into_iter())?]);
    set_id(&mut rules)?;
    Ok(rules)
}

/// Refuses files with the rights of their owner.
fn set_id(rules: &mut Rules) -> Result<(), BackendError> {
    let has = |number, bit: u32| argument(number, MaskedEq(bit.into()), bit.into());
    for &(call, mode) in MODES.iter().chain(MODES_HERE) {
        rules.insert(call, any(SET_ID.map(|bit| has(mode, bit)))?);
    }
    for &(call, flags) in OPENS.iter().chain(OPENS_HERE) {
        let pairs = SET_ID.iter().flat_map(|bit| MAKES.map(|make| (make.unsigned_abs(), *bit)));
        let made =
            pairs.map(|(make, bit)| all([has(flags, make), has(flags + 1, bit)].into_iter()));
        rules.insert(call, made.collect::<Result<_, _>>()?);
    }
    Ok(())
}

type Condition = Result<SeccompCondition, BackendError>;

fn argument(number: u8, how: seccompiler::SeccompCmpOp, value: u64) -> Condition {
    SeccompCondition::new(number, Dword, how, value)
}

/// Rules of which any refuses the call.
fn any<const N: usize>(conditions: [Condition; N]) -> Result<Vec<SeccompRule>, BackendError> {
    conditions.into_iter().map(|condition| SeccompRule::new(vec![condition?])).collect()
}

/// A rule by which all together refuse the call.
fn all(conditions: impl Iterator<Item = Condition>) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}
