//! Quantiles of durations in little memory.
//!
//! Buckets as those of an HDR histogram: 64 for each doubling, linear within it, from 1 µs to
//! 18 minutes, and below that 16 ns wide. A quantile is the middle of its bucket, so it is off by
//! at most 1/128 (0.8 %) of itself, or by 8 ns below 1 µs. Only the range of buckets that holds
//! samples is kept: a path whose RTT doubles under load takes 64 counts, 256 bytes. At most 1,984
//! buckets (7.9 kB) are kept for one histogram, and a [`Budget`] of buckets for all.

use crate::budget::Budget;

/// Bits of a value that are kept below its highest.
const PRECISION_BITS: u32 = 6;
/// Bits of nanoseconds that are dropped: 16 ns.
const UNIT_BITS: u32 = 4;
/// Values from here on share the last bucket: 2⁴⁰ ns, 18 minutes.
const VALUE_MAX_NS: u64 = (1 << 40) - 1;
/// Buckets that there can be.
pub const BUCKET_COUNT_MAX: usize = bucket_of(VALUE_MAX_NS) as usize + 1;

/// How many samples fell into which range.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The bucket that the first count is of.
    first: u16,
    counts: Vec<u32>,
    total: u64,
}

/// The bucket of a duration.
#[inline]
#[allow(clippy::cast_possible_truncation)]
const fn bucket_of(ns: u64) -> u16 {
    let units = if ns > VALUE_MAX_NS { VALUE_MAX_NS } else { ns } >> UNIT_BITS;
    let octave = (u64::BITS - (units >> PRECISION_BITS).leading_zeros()).saturating_sub(1);
    let is_linear = units >> PRECISION_BITS == 0;
    let offset = if is_linear { 0 } else { (octave as u64 + 1) << PRECISION_BITS };
    let within = if is_linear { units } else { (units >> octave) - (1 << PRECISION_BITS) };
    (offset + within) as u16
}

/// The middle of a bucket.
const fn middle_of(bucket: u16) -> u64 {
    let (octave, within) = (bucket >> PRECISION_BITS, (bucket & 63) as u64);
    let half_unit = 1 << (UNIT_BITS - 1);
    if octave == 0 {
        return (within << UNIT_BITS) + half_unit;
    }
    let width = 1_u64 << (UNIT_BITS + octave as u32 - 1);
    (64 + within) * width + width / 2
}

impl Histogram {
    /// Adds a sample; `false` where the budget has no room for its bucket.
    #[inline]
    pub fn add(&mut self, ns: u64, budget: &mut Budget) -> bool {
        self.add_many(bucket_of(ns), 1, budget)
    }

    fn add_many(&mut self, bucket: u16, count: u32, budget: &mut Budget) -> bool {
        if !self.widen(bucket, budget) {
            return false;
        }
        let place = usize::from(bucket - self.first);
        let Some(held) = self.counts.get_mut(place) else { return false };
        let before = *held;
        *held = held.saturating_add(count);
        // A count at its maximum stays there: ranks are those of what is counted.
        self.total += u64::from(*held - before);
        true
    }

    /// Makes room for a bucket. Where it grows to, it grows by an eighth more, so that samples that
    /// drift cost few moves.
    #[inline]
    fn widen(&mut self, bucket: u16, budget: &mut Budget) -> bool {
        let end = usize::from(self.first) + self.counts.len();
        if usize::from(bucket) >= usize::from(self.first) && usize::from(bucket) < end {
            return true;
        }
        self.widen_slowly(bucket, budget)
    }

    #[cold]
    fn widen_slowly(&mut self, bucket: u16, budget: &mut Budget) -> bool {
        let bucket = usize::from(bucket);
        let (mut start, mut end) = match self.counts.len() {
            0 => (bucket, bucket + 1),
            len => (usize::from(self.first), usize::from(self.first) + len),
        };
        let spare = (end - start) / 8 + 2;
        if bucket < start {
            start = bucket.saturating_sub(spare);
        } else {
            end = (bucket + 1 + spare).min(BUCKET_COUNT_MAX);
        }
        let more = (end - start) - self.counts.len();
        if !budget.take(more) {
            return false;
        }
        let mut counts = Vec::with_capacity(end - start);
        let before = if self.counts.is_empty() { 0 } else { usize::from(self.first) - start };
        counts.resize(before, 0);
        counts.extend_from_slice(&self.counts);
        counts.resize(end - start, 0);
        self.first = u16::try_from(start).unwrap_or_default();
        self.counts = counts;
        true
    }

    /// Adds the samples of another; those for which the budget has no room are left out, and
    /// counted in what is returned.
    pub fn fold(&mut self, other: &Self, budget: &mut Budget) -> u64 {
        let mut left_out = 0;
        for (bucket, &count) in (other.first..).zip(&other.counts) {
            if count > 0 && !self.add_many(bucket, count, budget) {
                left_out += u64::from(count);
            }
        }
        left_out
    }

    /// Samples that it holds.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// Buckets that it keeps.
    #[must_use]
    pub const fn bucket_count(&self) -> usize {
        self.counts.len()
    }

    /// The duration that a share of samples does not exceed; none without samples.
    #[must_use]
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn quantile(&self, share: f64) -> Option<u64> {
        // The nearest rank: the least sample with as many at or below it.
        let rank = ((self.total as f64 * share).ceil() as u64).clamp(1, self.total.max(1));
        let mut below = 0;
        for (bucket, &count) in (self.first..).zip(&self.counts) {
            below += u64::from(count);
            if count > 0 && below >= rank {
                return Some(middle_of(bucket));
            }
        }
        None
    }

    /// Gives its buckets back.
    pub fn release(&mut self, budget: &mut Budget) {
        budget.give(self.counts.len());
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_bucket_is_that_of_its_middle() {
        for bucket in 0..u16::try_from(BUCKET_COUNT_MAX).unwrap() {
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
        assert_eq!(BUCKET_COUNT_MAX, 1984);
        assert_eq!(usize::from(bucket_of(u64::MAX)), BUCKET_COUNT_MAX - 1);
    }

    #[test]
    fn without_room_nothing_changes_and_what_is_given_back_can_be_taken_again() {
        let mut budget = Budget::new(4);
        let mut few = Histogram::default();
        assert!(few.add(1_000_000, &mut budget));
        assert!(!few.add(1_000_000_000, &mut budget));
        assert_eq!(few.count(), 1);
        few.release(&mut budget);
        assert_eq!((budget.used(), few.count(), few.quantile(0.5)), (0, 0, None));
    }

    #[test]
    fn a_bucket_that_is_full_leaves_quantiles_as_they_are() {
        let (mut full, mut budget) = (Histogram::default(), Budget::new(100));
        for (bucket, count) in [(5, u32::MAX), (5, u32::MAX), (6, 1)] {
            assert!(full.add_many(bucket, count, &mut budget));
        }
        assert_eq!(full.quantile(0.5), Some(middle_of(5)));
        assert_eq!(full.quantile(1.0), Some(middle_of(6)));
    }

    proptest! {
        #[test]
        fn a_quantile_is_off_by_less_than_one_percent(
            mut samples in prop::collection::vec(
                prop_oneof![1_u64..5_000, 1_000_u64..1_000_000_000_000], 1..200,
            ),
            share in 0.0_f64..1.0,
        ) {
            let mut budget = Budget::new(usize::MAX);
            let (mut one, mut other) = (Histogram::default(), Histogram::default());
            for (index, &sample) in samples.iter().enumerate() {
                let to = if index % 2 == 0 { &mut one } else { &mut other };
                to.add(sample, &mut budget);
            }
            // Two that are folded are as one.
            prop_assert_eq!(one.fold(&other, &mut budget), 0);
            samples.sort_unstable();
            let rank = ((samples.len() as f64 * share).ceil() as usize).clamp(1, samples.len());
            let exact = samples[rank - 1];
            let found = one.quantile(share).unwrap();
            let off = found.abs_diff(exact);
            prop_assert!(off <= exact / 128 + 8, "{found} for {exact}");
            let held = one.counts.len() + other.counts.len();
            prop_assert_eq!(budget.used(), held);
        }
    }
}
