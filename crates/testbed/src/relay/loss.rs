//! Packets that are lost by chance.

/// Loses each packet with the same probability, independent of all others.
#[derive(Clone, Debug)]
pub(super) struct Loss {
    /// A draw below this loses the packet; `u64::MAX` loses all.
    below: u64,
    state: u64,
}

impl Loss {
    pub(super) fn new(probability: f64, seed: u64) -> Self {
        let mut loss = Self { below: 0, state: seed };
        loss.set(probability);
        loss
    }

    /// Sets the probability, 0 to 1.
    pub(super) fn set(&mut self, probability: f64) {
        // Rounds to 2^-53 and ends at the limits, as float casts do.
        self.below = (probability * 18_446_744_073_709_551_616.0) as u64;
    }

    /// Whether the next packet is lost. It is drawn for every packet, so that which ones are
    /// lost depends on the seed and their place alone, not on when the probability changed.
    #[inline]
    pub(super) fn draw(&mut self) -> bool {
        // SplitMix64: passes the usual tests, and two directions may have neighbouring seeds.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        mixed < self.below || self.below == u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_that_is_lost_is_the_probability() {
        for probability in [0.001, 0.02, 0.5, 0.9] {
            let mut loss = Loss::new(probability, 7);
            let lost = (0..1_000_000).filter(|_| loss.draw()).count() as f64;
            let deviation = (probability * (1.0 - probability) * 1e6).sqrt();
            let wanted = probability * 1e6;
            assert!((lost - wanted).abs() < 5.0 * deviation, "{probability}: {lost}");
        }
    }

    #[test]
    fn none_and_all_are_exact() {
        assert_eq!((0..100_000).filter(|_| Loss::new(0.0, 1).draw()).count(), 0);
        let mut all = Loss::new(1.0, 1);
        assert!((0..100_000).all(|_| all.draw()));
    }

    #[test]
    fn the_same_seed_loses_the_same_packets() {
        let lost = |seed| {
            let mut loss = Loss::new(0.1, seed);
            (0..1_000).map(|_| loss.draw()).collect::<Vec<_>>()
        };
        assert_eq!(lost(3), lost(3));
        assert_ne!(lost(3), lost(4));
    }
}
