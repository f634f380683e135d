//! Some packets of a block.

use model::numeric::BLOCK_ROWS;

/// Some of the at most [`BLOCK_ROWS`] packets that are examined together, by their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketSet(u64);

const _: () = assert!(BLOCK_ROWS == u64::BITS as usize, "a bit for each packet of a block");

impl PacketSet {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every one.
    pub const ALL: Self = Self(u64::MAX);

    /// Whether a packet is among them.
    #[inline(always)]
    #[must_use]
    pub const fn has(self, packet: usize) -> bool {
        packet < BLOCK_ROWS && self.0 >> packet & 1 != 0
    }

    /// Adds a packet of the block.
    #[inline(always)]
    pub const fn add(&mut self, packet: usize) {
        if packet < BLOCK_ROWS {
            self.0 |= 1 << packet;
        }
    }

    /// Whether the first so many packets are all among them.
    #[inline(always)]
    #[must_use]
    pub const fn has_all(self, len: usize) -> bool {
        self.0.trailing_ones() as usize >= len
    }

    /// Their places, in order.
    #[inline(always)]
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let first = (rest != 0).then(|| rest.trailing_zeros() as usize);
            rest &= rest.wrapping_sub(1);
            first
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_again_in_order() {
        let mut some = PacketSet::NONE;
        assert!(some.has_all(0) && !some.has_all(1) && some.iter().next().is_none());
        for packet in [63, 0, 5, 64] {
            some.add(packet);
        }
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 5, 63]);
        assert!(some.has(63) && !some.has(64) && !some.has(1));
        assert!(some.has_all(1) && !some.has_all(2));
        assert_eq!(PacketSet::ALL.iter().count(), BLOCK_ROWS);
    }
}
