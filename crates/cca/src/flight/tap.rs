//! Packets of many flows, both ways, at one tap.

use std::ops::Range;

use packet::wire::tcp::{SeqNumber, TcpFlags};
use packet::wire::tcp_options::TcpOption;
use packet::{Batch, FlowDirection, FlowKey, Frame, Timestamp};

use super::flow::Ack;
use super::kept::{FlightSlots, FlowPlace, Flows};
use super::slot::FlightSlot;
use super::window::{
    FlightInput, FlightMissingReason, FlightPeriod, FlightRows, FlightWindow, known_from, row_slots,
};
use crate::header::Header;
use crate::pair::Period;
use crate::segment::{FlowWay, Segment, UnfitReason};
use crate::tap::{TapOptions, keep_less};

/// The outcome of a tap's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlightCounts {
    /// Packets with data, or that open a connection.
    pub data: u64,
    /// Packets without data that acknowledge data of which some was seen.
    pub acks: u64,
    /// The same, of data that the tap has not seen: of flows that only send the other way, and of
    /// those whose data takes another path.
    pub acks_of_unseen: u64,
    /// Packets without data whose acknowledgement lies further from what was sent than any window
    /// reaches: nothing is made of them.
    pub out_of_window: u64,
    /// TCP with neither.
    pub neither: u64,
    /// Packets of flows for which there was no place.
    pub no_place: u64,
    /// Packets without a stamp.
    pub no_time: u64,
    /// Packets without sequence numbers in the open: UDP and all that is not TCP.
    pub not_tcp: u64,
    /// Later fragments, and headers that the capture cut off or that cannot be.
    pub unreadable: u64,
    /// Of `data`, packets whose sequence numbers lie further from those before than any window
    /// reaches: each is taken for the begin of another connection.
    pub begun_again: u64,
    /// Of all of these, packets of TCP in whose options the capture ends: they have no time stamps,
    /// nor what the receiver has out of order.
    pub cut_options: u64,
}

impl FlightCounts {
    /// Each of them by name; `begun_again` is a part of `data`, and `cut_options`, of several, is
    /// not among them.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("data", self.data),
            ("acks", self.acks),
            ("acks_of_unseen", self.acks_of_unseen),
            ("out_of_window", self.out_of_window),
            ("neither", self.neither),
            ("no_place", self.no_place),
            ("no_time", self.no_time),
            ("not_tcp", self.not_tcp),
            ("unreadable", self.unreadable),
            ("begun_again", self.begun_again),
        ]
        .into_iter()
    }

    /// Counts a packet of a flow, before the flow takes it in.
    fn add(&mut self, passing: &Passing, both: &mut [FlightSlots; 2]) {
        let (this, other) = ways(both, passing.way.direction);
        let count = match (&passing.segment, &passing.ack) {
            (Some(_), _) => &mut self.data,
            (None, Some(ack)) if !other.flow.fits_ack(ack) => &mut self.out_of_window,
            (None, Some(_)) if other.flow.has_data() => &mut self.acks,
            (None, Some(_)) => &mut self.acks_of_unseen,
            (None, None) => &mut self.neither,
        };
        *count += 1;
        self.cut_options += u64::from(passing.is_cut);
        let begins_again = passing.segment.is_some_and(|segment| !this.flow.fits(&segment));
        self.begun_again += u64::from(begins_again);
    }

    /// All packets that came.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.named().map(|(_, count)| count).sum::<u64>() - self.begun_again
    }
}

/// What a frame of TCP brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Passing {
    pub(super) way: FlowWay,
    pub(super) time: Timestamp,
    pub(super) segment: Option<Segment>,
    pub(super) ack: Option<Ack>,
    /// Whether the capture ends in the options.
    pub(super) is_cut: bool,
}

/// What flows did in a period, those that sent most first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Heaviest {
    /// So many as were asked for.
    pub flows: Vec<FlightPeriod>,
    /// Those that come after them.
    pub other_count: usize,
    /// Bytes of data of all.
    pub sent_bytes: u64,
}

/// One tap.
#[derive(Debug)]
pub struct FlightTap {
    options: TapOptions,
    flows: Flows,
    latest: Timestamp,
    /// Of slots before this one the last is kept, also where packets come that late.
    oldest: i64,
    counts: FlightCounts,
    /// So many slots are kept of all flows together.
    slots_max: usize,
    /// Slots that were forgotten before their time, so that no more are kept.
    forgotten_early: u64,
    /// Packets whose flows have been found, until they are taken in.
    together: Vec<(FlowPlace, Passing)>,
    slots: Vec<FlightSlot>,
    rows: FlightRows,
}

/// Packets whose flows are looked for before the first of them is taken in: enough for all that
/// memory answers at a time.
const TOGETHER: usize = 16;

/// Slots of all flows, 200 MB: a minute of 350 flows that send in every 10 ms of it.
const SLOTS_MAX: usize = 2 << 20;

impl FlightTap {
    /// Before the first packet. A sampler is not asked: acknowledgements need all of the data.
    #[must_use]
    pub fn new(options: TapOptions) -> Self {
        Self {
            options,
            flows: Flows::new(),
            latest: Timestamp::MIN,
            oldest: i64::MIN,
            counts: FlightCounts::default(),
            slots_max: SLOTS_MAX,
            forgotten_early: 0,
            together: Vec::new(),
            slots: Vec::new(),
            rows: FlightRows::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_slots_max(self, slots_max: usize) -> Self {
        Self { slots_max, ..self }
    }

    /// Takes in a batch.
    pub fn take(&mut self, batch: &Batch<'_>) {
        let mut together = std::mem::take(&mut self.together);
        for frame in batch.frames() {
            match Passing::from_frame(&frame) {
                Ok(passing) => together.push((self.flows.find(passing.way.key), passing)),
                Err(UnfitReason::NotTcp) => self.counts.not_tcp += 1,
                Err(UnfitReason::NoData | UnfitReason::Unreadable) => self.counts.unreadable += 1,
            }
            if together.len() == TOGETHER {
                self.add_all(&mut together);
            }
        }
        self.add_all(&mut together);
        self.together = together;
        if let Some(tick) = batch.tick {
            self.latest = self.latest.max(tick);
        }
    }

    fn add_all(&mut self, together: &mut Vec<(FlowPlace, Passing)>) {
        for (found, _) in together.iter() {
            self.flows.touch(found);
        }
        for (found, passing) in together.drain(..) {
            self.add_found(found, &passing);
        }
    }

    #[cfg(test)]
    pub(super) fn add(&mut self, passing: &Passing) {
        self.add_found(self.flows.find(passing.way.key), passing);
    }

    fn add_found(&mut self, found: FlowPlace, passing: &Passing) {
        if passing.time == Timestamp::UNKNOWN {
            self.counts.no_time += 1;
            return;
        }
        self.latest = self.latest.max(passing.time);
        let Self { options, flows, oldest, counts, .. } = self;
        let (clock, oldest) = (options.clock, *oldest);
        let has_place = flows.change(found, options.flow_count_max, |both| {
            counts.add(passing, both);
            let (this, other) = ways(both, passing.way.direction);
            if let Some(ack) = &passing.ack {
                let done = other.flow.add_ack(clock, ack);
                other.keep(done, oldest);
            }
            if let Some(segment) = &passing.segment {
                let done = this.flow.add(clock, segment);
                this.keep(done, oldest);
            }
        });
        if !has_place {
            self.counts.no_place += 1;
        }
    }

    /// Where more slots are kept than there is room for, all flows keep less of their past, half as
    /// long each time, until half of the room is free: so a flow that came early keeps no more than
    /// one that came late. From this slot on all are kept, whatever they take.
    pub fn make_room(&mut self, needed: i64) {
        let before = self.flows.slot_count();
        if before <= self.slots_max {
            return;
        }
        let Self { options, latest, oldest: kept_from, flows, slots_max, .. } = self;
        keep_less(options, (*latest, needed), *slots_max / 2, |oldest| {
            *kept_from = (*kept_from).max(oldest);
            flows.forget(Timestamp::MIN, oldest);
            flows.slot_count()
        });
        self.forgotten_early += before.saturating_sub(self.flows.slot_count()) as u64;
    }

    /// Slots that were forgotten before they were as old as is kept, as memory is limited.
    #[must_use]
    pub const fn forgotten_early(&self) -> u64 {
        self.forgotten_early
    }

    /// Forgets all flows and how far time has come, for an epoch that begins; counts continue.
    pub fn begin_again(&mut self) {
        (self.flows, self.latest, self.oldest) = (Flows::new(), Timestamp::MIN, i64::MIN);
    }

    /// Forgets a flow, which begins again with its next packet.
    pub fn forget_flow(&mut self, key: FlowKey) {
        self.flows.forget_flow(key);
    }

    /// Forgets slots that are older than is kept, and flows of which no packet came since.
    pub fn forget_old(&mut self) {
        self.forget_before(self.latest);
    }

    /// The same at a moment that may lie before the latest packet: what was read ahead of it stays,
    /// however far ahead it is.
    pub fn forget_before(&mut self, now: Timestamp) {
        let oldest = now.min(self.latest).minus(self.options.kept);
        let oldest_slot = self.options.clock.slot(oldest);
        self.oldest = oldest_slot;
        self.flows.forget(oldest, oldest_slot);
    }

    /// When the first slot begins of which anything is kept.
    #[must_use]
    pub fn earliest(&self) -> Option<i64> {
        self.flows.ways().filter_map(|(_, kept)| kept.slots().next()).map(|slot| slot.slot).min()
    }

    /// The latest stamp, or the latest moment that a live source knows to be past;
    /// [`Timestamp::MIN`] before the first.
    #[must_use]
    pub const fn latest(&self) -> Timestamp {
        self.latest
    }

    /// The outcome of packets.
    #[must_use]
    pub const fn counts(&self) -> &FlightCounts {
        &self.counts
    }

    /// How it was made.
    #[must_use]
    pub const fn options(&self) -> &TapOptions {
        &self.options
    }

    /// Ways that data was seen to go, in no order.
    pub fn flows(&self) -> impl Iterator<Item = FlowWay> {
        self.flows.ways().map(|(way, _)| way)
    }

    /// Writes a flow's slots in order, the open one last; none of a flow that is not known.
    /// `slots` is cleared first.
    pub fn slots(&self, way: &FlowWay, slots: &mut Vec<FlightSlot>) {
        slots.clear();
        if let Some(kept) = self.flows.get(way) {
            slots.extend(kept.slots());
        }
    }

    /// What flows did in a period, those that sent most first; where several sent as much, in the
    /// order of their names. Flows that sent nothing and have nothing in flight are left out.
    pub fn periods(&mut self, period: Period) -> Vec<FlightPeriod> {
        self.heaviest(period, usize::MAX).flows
    }

    /// The first so many of [`periods`](Self::periods).
    pub fn heaviest(&mut self, period: Period, count_max: usize) -> Heaviest {
        let order = |flow: &FlightPeriod| {
            (u64::MAX - flow.sent_bytes, flow.way.key.words(), flow.way.direction as u8)
        };
        let mut found = Vec::new();
        self.flows.for_each_busy(period, |way, slots| {
            found.extend(FlightPeriod::of(way, period, slots));
        });
        let sent_bytes = found.iter().map(|flow| flow.sent_bytes).sum();
        // These have sent nothing, so they come last.
        let mut others = self.flows.waiting_count(period);
        if others > 0 && found.len() < count_max {
            others = 0;
            self.flows.for_each_waiting(period, |way, slots| {
                found.extend(FlightPeriod::of(way, period, slots));
            });
        }
        others += found.len().saturating_sub(count_max);
        if found.len() > count_max && count_max > 0 {
            found.select_nth_unstable_by_key(count_max - 1, order);
        }
        found.truncate(count_max);
        found.sort_unstable_by_key(order);
        Heaviest { flows: found, other_count: others, sent_bytes }
    }

    /// The first slot from this one on in which any flow had a packet.
    #[must_use]
    pub fn next_slot(&self, from: i64) -> Option<i64> {
        self.flows.next_slot(from)
    }

    /// Whether any flow had a packet in these slots.
    #[must_use]
    pub fn has_slot(&self, slots: &Range<i64>) -> bool {
        self.flows.has_slot(slots)
    }

    /// Slots up to the end of a period for which what is in flight is known, and whether the
    /// connection began with the first of them.
    pub fn known_slots(&mut self, way: &FlowWay, period: Period) -> (usize, bool) {
        let mut slots = std::mem::take(&mut self.slots);
        self.slots(way, &mut slots);
        let first = known_from(&slots, period).copied();
        self.slots = slots;
        first.map_or((0, false), |first| {
            let known = period.end().saturating_sub(first.slot);
            (usize::try_from(known).unwrap_or(0), first.began())
        })
    }

    /// Slots of a row, where each RTT that the flow had before a slot is cut into so many rows.
    pub fn row_slots(&mut self, way: &FlowWay, end: i64, rows_per_rtt: u32) -> Option<usize> {
        let mut slots = std::mem::take(&mut self.slots);
        self.slots(way, &mut slots);
        let found = row_slots(&slots, end, self.options.clock, rows_per_rtt);
        self.slots = slots;
        found
    }

    /// What a model reads of a flow: rows of inputs, each of so many slots.
    ///
    /// # Errors
    /// [`FlightMissingReason`], where what is in flight is not known.
    pub fn fill(
        &mut self,
        way: &FlowWay,
        period: Period,
        row_slots: usize,
        inputs: &[FlightInput],
    ) -> Result<&[f32], FlightMissingReason> {
        let (mut slots, mut rows) =
            (std::mem::take(&mut self.slots), std::mem::take(&mut self.rows));
        self.slots(way, &mut slots);
        let filled = FlightWindow { period, row_slots, slots: &slots }.fill(inputs, &mut rows);
        (self.slots, self.rows) = (slots, rows);
        filled.map(|()| self.rows.as_slice())
    }
}

/// The way that a packet goes, and the one back.
fn ways(
    both: &mut [FlightSlots; 2],
    direction: FlowDirection,
) -> (&mut FlightSlots, &mut FlightSlots) {
    let [low, high] = both;
    match direction {
        FlowDirection::LowToHigh => (low, high),
        FlowDirection::HighToLow => (high, low),
    }
}

impl Passing {
    fn from_frame(frame: &Frame<'_>) -> Result<Self, UnfitReason> {
        let header = Header::of(frame)?;
        let (key, direction) = FlowKey::from_frame(frame).ok_or(UnfitReason::Unreadable)?;
        let options = Options::of(&header);
        let segment = header.brings_data().then(|| Segment::new(frame, &header, options.ticks));
        let time = frame.record.timestamp;
        // What a reset acknowledges may be anything.
        let acks = header.flags.contains(TcpFlags::ACK) && !header.flags.contains(TcpFlags::RST);
        let ack = acks.then(|| Ack {
            time,
            number: header.acked,
            ticks: options.ticks.map(|(value, _)| value),
            blocks: options.blocks,
        });
        let way = FlowWay { key, direction };
        Ok(Self { way, time, segment, ack, is_cut: header.is_cut })
    }
}

/// What is read of a header's options.
#[derive(Default)]
struct Options {
    /// The time stamp, and the one that it echoes; the first of several, which no sender sends.
    ticks: Option<(u32, u32)>,
    /// What the receiver has out of order.
    blocks: [Option<(SeqNumber, SeqNumber)>; 4],
}

impl Options {
    fn of(header: &Header<'_>) -> Self {
        let mut found = Self::default();
        for option in header.options().map_while(Result::ok) {
            match option {
                TcpOption::Sack(blocks) => {
                    for (place, block) in found.blocks.iter_mut().zip(blocks.iter()) {
                        *place = Some(block);
                    }
                }
                TcpOption::Timestamps { value, echo_reply } => {
                    found.ticks.get_or_insert((value, echo_reply));
                }
                _ => {}
            }
        }
        found
    }
}
