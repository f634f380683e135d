//! The memory that a packet socket shares with the kernel.
//!
//! The ring is a row of areas of one length: blocks of many frames, or slots of one. Each holds a
//! status word that says whether the kernel or the reader owns it. The kernel writes an area only
//! while that says `KERNEL`, and sets it to `USER` when it has done; we look inside only while it
//! says `USER`, and set it back. So a slice of an area may be lent while the status is ours, and
//! [`PacketRing::give_back`] needs the ring alone, so that nothing is lent any more.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::packet_socket::{PacketSocket, RingShape};

/// A mapped receive ring.
#[derive(Debug)]
pub struct PacketRing {
    start: NonNull<u8>,
    size_bytes: usize,
    area_len: usize,
    status_offset: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread; whoever has the value
// may read and unmap it.
unsafe impl Send for PacketRing {}

/// Where the status stands in a block (`tpacket_block_desc`).
const BLOCK_STATUS_OFFSET: usize = 8;
/// Where it stands in a slot (`tpacket2_hdr`).
const SLOT_STATUS_OFFSET: usize = 0;

impl PacketRing {
    /// Makes a ring on `socket` and maps it.
    ///
    /// # Errors
    /// Those of [`PacketSocket::set_ring`] and of mmap(2).
    pub fn new(socket: &PacketSocket, shape: &RingShape) -> io::Result<Self> {
        socket.set_ring(shape)?;
        let size_bytes = shape.block_size_bytes as usize * shape.block_count as usize;
        let address = socket.map(size_bytes)?;
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let (area_len, status_offset) = if shape.block_timeout_ms > 0 {
            (shape.block_size_bytes as usize, BLOCK_STATUS_OFFSET)
        } else {
            (shape.slot_size_bytes as usize, SLOT_STATUS_OFFSET)
        };
        Ok(Self { start, size_bytes, area_len, status_offset })
    }

    /// Bytes of all areas.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Areas in the ring.
    #[must_use]
    pub fn area_count(&self) -> usize {
        self.size_bytes / self.area_len
    }

    /// Whether the kernel has handed an area over. What it wrote there is then seen.
    #[inline]
    #[must_use]
    pub fn is_ours(&self, area: usize) -> bool {
        let user = libc::TP_STATUS_USER;
        self.word(area, self.status_offset)
            .is_some_and(|status| status.load(Ordering::Acquire) & user != 0)
    }

    /// A word of an area that may still be the kernel's: a hint of what it is doing there.
    #[inline]
    #[must_use]
    pub fn peek(&self, area: usize, offset: usize) -> u32 {
        self.word(area, offset).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The bytes of `count` areas from `first` on; `None` where not all of them are ours.
    #[inline]
    #[must_use]
    pub fn lent(&self, first: usize, count: usize) -> Option<&[u8]> {
        let (start, len) = self.ours(first, count)?;
        // SAFETY: `ours` says that the kernel does not write there and that it lies in the
        // mapping, which lives as long as `self`; we write only with `self` borrowed alone.
        Some(unsafe { std::slice::from_raw_parts(start, len) })
    }

    /// As [`PacketRing::lent`], for writing.
    #[inline]
    #[must_use]
    pub fn lent_mut(&mut self, first: usize, count: usize) -> Option<&mut [u8]> {
        let (start, len) = self.ours(first, count)?;
        // SAFETY: as in `lent`; `self` is borrowed alone for as long as the slice lives.
        Some(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// Gives areas back to the kernel, which may overwrite them immediately.
    #[inline]
    pub fn give_back(&mut self, first: usize, count: usize) {
        for area in first..first.saturating_add(count) {
            if let Some(status) = self.word(area, self.status_offset) {
                status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            }
        }
    }

    /// Start and length of areas that are all ours.
    #[inline]
    fn ours(&self, first: usize, count: usize) -> Option<(*mut u8, usize)> {
        let end = first.checked_add(count)?;
        if end > self.area_count() || !(first..end).all(|area| self.is_ours(area)) {
            return None;
        }
        let start = self.start.as_ptr().wrapping_add(first * self.area_len);
        Some((start, count * self.area_len))
    }

    /// A word that we and the kernel both look at.
    #[inline]
    fn word(&self, area: usize, offset: usize) -> Option<&AtomicU32> {
        if area >= self.area_count() || offset + size_of::<u32>() > self.area_len {
            return None;
        }
        let address = self.start.as_ptr().wrapping_add(area * self.area_len + offset);
        let word: *mut u32 = address.cast();
        debug_assert!(word.is_aligned(), "areas and offsets are multiples of four bytes");
        // SAFETY: inside the mapping by the check above, aligned because areas begin at
        // multiples of 16 bytes and the offsets in use are multiples of 4; the kernel
        // accesses the word as one.
        Some(unsafe { AtomicU32::from_ptr(word) })
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size_bytes) };
    }
}

/// Bytes of a page; what the kernel maps is a multiple of it.
#[must_use]
pub fn page_size_bytes() -> usize {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4_096)
}
