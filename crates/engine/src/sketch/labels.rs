//! Labels by which a set's buckets are searched together.

/// Buckets of a set.
pub(super) const WAYS: usize = 16;

/// Labels of the buckets of a set, four in a word: 8 bits of the key's hash above 8 of the window's
/// number.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
pub(super) struct Labels([u64; WAYS / 4]);

impl Labels {
    pub(super) fn set(&mut self, way: usize, label: u16) {
        let (word, shift) = (way / 4, way % 4 * 16);
        self.0[word] = self.0[word] & !(0xffff << shift) | u64::from(label) << shift;
    }

    pub(super) fn get(&self, way: usize) -> u16 {
        (self.0[way / 4] >> (way % 4 * 16)) as u16
    }
}

/// Which labels of a set, compared under a mask, are this one; `bit` returns the bit of each.
/// Four labels are compared by one number: what is 0 in sixteen bits has no bit that an addition
/// of ones below the top carries there.
#[inline(always)]
pub(super) fn equal(labels: &Labels, mask: u16, label: u16) -> u64 {
    const ONES: u64 = 0x0001_0001_0001_0001;
    const BELOW_TOP: u64 = 0x7fff * ONES;
    let (mask, label) = (u64::from(mask) * ONES, u64::from(label) * ONES);
    let zero = labels.0.map(|word| {
        let other = (word & mask) ^ label;
        !(((other & BELOW_TOP) + BELOW_TOP) | other | BELOW_TOP)
    });
    zero[0] >> 15 | zero[1] >> 14 | zero[2] >> 13 | zero[3] >> 12
}

/// All labels of a set in what [`equal`] gives.
pub(super) const ALL_WAYS: u64 = 0x000f_000f_000f_000f;

/// The first way of those that [`equal`] gives, or any of a set of none.
#[inline(always)]
pub(super) const fn first(ways: u64) -> usize {
    let bit = ways.trailing_zeros() as usize & 63;
    (bit & 3) << 2 | bit >> 4
}
