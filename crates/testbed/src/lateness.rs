//! How late packets left, or a thread was woken: a histogram of a fixed size, whatever is added.
//!
//! Each power of two is divided into 32 buckets, so that a quantile is told at most 1/32
//! (3.2 %) too high and never too low. It takes 15 KiB.

/// Buckets in a power of two, as bits.
const STEP_BITS: u32 = 5;
const STEP_COUNT: usize = 1 << STEP_BITS;
/// The first 32 values have a bucket each; the 59 powers of two above have 32.
const BUCKET_COUNT: usize = STEP_COUNT * (u64::BITS - STEP_BITS + 1) as usize;

/// Nanoseconds that were added up, by size.
#[derive(Clone, Debug)]
pub struct Lateness {
    counts: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Lateness {
    fn default() -> Self {
        let counts = vec![0; BUCKET_COUNT].into_boxed_slice();
        Self { counts, count: 0, sum_ns: 0, max_ns: 0 }
    }
}

impl Lateness {
    /// Adds one packet, or one wake-up.
    #[inline]
    pub fn add(&mut self, late_ns: u64) {
        if let Some(count) = self.counts.get_mut(bucket(late_ns)) {
            *count += 1;
        }
        self.count += 1;
        self.sum_ns += u128::from(late_ns);
        self.max_ns = self.max_ns.max(late_ns);
    }

    /// How many were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact mean, 0 where nothing was added.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// Exact maximum.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The smallest time that at least `share` of the packets did not exceed, at most 1/32
    /// too high; 0 where nothing was added.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen as f64 >= wanted {
                return last_of(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

/// The bucket of a value.
#[inline]
fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(STEP_BITS + 1);
    // The leading bits of the value, 32 to 63 from the second power on.
    shift as usize * STEP_COUNT + (value >> shift) as usize
}

/// The largest value of a bucket.
fn last_of(index: usize) -> u64 {
    let shift = (index / STEP_COUNT).saturating_sub(1);
    let step = (index - shift * STEP_COUNT) as u128;
    u64::try_from(((step + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_at_most_a_32nd_wide(value: u64, bits in 0_u32..64) {
            let value = value >> bits;
            let last = last_of(bucket(value));
            prop_assert!(last >= value);
            prop_assert!(u128::from(last) * 32 <= u128::from(value) * 33);
            prop_assert!(bucket(value) < BUCKET_COUNT);
            if last < u64::MAX {
                prop_assert_eq!(bucket(last + 1), bucket(value) + 1);
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_the_values_within_the_width_of_a_bucket() {
        let mut lateness = Lateness::default();
        (1..=1_000_u64).for_each(|late| lateness.add(late * 1_000));
        assert_eq!(lateness.max_ns(), 1_000_000);
        assert!((lateness.mean_ns() - 500_500.0).abs() < 0.1);
        for (share, exact) in [(0.5, 500_000), (0.99, 990_000), (1.0, 1_000_000)] {
            let told = lateness.quantile_ns(share);
            assert!((exact..=exact + exact / 32).contains(&told), "{share}: {told}");
        }
    }

    #[test]
    fn nothing_is_not_late() {
        let lateness = Lateness::default();
        assert_eq!((lateness.quantile_ns(0.99), lateness.max_ns()), (0, 0));
        assert!(lateness.mean_ns().abs() < f64::EPSILON);
    }
}
