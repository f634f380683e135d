//! Sums of the packets of one key, in whole numbers of at most 64 bits.

use super::tables::Squares;

/// Bits of a gap in nanoseconds that its square leaves out: gaps are squared in units of 64 ns, so
/// that those of a window of 4 s fit.
pub(super) const GAP_SHIFT: u32 = 6;

/// Sums of packets, as a switch or a program in the kernel keeps them.
///
/// A variance is the mean square less the square of the mean, which cancel where packets are alike,
/// and the error of an approximate square is then larger than their difference. So squares are
/// those of the distance from the first packet's size and from the first gap: equal packets have a
/// variance of 0, and the error is one of the spread, not of the size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IntegerSums {
    /// Packets; 0: nothing is known of the key.
    pub packets: u32,
    /// Those that were marked.
    pub marked: u32,
    /// Bytes of all.
    pub size_sum: u64,
    /// Bytes of the smallest.
    pub size_min: u32,
    /// Bytes of the largest.
    pub size_max: u32,
    size_first: u32,
    sizes: Spread,
    first_ns: u64,
    last_ns: u64,
    /// Shortest time between two that follow each other.
    pub gap_min: u64,
    /// Longest such time.
    pub gap_max: u64,
    gap_first: u32,
    gaps: Spread,
}

/// Distances from a first number, and their squares, added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Spread {
    sum: i64,
    squares: u64,
}

impl Spread {
    #[inline]
    fn add(&mut self, number: u32, first: u32, squares: &Squares) {
        let distance = squares.of(number.abs_diff(first));
        self.sum = self.sum.saturating_add(i64::from(number) - i64::from(first));
        self.squares = self.squares.saturating_add(distance);
    }

    /// The variance of so many numbers times their count.
    #[inline]
    fn moment(self, count: u32, squares: &Squares) -> u64 {
        self.squares.saturating_sub(squares.over(self.sum.unsigned_abs(), count.into()))
    }
}

impl IntegerSums {
    /// Of a key's first packet.
    #[inline]
    #[must_use]
    pub fn first(size: u32, now_ns: u64, is_marked: bool) -> Self {
        Self {
            packets: 1,
            marked: is_marked.into(),
            size_sum: size.into(),
            size_min: size,
            size_max: size,
            size_first: size,
            first_ns: now_ns,
            last_ns: now_ns,
            ..Self::default()
        }
    }

    /// Takes in another packet.
    #[inline]
    pub fn add(&mut self, size: u32, now_ns: u64, is_marked: bool, squares: &Squares) {
        self.add_gap(now_ns.saturating_sub(self.last_ns), squares);
        self.last_ns = now_ns.max(self.last_ns);
        self.add_size(size, is_marked, squares);
    }

    /// Takes in one more packet of a merged frame, whose time is within the gap before the next
    /// frame. A program in the kernel never sees such a frame: packets are merged later.
    pub fn add_segment(&mut self, size: u32, gap_ns: u32, is_marked: bool, squares: &Squares) {
        self.add_gap(gap_ns.into(), squares);
        self.add_size(size, is_marked, squares);
    }

    #[inline]
    fn add_size(&mut self, size: u32, is_marked: bool, squares: &Squares) {
        self.packets = self.packets.saturating_add(1);
        self.marked = self.marked.saturating_add(is_marked.into());
        self.size_sum = self.size_sum.saturating_add(size.into());
        self.size_min = self.size_min.min(size);
        self.size_max = self.size_max.max(size);
        self.sizes.add(size, self.size_first, squares);
    }

    #[inline]
    fn add_gap(&mut self, gap_ns: u64, squares: &Squares) {
        let gap = u32::try_from(gap_ns >> GAP_SHIFT).unwrap_or(u32::MAX);
        if self.packets == 1 {
            (self.gap_min, self.gap_max, self.gap_first) = (gap_ns, gap_ns, gap);
            return;
        }
        self.gap_min = self.gap_min.min(gap_ns);
        self.gap_max = self.gap_max.max(gap_ns);
        self.gaps.add(gap, self.gap_first, squares);
    }

    /// Gaps between the packets.
    #[inline]
    #[must_use]
    pub const fn gaps(&self) -> u32 {
        self.packets.saturating_sub(1)
    }

    /// Nanoseconds from the first to the last.
    #[inline]
    #[must_use]
    pub const fn gap_sum(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    /// The variance of sizes times the number of packets.
    #[inline]
    #[must_use]
    pub fn size_moment(&self, squares: &Squares) -> u64 {
        self.sizes.moment(self.packets, squares)
    }

    /// The variance of gaps, in units of 64 ns, times the number of gaps.
    #[inline]
    #[must_use]
    pub fn gap_moment(&self, squares: &Squares) -> u64 {
        self.gaps.moment(self.gaps(), squares)
    }
}

#[cfg(test)]
mod tests {
    use engine::sums::PacketSums;
    use proptest::prelude::*;

    use super::super::tables::MANTISSA_BITS;
    use super::*;

    /// Of so many bits, or exact.
    fn squares(mantissa_bits: Option<u32>) -> Squares {
        mantissa_bits.map_or(Squares::Exact, Squares::rounded)
    }

    /// The same packets in both.
    fn both(packets: &[(u32, u64)], squares: &Squares) -> (IntegerSums, PacketSums) {
        let (mut exact, mut sums, mut now) = (PacketSums::NONE, IntegerSums::default(), 0);
        for (at, &(size, gap)) in packets.iter().enumerate() {
            now += if at == 0 { 0 } else { gap };
            exact.add(size, gap, size > 100);
            match at {
                0 => sums = IntegerSums::first(size, now, size > 100),
                _ => sums.add(size, now, size > 100, squares),
            }
        }
        (sums, exact)
    }

    /// Mean square distance from the first number: what errors of a variance are a share of.
    fn spread(numbers: &[f64]) -> f64 {
        let first = numbers.first().copied().unwrap_or_default();
        numbers.iter().map(|number| (number - first).powi(2)).sum()
    }

    proptest! {
        #[test]
        fn sums_are_exact_and_moments_within_their_error_of_the_spread(
            packets in prop::collection::vec((0u32..70_000, 0u64..4_000_000_000), 1..100),
            bits in prop::option::of(MANTISSA_BITS),
        ) {
            let squares = squares(bits);
            let (sums, exact) = both(&packets, &squares);
            prop_assert_eq!(
                (sums.packets, sums.marked, sums.size_sum, sums.size_min, sums.size_max),
                (exact.packets, exact.marked, exact.size_sum, exact.size_min, exact.size_max)
            );
            prop_assert_eq!(sums.gap_sum(), exact.gap_sum);
            if exact.packets > 1 {
                prop_assert_eq!((sums.gap_min, sums.gap_max), (exact.gap_min, exact.gap_max));
            }
            // The squares' error and that of the quotient, which is at most the spread.
            let error = bits.map_or(2f64.powi(-29), |bits| {
                let bits = bits as i32;
                2f64.powi(1 - bits) + 2f64.powi(2 - bits) + 2f64.powi(-2 * bits)
            });
            let sizes: Vec<f64> = packets.iter().map(|packet| f64::from(packet.0)).collect();
            let moment = exact.size_variance() * f64::from(exact.packets);
            let off = (sums.size_moment(&squares) as f64 - moment).abs();
            prop_assert!(off <= error * spread(&sizes) + 2.0, "{off} {moment}");
            let gaps: Vec<f64> =
                packets.iter().skip(1).map(|packet| (packet.1 >> GAP_SHIFT) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
            let moment: f64 = gaps.iter().map(|gap| (gap - mean).powi(2)).sum();
            let off = (sums.gap_moment(&squares) as f64 - moment).abs();
            prop_assert!(off <= error * spread(&gaps) * 1.000_001 + 2.0, "{off} {moment}");
        }
    }

    #[test]
    fn packets_that_are_alike_have_no_variance_with_any_table() {
        let packets = [(1_460, 10_000); 40];
        for bits in std::iter::once(None).chain(MANTISSA_BITS.map(Some)) {
            let squares = squares(bits);
            let (sums, _) = both(&packets, &squares);
            assert_eq!((sums.size_moment(&squares), sums.gap_moment(&squares)), (0, 0));
        }
    }
}
