//! An array of a BPF program, mapped into this process: what is written here the program reads
//! immediately, without a call into the kernel, which a process in a jail may not make.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// The memory of an array that was made with `BPF_F_MMAPABLE`.
pub struct SharedArray {
    memory: MmapRaw,
}

impl SharedArray {
    /// Maps so many bytes of an array, which must be as many at least.
    ///
    /// # Errors
    /// The system's.
    pub fn new(array: BorrowedFd<'_>, len: usize) -> io::Result<Self> {
        let memory = MmapOptions::new().len(len).map_raw(array.as_raw_fd())?;
        Ok(Self { memory })
    }

    /// Writes bytes that no program reads at the moment; what lies outside of the array is left
    /// out.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let len = bytes.len().min(self.memory.len().saturating_sub(at));
        let to = self.memory.as_mut_ptr().wrapping_add(at);
        // SAFETY: `at + len` is at most the length of the mapping, which lives as long as self.
        // The kernel may read the same bytes, and sees old or new ones; no reference to them is
        // ever made, here or elsewhere in this process.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, len) };
    }

    /// Reads bytes; zeros outside of the array.
    #[must_use]
    pub fn read<const LEN: usize>(&self, at: usize) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        let len = LEN.min(self.memory.len().saturating_sub(at));
        let from = self.memory.as_ptr().wrapping_add(at);
        // SAFETY: as in `write`; the bytes may be of two moments, which a reader of counters bears.
        unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Writes a word after all that was written before; `at` is a multiple of 4.
    pub fn publish(&self, at: usize, word: u32) {
        if !at.is_multiple_of(4) || at + 4 > self.memory.len() {
            return;
        }
        let place = self.memory.as_mut_ptr().wrapping_add(at).cast();
        // SAFETY: within the mapping, which begins at a page, so that the word is aligned; it is
        // accessed as an atomic alone.
        let place = unsafe { AtomicU32::from_ptr(place) };
        place.store(word, Ordering::SeqCst);
    }
}
