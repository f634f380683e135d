//! One tap: packets become slots, flow by flow.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use packet::wire::tcp::SeqNumber;
use packet::{Batch, SlotClock, Span, TapSlot, Timestamp};

use crate::sampling::Sampler;
use crate::segment::{FlowWay, Segment, UnfitReason};
use packet::reach;

/// One way of a flow at one tap, packet by packet: what the kernel's half keeps as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct TapFlow {
    open: Option<TapSlot>,
    last: Option<Last>,
    /// A connection was opened, and no data of it has been seen.
    begins: bool,
}

/// What the next packet is compared with.
#[derive(Clone, Copy, Debug)]
struct Last {
    time: Timestamp,
    high: SeqNumber,
    source_ticks: Option<u32>,
}

impl TapFlow {
    /// Takes in a packet; when it is the first of its slot, the slot before is complete.
    ///
    /// Time is the latest stamp so far: a packet that is stamped earlier counts as one of the slot
    /// that is open.
    #[inline]
    pub fn add(&mut self, clock: SlotClock, segment: &Segment) -> Option<TapSlot> {
        if segment.opens {
            self.last = None;
            self.begins = true;
            if segment.data_len == 0 {
                return None;
            }
        }
        let end = segment.seq.plus(segment.data_len);
        if !self.fits(segment) {
            self.last = None;
            self.begins = true;
        }
        let time = self.last.map_or(segment.time, |last| last.time.max(segment.time));
        let slot = clock.slot(time);
        let done =
            if self.open.is_some_and(|open| open.slot < slot) { self.open.take() } else { None };
        let open = self.open.get_or_insert_with(|| TapSlot {
            slot,
            first_ns: time.as_ns(),
            first_seq: segment.seq.0,
            high_seq: end.0,
            ..TapSlot::default()
        });
        if self.begins {
            self.begins = false;
            open.flags |= TapSlot::BEGAN;
            open.first_seq = segment.seq.0;
        }
        open.data_bytes += u64::from(segment.data_len);
        open.frame_bytes += u64::from(segment.frame_len);
        open.packets = open.packets.saturating_add(1);
        open.segments = open.segments.saturating_add(segment.segments);
        let mut high = end;
        let mut source_ticks = segment.source_ticks;
        if let Some(last) = self.last {
            let ahead = segment.seq.since(last.high);
            let skipped = u32::try_from(ahead).unwrap_or(0);
            open.skipped_bytes = open.skipped_bytes.saturating_add(skipped);
            if end.is_before(last.high) {
                high = last.high;
            }
            let gap_ns = time.since(last.time).as_ns();
            let gap_ns = u32::try_from(gap_ns).unwrap_or(if gap_ns < 0 { 0 } else { u32::MAX });
            open.arrival_gap_max_ns = open.arrival_gap_max_ns.max(gap_ns);
            if let (Some(now), Some(before)) = (segment.source_ticks, last.source_ticks) {
                let step = u32::try_from(now.wrapping_sub(before).cast_signed()).unwrap_or(0);
                open.source_gap_max_ticks = open.source_gap_max_ticks.max(step);
            }
            source_ticks = source_ticks.or(last.source_ticks);
        }
        open.high_seq = high.0;
        self.last = Some(Last { time, high, source_ticks });
        done
    }

    /// Whether a packet can be of the connection that was seen so far; else it begins another.
    #[inline]
    #[must_use]
    pub fn fits(&self, segment: &Segment) -> bool {
        // The kernel's half asks for the first byte as well, and for no other.
        segment.opens || self.last.is_none_or(|last| reach::is_near(segment.seq, last.high))
    }

    /// The slot that is not complete yet, as far as it has come.
    #[must_use]
    pub const fn open(&self) -> Option<&TapSlot> {
        self.open.as_ref()
    }
}

/// What a tap keeps at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TapOptions {
    /// How time is cut.
    pub clock: SlotClock,
    /// Flows that are followed at the same time; of further ones nothing is kept, and they are
    /// counted.
    pub flow_count_max: usize,
    /// How long slots are kept, counted back from the latest packet.
    pub kept: Span,
    /// Which packets with data are examined; all of them where this is not given.
    pub sampler: Option<Sampler>,
}

/// The outcome of a tap's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TapCounts {
    /// Packets with data, or that open a connection, of flows that are followed.
    pub taken: u64,
    /// Packets of flows for which there was no place.
    pub no_place: u64,
    /// Packets that say nothing about the queue, by [`UnfitReason`].
    pub unfit: [u64; UnfitReason::ALL.len()],
    /// Packets without a stamp.
    pub no_time: u64,
    /// Packets that were not sampled.
    pub left_out: u64,
    /// Of those that were taken, packets whose sequence numbers lie further from those before than
    /// any window reaches: each is taken for the begin of another connection.
    pub out_of_window: u64,
    /// Of those that were taken, packets before all that is kept: their stamps are behind periods
    /// that are past.
    pub behind: u64,
}

impl TapCounts {
    /// Each of them by name; `out_of_window` is a part of `taken`, and so is
    /// `behind`, which is not among them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let unfit =
            UnfitReason::ALL.into_iter().zip(self.unfit).map(|(why, count)| (why.name(), count));
        let others = [
            ("taken", self.taken),
            ("no_place", self.no_place),
            ("no_time", self.no_time),
            ("left_out", self.left_out),
            ("out_of_window", self.out_of_window),
        ];
        others.into_iter().chain(unfit)
    }

    /// All packets that came.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.taken + self.no_place + self.no_time + self.left_out + self.unfit.iter().sum::<u64>()
    }
}

/// Packets of many flows at one tap.
#[derive(Debug)]
pub struct Tap {
    options: TapOptions,
    flows: HashMap<FlowWay, FlowSlots>,
    latest: Timestamp,
    /// Slots before this one are kept no more, also where packets come that late.
    oldest: i64,
    /// Slots of all flows, when old ones were forgotten last.
    slot_count: usize,
    counts: TapCounts,
    /// Slots before this one have been evaluated: what still comes for them comes late.
    evaluated: i64,
    late: u64,
}

/// Keeps less of the past, half as long each time, until no more than so many slots are left or
/// none but those from `needed` on. `forget` is given the oldest slot to keep, and says how many
/// are left.
pub(crate) fn keep_less(
    options: &TapOptions,
    (latest, needed): (Timestamp, i64),
    count_max: usize,
    mut forget: impl FnMut(i64) -> usize,
) {
    let (clock, mut kept_ns) = (options.clock, options.kept.as_ns());
    loop {
        kept_ns /= 2;
        let oldest = clock.slot(latest.minus(Span::from_ns(kept_ns))).min(needed);
        let is_last = oldest == needed || kept_ns < clock.length().as_ns();
        if forget(oldest) <= count_max || is_last {
            return;
        }
    }
}

#[derive(Debug, Default)]
struct FlowSlots {
    flow: TapFlow,
    slots: VecDeque<TapSlot>,
}

impl FlowSlots {
    /// Where the first slot from `first` on is. Numbers of slots are apart by one at least, so it
    /// lies no further from the last than its number does: what else is kept is not touched.
    fn at(&self, first: i64) -> usize {
        let Some(last) = self.slots.back() else { return 0 };
        let after = last.slot.saturating_sub(first).saturating_add(1);
        let after = usize::try_from(after).unwrap_or(0).min(self.slots.len());
        let begin = self.slots.len() - after;
        let (mut low, mut high) = (begin, self.slots.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.slots.get(middle).is_some_and(|slot| slot.slot < first) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Packets of a slot that were not known when it was evaluated, if it was.
    fn late(&self, slot: &TapSlot, evaluated: i64) -> u64 {
        if slot.slot >= evaluated || self.slots.back().is_some_and(|last| last.slot >= slot.slot) {
            return 0;
        }
        let known = self.flow.open().filter(|open| open.slot == slot.slot);
        u64::from(slot.packets.saturating_sub(known.map_or(0, |open| open.packets)))
    }

    /// The slot that is not complete, where it is later than all that are.
    fn open(&self) -> Option<&TapSlot> {
        let last = self.slots.back().map(|last| last.slot);
        self.flow.open().filter(|open| last.is_none_or(|last| last < open.slot))
    }
}

impl Tap {
    /// Before the first packet.
    #[must_use]
    pub fn new(options: TapOptions) -> Self {
        Self {
            options,
            flows: HashMap::new(),
            latest: Timestamp::MIN,
            oldest: i64::MIN,
            slot_count: 0,
            counts: TapCounts::default(),
            evaluated: i64::MIN,
            late: 0,
        }
    }

    /// Takes in a batch.
    pub fn take(&mut self, batch: &Batch<'_>) {
        for frame in batch.frames() {
            match Segment::from_frame(&frame) {
                Ok((way, segment)) => self.add(way, &segment),
                Err(unfit) => self.counts.unfit[unfit as usize] += 1,
            }
        }
    }

    /// Takes in a packet.
    pub fn add(&mut self, way: FlowWay, segment: &Segment) {
        if segment.time == Timestamp::UNKNOWN {
            self.counts.no_time += 1;
            return;
        }
        self.latest = self.latest.max(segment.time);
        // What opens a connection is no data, and tells one from the next.
        if !segment.opens && self.options.sampler.as_mut().is_some_and(|sampler| !sampler.takes()) {
            self.counts.left_out += 1;
            return;
        }
        let has_room = self.flows.len() < self.options.flow_count_max;
        let kept = match self.flows.entry(way) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) if has_room => place.insert(FlowSlots::default()),
            Entry::Vacant(_) => {
                self.counts.no_place += 1;
                return;
            }
        };
        self.counts.taken += 1;
        self.counts.out_of_window += u64::from(!kept.flow.fits(segment));
        let slot = self.options.clock.slot(segment.time);
        self.counts.behind += u64::from(slot < self.oldest);
        self.late += u64::from(slot < self.evaluated);
        let done = kept.flow.add(self.options.clock, segment);
        kept.slots.extend(done.filter(|done| done.slot >= self.oldest));
    }

    /// Takes in a slot that was made elsewhere, such as in the kernel, and is complete.
    pub fn put(&mut self, way: FlowWay, slot: TapSlot) {
        self.latest = self.latest.max(Timestamp::from_ns(slot.first_ns));
        let kept = self.flows.entry(way).or_default();
        self.late += kept.late(&slot, self.evaluated);
        // A look at the open slot may be ahead of what is reported.
        if kept.flow.open().is_none_or(|open| open.slot <= slot.slot) {
            kept.flow = TapFlow::default();
        }
        // Told a second time, or out of order: a window reads slots in order.
        if kept.slots.back().is_none_or(|last| last.slot < slot.slot) {
            kept.slots.push_back(slot);
        }
    }

    /// The same of a slot that is not complete: the next takes its place. The kernel holds the last
    /// slot of a flow that is silent for as long as it is followed: one that is older than is kept
    /// is left out, else what was forgotten would come back with each look.
    pub fn put_open(&mut self, way: FlowWay, slot: TapSlot) {
        if slot.slot < self.oldest {
            return;
        }
        let kept = self.flows.entry(way).or_default();
        self.late += kept.late(&slot, self.evaluated);
        kept.flow = TapFlow { open: Some(slot), ..TapFlow::default() };
    }

    /// Slots before this one have been evaluated, and are not again.
    pub(crate) const fn set_evaluated(&mut self, end: i64) {
        self.evaluated = end;
    }

    /// Packets that came for slots that had been evaluated without them.
    pub(crate) const fn late(&self) -> u64 {
        self.late
    }

    /// Whether anything is kept of a flow.
    #[must_use]
    pub fn knows(&self, way: &FlowWay) -> bool {
        self.flows.contains_key(way)
    }

    /// Forgets all of a flow.
    pub fn forget(&mut self, way: &FlowWay) {
        self.flows.remove(way);
    }

    /// Time has come this far. A live source knows it also while no packet comes; without it, what
    /// is kept of the last flow of a link that falls silent would never become old.
    pub fn advance(&mut self, now: Timestamp) {
        self.latest = self.latest.max(now);
    }

    /// Forgets slots that are older than is kept, and flows of which none is left.
    pub fn forget_old(&mut self) {
        self.forget_before(self.latest);
    }

    /// The same at a moment that may lie before the latest packet: what was read ahead of it stays,
    /// however far ahead it is.
    pub fn forget_before(&mut self, now: Timestamp) {
        let clock = self.options.clock;
        self.forget_slots(clock.slot(now.min(self.latest).minus(self.options.kept)));
    }

    /// The same of slots before this one.
    pub(crate) fn forget_slots(&mut self, oldest: i64) {
        self.oldest = oldest;
        self.slot_count = 0;
        self.flows.retain(|_, kept| {
            let gone = kept.slots.partition_point(|slot| slot.slot < oldest);
            kept.slots.drain(..gone);
            if kept.slots.capacity() / 4 > kept.slots.len() {
                kept.slots.shrink_to(2 * kept.slots.len());
            }
            self.slot_count += kept.slots.len();
            !kept.slots.is_empty() || kept.flow.open().is_some_and(|open| open.slot >= oldest)
        });
    }

    /// Slots of all flows, when old ones were forgotten last.
    pub(crate) const fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// When the first packet came of which anything is kept.
    #[must_use]
    pub fn earliest(&self) -> Option<Timestamp> {
        let first = |kept: &FlowSlots| kept.slots.front().or_else(|| kept.flow.open()).copied();
        let slots = self.flows.values().filter_map(first);
        slots.map(|slot| Timestamp::from_ns(slot.first_ns)).min()
    }

    /// The first slot from this one on in which any flow had a packet.
    #[must_use]
    pub fn next_slot(&self, from: i64) -> Option<i64> {
        let next = |kept: &FlowSlots| {
            let open = kept.open().filter(|open| open.slot >= from);
            kept.slots.get(kept.at(from)).or(open).map(|slot| slot.slot)
        };
        self.flows.values().filter_map(next).min()
    }

    /// The latest stamp, or the latest moment that a live source knows to be past;
    /// [`Timestamp::MIN`] before the first packet.
    #[must_use]
    pub const fn latest(&self) -> Timestamp {
        self.latest
    }

    /// The outcome of packets.
    #[must_use]
    pub const fn counts(&self) -> &TapCounts {
        &self.counts
    }

    /// Flows that have slots, in no order.
    pub fn flows(&self) -> impl Iterator<Item = &FlowWay> {
        self.flows.keys()
    }

    /// Writes a flow's slots in order, the open one last; none of a flow that is not followed.
    /// `slots` is cleared first.
    pub fn slots(&self, way: &FlowWay, slots: &mut Vec<TapSlot>) {
        self.slots_since(way, i64::MIN, slots);
    }

    /// The same of slots from `first` on, and of the last one before it: what a window that begins
    /// there asks for, however much is kept.
    pub fn slots_since(&self, way: &FlowWay, first: i64, slots: &mut Vec<TapSlot>) {
        slots.clear();
        if let Some(kept) = self.flows.get(way) {
            slots.extend(kept.slots.range(kept.at(first).saturating_sub(1)..));
            slots.extend(kept.open());
        }
    }

    /// A flow's slots, the latest first.
    pub fn latest_slots(&self, way: &FlowWay) -> impl Iterator<Item = &TapSlot> {
        let kept = self.flows.get(way);
        kept.into_iter().flat_map(|kept| kept.open().into_iter().chain(kept.slots.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use packet::{FlowKey, Protocol};

    use super::*;

    const SLOT_NS: i64 = 1_000_000;

    fn way(port: u16) -> FlowWay {
        let ends = ("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
        let (key, direction) = FlowKey::from_tuple(ends.0, ends.1, port, 80, Protocol::TCP);
        FlowWay { key, direction }
    }

    fn slot(slot: i64) -> TapSlot {
        TapSlot { slot, first_ns: slot * SLOT_NS, data_bytes: 100, ..TapSlot::default() }
    }

    fn time(slot: i64) -> Timestamp {
        Timestamp::from_ns(slot * SLOT_NS)
    }

    /// Keeps ten slots.
    fn tap() -> Tap {
        Tap::new(TapOptions {
            clock: SlotClock::new(Span::from_ns(SLOT_NS)),
            flow_count_max: 4,
            kept: Span::from_ns(10 * SLOT_NS),
            sampler: None,
        })
    }

    #[test]
    fn an_open_slot_of_a_silent_flow_does_not_come_back_when_it_was_forgotten() {
        let mut tap = tap();
        for now in 100..130 {
            tap.put(way(1), slot(now));
            // The kernel shows the open slot of the other flow with each look.
            tap.put_open(way(2), slot(100));
            assert_eq!(tap.knows(&way(2)), now <= 111, "{now}");
            tap.forget_old();
        }
        tap.put_open(way(2), slot(130));
        assert!(tap.knows(&way(2)), "it has a packet again");
    }

    #[test]
    fn the_last_flow_of_a_silent_link_is_forgotten_by_time_alone() {
        let mut tap = tap();
        tap.put_open(way(1), slot(100));
        for now in 101..130 {
            tap.advance(time(now));
            tap.forget_old();
            tap.put_open(way(1), slot(100));
            assert_eq!(tap.knows(&way(1)), now <= 110, "{now}");
        }
        assert_eq!(tap.latest(), time(129));
    }

    fn slots(tap: &Tap) -> Vec<i64> {
        let mut slots = Vec::new();
        tap.slots(&way(1), &mut slots);
        slots.iter().map(|slot| slot.slot).collect()
    }

    #[test]
    fn a_slot_reported_after_a_look_that_was_ahead_of_it_leaves_what_was_seen() {
        let mut tap = tap();
        tap.put_open(way(1), slot(101));
        tap.put(way(1), slot(100));
        assert_eq!(slots(&tap), [100, 101]);
        tap.put(way(1), slot(101));
        assert_eq!(slots(&tap), [100, 101]);
    }

    #[test]
    fn packets_of_an_evaluated_period_are_late_once() {
        let packets = |slot: i64, packets| TapSlot { packets, ..self::slot(slot) };
        let mut tap = tap();
        tap.put(way(1), packets(100, 5));
        tap.put_open(way(1), packets(101, 2));
        tap.set_evaluated(102);
        tap.put_open(way(1), packets(101, 3));
        assert_eq!(tap.late(), 1, "one came since");
        tap.put(way(1), packets(101, 7));
        assert_eq!(tap.late(), 5, "and four more, all of its seven being reported");
        tap.put(way(1), packets(101, 7));
        tap.put(way(1), packets(102, 9));
        assert_eq!(
            tap.late(),
            5,
            "what is reported again, or of the period that runs, is not late"
        );
        tap.put(way(2), packets(99, 2));
        assert_eq!(tap.late(), 7, "all of a flow of which nothing was known");
    }
}
