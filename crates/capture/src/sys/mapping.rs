//! Memory-mapped files.

use std::fs::File;
use std::io;
use std::sync::Once;

use memmap2::{Advice, Mmap, MmapOptions, UncheckedAdvice};

/// Maps a whole file for reading.
///
/// A file that another program shortens while it is mapped cannot be read to
/// its former end: the kernel sends SIGBUS. The first mapping installs a
/// handler that says so and ends the process, since no result computed from
/// pages that vanished could be trusted.
///
/// # Errors
/// The system's.
pub fn map_file(file: &File) -> io::Result<Mmap> {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(install_bus_handler);
    // SAFETY: the map is only read, as bytes, for which every value is valid.
    // Another process may still write the file: bytes may then change between
    // two looks, which every reader above bounds-checks; shortening is handled above.
    let map = unsafe { MmapOptions::new().map(file) }?;
    // A hint only: read ahead, and drop behind under memory pressure.
    let _ = map.advise(Advice::Sequential);
    Ok(map)
}

/// Maps the pages of a range in one call, which costs a tenth of faulting them one
/// by one. A hint: a kernel that does not know it faults as ever.
pub fn populate(map: &Mmap, start: usize, len: usize) {
    let len = len.min(map.len().saturating_sub(start));
    if len > 0 {
        let _ = map.advise_range(Advice::PopulateRead, start, len);
    }
}

/// Unmaps the pages of a range that was read, so that resident memory stays
/// flat on a capture of any size. A later read gets them back from the file.
pub fn release(map: &Mmap, start: usize, len: usize) {
    let len = len.min(map.len().saturating_sub(start));
    if len > 0 {
        // SAFETY: the map is shared and only read, so that its pages hold
        // nothing that is not in the file: dropping them loses nothing.
        let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, start, len) };
    }
}

const BUS_MESSAGE: &[u8] =
    b"wirelens: a capture was shortened while it was being read; nothing was written: \
copy the file first, or read it through a pipe with -r -\n";

/// Exit status of an error, as everywhere in the command.
const EXIT_ERROR: libc::c_int = 1;

extern "C" fn on_bus_error(_signal: libc::c_int) {
    // SAFETY: write(2) is async-signal-safe; the buffer is static.
    let _ =
        unsafe { libc::write(libc::STDERR_FILENO, BUS_MESSAGE.as_ptr().cast(), BUS_MESSAGE.len()) };
    // SAFETY: _exit(2) is async-signal-safe and does not return.
    unsafe { libc::_exit(EXIT_ERROR) }
}

fn install_bus_handler() {
    let handler: extern "C" fn(libc::c_int) = on_bus_error;
    // SAFETY: a function of the signature that signal(2) expects, which only
    // makes async-signal-safe calls.
    unsafe { libc::signal(libc::SIGBUS, handler as *const () as libc::sighandler_t) };
}
