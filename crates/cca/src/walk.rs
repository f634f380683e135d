//! Which periods are examined: those in which packets came or something waits, and no other.
//!
//! Stamps are what a capture says, and a gap between two of them may be a year of empty periods.
//! Where no packet comes, nothing changes: a period without a packet shows what the one before it
//! showed. So what waits is repeated for as long as a packet may wait, and then, or where nothing
//! waits, all that is empty is passed in one step.

use std::ops::Range;

use packet::{SlotClock, Span};

use crate::pair::Period;

/// Longer than a packet waits in any queue.
pub const WAIT_MAX: Span = Span::from_seconds(10);

/// A walk from period to period.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    len: i64,
    period_len: usize,
    /// Slots for which what waits is repeated.
    told_on: i64,
    /// Slots behind a period's end at which a look at it looks, too.
    ahead: i64,
}

impl Walk {
    /// Periods of so many slots, at each of which so many slots behind it are examined, too.
    #[must_use]
    pub fn new(clock: SlotClock, period_len: usize, ahead: i64) -> Self {
        let len = i64::try_from(period_len).unwrap_or(i64::MAX).max(1);
        Self { len, period_len, told_on: clock.count(WAIT_MAX).max(len), ahead }
    }

    /// The period that begins at a slot.
    #[must_use]
    pub const fn period(&self, start: i64) -> Period {
        Period { start, len: self.period_len }
    }

    /// Where the period begins in which a slot lies.
    #[must_use]
    pub const fn begin_of(&self, slot: i64) -> i64 {
        slot.div_euclid(self.len).saturating_mul(self.len)
    }

    /// Whether the period that begins here is worth a look: a packet came in it, or so lately that
    /// it may wait. `has_slot` says whether one came in some slots.
    #[must_use]
    pub fn is_worth(&self, begin: i64, has_slot: impl FnOnce(Range<i64>) -> bool) -> bool {
        let end = begin.saturating_add(self.len);
        has_slot(end.saturating_sub(self.told_on)..end)
    }

    /// Where the period begins that comes after one that ended here. `is_told` says whether that
    /// one reported of any flow; before `horizon` no packet comes but those that are known, of
    /// which `next_slot` finds the first slot from another on.
    #[must_use]
    pub fn next(
        &self,
        end: i64,
        is_told: bool,
        next_slot: impl Fn(i64) -> Option<i64>,
        horizon: i64,
    ) -> i64 {
        if is_told {
            return end;
        }
        let next = next_slot(end).map_or(horizon, |slot| slot.min(horizon));
        if next < end.saturating_add(self.len) {
            return end;
        }
        let begin = self.begin_of(next.saturating_sub(self.ahead)).max(end);
        let holds_next = begin.saturating_add(self.len) > next;
        let has_slot =
            |slots: Range<i64>| next_slot(slots.start).is_some_and(|slot| slot < slots.end);
        if holds_next || self.is_worth(begin, has_slot) { begin } else { self.begin_of(next) }
    }
}

#[cfg(test)]
mod tests {
    use packet::wire::tcp::SeqNumber;
    use packet::{FlowKey, Protocol, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::inputs::{Empty, ProgressRule, Rules, Throughput};
    use crate::{FlowPeriod, FlowWay, Pair, Segment, TapOptions};

    const SLOT: Span = Span::from_ns(1_000_000);

    fn way(port: u16) -> FlowWay {
        let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let (key, direction) = FlowKey::from_tuple(ends.0, ends.1, port, 80, Protocol::TCP);
        FlowWay { key, direction }
    }

    /// At which tap, which flow, how long after the packet before, where in the flow, how long.
    type Packet = (bool, u16, i64, u32, u32);

    fn pair(packets: &[Packet]) -> Pair {
        let clock = SlotClock::new(SLOT);
        let kept = Span::from_seconds(11);
        let options = TapOptions { clock, flow_count_max: 9, kept, sampler: None };
        let mut pair = Pair::new(options);
        let mut now_ns = 1_700_000_000_123_000_000;
        for &(is_egress, flow, wait_ms, seq, data_len) in packets {
            now_ns += wait_ms * 1_000_000;
            let time = Timestamp::from_ns(now_ns);
            let segment =
                Segment { time, seq: SeqNumber(seq), data_len, segments: 1, ..Segment::default() };
            let tap = if is_egress { &mut pair.egress } else { &mut pair.ingress };
            tap.add(way(flow), &segment);
        }
        pair
    }

    /// What the command has rows of.
    fn rows(pair: &mut Pair, period: Period, rules: Rules) -> Vec<FlowPeriod> {
        let ways = pair.by_weight(period);
        let mut flows: Vec<_> =
            ways.into_iter().map(|(way, _)| pair.flow(way, period, rules)).collect();
        let waits = |flow: &FlowPeriod| flow.queue.is_ok_and(|queue| queue.cbiq_max > 0.0);
        flows.retain(|flow| flow.ingress_bytes > 0 || waits(flow));
        flows
    }

    /// Rows of periods that have any, and how many periods were examined.
    fn walked(
        mut pair: Pair,
        period_len: usize,
        rules: Rules,
        skips: bool,
    ) -> (Vec<(i64, Vec<FlowPeriod>)>, usize) {
        let clock = pair.options().clock;
        let walk = Walk::new(clock, period_len, 1);
        let Some(first) = pair.ingress.earliest() else { return Default::default() };
        let latest = clock.slot(pair.ingress.latest().max(pair.egress.latest()));
        let mut begin = walk.begin_of(clock.slot(first));
        let (mut found, mut looks) = (Vec::new(), 0);
        while begin <= latest {
            let period = walk.period(begin);
            let is_worth = walk.is_worth(begin, |slots| pair.has_slot(&slots));
            let seen = if is_worth { rows(&mut pair, period, rules) } else { vec![] };
            looks += 1;
            let is_told = !seen.is_empty();
            if is_told {
                found.push((begin, seen));
            }
            begin = if skips {
                walk.next(period.end(), is_told, |from| pair.next_slot(from), latest)
            } else {
                period.end()
            };
            pair.forget_before(clock.start(begin));
        }
        (found, looks)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn skipping_tells_what_visiting_tells(
            packets in prop::collection::vec(
                (any::<bool>(), 1_u16..3, prop_oneof![
                    4 => 0_i64..300, 2 => 300_i64..3_000, 1 => 3_000_i64..30_000,
                ], 0_u32..20_000, 1_u32..3_000),
                1..24,
            ),
            period_len in prop_oneof![Just(100_usize), Just(1_000), Just(7_000)],
            passed in prop_oneof![Just(ProgressRule::Highest), Just(ProgressRule::First)],
        ) {
            let rules = Rules { passed, empty: Empty::Next, throughput: Throughput::Counted };
            let (visited, _) = walked(pair(&packets), period_len, rules, false);
            let (skipped, _) = walked(pair(&packets), period_len, rules, true);
            prop_assert_eq!(visited, skipped);
        }
    }

    #[test]
    fn a_year_without_packets_is_one_step() {
        const YEAR_MS: i64 = 365 * 86_400_000;
        let rules = Rules { passed: ProgressRule::Highest, ..Rules::default() };
        let mut packets = Vec::new();
        for at in 0..5 {
            // At once behind the queue, but the last, which waits.
            packets.push((false, 1, YEAR_MS, at * 100, 100));
            packets.extend((at < 4).then_some((true, 1, 1, at * 100, 100)));
        }
        for (period_len, looks_max) in [(1, 10_100), (1_000, 60), (3_600_000, 40)] {
            let (found, looks) = walked(pair(&packets), period_len, rules, true);
            assert!(looks <= looks_max && found.len() >= 5, "{period_len}: {looks}");
        }
    }
}
