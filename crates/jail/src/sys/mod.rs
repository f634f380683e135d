//! The system calls that no crate makes for all threads: the one place here with unsafe code.

#[cfg(test)]
mod tests;
mod user;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};
use std::thread;
use std::time::Duration;

use seccompiler::BpfProgram;

pub(crate) use user::{change_user, user, user_named};

/// How often it is looked whether a thread has entered, and how many times at most: a second.
const LOOK_EVERY: Duration = Duration::from_micros(200);
const LOOKS_MAX: u32 = 5_000;

const CAPABILITY_VERSION_3: u32 = 0x2008_0522;
const LAST_CAPABILITY: u32 = 63;

/// `struct __user_cap_header_struct`; process 0 is the calling thread.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct`: the low and the high half of each set, one after the other.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// What a thread does to enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    NoNewPrivileges,
    Folders,
    Capabilities,
}

const STEPS: [Step; 3] = [Step::NoNewPrivileges, Step::Folders, Step::Capabilities];

/// What threads are asked for.
struct Order {
    keeps: u64,
    ruleset: Option<OwnedFd>,
}

/// What the handler of the signal does; null when there is nothing to be done.
static ORDER: AtomicPtr<Order> = AtomicPtr::new(ptr::null_mut());
/// The thread that has entered last.
static ENTERED: AtomicI32 = AtomicI32::new(0);
/// The first error of each step.
static ERRORS: [AtomicI32; STEPS.len()] = [const { AtomicI32::new(0) }; STEPS.len()];

/// The calling thread, as the kernel numbers it.
pub(crate) fn thread_id() -> i32 {
    // Not by the function of the C library, which old ones lack.
    // SAFETY: it takes nothing and never fails.
    let id = unsafe { libc::syscall(libc::SYS_gettid) };
    i32::try_from(id).unwrap_or(0)
}

/// Threads that are asked, one after the other, to enter. There is one at a time in a process.
pub(crate) struct Roll {
    signal: libc::c_int,
}

impl Roll {
    /// Takes a signal that this process does not use.
    pub(crate) fn begin(keeps: u64, ruleset: Option<OwnedFd>) -> Option<Self> {
        let signal = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(|signal| is_free(*signal))?;
        // SAFETY: an action of zeros is valid: no flags, no signals masked.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as *const () as usize;
        // Calls that wait go on waiting.
        action.sa_flags = libc::SA_RESTART;
        // Never freed: a thread that is late reads it whenever it comes.
        let order = Box::into_raw(Box::new(Order { keeps, ruleset }));
        ORDER.store(order, Ordering::SeqCst);
        // SAFETY: a complete action whose handler makes system calls and touches atomics, both of
        // which a signal handler may.
        let set = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
        (set == 0).then_some(Self { signal })
    }

    /// Whether this thread has entered, or is gone.
    pub(crate) fn of_thread(&self, id: i32) -> bool {
        ENTERED.store(0, Ordering::SeqCst);
        // SAFETY: a signal to a thread of this process, whose handler is in place.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), id, self.signal) };
        if sent != 0 {
            return true;
        }
        for _ in 0..LOOKS_MAX {
            if ENTERED.load(Ordering::SeqCst) == id {
                return true;
            }
            thread::sleep(LOOK_EVERY);
            if !Path::new("/proc/self/task").join(id.to_string()).exists() {
                return true;
            }
        }
        false
    }

    /// What the kernel refused. Where all have entered, the signal does nothing from here on.
    pub(crate) fn end(self, have_all: bool) -> Vec<(Step, io::Error)> {
        if have_all {
            ORDER.store(ptr::null_mut(), Ordering::SeqCst);
        }
        let errors = STEPS.into_iter().zip(&ERRORS);
        let errors = errors.map(|(step, error)| (step, error.swap(0, Ordering::SeqCst)));
        let errors = errors.filter(|(_, error)| *error != 0);
        errors.map(|(step, error)| (step, io::Error::from_raw_os_error(error))).collect()
    }
}

/// Whether nothing in this process handles or ignores a signal.
fn is_free(signal: libc::c_int) -> bool {
    // SAFETY: zeros are a valid action.
    let mut found: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: changes nothing, and writes the action that it found.
    let read = unsafe { libc::sigaction(signal, ptr::null(), &raw mut found) };
    read == 0 && found.sa_sigaction == libc::SIG_DFL
}

/// Enters, on whichever thread the signal came to. System calls and atomics alone: it may have
/// interrupted the allocator.
extern "C" fn on_signal(_: libc::c_int) {
    // SAFETY: null, or an order that is never freed.
    let Some(order) = (unsafe { ORDER.load(Ordering::SeqCst).as_ref() }) else { return };
    // SAFETY: the address of this thread's own errno.
    let errno_at = unsafe { libc::__errno_location() };
    // SAFETY: valid as long as the thread runs.
    let before = unsafe { errno_at.read() };
    let results = [no_new_privileges(), take_up(order.ruleset.as_ref()), keep_only(order.keeps)];
    for (result, error) in results.into_iter().zip(&ERRORS) {
        if let Err(errno) = result {
            let _ = error.compare_exchange(0, errno, Ordering::SeqCst, Ordering::SeqCst);
        }
    }
    ENTERED.store(thread_id(), Ordering::SeqCst);
    // SAFETY: as above; what was interrupted finds its own error.
    unsafe { errno_at.write(before) };
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn no_new_privileges() -> Result<(), i32> {
    // SAFETY: numbers alone.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if set == 0 { Ok(()) } else { Err(errno()) }
}

fn take_up(ruleset: Option<&OwnedFd>) -> Result<(), i32> {
    let Some(ruleset) = ruleset else { return Ok(()) };
    // SAFETY: an open descriptor of rules, and no flags.
    let taken = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) };
    if taken == 0 { Ok(()) } else { Err(errno()) }
}

/// Capabilities of the calling thread, in all its sets. One without any need not be allowed to
/// change them.
fn keep_only(keeps: u64) -> Result<(), i32> {
    for capability in 0..=LAST_CAPABILITY {
        if keeps & (1 << capability) == 0 {
            // Takes CAP_SETPCAP. Without it the set stays, of which no program can get anything
            // under no_new_privs.
            // SAFETY: numbers alone; one that the kernel does not know is refused.
            unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
    }
    // SAFETY: numbers alone; a kernel without ambient capabilities refuses it, and has none.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let mut sets = capabilities()?;
    let kept = [low(keeps), low(keeps >> 32)];
    let has_more = sets
        .iter()
        .zip(kept)
        .any(|(set, kept)| (set.permitted | set.effective) & !kept != 0 || set.inheritable != 0);
    if !has_more {
        return Ok(());
    }
    for (set, kept) in sets.iter_mut().zip(kept) {
        set.permitted &= kept;
        set.effective &= kept;
        set.inheritable = 0;
    }
    set_capabilities(&sets)
}

#[allow(clippy::cast_possible_truncation)]
const fn low(set: u64) -> u32 {
    set as u32
}

fn capabilities() -> Result<[CapabilityData; 2], i32> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let mut sets = [CapabilityData::default(); 2];
    // SAFETY: a header of the version that has two halves, and room for both.
    let got = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) };
    if got == 0 { Ok(sets) } else { Err(errno()) }
}

fn set_capabilities(sets: &[CapabilityData; 2]) -> Result<(), i32> {
    let mut header = CapabilityHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    // SAFETY: as for capget; the sets are only read.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    if set == 0 { Ok(()) } else { Err(errno()) }
}

/// Has this process, and programs that it starts, take no notice of signals.
pub(crate) fn ignore(signals: &[libc::c_int]) {
    for signal in signals {
        // SAFETY: a signal that can be ignored, by which no code of ours runs.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Does something on a thread of its own that holds no capability; none where that is not possible.
pub(crate) fn without_capabilities<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let bare = || set_capabilities(&[CapabilityData::default(); 2]).is_ok().then(work);
    thread::scope(|scope| scope.spawn(bare).join().ok().flatten())
}

/// Whether this thread may make and remove files in a folder, or write a file.
pub(crate) fn may_write(path: &Path) -> bool {
    may(path, if path.is_dir() { libc::W_OK | libc::X_OK } else { libc::W_OK })
}

/// Whether this thread may read a file or a folder.
pub(crate) fn may_read(path: &Path) -> bool {
    may(path, if path.is_dir() { libc::R_OK | libc::X_OK } else { libc::R_OK })
}

fn may(path: &Path, how: libc::c_int) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a terminated path, which is only read. Root's effective capabilities are those that
    // it is permitted, of which this thread has none.
    unsafe { libc::access(path.as_ptr(), how) == 0 }
}

/// The version of the kernel's Landlock.
///
/// # Errors
/// The kernel has none, or this process may not use it.
pub(crate) fn landlock_version() -> io::Result<i32> {
    const VERSION: libc::c_int = 1;
    let none = ptr::null::<u8>();
    // SAFETY: with this flag no attributes are read.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, VERSION) };
    let version = i32::try_from(version).unwrap_or(i32::MAX);
    if version < 1 { Err(io::Error::last_os_error()) } else { Ok(version) }
}

/// Has a filter decide on the system calls of all threads.
///
/// The crate that compiles it cannot be asked for a filter without a slower processor: kernels
/// before Linux 5.16 switch speculation off for threads with a filter, unless a flag says not to.
pub(crate) fn forbid(filter: &BpfProgram) -> io::Result<()> {
    let len = libc::c_ushort::try_from(filter.len()).map_err(io::Error::other)?;
    let start: *const seccompiler::sock_filter = filter.as_ptr();
    // Read only, and laid out as the kernel has it.
    let program = libc::sock_fprog { len, filter: start.cast_mut().cast() };
    no_new_privileges().map_err(io::Error::from_raw_os_error)?;
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: a program of that length, which the kernel copies.
    let set = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match set {
        0 => Ok(()),
        ..0 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} has a filter of its own"))),
    }
}
