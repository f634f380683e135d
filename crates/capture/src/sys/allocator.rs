//! How the C library's allocator gets memory and gives it back (`mallopt(3)`, `malloc_trim(3)`).

use std::thread;
use std::time::Duration;

/// Blocks of so many bytes and more have a mapping of their own.
const MAPPED_FROM_BYTES: libc::c_int = 1 << 18;

/// Sets the allocator up for a process that holds large tables for days.
///
/// By default glibc raises its limit for mapped blocks to the size of each such block that is
/// freed, up to 32 MiB. From then on large blocks lie in its arenas among small ones, and what is
/// free between them stays resident. It also has up to eight arenas a processor, each with free
/// memory of its own that no other takes; one a processor is enough for threads that share them.
pub fn set_up() {
    let arenas = thread::available_parallelism().map_or(1, usize::from);
    set(libc::M_MMAP_THRESHOLD, MAPPED_FROM_BYTES);
    set(libc::M_ARENA_MAX, libc::c_int::try_from(arenas).unwrap_or(1));
}

fn set(parameter: libc::c_int, value: libc::c_int) {
    // SAFETY: sets a number of the allocator under its own lock, and reads no memory of ours.
    unsafe { libc::mallopt(parameter, value) };
}

/// How long what is free may stay with the process.
const BACK_EVERY: Duration = Duration::from_secs(60);

/// From now on memory that was freed goes back to the kernel every minute, in a thread of its own:
/// a run of days then has what its tables hold, and not the most that it ever held. Without that
/// thread it keeps it, and does all else.
pub fn give_back_now_and_then() {
    let _ = thread::Builder::new().name("memory".into()).spawn(|| {
        loop {
            thread::sleep(BACK_EVERY);
            give_back();
        }
    });
}

/// Whole pages that are free go back to the kernel, from the midst of arenas as well.
fn give_back() {
    // SAFETY: holds the allocator's locks, and touches only what is free.
    unsafe { libc::malloc_trim(0) };
}
