//! Sizes, gaps and flags of a flow's packets, on request.
//!
//! Sums are whole numbers, so that they do not depend on the order of packets
//! and are exact; means and deviations are taken once, at the end.

use packet::{FlowDirection, Timestamp};

use super::extract::FlowPacket;
use super::slab::PerFlow;

/// Smallest, largest, sum and sum of squares of some whole numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spread {
    /// How many numbers.
    pub count: u64,
    /// The smallest; [`u64::MAX`] of none.
    pub min: u64,
    /// The largest; 0 of none.
    pub max: u64,
    sum: u128,
    sum_of_squares: u128,
}

/// Packets of one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SideStatistics {
    /// Bytes on the wire.
    pub sizes: Spread,
    /// Nanoseconds between a packet and the one before it in this direction.
    pub gaps: Spread,
    /// Stamp of the first and the last packet.
    pub span: Option<(Timestamp, Timestamp)>,
    /// Packets that carried each TCP flag.
    pub flag_packets: [u32; 8],
}

/// Statistics of a flow, its directions as its key has them: low to high, high to low.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowStatistics {
    sides: [SideStatistics; 2],
    /// Nanoseconds between a packet and the one before it in either direction.
    gaps: Spread,
    latest: Option<Timestamp>,
}

impl Default for Spread {
    fn default() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0, sum_of_squares: 0 }
    }
}

impl Spread {
    /// Takes in a number.
    #[inline]
    pub fn add(&mut self, number: u64) {
        self.count += 1;
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        self.sum += u128::from(number);
        self.sum_of_squares =
            self.sum_of_squares.saturating_add(u128::from(number) * u128::from(number));
    }

    /// Takes in another spread's numbers.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            count: self.count + other.count,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum + other.sum,
            sum_of_squares: self.sum_of_squares.saturating_add(other.sum_of_squares),
        }
    }

    /// The smallest number.
    #[must_use]
    pub fn smallest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The largest number.
    #[must_use]
    pub fn largest(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The mean.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The standard deviation of a sample: over n − 1, and of two numbers at least.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn deviation(&self) -> Option<f64> {
        if self.count < 2 {
            return None;
        }
        let (count, others) = (u128::from(self.count), self.count as f64 - 1.0);
        // n Σx² − (Σx)² is exact in whole numbers; in floats its digits would cancel.
        let scaled = count
            .checked_mul(self.sum_of_squares)
            .and_then(|squares| Some(squares.saturating_sub(self.sum.checked_mul(self.sum)?)));
        let variance = match scaled {
            Some(scaled) => scaled as f64 / self.count as f64 / others,
            None => {
                let mean = self.sum as f64 / self.count as f64;
                let squares = self.sum_of_squares as f64 / self.count as f64;
                (squares - mean * mean).max(0.0) * self.count as f64 / others
            }
        };
        Some(variance.sqrt())
    }
}

/// Time since an earlier packet; 0 for a packet out of order.
fn gap(time: Timestamp, latest: Timestamp) -> u64 {
    u64::try_from(time.since(latest).as_ns()).unwrap_or(0)
}

impl PerFlow for FlowStatistics {
    #[inline]
    fn on_packet(&mut self, packet: &FlowPacket) {
        let time = packet.timestamp;
        if self.latest == Some(Timestamp::UNKNOWN) {
            self.stamp(time);
        }
        if let Some(latest) = self.latest {
            self.gaps.add(gap(time, latest));
        }
        self.latest = Some(self.latest.map_or(time, |latest| latest.max(time)));
        let side = &mut self.sides[packet.direction as usize];
        side.sizes.add(u64::from(packet.wire_len));
        if let Some((first, last)) = &mut side.span {
            side.gaps.add(gap(time, *last));
            (*first, *last) = ((*first).min(time), (*last).max(time));
        } else {
            side.span = Some((time, time));
        }
        for (bit, count) in side.flag_packets.iter_mut().enumerate() {
            *count += u32::from(packet.tcp_flags >> bit & 1);
        }
    }
}

impl FlowStatistics {
    /// Packets without a stamp take the first that comes.
    #[cold]
    fn stamp(&mut self, time: Timestamp) {
        self.latest = Some(time);
        for span in self.sides.iter_mut().filter_map(|side| side.span.as_mut()) {
            *span = (time, time);
        }
    }

    /// What the source and the destination sent, where the first packet went this way.
    #[must_use]
    pub fn sides(&self, direction: FlowDirection) -> [&SideStatistics; 2] {
        let [low, high] = &self.sides;
        match direction {
            FlowDirection::LowToHigh => [low, high],
            FlowDirection::HighToLow => [high, low],
        }
    }

    /// Gaps between packets whichever way they went.
    #[must_use]
    pub const fn gaps(&self) -> &Spread {
        &self.gaps
    }

    /// Sizes of packets whichever way they went.
    #[must_use]
    pub fn sizes(&self) -> Spread {
        self.sides[0].sizes.with(&self.sides[1].sizes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn mean_and_deviation_are_those_of_two_passes(
            numbers in proptest::collection::vec(0u64..2_000_000_000_000, 2..200),
        ) {
            let mut spread = Spread::default();
            numbers.iter().for_each(|&number| spread.add(number));
            let count = numbers.len() as f64;
            let mean = numbers.iter().map(|&n| n as f64).sum::<f64>() / count;
            let squares: f64 = numbers.iter().map(|&n| (n as f64 - mean).powi(2)).sum();
            let deviation = (squares / (count - 1.0)).sqrt();
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs().max(1.0);
            prop_assert!(near(spread.mean().unwrap(), mean));
            prop_assert!(near(spread.deviation().unwrap(), deviation));
            prop_assert_eq!(spread.smallest(), numbers.iter().min().copied());
            prop_assert_eq!(spread.largest(), numbers.iter().max().copied());
        }
    }

    #[test]
    fn nothing_has_no_mean_and_one_no_deviation() {
        let mut spread = Spread::default();
        assert_eq!((spread.mean(), spread.smallest()), (None, None));
        spread.add(5);
        assert_eq!((spread.mean(), spread.deviation()), (Some(5.0), None));
    }
}
