//! Which blocks a record holds, and where they lie in it.
//!
//! A compact record is one string of bits, counted from the first byte's highest: the bytes of
//! the blocks that were asked for, in nPrint's order, and then one bit for each of those bytes that
//! says whether the packet had it. A byte that was not there is zero. So column *i* of a row is bit
//! *i*, and the test whether it has a value is a bit as well.
//!
//! IPv4, TCP and UDP together, what most models are made of, take 128 bytes and 16 of presence.

use crate::block::{BLOCK_COUNT, Block};
use crate::identity::Identity;

/// Bytes of payload that can be asked for.
pub const PAYLOAD_LEN_MAX: u16 = 9_000;

/// Bytes of a record of IPv4, TCP and UDP.
pub const PLAIN_RECORD_LEN: usize = 144;

/// Which blocks there are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    lens: [u16; BLOCK_COUNT],
    offsets: [u16; BLOCK_COUNT],
    data_len: u16,
    identity: Identity,
}

impl Default for Layout {
    /// IPv4, TCP and UDP: the 1,024 bits of nPrint's own examples.
    fn default() -> Self {
        Self::new(&[Block::Ipv4, Block::Tcp, Block::Udp], 0)
    }
}

impl Layout {
    /// These blocks, whatever order they are named in, and so many bytes of payload, at most
    /// [`PAYLOAD_LEN_MAX`].
    #[must_use]
    pub fn new(blocks: &[Block], payload_len: u16) -> Self {
        let mut lens = [0; BLOCK_COUNT];
        for &block in blocks {
            lens[block as usize] = block.size_bytes();
        }
        lens[Block::Payload as usize] = payload_len.min(PAYLOAD_LEN_MAX);
        let mut offsets = [0; BLOCK_COUNT];
        let mut data_len = 0;
        for (offset, len) in offsets.iter_mut().zip(lens) {
            *offset = data_len;
            data_len += len;
        }
        Self { lens, offsets, data_len, identity: Identity::Kept }
    }

    /// The same blocks, holding what this leaves of them.
    #[must_use]
    pub const fn with_identity(self, identity: Identity) -> Self {
        Self { identity, ..self }
    }

    /// Whether records may tell units and networks.
    #[inline]
    #[must_use]
    pub const fn identity(self) -> Identity {
        self.identity
    }

    /// The same, without blocks for which `is_kept` is false.
    #[must_use]
    pub fn only(self, is_kept: impl Fn(Block) -> bool) -> Self {
        let blocks: Vec<_> = self.blocks().filter(|&block| is_kept(block)).collect();
        let payload_len = if is_kept(Block::Payload) { self.len(Block::Payload) } else { 0 };
        Self::new(&blocks, payload_len).with_identity(self.identity)
    }

    /// The blocks that are there, in order.
    pub fn blocks(self) -> impl Iterator<Item = Block> {
        Block::ALL.into_iter().filter(move |&block| self.has(block))
    }

    /// Whether a block is there.
    #[inline]
    #[must_use]
    pub const fn has(self, block: Block) -> bool {
        self.lens[block as usize] > 0
    }

    /// Bytes of a block; 0 where it is not there.
    #[inline]
    #[must_use]
    pub const fn len(self, block: Block) -> u16 {
        self.lens[block as usize]
    }

    /// Whether there is no block at all.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.data_len == 0
    }

    /// Where a block begins, in bytes.
    #[inline]
    #[must_use]
    pub const fn offset(self, block: Block) -> usize {
        self.offsets[block as usize] as usize
    }

    /// Bytes of all blocks.
    #[inline]
    #[must_use]
    pub const fn data_len(self) -> usize {
        self.data_len as usize
    }

    /// Bytes of a record: the blocks, and a bit for each of their bytes.
    #[inline]
    #[must_use]
    pub const fn record_len(self) -> usize {
        self.data_len() + self.data_len().div_ceil(8)
    }

    /// Columns of a row.
    #[must_use]
    pub const fn column_count(self) -> usize {
        self.data_len() * 8
    }

    /// The bit of a record that says whether column `column` has a value.
    #[must_use]
    pub const fn presence_bit(self, column: usize) -> usize {
        self.data_len() * 8 + column / 8
    }

    /// Names of all columns, in order.
    pub fn columns(self) -> impl Iterator<Item = String> {
        self.blocks().flat_map(move |block| block.columns(self.len(block)))
    }

    /// Whether this is the layout of [`Default`], for which there is a way without detours.
    #[inline]
    #[must_use]
    pub(crate) const fn is_plain(self) -> bool {
        const TRANSPORT: usize = 60;
        self.data_len == 128
            && matches!(self.identity, Identity::Kept)
            && self.has(Block::Ipv4)
            && self.has(Block::Udp)
            && self.offset(Block::Tcp) == TRANSPORT
            && self.has(Block::Tcp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_compact_record() {
        let layout = Layout::default();
        assert!(layout.is_plain());
        assert_eq!(layout.record_len(), PLAIN_RECORD_LEN);
        assert_eq!((layout.column_count(), layout.columns().count()), (1024, 1024));
        assert_eq!(layout.presence_bit(1023), 144 * 8 - 1);
        let other_order = Layout::new(&[Block::Udp, Block::Tcp, Block::Ipv4, Block::Tcp], 0);
        assert_eq!(other_order, layout);
    }

    #[test]
    fn blocks_stand_in_nprints_order() {
        let all = Layout::new(&Block::ALL, 3);
        let names: Vec<_> = all.columns().collect();
        assert_eq!(names.len(), 480 + 320 + 480 + 64 + 64 + 24);
        for (column, name) in
            [(480, "ipv6_ver_0"), (800, "tcp_sprt_0"), (1280, "udp_sport_0"), (1344, "icmp_type_0")]
        {
            assert_eq!(names[column], name);
        }
        assert_eq!(names[1408], "payload_bit_0");
        assert!(!all.is_plain() && !Layout::new(&[Block::Ipv4, Block::Tcp], 8).is_plain());
        assert_eq!(Layout::new(&[], u16::MAX).data_len(), usize::from(PAYLOAD_LEN_MAX));
        assert_eq!(all.only(|block| block == Block::Icmp).column_count(), 64);
    }
}
