//! Sizes of some packets and gaps between them, added up.
//!
//! Everything kept is a whole number, so that sums are exact and do not depend on how packets are
//! cut into batches. Means and variances are taken when someone asks.

/// What packets of one key came to: 80 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketSums {
    /// How many packets; 0: nothing is known of the key.
    pub packets: u32,
    /// Those among them that were marked; what a mark means is their owner's.
    pub marked: u32,
    /// Bytes of the smallest; [`u32::MAX`] of none.
    pub size_min: u32,
    /// Bytes of the largest.
    pub size_max: u32,
    /// Bytes of all.
    pub size_sum: u64,
    /// The squares of their sizes, added up; it stops at [`u64::MAX`], which takes four thousand
    /// million packets of 64 KiB.
    pub size_squares: u64,
    /// Nanoseconds from the first to the last.
    pub gap_sum: u64,
    /// Shortest time between two that follow each other; [`u64::MAX`] of fewer than two.
    pub gap_min: u64,
    /// Longest such time.
    pub gap_max: u64,
    /// The squares of these times, added up.
    pub gap_squares: u128,
}

/// Packets of one key that came right after another of it, all but the last of one size: the rest
/// of a frame that offloads put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketRun {
    /// How many; at least 1.
    pub count: u32,
    /// Bytes of each but the last.
    pub size: u32,
    /// Bytes of the last.
    pub last_size: u32,
    /// Time before each.
    pub gap_ns: u32,
    /// Whether they are marked.
    pub is_marked: bool,
}

impl PacketRun {
    /// Bytes of all.
    #[must_use]
    pub fn size_sum(&self) -> u64 {
        let full = u64::from(self.count.saturating_sub(1));
        full * u64::from(self.size) + u64::from(self.last_size)
    }

    /// The squares of their sizes, added up; it stops at [`u64::MAX`].
    #[must_use]
    pub fn size_squares(&self) -> u64 {
        let square = |size: u32| u64::from(size) * u64::from(size);
        let full = u64::from(self.count.saturating_sub(1));
        full.saturating_mul(square(self.size)).saturating_add(square(self.last_size))
    }

    /// The squares of the times before them, added up.
    #[must_use]
    pub fn gap_squares(&self) -> u64 {
        let square = u64::from(self.gap_ns) * u64::from(self.gap_ns);
        square.saturating_mul(self.count.into())
    }
}

impl Default for PacketSums {
    fn default() -> Self {
        Self::NONE
    }
}

impl PacketSums {
    /// Of no packets.
    pub const NONE: Self = Self {
        packets: 0,
        marked: 0,
        size_min: u32::MAX,
        size_max: 0,
        size_sum: 0,
        size_squares: 0,
        gap_sum: 0,
        gap_min: u64::MAX,
        gap_max: 0,
        gap_squares: 0,
    };

    /// Takes in a packet that came so long after the one before it; of the first packet the gap is
    /// ignored.
    #[inline]
    pub fn add(&mut self, size: u32, gap_ns: u64, is_marked: bool) {
        if self.packets > 0 {
            self.gap_sum = self.gap_sum.saturating_add(gap_ns);
            self.gap_min = self.gap_min.min(gap_ns);
            self.gap_max = self.gap_max.max(gap_ns);
            let square = u128::from(gap_ns) * u128::from(gap_ns);
            self.gap_squares = self.gap_squares.saturating_add(square);
        }
        self.packets = self.packets.saturating_add(1);
        self.marked = self.marked.saturating_add(u32::from(is_marked));
        self.size_min = self.size_min.min(size);
        self.size_max = self.size_max.max(size);
        self.size_sum = self.size_sum.saturating_add(u64::from(size));
        self.size_squares = self.size_squares.saturating_add(u64::from(size) * u64::from(size));
    }

    /// Takes in the rest of a merged frame, whose first packet was added before. The time that it
    /// took is within the gap before the next frame, and is not counted twice.
    pub fn add_run(&mut self, run: &PacketRun) {
        let marked = if run.is_marked { run.count } else { 0 };
        self.packets = self.packets.saturating_add(run.count);
        self.marked = self.marked.saturating_add(marked);
        self.size_min = self.size_min.min(run.size).min(run.last_size);
        self.size_max = self.size_max.max(run.size).max(run.last_size);
        self.size_sum = self.size_sum.saturating_add(run.size_sum());
        self.size_squares = self.size_squares.saturating_add(run.size_squares());
        self.gap_min = self.gap_min.min(run.gap_ns.into());
        self.gap_max = self.gap_max.max(run.gap_ns.into());
        self.gap_squares = self.gap_squares.saturating_add(run.gap_squares().into());
    }

    /// Whether anything is known of the key.
    #[inline]
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.packets > 0
    }

    /// Gaps between the packets: one less than there are packets.
    #[inline]
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.packets.saturating_sub(1)
    }

    /// Mean size in bytes; of one packet at least.
    #[inline]
    #[must_use]
    pub fn size_mean(&self) -> f64 {
        mean(self.packets, self.size_sum)
    }

    /// Variance of the sizes over all of the packets, in square bytes: that of one is 0.
    #[inline]
    #[must_use]
    pub fn size_variance(&self) -> f64 {
        variance(self.packets, self.size_sum, u128::from(self.size_squares))
    }

    /// Mean gap in nanoseconds; of two packets at least.
    #[inline]
    #[must_use]
    pub fn gap_mean(&self) -> f64 {
        mean(self.gaps(), self.gap_sum)
    }

    /// Variance of the gaps over all of them, in square nanoseconds: that of one is 0.
    #[inline]
    #[must_use]
    pub fn gap_variance(&self) -> f64 {
        variance(self.gaps(), self.gap_sum, self.gap_squares)
    }
}

#[inline(always)]
fn mean(count: u32, sum: u64) -> f64 {
    whole(sum) / f64::from(count.max(1))
}

/// As a float, up to 2⁶³, where it stops. Processors convert signed numbers in one instruction,
/// others in six steps.
#[inline(always)]
#[allow(clippy::cast_precision_loss)]
fn whole(number: u64) -> f64 {
    i64::try_from(number).unwrap_or(i64::MAX) as f64
}

/// n Σx² − (Σx)² is exact in whole numbers; in floats its digits would cancel.
#[inline(always)]
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn variance(count: u32, sum: u64, squares: u128) -> f64 {
    let Ok(squares) = u64::try_from(squares) else { return wide_variance(count, sum, squares) };
    let scaled = u128::from(count) * u128::from(squares);
    let scaled = scaled.saturating_sub(u128::from(sum) * u128::from(sum));
    let count = f64::from(count.max(1));
    // Half by half, which is a few instructions; a number of 128 bits would be a call.
    let high = whole((scaled >> 64) as u64) * 18_446_744_073_709_551_616.0;
    (high + scaled as u64 as f64) / (count * count)
}

#[cold]
#[allow(clippy::cast_precision_loss)]
fn wide_variance(count: u32, sum: u64, squares: u128) -> f64 {
    let scaled = u128::from(count).checked_mul(squares);
    let square_of_sum = u128::from(sum) * u128::from(sum);
    let count = f64::from(count.max(1));
    match scaled {
        Some(scaled) => scaled.saturating_sub(square_of_sum) as f64 / (count * count),
        None => (squares as f64 / count - (sum as f64 / count).powi(2)).max(0.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn means_and_variances_are_those_of_two_passes(
            packets in proptest::collection::vec((0u32..70_000, 0u64..2_000_000_000_000), 1..100),
        ) {
            let mut sums = PacketSums::NONE;
            packets.iter().for_each(|&(size, gap)| sums.add(size, gap, size > 100));
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
            let moments = |numbers: &[f64]| {
                let count = numbers.len().max(1) as f64;
                let mean = numbers.iter().sum::<f64>() / count;
                (mean, numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
            };
            let sizes: Vec<f64> = packets.iter().map(|p| f64::from(p.0)).collect();
            let gaps: Vec<f64> = packets.iter().skip(1).map(|p| p.1 as f64).collect();
            prop_assert!(near(sums.size_mean(), moments(&sizes).0));
            prop_assert!(near(sums.size_variance(), moments(&sizes).1));
            prop_assert!(near(sums.gap_mean(), moments(&gaps).0));
            prop_assert!(near(sums.gap_variance(), moments(&gaps).1));
            prop_assert_eq!(sums.gap_sum, packets.iter().skip(1).map(|p| p.1).sum::<u64>());
            prop_assert_eq!(sums.marked as usize, packets.iter().filter(|p| p.0 > 100).count());
        }
    }

    proptest! {
        #[test]
        fn a_run_is_its_packets_added_one_by_one(
            count in 1u32..60, size in 1u32..70_000, last_size in 1u32..70_000, is_marked: bool,
        ) {
            let gap_ns = 12_112;
            let (mut run, mut each) = (PacketSums::NONE, PacketSums::NONE);
            run.add(size, 0, is_marked);
            run.add_run(&PacketRun { count, size, last_size, gap_ns, is_marked });
            for at in 0..=count {
                let size = if at == count { last_size } else { size };
                each.add(size, gap_ns.into(), is_marked);
            }
            // The time that a run took is within the gap before the next frame.
            prop_assert_eq!(run, PacketSums { gap_sum: 0, ..each });
        }
    }

    #[test]
    fn the_largest_numbers_stop_and_do_not_wrap() {
        let mut sums = PacketSums::NONE;
        for _ in 0..5 {
            sums.add(u32::MAX, u64::MAX, true);
        }
        assert_eq!((sums.size_squares, sums.gap_sum), (u64::MAX, u64::MAX));
        assert!(sums.gap_variance().is_finite() && sums.size_variance().is_finite());
    }
}
