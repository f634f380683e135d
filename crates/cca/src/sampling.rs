//! Which packets are examined where not all of them are (the paper's random sampling, §III-C).

/// Takes each packet with the same chance, whatever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    state: u64,
    /// Draws below it are taken.
    below: u64,
}

impl Sampler {
    /// Takes this share of packets, which is cut to 0 to 1. The same seed takes the same packets.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn new(share: f64, seed: u64) -> Self {
        // A share of 1 is 2⁶⁴, which a cast brings to the highest draw.
        let below = (share.clamp(0.0, 1.0) * (u64::MAX as f64)) as u64;
        Self { state: seed, below }
    }

    /// Whether the next packet is taken. Draws are those of `SplitMix64` (Steele, Lea, Flood 2014).
    #[inline]
    pub const fn takes(&mut self) -> bool {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) <= self.below && self.below != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_was_asked_for_is_taken() {
        for share in [0.0, 0.01, 0.5, 1.0] {
            let mut sampler = Sampler::new(share, 7);
            let taken = (0..100_000).filter(|_| sampler.takes()).count();
            let found = f64::from(u32::try_from(taken).unwrap()) / 1e5;
            assert!((found - share).abs() < 0.005, "{share}: {found}");
        }
    }
}
