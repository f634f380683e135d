//! Random numbers that are the same everywhere, and the two distributions of traffic.

/// xoshiro256**, seeded by splitmix64 (Blackman and Vigna): small, fast, and its
/// sequence will not change under us as a library's may.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: [u64; 4],
}

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
            scramble(at)
        });
        Self { state }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let (c2, d2) = (c ^ a, d ^ b);
        self.state = [a ^ d2, b ^ c2, c2 ^ b << 17, d2.rotate_left(45)];
        result
    }

    /// Below `bound`, by a multiplication: biased by less than `bound` ÷ 2⁶⁴.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True in so many of a hundred cases.
    #[inline]
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// At least 0 and below 1, in steps of 2⁻⁵³.
    #[inline]
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Mixes 64 bits so that each depends on all (the last step of splitmix64).
pub(crate) const fn scramble(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Ranks by Zipf's law: rank `k` (from 0) with weight `(k + 1)^-exponent`.
pub(crate) struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn new(rank_count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let cumulated = (1..=rank_count)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        Self { cumulated }
    }

    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let total = self.cumulated.last().copied().unwrap_or_default();
        let wanted = random.unit() * total;
        self.cumulated.partition_point(|&sum| sum < wanted)
    }
}

/// A whole number by Pareto's law, at least 1 and at most `max`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub(crate) fn pareto(random: &mut Random, shape: f64, max: u64) -> u64 {
    // 1 − u lies above 0: no division by it.
    let value = (1.0 - random.unit()).powf(-1.0 / shape);
    value.min(max as f64).max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_of_a_seed_stays() {
        let mut random = Random::new(42);
        let drawn: Vec<u64> = (0..3).map(|_| random.next()).collect();
        // Computed once from the published reference code.
        assert_eq!(
            drawn,
            [1_546_998_764_402_558_742, 6_990_951_692_964_543_102, 12_544_586_762_248_559_009]
        );
    }

    #[test]
    fn low_ranks_are_drawn_as_often_as_zipf_says() {
        let zipf = Zipf::new(1_000, 1.05);
        let mut random = Random::new(1);
        let draws = 200_000;
        let first = (0..draws).filter(|_| zipf.draw(&mut random) == 0).count();
        let expected = f64::from(draws) / zipf.cumulated.last().unwrap();
        assert!((first as f64 - expected).abs() < 0.03 * expected, "{first} of {expected}");
    }

    #[test]
    fn pareto_keeps_its_bounds() {
        let mut random = Random::new(2);
        let drawn: Vec<u64> = (0..100_000).map(|_| pareto(&mut random, 1.15, 5_000)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&1), Some(&5_000)));
    }
}
