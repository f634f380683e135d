//! Draws that a seed decides.

/// A generator of draws: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), which needs one word
/// of state and is the same on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draws(u64);

impl Draws {
    /// The draws of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Whether something with this probability, in units of 2⁻³², happens. All of 2³² − 1 is
    /// certain.
    pub(crate) const fn happens(&mut self, probability: u32) -> bool {
        (self.bits() >> 32) < probability as u64 || probability == u32::MAX
    }

    /// Of at least 0 and less than 1.
    #[allow(clippy::cast_precision_loss)]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_and_certainty_is_certain() {
        let (mut one, mut other) = (Draws::new(7), Draws::new(7));
        assert!((0..100).all(|_| one.bits() == other.bits()));
        assert!((0..1_000).all(|_| one.happens(u32::MAX) && !one.happens(0)));
        let half = (0..10_000).filter(|_| one.happens(1 << 31)).count();
        assert!((4_800..5_200).contains(&half), "{half}");
        assert!((0..1_000).map(|_| one.unit()).all(|drawn| (0.0..1.0).contains(&drawn)));
    }
}
