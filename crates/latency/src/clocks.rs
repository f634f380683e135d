//! Two clocks, compared by packets that both taps have seen.
//!
//! The least time between two taps is taken for travel without waiting. Where packets of a flow go
//! both ways, the offset is in the middle of both least times, if travel takes as long one way as
//! the other (as NTP has it). Where they go one way, the offset is that by which the least delay
//! becomes 0: then delays are those above the least. Offsets over time make a line, whose slope is
//! the drift.

use std::collections::{HashMap, VecDeque};

use packet::{FlowKey, Span, Timestamp};

use crate::one_way::{Tap, TapPacket};

/// Periods of which the least delays are kept.
const PERIOD_COUNT_MAX: usize = 512;
/// Length of a period at the beginning; doubled where periods are too many.
const PERIOD_NS: i64 = 1_000_000_000;

/// The least delays in one period, by the tap that comes first.
#[derive(Clone, Copy, Debug)]
struct Least {
    begin_ns: i64,
    ns: [Option<i64>; 2],
}

impl Least {
    fn fold(&mut self, ns: [Option<i64>; 2]) {
        for (held, other) in self.ns.iter_mut().zip(ns) {
            *held = match (*held, other) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
}

/// An offset, and what it is based on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offset {
    /// To be added to the egress tap's stamps.
    pub add: Span,
    /// Whether packets went both ways.
    pub is_symmetric: bool,
}

/// The offset of the egress clock, from packets that both taps have seen, in any order: which tap
/// comes first is not known before the offset is.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// The least and the largest time from ingress to egress of each direction of each flow.
    ways: HashMap<FlowKey, [Option<(i64, i64)>; 2]>,
}

impl Estimate {
    /// Takes in a packet that both have seen.
    pub fn add(&mut self, seen: &TapPacket, ingress: Timestamp, egress: Timestamp) {
        let ns = egress.since(ingress).as_ns();
        let (key, direction) = seen.way();
        let held = &mut self.ways.entry(key).or_default()[direction as usize];
        let (least, most) = held.unwrap_or((ns, ns));
        *held = Some((least.min(ns), most.max(ns)));
    }

    /// The offset; none where no packet was seen by both. Of a flow whose packets go both ways, the
    /// direction that seems to take longer passes the ingress tap first: the other one travels
    /// against the clock.
    #[must_use]
    pub fn offset(&self) -> Option<Offset> {
        let both = self.ways.values().filter_map(|&[one, other]| Some((one?, other?)));
        let ends = both.map(|(one, other)| (one.0.max(other.0), one.1.min(other.1)));
        let ends = ends.reduce(|held, new| (held.0.min(new.0), held.1.max(new.1)));
        if let Some((forth, back)) = ends {
            let middle = back.saturating_add(forth.saturating_sub(back) / 2);
            return Some(Offset {
                add: Span::from_ns(middle.saturating_neg()),
                is_symmetric: true,
            });
        }
        let least = self.ways.values().flatten().flatten().map(|&(least, _)| least).min()?;
        Some(Offset { add: Span::from_ns(least.saturating_neg()), is_symmetric: false })
    }
}

/// The least delays over time.
#[derive(Clone, Debug)]
pub struct Clocks {
    period_ns: i64,
    periods: VecDeque<Least>,
    all: Least,
}

impl Default for Clocks {
    fn default() -> Self {
        let all = Least { begin_ns: 0, ns: [None; 2] };
        Self { period_ns: PERIOD_NS, periods: VecDeque::new(), all }
    }
}

impl Clocks {
    /// Takes in a packet that both have seen, of a flow that passes this one first.
    pub fn add(&mut self, first: Tap, ingress: Timestamp, egress: Timestamp) {
        // Always the time from ingress to egress, which is negative the other way.
        let delay = egress.since(ingress).as_ns();
        let mut ns = [None; 2];
        ns[first as usize] =
            Some(if first == Tap::Ingress { delay } else { delay.saturating_neg() });
        self.all.fold(ns);
        let begin_ns = self.begin(ingress.as_ns());
        match self.periods.back_mut() {
            Some(last) if begin_ns <= last.begin_ns => last.fold(ns),
            _ => self.periods.push_back(Least { begin_ns, ns }),
        }
        if self.periods.len() > PERIOD_COUNT_MAX {
            self.halve();
        }
    }

    /// Where the period begins that holds a moment.
    const fn begin(&self, ns: i64) -> i64 {
        ns.div_euclid(self.period_ns).saturating_mul(self.period_ns)
    }

    fn halve(&mut self) {
        self.period_ns = self.period_ns.saturating_mul(2);
        let length = self.period_ns;
        let begin = |ns: i64| ns.div_euclid(length).saturating_mul(length);
        let mut halved: VecDeque<Least> = VecDeque::with_capacity(PERIOD_COUNT_MAX);
        for period in self.periods.drain(..) {
            let begin_ns = begin(period.begin_ns);
            match halved.back_mut() {
                Some(last) if last.begin_ns == begin_ns => last.fold(period.ns),
                _ => halved.push_back(Least { begin_ns, ns: period.ns }),
            }
        }
        self.periods = halved;
    }

    /// By how much the egress clock runs faster, in parts per million, over at least ten periods:
    /// the slope of the line that fits the offsets best.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn drift_ppm(&self) -> Option<f64> {
        let both = self.all.ns.iter().all(Option::is_some);
        let at = |period: &Least| {
            let offset = match period.ns {
                [Some(forth), Some(back)] => forth.saturating_sub(back) as f64 / 2.0,
                [Some(forth), None] if !both => forth as f64,
                [None, Some(back)] if !both => -(back as f64),
                _ => return None,
            };
            let first = self.periods.front().map_or(0, |first| first.begin_ns);
            Some((period.begin_ns.saturating_sub(first) as f64, offset))
        };
        let points: Vec<(f64, f64)> = self.periods.iter().filter_map(at).collect();
        if points.len() < 10 {
            return None;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
        let (mut product, mut square) = (0.0, 0.0);
        for (x, y) in points {
            product += (x - mean_x) * (y - mean_y);
            square += (x - mean_x) * (x - mean_x);
        }
        (square > 0.0).then(|| product / square * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use packet::FlowDirection;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn clocks(ways: &[Tap], travel_ns: [i64; 2], offset_ns: i64, ppm: i64) -> Clocks {
        let mut clocks = Clocks::default();
        for second in 0..100 {
            for &first in ways {
                let now = second * SECOND;
                let egress = |ns: i64| ns + offset_ns + ns / 1_000_000 * ppm;
                let stamp = Timestamp::from_ns;
                match first {
                    Tap::Ingress => {
                        clocks.add(first, stamp(now), stamp(egress(now + travel_ns[0])));
                    }
                    Tap::Egress => {
                        clocks.add(first, stamp(now + travel_ns[1]), stamp(egress(now)));
                    }
                }
            }
        }
        clocks
    }

    #[test]
    fn packets_both_ways_give_the_offset_and_packets_one_way_the_least_delay() {
        let (ms, offset) = (1_000_000, 300_000_000);
        // From ingress to egress by the clocks as they are: 5 and 9 ms forth, 5 and 20 ms back.
        let forth = [offset + 5 * ms, offset + 9 * ms];
        let back = [offset - 5 * ms, offset - 20 * ms];
        let estimate = |ways: &[(FlowDirection, [i64; 2])]| {
            let mut estimate = Estimate::default();
            for &(direction, delays) in ways {
                for delay in delays {
                    let (ingress, egress) = (Timestamp::from_ns(7), Timestamp::from_ns(7 + delay));
                    estimate.add(&TapPacket::for_test(direction), ingress, egress);
                }
            }
            estimate.offset().map(|found| (found.add.as_ns(), found.is_symmetric))
        };
        let (low, high) = (FlowDirection::LowToHigh, FlowDirection::HighToLow);
        assert_eq!(estimate(&[(low, forth), (high, back)]), Some((-offset, true)));
        assert_eq!(estimate(&[(high, forth), (low, back)]), Some((-offset, true)));
        assert_eq!(estimate(&[(high, forth)]), Some((-offset - 5 * ms, false)));
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn the_drift_is_the_slope() {
        for ppm in [-40, 0, 25] {
            let found = clocks(&[Tap::Ingress, Tap::Egress], [5_000_000; 2], 0, ppm);
            let drift = found.drift_ppm().unwrap();
            assert!((drift - ppm as f64).abs() < 0.01, "{drift} for {ppm}");
        }
    }

    #[test]
    fn periods_are_bounded() {
        let mut clocks = Clocks::default();
        for second in 0..100_000 {
            let time = Timestamp::from_ns(second * SECOND);
            clocks.add(Tap::Ingress, time, time);
        }
        assert!(clocks.periods.len() <= PERIOD_COUNT_MAX);
        assert_eq!(clocks.drift_ppm(), Some(0.0));
    }
}
