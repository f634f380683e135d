//! The ring of one socket: its shape, and the one reader or the other.

use super::frame::Taker;
use super::options::{BLOCK_COUNT_MIN, Latency, LiveOptions};
use super::ring_v2::SlotReader;
use super::ring_v3::BlockReader;
use crate::sys::packet_ring::{PacketRing, page_size_bytes};
use crate::sys::packet_socket::RingShape;

/// Place of a reader in a ring of either kind.
#[derive(Debug)]
pub(crate) enum Reader {
    Blocks(BlockReader),
    Slots(SlotReader),
}

impl Reader {
    pub(crate) fn new(shape: &RingShape) -> Self {
        if shape.block_timeout_ms > 0 {
            Self::Blocks(BlockReader::default())
        } else {
            Self::Slots(SlotReader::new(shape.slot_size_bytes as usize))
        }
    }

    /// Whether frames can be had without waiting.
    #[inline]
    pub(crate) fn is_ready(&self, ring: &PacketRing) -> bool {
        match self {
            Self::Blocks(reader) => reader.is_ready(ring),
            Self::Slots(reader) => reader.is_ready(ring),
        }
    }

    /// Whether the ring holds nothing at all, not even what cannot be had yet.
    pub(crate) fn is_quiet(&self, ring: &PacketRing) -> bool {
        match self {
            Self::Blocks(reader) => reader.is_quiet(ring),
            Self::Slots(reader) => !reader.is_ready(ring),
        }
    }

    /// Gives back what was lent and has been read.
    #[inline]
    pub(crate) fn give_back(&mut self, ring: &mut PacketRing) {
        match self {
            Self::Blocks(reader) => reader.give_back(ring),
            Self::Slots(reader) => reader.give_back(ring),
        }
    }

    /// Takes frames while there is room.
    #[inline]
    pub(crate) fn fill(&mut self, ring: &mut PacketRing, taker: &mut Taker<'_>) {
        match self {
            Self::Blocks(reader) => reader.fill(ring, taker),
            Self::Slots(reader) => reader.fill(ring, taker),
        }
    }

    /// The bytes in which what was taken lies.
    #[inline]
    pub(crate) fn lent<'a>(&self, ring: &'a PacketRing) -> &'a [u8] {
        let (first, count) = match self {
            Self::Blocks(reader) => reader.lent(),
            Self::Slots(reader) => reader.lent(),
        };
        ring.lent(first, count).unwrap_or_default()
    }
}

/// What the kernel and we put before a frame in its slot, at most.
const SLOT_OVERHEAD: usize = 128;

/// The longest frame that offloads make, with its link header, and a little more.
const FRAME_LEN_MAX: usize = 65_536 + 64;

/// A slot length of blocks: only a lower bound counts, and this is above it.
const BLOCK_SLOT_SIZE_BYTES: usize = 2_048;

/// Slots are allocated in pieces of about so much.
const PIECE_SIZE_BYTES: usize = 1 << 20;

/// The shape of a ring for one of the sockets of `options`.
pub(crate) fn shape(options: &LiveOptions, snaplen: u32) -> RingShape {
    let page = page_size_bytes();
    let size = options.ring_size_bytes / usize::from(options.socket_count.max(1));
    let (block, slot, timeout) = match options.latency {
        Latency::Throughput => {
            let block = options.block_size_bytes.min(size / BLOCK_COUNT_MIN);
            let block = (block / page).max(1) * page;
            (block, BLOCK_SLOT_SIZE_BYTES, options.block_timeout_ms.max(1))
        }
        Latency::Low => {
            let frame = usize::try_from(snaplen).unwrap_or(FRAME_LEN_MAX).min(FRAME_LEN_MAX);
            let slot = frame + SLOT_OVERHEAD;
            // Slots may not reach from one block into the next, so they fill it exactly.
            let slot =
                if slot <= page { slot.next_power_of_two() } else { slot.next_multiple_of(page) };
            let whole = slot.max(page);
            (whole * (PIECE_SIZE_BYTES.min(size) / whole).max(1), slot, 0)
        }
    };
    let fit = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    RingShape {
        block_size_bytes: fit(block),
        block_count: fit((size / block).max(1)),
        slot_size_bytes: fit(slot),
        block_timeout_ms: timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(latency: Latency, ring_size_bytes: usize, socket_count: u16, snaplen: u32) -> RingShape {
        let options = LiveOptions { latency, ring_size_bytes, socket_count, ..Default::default() };
        shape(&options, snaplen)
    }

    #[test]
    fn the_kernel_takes_shapes_of_whole_pages_filled_by_their_slots() {
        let page = u32::try_from(page_size_bytes()).unwrap();
        for latency in [Latency::Throughput, Latency::Low] {
            for size in [0, 1, 100_000, 1 << 20, 64 << 20, 3 << 30] {
                for snaplen in [0, 64, 96, 1_500, 4_000, 65_535, u32::MAX] {
                    let shape = of(latency, size, 3, snaplen);
                    let what = format!("{latency:?} {size} {snaplen}: {shape:?}");
                    assert!(shape.block_size_bytes >= page, "{what}");
                    assert_eq!(shape.block_size_bytes % page, 0, "{what}");
                    assert_eq!(shape.block_size_bytes % shape.slot_size_bytes, 0, "{what}");
                    assert_eq!(shape.slot_size_bytes % 16, 0, "{what}");
                    assert!(shape.block_count >= 1, "{what}");
                }
            }
        }
    }

    #[test]
    fn sockets_share_the_memory_and_small_rings_have_small_blocks() {
        let shape = of(Latency::Throughput, 64 << 20, 2, u32::MAX);
        assert_eq!((shape.block_size_bytes, shape.block_count), (1 << 20, 32));
        let shape = of(Latency::Throughput, 256 << 10, 1, u32::MAX);
        assert_eq!((shape.block_size_bytes, shape.block_count), (64 << 10, 4));
    }

    #[test]
    fn slots_hold_what_the_snaplen_keeps() {
        assert_eq!(of(Latency::Low, 64 << 20, 1, 96).slot_size_bytes, 256);
        let whole = of(Latency::Low, 64 << 20, 1, u32::MAX);
        assert!(whole.slot_size_bytes as usize > FRAME_LEN_MAX);
        assert!(whole.block_count * (whole.block_size_bytes / whole.slot_size_bytes) > 900);
    }
}
