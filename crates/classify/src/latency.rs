//! How long verdicts took, in memory that does not grow with them.

/// Buckets between two powers of two: a value is known to within a 32nd.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();

/// Upper ends of the buckets of [`Latencies::buckets`], in seconds.
pub const BOUNDS_S: &[f64] = &[
    10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3,
    250e-3, 500e-3, 1.0, 2.5, 5.0, 10.0,
];

/// The same in nanoseconds.
const BOUNDS_NS: [u64; BOUNDS_S.len()] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Nanoseconds by how often they were seen. Percentiles are at most a 32nd above the truth; the
/// largest is exact.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    counts: Vec<u64>,
    buckets: [u64; BOUNDS_S.len() + 1],
    total: u64,
    sum_ns: u64,
    largest_ns: u64,
}

impl Latencies {
    /// Takes in one.
    pub fn add(&mut self, ns: u64) {
        let place = place(ns);
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        let bucket = BOUNDS_NS.partition_point(|&bound| bound < ns);
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count += 1;
        }
        self.total += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.largest_ns = self.largest_ns.max(ns);
    }

    /// How many there were up to each of [`BOUNDS_S`] and above the bound before; last, those above
    /// all bounds. They are exact.
    #[must_use]
    pub const fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// Their sum.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// How many there were.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// The largest.
    #[must_use]
    pub const fn largest_ns(&self) -> u64 {
        self.largest_ns
    }

    /// What `per_mille` of a thousand do not exceed; nothing where there were none.
    #[must_use]
    pub fn quantile_ns(&self, per_mille: u64) -> Option<u64> {
        let wanted = (self.total.saturating_mul(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        place.map(|place| end(place).min(self.largest_ns))
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.total += other.total;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.largest_ns = self.largest_ns.max(other.largest_ns);
    }
}

/// Values below 32 have a bucket each; from there on 32 buckets a power of two.
fn place(ns: u64) -> usize {
    let power = ns.max(1).ilog2();
    let place = if power < STEP_BITS {
        ns
    } else {
        let shift = power - STEP_BITS;
        (u64::from(shift) + 1) * STEPS + ((ns >> shift) - STEPS)
    };
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The largest value of a bucket.
fn end(place: usize) -> u64 {
    let place = place as u64;
    if place < STEPS {
        return place;
    }
    let (shift, step) = (place / STEPS - 1, place % STEPS + STEPS);
    // The topmost bucket ends where numbers do.
    u64::try_from(((u128::from(step) + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_lies_within_a_32nd() {
        for ns in (0..200).chain([1 << 20, (1 << 20) + 12_345, u64::MAX - 1, u64::MAX]) {
            let end = end(place(ns));
            assert!(end >= ns && end - ns <= ns / 32, "{ns} {end}");
        }
    }

    #[test]
    fn buckets_end_where_their_bounds_say() {
        for (&seconds, ns) in BOUNDS_S.iter().zip(BOUNDS_NS) {
            assert_eq!((seconds * 1e9).round() as u64, ns);
        }
        let mut all = Latencies::default();
        for ns in [0, 10_000, 10_001, 25_000, 10_000_000_000, 10_000_000_001, u64::MAX] {
            all.add(ns);
        }
        assert_eq!((all.buckets()[0], all.buckets()[1], all.buckets()[2]), (2, 2, 0));
        assert_eq!(all.buckets()[BOUNDS_S.len() - 1..], [1, 2]);
        assert_eq!((all.buckets().iter().sum::<u64>(), all.sum_ns()), (7, u64::MAX));
        let mut other = Latencies::default();
        other.add(7);
        other.fold(&all);
        assert_eq!((other.buckets()[0], other.total()), (3, 8));
    }

    #[test]
    fn percentiles_are_those_of_a_sorted_list() {
        let mut all = Latencies::default();
        assert_eq!((all.quantile_ns(500), all.total()), (None, 0));
        let mut other = Latencies::default();
        (1..=500).for_each(|ns| all.add(ns * 1000));
        (501..=1000).for_each(|ns| other.add(ns * 1000));
        all.fold(&other);
        for (per_mille, ns) in [(500, 500_000), (990, 990_000), (999, 999_000)] {
            let seen = all.quantile_ns(per_mille).unwrap();
            assert!((ns..=ns + ns / 32).contains(&seen), "{per_mille}: {seen}");
        }
        assert_eq!((all.quantile_ns(1000), all.largest_ns()), (Some(1_000_000), 1_000_000));
    }
}
