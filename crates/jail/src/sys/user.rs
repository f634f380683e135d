//! Users. The C library changes them in all threads, unlike the system calls of the same names.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Bytes for what the system says of a user.
const TEXT_LEN: usize = 64 << 10;

/// The effective user of this process.
pub(crate) fn user() -> u32 {
    // SAFETY: it takes nothing and never fails.
    unsafe { libc::geteuid() }
}

/// User and group of a name, as the databases of the system have them.
pub(crate) fn user_named(name: &CStr) -> io::Result<Option<(u32, u32)>> {
    let (mut entry, mut found) = (MaybeUninit::<libc::passwd>::uninit(), ptr::null_mut());
    let mut text: Vec<libc::c_char> = vec![0; TEXT_LEN];
    let (into, at) = (entry.as_mut_ptr(), text.as_mut_ptr());
    // SAFETY: a name that ends in zero, an entry to fill, and as many bytes as are stated.
    let error = unsafe { libc::getpwnam_r(name.as_ptr(), into, at, text.len(), &raw mut found) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    // SAFETY: null, or the entry above, which is filled.
    let found = unsafe { found.as_ref() };
    Ok(found.map(|entry| (entry.pw_uid, entry.pw_gid)))
}

/// Becomes a user with all its groups, in all threads, and makes sure that there is no way back.
pub(crate) fn change_user(name: &CStr, user: u32, group: u32) -> io::Result<()> {
    // SAFETY: a name that ends in zero, and a number.
    done(unsafe { libc::initgroups(name.as_ptr(), group) })?;
    // SAFETY: numbers alone.
    done(unsafe { libc::setresgid(group, group, group) })?;
    // SAFETY: numbers alone.
    done(unsafe { libc::setresuid(user, user, user) })?;
    // The kernel hides /proc/self from a process that has changed its user; the jail looks there at
    // threads and files. Processes of that user could look at this one as if they had started it.
    // SAFETY: numbers alone.
    done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) })?;
    // SAFETY: numbers alone.
    match unsafe { libc::setresuid(0, 0, 0) } {
        0 => Err(io::Error::other("root could be had again")),
        _ => Ok(()),
    }
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
