//! The memory that a packet socket shares with the kernel.
//!
//! The ring is a row of areas of one length: blocks of many frames, or slots of one. Each holds a
//! status word that says whether the kernel or the reader owns it. The kernel writes an area only
//! while that says `KERNEL`, and sets it to `USER` when it has done; we look inside only while it
//! says `USER`, and set it back. So a slice of an area may be lent while the status is ours, and
//! [`PacketRing::give_back`] needs the ring alone, so that nothing is lent any more.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::packet_socket::{PacketSocket, RingShape};
use super::shared_memory::SharedMemory;

/// A mapped receive ring.
#[derive(Debug)]
pub struct PacketRing {
    memory: SharedMemory,
    area_len: usize,
    status_offset: usize,
}

/// Where the status stands in a block (`tpacket_block_desc`).
const BLOCK_STATUS_OFFSET: usize = 8;
/// Where it stands in a slot (`tpacket2_hdr`).
const SLOT_STATUS_OFFSET: usize = 0;

impl PacketRing {
    /// Maps the ring of this shape that `socket` has.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn mapped(socket: &PacketSocket, shape: &RingShape) -> io::Result<Self> {
        let size_bytes = shape.block_size_bytes as usize * shape.block_count as usize;
        let memory = socket.map(size_bytes)?;
        let (area_len, status_offset) = if shape.block_timeout_ms > 0 {
            (shape.block_size_bytes as usize, BLOCK_STATUS_OFFSET)
        } else {
            (shape.slot_size_bytes as usize, SLOT_STATUS_OFFSET)
        };
        Ok(Self { memory, area_len, status_offset })
    }

    /// Bytes of all areas.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Areas in the ring.
    #[must_use]
    pub fn area_count(&self) -> usize {
        self.size_bytes() / self.area_len
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
        let (at, len) = self.ours(first, count)?;
        // SAFETY: `ours` says that the kernel does not write there.
        unsafe { self.memory.lent(at, len) }
    }

    /// As [`PacketRing::lent`], for writing.
    #[inline]
    #[must_use]
    pub fn lent_mut(&mut self, first: usize, count: usize) -> Option<&mut [u8]> {
        let (at, len) = self.ours(first, count)?;
        // SAFETY: as in `lent`; the kernel does not look there before it is given back.
        unsafe { self.memory.lent_mut(at, len) }
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

    /// Place and length of areas that are all ours.
    #[inline]
    fn ours(&self, first: usize, count: usize) -> Option<(usize, usize)> {
        let end = first.checked_add(count)?;
        if end > self.area_count() || !(first..end).all(|area| self.is_ours(area)) {
            return None;
        }
        Some((first * self.area_len, count * self.area_len))
    }

    /// A word that we and the kernel both look at.
    #[inline]
    fn word(&self, area: usize, offset: usize) -> Option<&AtomicU32> {
        if area >= self.area_count() || offset + size_of::<u32>() > self.area_len {
            return None;
        }
        self.memory.word(area * self.area_len + offset)
    }
}

/// Bytes of a page; what the kernel maps is a multiple of it.
#[must_use]
pub fn page_size_bytes() -> usize {
    // SAFETY: no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4_096)
}
