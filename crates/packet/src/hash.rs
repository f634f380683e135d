//! Keyed hashing. A seed drawn at start keeps a sender from choosing addresses
//! that all fall into one slot; `--seed` repeats a run exactly.

/// The secret under which keys are hashed for one run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HashSeed {
    first: u64,
    second: u64,
}

/// A key that can be hashed under a seed and compared by value.
pub trait KeyHash: Copy + Eq {
    /// 64 well-mixed bits. The top six choose the partition, so they must be
    /// as good as the rest.
    fn key_hash(&self, seed: HashSeed) -> u64;
}

impl HashSeed {
    /// A seed from one number; equal numbers give equal seeds.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        // Two rounds of splitmix64: neighbours in `number` become strangers,
        // and no number gives a zero multiplicand.
        Self { first: split_mix(number) | 1, second: split_mix(number ^ 0x6a09_e667_f3bc_c909) | 1 }
    }

    /// Both halves, for a program in the kernel that hashes as this does.
    #[must_use]
    pub const fn halves(self) -> [u64; 2] {
        [self.first, self.second]
    }

    /// Hashes two words: one widening multiply under the first half of the
    /// seed, folded, then one more under the second half. The second multiply
    /// is what makes the low and the high bits equally good.
    #[inline]
    #[must_use]
    pub const fn hash_words(self, a: u64, b: u64) -> u64 {
        fold(fold(a ^ self.first, b ^ self.second) ^ self.second, MULTIPLIER)
    }

    /// Hashes one word.
    #[inline]
    #[must_use]
    pub const fn hash_word(self, a: u64) -> u64 {
        fold(a ^ self.first, self.second)
    }
}

/// An odd constant with no pattern in its bits (the golden ratio's fraction).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The two halves of a 64×64-bit product, xored: every input bit reaches
/// every output bit.
#[inline]
#[allow(clippy::cast_possible_truncation)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

const fn split_mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(MULTIPLIER);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl KeyHash for u32 {
    #[inline]
    fn key_hash(&self, seed: HashSeed) -> u64 {
        seed.hash_word(u64::from(*self))
    }
}

impl KeyHash for u128 {
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn key_hash(&self, seed: HashSeed) -> u64 {
        seed.hash_words(*self as u64, (*self >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_addresses_spread_over_the_top_six_bits() {
        let seed = HashSeed::new(1);
        let mut partition_counts = [0u32; 64];
        for address in 0x0a00_0000u32..0x0a00_0000 + 64_000 {
            partition_counts[(address.key_hash(seed) >> 58) as usize] += 1;
        }
        // 1000 expected each; six standard deviations of a binomial are 190.
        for count in partition_counts {
            assert!((810..1190).contains(&count), "{partition_counts:?}");
        }
    }

    #[test]
    fn another_seed_is_another_hash() {
        let hashes: std::collections::HashSet<u64> =
            (0..1000).map(|seed| 0x0a00_0001u32.key_hash(HashSeed::new(seed))).collect();
        assert_eq!(hashes.len(), 1000);
    }
}
