//! Memory that this process shares with the kernel: rings, and the frames in them.

use std::ffi::c_int;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU32;

/// A mapping for reading and writing, which is unmapped in the end.
#[derive(Debug)]
pub(super) struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread; whoever has the value
// may read and unmap it.
unsafe impl Send for SharedMemory {}

impl SharedMemory {
    /// Maps memory of a descriptor, or new memory with `MAP_ANONYMOUS`.
    pub(super) fn map(
        len: usize,
        flags: c_int,
        fd: c_int,
        offset: libc::off_t,
    ) -> io::Result<Self> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | flags);
        // SAFETY: a new mapping at a place that the kernel chooses touches no other memory.
        let address = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, fd, offset) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes of it; `None` where they do not lie in it.
    ///
    /// # Safety
    /// The kernel does not write them for as long as the slice lives.
    #[inline]
    pub(super) unsafe fn lent(&self, at: usize, len: usize) -> Option<&[u8]> {
        let start = self.place(at, len)?;
        // SAFETY: `place` says that it lies in the mapping, which lives as long as `self`; we write
        // only with `self` borrowed alone, and the kernel does not, as the caller says.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// As [`SharedMemory::lent`], for writing.
    ///
    /// # Safety
    /// As there, and the kernel does not read them either.
    #[inline]
    pub(super) unsafe fn lent_mut(&mut self, at: usize, len: usize) -> Option<&mut [u8]> {
        let start = self.place(at, len)?;
        // SAFETY: as in `lent`; `self` is borrowed alone for as long as the slice lives.
        Some(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// A word that we and the kernel both look at; `None` where it does not lie in the mapping, or
    /// is not aligned.
    #[inline]
    pub(super) fn word(&self, at: usize) -> Option<&AtomicU32> {
        let word: *mut u32 = self.place(at, size_of::<u32>())?.cast();
        // SAFETY: inside the mapping by `place`, aligned by the check; the kernel accesses the word
        // as one.
        word.is_aligned().then(|| unsafe { AtomicU32::from_ptr(word) })
    }

    #[inline]
    fn place(&self, at: usize, len: usize) -> Option<*mut u8> {
        let is_within = at.checked_add(len).is_some_and(|end| end <= self.len);
        is_within.then(|| self.start().wrapping_add(at))
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, unmapped once.
        unsafe { libc::munmap(self.start().cast(), self.len) };
    }
}
