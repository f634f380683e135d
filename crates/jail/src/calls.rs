//! System calls that are refused from now on: seccomp(2).
//!
//! A list of what is refused, not of what is allowed: `docs/decisions/0078-*.md` has the reasons.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
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
    // Its flags are in memory, where no filter can read them. Without it the C library takes clone.
    let unreadable = Rules::from([(libc::SYS_clone3, Vec::new())]);
    Ok([compile(refused(needs)?, libc::EPERM)?, compile(unreadable, libc::ENOSYS)?])
}

fn refused(needs: &Needs) -> Result<Rules, BackendError> {
    let Needs { has_network, has_ring, has_maps, ref changes, .. } = *needs;
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
        (false, false) => &[],
    };
    let others = families.iter().map(|family| argument(0, Ne, u64::from(family.unsigned_abs())));
    let others = if families.is_empty() { Vec::new() } else { vec![all(others)?] };
    rules.insert(libc::SYS_socket, others);
    for call in SIGNALS {
        // Of itself, which a program that is started is not.
        let others = argument(0, Ne, u64::from(std::process::id()));
        rules.insert(*call, any([others])?);
    }
    Ok(rules)
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
