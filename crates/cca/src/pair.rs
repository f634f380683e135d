//! A queue: a tap before it, a tap behind it, and what its flows do between the two.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use packet::wire::tcp::SeqNumber;
use packet::{Span, TapSlot, Timestamp};

use crate::inputs::{DROPS_LOOK_BACK, Input, MissingReason, Rules, Scratch, Window};
use crate::segment::FlowWay;
use crate::tap::{Tap, TapOptions, keep_less};
use crate::trained::{self, QueueConditions, RATE_OVER, SHARE_MIN};

/// Both taps.
#[derive(Debug)]
pub struct Pair {
    /// Upstream of the queue.
    pub ingress: Tap,
    /// Behind it.
    pub egress: Tap,
    options: TapOptions,
    /// Flows that are known to have begun when they were followed, and in which slot.
    new: HashMap<FlowWay, i64>,
    /// So many slots are kept of both taps together.
    slots_max: usize,
    forgotten_early: u64,
    ingress_slots: Vec<TapSlot>,
    egress_slots: Vec<TapSlot>,
    scratch: Scratch,
    rows: Vec<f32>,
}

/// Slots of both taps, 400 MB: a minute of 50 flows that send in every millisecond of it.
const SLOTS_MAX: usize = 6 << 20;
/// Before a period, what shows how much of a flow waits as it begins.
const SHOWS_QUEUE: Span = Span::from_seconds(1);

/// Some slots of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Period {
    /// The first.
    pub start: i64,
    /// Slots.
    pub len: usize,
}

/// What a flow did in a period.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlowPeriod {
    /// Which flow, and which way its data goes.
    pub way: FlowWay,
    /// Bytes of data that entered the queue.
    pub ingress_bytes: u64,
    /// Bytes of data that left it.
    pub egress_bytes: u64,
    /// What it did in the queue.
    pub queue: Result<InQueue, MissingReason>,
    /// The longest that a packet was seen to take from tap to tap; of those that were the first of
    /// their slot at both, and not retransmitted.
    pub delay_max: Option<Span>,
}

/// A flow's bytes in the queue.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct InQueue {
    /// Its CBIQ, in bytes: the mean of the slots.
    pub cbiq_mean: f64,
    /// The highest of them.
    pub cbiq_max: f64,
    /// Packets dropped by the queue, an estimate; `None` where packets were sampled: what one tap
    /// left out and the other did not looks as if the queue had lost it.
    pub drops: Option<f64>,
}

impl Pair {
    /// Before the first packet.
    #[must_use]
    pub fn new(options: TapOptions) -> Self {
        Self {
            ingress: Tap::new(options),
            egress: Tap::new(options),
            options,
            new: HashMap::new(),
            slots_max: SLOTS_MAX,
            forgotten_early: 0,
            ingress_slots: Vec::new(),
            egress_slots: Vec::new(),
            scratch: Scratch::default(),
            rows: Vec::new(),
        }
    }

    /// The same, of packets that were sampled before they come, as the options say: the taps take
    /// all of them.
    #[must_use]
    pub fn of_sampled(options: TapOptions) -> Self {
        let all = TapOptions { sampler: None, ..options };
        Self { ingress: Tap::new(all), egress: Tap::new(all), ..Self::new(options) }
    }

    /// A flow began about when it was followed, in this slot, though no SYN of it was seen.
    pub fn follow_new(&mut self, way: FlowWay, slot: i64) {
        self.new.insert(way, slot);
    }

    /// Forgets all of a flow.
    pub fn forget(&mut self, way: &FlowWay) {
        self.ingress.forget(way);
        self.egress.forget(way);
        self.new.remove(way);
    }

    /// Flows of which anything is known, those that brought most to the queue in a period first,
    /// and what they brought; where several brought the same, in the order of their names.
    pub fn by_weight(&mut self, period: Period) -> Vec<(FlowWay, u64)> {
        let ways: Vec<FlowWay> = self.ingress.flows().copied().collect();
        let mut brought: Vec<(FlowWay, u64)> = Vec::with_capacity(ways.len());
        for way in ways {
            let slots = self.ingress.latest_slots(&way);
            let slots = slots.skip_while(|slot| slot.slot >= period.end());
            let inside = slots.take_while(|slot| slot.slot >= period.start);
            brought.push((way, inside.map(|slot| slot.data_bytes).sum()));
        }
        brought
            .sort_by_key(|(way, bytes)| (u64::MAX - bytes, way.key.words(), way.direction as u8));
        brought
    }

    /// Takes the slots of a flow that a window over a period needs. Which of the packets that are
    /// missing downstream the queue has dropped, slots before the period show.
    fn take_slots(&mut self, way: &FlowWay, period: Period, has_drops: bool) {
        self.egress.slots_since(way, period.start, &mut self.egress_slots);
        let is_missing = |slot: &TapSlot| slot.skipped_bytes > 0;
        let mut first = period.start;
        if has_drops && period.of(&self.egress_slots).iter().any(is_missing) {
            first = first.saturating_sub(DROPS_LOOK_BACK);
            self.egress.slots_since(way, first, &mut self.egress_slots);
        }
        self.ingress.slots_since(way, first, &mut self.ingress_slots);
    }

    /// What a flow did in a period.
    pub fn flow(&mut self, way: FlowWay, period: Period, rules: Rules) -> FlowPeriod {
        self.take_slots(&way, period, true);
        let window = Window {
            start: period.start,
            len: period.len,
            ingress: &self.ingress_slots,
            egress: &self.egress_slots,
        };
        let queue = window.in_queue(rules, &mut self.scratch);
        FlowPeriod {
            way,
            ingress_bytes: period.sum(&self.ingress_slots, |slot| slot.data_bytes),
            egress_bytes: period.sum(&self.egress_slots, |slot| slot.data_bytes),
            queue,
            delay_max: self.delays(&way, period).max(),
        }
    }

    /// Slots up to the end of a period for which a flow is known: since its connection began, or
    /// since it is followed; and whether it began with them. None of a flow that came later.
    pub fn known_slots(&self, way: &FlowWay, period: Period) -> (usize, bool) {
        let (mut first, mut began) = (period.end(), false);
        let slots = self.ingress.latest_slots(way);
        for slot in slots.skip_while(|slot| slot.slot >= period.end()) {
            (first, began) = (slot.slot, slot.began());
            if began {
                break;
            }
        }
        // Of a long flow the beginning is no longer kept.
        let is_beginning = |&new: &i64| trained::is_beginning(self.options.clock, first - new);
        let began = began || self.new.get(way).is_some_and(is_beginning);
        (usize::try_from(period.end().saturating_sub(first)).unwrap_or(0), began)
    }

    /// What a model reads of a flow: rows of inputs, a row a slot.
    ///
    /// # Errors
    /// [`MissingReason`], where CBIQ has no beginning.
    pub fn fill(
        &mut self,
        way: &FlowWay,
        period: Period,
        inputs: &[Input],
        rules: Rules,
    ) -> Result<&[f32], MissingReason> {
        self.take_slots(way, period, inputs.contains(&Input::Drops));
        let window = Window {
            start: period.start,
            len: period.len,
            ingress: &self.ingress_slots,
            egress: &self.egress_slots,
        };
        window.fill(inputs, rules, &mut self.scratch, &mut self.rows)?;
        Ok(&self.rows)
    }

    /// What all flows of which anything is known have together of each input: rows as of one flow,
    /// in which flows whose CBIQ has no beginning have no part.
    pub fn sums(&mut self, period: Period, inputs: &[Input], rules: Rules) -> Vec<f32> {
        let mut sums = vec![0.0; period.len * inputs.len()];
        let ways: Vec<FlowWay> = self.ingress.flows().copied().collect();
        for way in ways {
            if let Ok(rows) = self.fill(&way, period, inputs, rules) {
                sums.iter_mut().zip(rows).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }

    /// How many flows compete for the queue and how fast it empties, in a period; the longest wait
    /// is that of the flows that are reported.
    #[allow(clippy::cast_precision_loss)] // As many bytes as would lose a digit pass no queue.
    pub fn seen(&mut self, period: Period, told: &[FlowPeriod]) -> QueueConditions {
        let brought = self.by_weight(period);
        let sum: u64 = brought.iter().map(|&(_, bytes)| bytes).sum();
        let competes = |bytes: u64| bytes > 0 && bytes as f64 >= sum as f64 * SHARE_MIN;
        let clock = self.options.clock;
        let step = trained::slots_of(clock, RATE_OVER).min(period.len.max(1));
        let mut left = vec![0_u64; period.len / step];
        for way in self.egress.flows() {
            let slots = self.egress.latest_slots(way);
            let slots = slots.skip_while(|slot| slot.slot >= period.end());
            for slot in slots.take_while(|slot| slot.slot >= period.start) {
                let at = usize::try_from(slot.slot.saturating_sub(period.start)).unwrap_or(0);
                if let Some(sum) = left.get_mut(at / step) {
                    *sum += slot.frame_bytes;
                }
            }
        }
        let step_s = clock.length().as_seconds_f64() * step as f64;
        QueueConditions {
            flows: brought.iter().filter(|&&(_, bytes)| competes(bytes)).count(),
            rate_bit: left.into_iter().max().unwrap_or(0) as f64 * 8.0 / step_s,
            delay_max: told.iter().filter_map(|flow| flow.delay_max).max(),
            is_part: brought.len() >= self.options.flow_count_max || self.options.sampler.is_some(),
        }
    }

    /// The shortest that any packet was seen to take from tap to tap, over everything that is kept.
    /// Less than nothing where the taps' clocks differ.
    #[must_use]
    pub fn delay_min(&mut self) -> Option<Span> {
        let everything = Period { start: i64::MIN, len: usize::MAX };
        let ways: Vec<FlowWay> = self.egress.flows().copied().collect();
        let mut shortest = None;
        for way in ways {
            self.egress.slots(&way, &mut self.egress_slots);
            shortest = self.delays(&way, everything).chain(shortest).min();
        }
        shortest
    }

    /// Times from tap to tap of packets of a flow that left in a period, the slots of which were
    /// asked for last. What is retransmitted is left out at either tap: which of two it is cannot
    /// be determined. With the later one a packet seems to leave before it came, and with the
    /// earlier one to wait for as long as its sender did.
    fn delays(&self, way: &FlowWay, period: Period) -> impl Iterator<Item = Span> {
        let left = period.of(&self.egress_slots);
        let earlier = |a: SeqNumber, b: SeqNumber| if b.is_before(a) { b } else { a };
        let lowest = left.iter().map(TapSlot::first).reduce(earlier);
        let came = lowest.map(|lowest| (lowest, self.came(way, period, lowest)));
        let is_new = |pair: &[TapSlot]| pair[1].first().since(pair[0].high()) >= 0;
        left.windows(2).filter(move |pair| is_new(pair)).filter_map(move |pair| {
            let (lowest, came) = came.as_ref()?;
            let came_ns = came.get(&pair[1].first().since(*lowest))?;
            Some(Span::from_ns(pair[1].first_ns.saturating_sub(*came_ns)))
        })
    }

    /// When the first packets of slots came that came once, by their distance from the lowest that
    /// left: as far back as that one is to be found. A slot that begins below what had come before
    /// it is of retransmitted bytes, as many as it has at most. The first slot that is kept has
    /// none before it to compare with, and shows nothing, unless its connection began there.
    fn came(&self, way: &FlowWay, period: Period, lowest: SeqNumber) -> BTreeMap<i32, i64> {
        let (mut came, mut again) = (BTreeMap::new(), Vec::new());
        // What came later is none of what left in the period, and how much of it is known depends
        // on when it is evaluated.
        let slots = self.ingress.latest_slots(way);
        let mut slots = slots.skip_while(|slot| slot.slot >= period.end()).peekable();
        while let Some(slot) = slots.next() {
            let is_above = |before: &&TapSlot| slot.first().since(before.high()) >= 0;
            let first = slot.first().since(lowest);
            if slot.began() || slots.peek().is_some_and(is_above) {
                came.entry(first).or_insert(slot.first_ns);
            } else {
                let len = i32::try_from(slot.data_bytes).unwrap_or(i32::MAX);
                again.push(first..first.saturating_add(len));
            }
            let is_past = slot.began() || slot.high().since(lowest) <= 0;
            if is_past && slot.slot < period.start {
                break;
            }
        }
        for range in again {
            while let Some((&first, _)) = came.range(range.clone()).next() {
                came.remove(&first);
            }
        }
        came
    }

    /// The first slot from this one on in which a packet passed either tap.
    #[must_use]
    pub fn next_slot(&self, from: i64) -> Option<i64> {
        let slots = [self.ingress.next_slot(from), self.egress.next_slot(from)];
        slots.into_iter().flatten().min()
    }

    /// Whether any flow had a packet in these slots, at either tap.
    #[must_use]
    pub fn has_slot(&self, slots: &Range<i64>) -> bool {
        self.next_slot(slots.start).is_some_and(|slot| slot < slots.end)
    }

    /// Time has come this far at both taps, also where no packet says so.
    pub fn advance(&mut self, now: Timestamp) {
        self.ingress.advance(now);
        self.egress.advance(now);
    }

    /// Forgets what is older than is kept.
    pub fn forget_old(&mut self) {
        self.ingress.forget_old();
        self.egress.forget_old();
    }

    /// The same at a moment that may lie before the latest packet.
    pub fn forget_before(&mut self, now: Timestamp) {
        self.ingress.forget_before(now);
        self.egress.forget_before(now);
    }

    /// Where more slots are kept than there is room for, both taps keep less of the past of all
    /// flows, half as long each time, until half of the room is free. From this slot on all are
    /// kept, and those before it that show what the queue holds. Counted as of when old slots were
    /// forgotten last.
    pub fn make_room(&mut self, needed: i64) {
        let before = self.slot_count();
        if before <= self.slots_max {
            return;
        }
        let needed = needed.saturating_sub(self.options.clock.count(SHOWS_QUEUE));
        let latest = self.ingress.latest().max(self.egress.latest());
        let Self { options, ingress, egress, slots_max, .. } = self;
        keep_less(options, (latest, needed), *slots_max / 2, |oldest| {
            ingress.forget_slots(oldest);
            egress.forget_slots(oldest);
            ingress.slot_count() + egress.slot_count()
        });
        self.forgotten_early += before.saturating_sub(self.slot_count()) as u64;
    }

    const fn slot_count(&self) -> usize {
        self.ingress.slot_count() + self.egress.slot_count()
    }

    /// Slots that were forgotten before they were as old as is kept, as memory is limited.
    #[must_use]
    pub const fn forgotten_early(&self) -> u64 {
        self.forgotten_early
    }

    /// A period has been evaluated, and is not again. The slot after it has a part in it.
    pub fn set_evaluated(&mut self, period: Period) {
        let end = period.end().saturating_add(1);
        self.ingress.set_evaluated(end);
        self.egress.set_evaluated(end);
    }

    /// Packets that came for periods that had been evaluated without them, upstream of the queue
    /// and downstream of it.
    #[must_use]
    pub const fn late(&self) -> [u64; 2] {
        [self.ingress.late(), self.egress.late()]
    }

    /// How it was made.
    #[must_use]
    pub const fn options(&self) -> &TapOptions {
        &self.options
    }
}

impl Period {
    /// The slot after the last.
    #[must_use]
    pub fn end(self) -> i64 {
        self.start.saturating_add_unsigned(self.len as u64)
    }

    fn of(self, slots: &[TapSlot]) -> &[TapSlot] {
        let first = slots.partition_point(|slot| slot.slot < self.start);
        let past = slots.partition_point(|slot| slot.slot < self.end());
        slots.get(first..past).unwrap_or_default()
    }

    fn sum(self, slots: &[TapSlot], of: impl Fn(&TapSlot) -> u64) -> u64 {
        self.of(slots).iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use packet::{FlowKey, Protocol, SlotClock};

    use super::*;
    use crate::segment::Segment;

    /// Packets of 100 bytes, by millisecond and first byte.
    type Packets = [(i64, u32)];

    fn delays_ms(came: &Packets, left: &Packets) -> Vec<i64> {
        let way = way();
        let mut pair = Pair::new(options());
        for (tap, packets) in [(&mut pair.ingress, came), (&mut pair.egress, left)] {
            for &(ms, seq) in packets {
                let (time, seq) = (Timestamp::from_ns(ms * 1_000_000), SeqNumber(seq));
                let segment =
                    Segment { time, seq, data_len: 100, segments: 1, ..Segment::default() };
                tap.add(way, &segment);
            }
        }
        pair.egress.slots(&way, &mut pair.egress_slots);
        let everything = Period { start: i64::MIN, len: usize::MAX };
        let delays = pair.delays(&way, everything);
        delays.map(|delay| delay.as_ns() / 1_000_000).collect()
    }

    fn options() -> TapOptions {
        let clock = SlotClock::new(Span::from_ns(1_000_000));
        TapOptions { clock, flow_count_max: 1, kept: Span::from_seconds(10), sampler: None }
    }

    fn way() -> FlowWay {
        let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let (key, direction) = FlowKey::from_tuple(ends.0, ends.1, 1000, 80, Protocol::TCP);
        FlowWay { key, direction }
    }

    #[test]
    fn packets_that_were_sampled_are_not_sampled_again() {
        let sampler = Some(crate::Sampler::new(0.5, 1));
        let options = TapOptions { sampler, ..options() };
        let taken = |mut pair: Pair| {
            for ms in 0..1_000 {
                let time = Timestamp::from_ns(ms * 1_000_000);
                let seq = SeqNumber(u32::try_from(ms).unwrap() * 100);
                let segment =
                    Segment { time, seq, data_len: 100, segments: 1, ..Segment::default() };
                pair.ingress.add(way(), &segment);
            }
            let everything = Period { start: 0, len: 1_000 };
            pair.by_weight(everything).iter().map(|(_, bytes)| bytes / 100).sum::<u64>()
        };
        assert!((400..600).contains(&taken(Pair::new(options))));
        assert_eq!(taken(Pair::of_sampled(options)), 1_000);
    }

    #[test]
    fn a_flow_that_began_when_it_was_followed_begins_there_while_that_is_kept() {
        let mut pair = Pair::of_sampled(options());
        let put = |pair: &mut Pair, slots: Range<i64>| {
            for slot in slots {
                pair.ingress.put(way(), TapSlot { slot, ..TapSlot::default() });
            }
        };
        put(&mut pair, 5_000..5_010);
        let at = |end: i64| Period { start: end - 10, len: 10 };
        assert_eq!(pair.known_slots(&way(), at(5_010)), (10, false));
        pair.follow_new(way(), 4_998);
        assert_eq!(pair.known_slots(&way(), at(5_010)), (10, true));
        put(&mut pair, 5_010..30_000);
        assert_eq!(pair.known_slots(&way(), at(30_000)), (25_000, true));
        pair.advance(Timestamp::from_ns(30_000 * 1_000_000));
        pair.forget_old();
        assert_eq!(pair.known_slots(&way(), at(30_000)), (10_000, false));
        pair.forget(&way());
        put(&mut pair, 30_000..30_001);
        assert_eq!(pair.known_slots(&way(), at(30_001)), (1, false));
    }

    #[test]
    fn both_taps_forget_alike_where_there_is_no_room_and_keep_what_a_period_needs() {
        let mut pair = Pair { slots_max: 8_000, ..Pair::new(options()) };
        let put = |tap: &mut Tap, slots: Range<i64>| {
            for slot in slots {
                let first_ns = slot * 1_000_000;
                tap.put(way(), TapSlot { slot, first_ns, ..TapSlot::default() });
            }
        };
        put(&mut pair.ingress, 0..6_000);
        put(&mut pair.egress, 10..6_010);
        pair.forget_old();
        pair.make_room(5_900);
        let kept = |tap: &Tap| tap.latest_slots(&way()).last().map(|slot| slot.slot);
        // 1.25 of 10 s: with 2.5 s more than half of the room were still taken.
        assert_eq!((kept(&pair.ingress), kept(&pair.egress)), (Some(4_759), Some(4_759)));
        assert_eq!(pair.forgotten_early(), 4_759 + 4_749);
        pair.slots_max = 100;
        pair.make_room(5_900);
        assert_eq!((kept(&pair.ingress), kept(&pair.egress)), (Some(4_900), Some(4_900)));
    }

    #[test]
    fn the_longest_wait_is_the_same_whenever_the_period_is_evaluated() {
        // The packet of 300 leaves in the period that ends at 40 and is retransmitted after it.
        let (came, left) = ([(10, 100), (20, 200), (30, 300)], [(15, 100), (25, 200), (39, 300)]);
        let mut pair = Pair::new(options());
        let add = |tap: &mut Tap, ms: i64, seq| {
            let (time, seq) = (Timestamp::from_ns(ms * 1_000_000), SeqNumber(seq));
            tap.add(
                way(),
                &Segment { time, seq, data_len: 100, segments: 1, ..Segment::default() },
            );
        };
        came.into_iter().for_each(|(ms, seq)| add(&mut pair.ingress, ms, seq));
        left.into_iter().for_each(|(ms, seq)| add(&mut pair.egress, ms, seq));
        let period = Period { start: 0, len: 40 };
        let early = pair.flow(way(), period, Rules::default());
        assert_eq!(early.delay_max, Some(Span::from_ns(9_000_000)));
        for (ms, seq) in [(41, 300), (42, 400)] {
            add(&mut pair.ingress, ms, seq);
        }
        assert_eq!(pair.flow(way(), period, Rules::default()), early);
    }

    #[test]
    fn a_needless_retransmission_makes_no_packet_leave_before_it_came() {
        // 100 leaves after 10 ms, and is retransmitted when it has left.
        let left = [(10, 0), (11, 100), (14, 200), (15, 300)];
        let came = [(0, 0), (1, 100), (2, 200), (3, 300)];
        assert_eq!(delays_ms(&came, &left), [10, 12, 12]);
        let again = [(0, 0), (1, 100), (2, 200), (3, 300), (50, 100)];
        assert_eq!(delays_ms(&again, &left), [12, 12]);
        // It came first in the middle of a slot.
        let middle = [(0, 0), (0, 100), (2, 200), (3, 300), (50, 100)];
        assert_eq!(delays_ms(&middle, &left), [12, 12]);
        assert!(delays_ms(&[(50, 100)], &left).is_empty(), "nothing to compare with");
    }

    #[test]
    fn what_is_retransmitted_after_a_timeout_did_not_wait_in_the_queue_for_so_long() {
        // All from 200 on is lost, and retransmitted from 203 ms on, two packets in one slot.
        let came =
            [(0, 0), (1, 100), (2, 200), (3, 300), (4, 400), (203, 200), (203, 300), (240, 400)];
        let left = [(10, 0), (11, 100), (213, 200), (214, 300), (250, 400)];
        assert_eq!(delays_ms(&came[..5], &left), [10, 211, 211, 246]);
        assert_eq!(delays_ms(&came, &left), [10]);
    }
}
