//! One-way delay: the same packet at two taps.
//!
//! Packets are distinguished by what no router changes: addresses, ports, the identification
//! of IPv4, numbers, flags and timestamps of TCP, and the first bytes that UDP or ICMP carry.
//! Checksums are left out, since a sender's own capture has none yet. Copies that are equal in all
//! of this are matched in order.
//!
//! Which tap comes first is decided for each direction of a flow by the first packet that both
//! have at different times. What the first tap has and the second never does was lost between
//! them.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use packet::wire::tcp::Tcp;
use packet::wire::tcp_options::TcpOption;
use packet::{FlowDirection, FlowKey, Frame, Layers, Network, Protocol, Span, Timestamp};

use crate::budget::Budget;
use crate::clocks::Clocks;
use crate::context::Limits;
use crate::rtt::{Rtt, Series};
use crate::sample::{AckDelay, Echo, Method, MissingReason, Place, Sample, Sharp, TakeSamples};
use crate::segment;

/// A packet that was not seen at the other tap for so long was lost.
pub const WAIT_MAX: Span = Span::from_seconds(10);

/// How long before the first packet of a tap one may have left the other and be expected: that long
/// travel takes at most.
const TRAVEL_MAX: Span = Span::from_seconds(1);
/// Bytes behind the transport header that tell packets apart.
const PAYLOAD_LEN: usize = 16;
/// Arrivals of matched packets leave the order when they outnumber those of packets that wait by
/// more than this. Memory then follows what waits, and a match costs a bounded number of steps.
const MATCHED_SPARE: usize = 1024;
/// Buckets of histograms for each direction of a flow, on average.
const BUCKETS_PER_WAY: usize = 64;

/// One of two taps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Tap {
    /// The one that is named first.
    Ingress,
    /// The other.
    Egress,
}

impl Tap {
    const fn other(self) -> Self {
        match self {
            Self::Ingress => Self::Egress,
            Self::Egress => Self::Ingress,
        }
    }
}

/// A packet at a tap.
#[derive(Clone, Copy, Debug)]
pub struct TapPacket {
    /// When.
    pub time: Timestamp,
    key: FlowKey,
    direction: FlowDirection,
    wire_len: u32,
    len: u32,
    ecn: u8,
    id: u64,
}

impl TapPacket {
    /// Which packet it is, as [`Identity`] defines.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The flow and the direction in it.
    #[must_use]
    pub const fn way(&self) -> (FlowKey, FlowDirection) {
        (self.key, self.direction)
    }

    #[cfg(test)]
    pub(crate) fn for_test(direction: FlowDirection) -> Self {
        let key = FlowKey::default();
        Self { time: Timestamp::MIN, key, direction, wire_len: 0, len: 0, ecn: 0, id: 0 }
    }
}

/// Distinguishes packets.
#[derive(Clone, Debug, Default)]
pub struct Identity(RandomState);

impl Identity {
    /// A packet at a tap; none where it has no flow or no stamp, or was cut before its headers end.
    #[must_use]
    pub fn of(&self, frame: &Frame<'_>) -> Option<TapPacket> {
        let layers = &frame.record.layers;
        let time = Some(frame.record.timestamp).filter(|&time| time != Timestamp::UNKNOWN)?;
        let (key, direction) = FlowKey::from_frame(frame)?;
        let mut hasher = self.0.build_hasher();
        std::hash::Hash::hash(&(key, direction as u8, layers.payload_len), &mut hasher);
        if layers.network == Network::Ipv4 {
            let header = frame.from_offset(layers.network_offset);
            hasher.write(header.get(4..8)?);
        }
        if !layers.has(Layers::TRANSPORT) {
            // A later fragment, or a protocol that nobody reads.
            let carried = frame.from_offset(layers.transport_offset);
            hasher.write(carried.get(..PAYLOAD_LEN.min(carried.len()))?);
        } else if layers.protocol == Protocol::TCP {
            let tcp = Tcp::new(frame.from_offset(layers.transport_offset)).ok()?;
            hasher.write_u32(tcp.sequence_number().0);
            hasher.write_u32(tcp.acknowledgment_number().0);
            hasher.write_u16(tcp.flags().bits());
            hasher.write_u16(tcp.window());
            for option in tcp.options() {
                if let Ok(TcpOption::Timestamps { value, echo_reply }) = option {
                    hasher.write_u32(value);
                    hasher.write_u32(echo_reply);
                }
            }
        } else {
            let carried = frame.from_offset(layers.payload_offset);
            let len = PAYLOAD_LEN.min(carried.len()).min(layers.payload_len as usize);
            hasher.write(carried.get(..len)?);
        }
        Some(TapPacket {
            time,
            key,
            direction,
            wire_len: frame.record.wire_len,
            len: layers.payload_len,
            ecn: segment::ecn(frame),
            id: hasher.finish(),
        })
    }
}

/// One direction of a flow between two taps.
#[derive(Clone, Debug)]
pub struct OneWayFlow {
    /// The tap that its packets pass first.
    pub first: Tap,
    /// Delays from there to the other.
    pub delays: Rtt,
    /// Packets at the first tap.
    pub packets: u64,
    /// Of those, packets that the other tap never saw.
    pub lost: u64,
    /// Packets at the other tap that the first one never saw.
    pub unseen: u64,
    /// Packets that seem to have come before they left: clocks differ by more than is known.
    pub backwards: u64,
    /// Whether no packet so far says which tap comes first: both saw each at the same time.
    is_tied: bool,
    /// Delays from packet to packet.
    pub series: Series,
}

impl OneWayFlow {
    /// A packet was seen here first. With an offset that makes the least delay 0, that packet is as
    /// early at either tap, and may be the first of its flow.
    const fn pass_first(&mut self, tap: Tap) {
        if self.is_tied && self.first as u8 != tap as u8 {
            self.first = tap;
            self.packets = self.packets - self.lost + self.unseen;
            std::mem::swap(&mut self.lost, &mut self.unseen);
        }
        self.is_tied = false;
    }
}

/// The outcome of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OneWayCounts {
    /// Packets that both taps saw.
    pub matched: u64,
    /// Packets that one tap saw of flows of which the other saw none.
    pub elsewhere: u64,
    /// Of those that are lost or unseen, packets from before or after all of the other tap: it may
    /// not have captured then.
    pub outside: u64,
    /// Packets that did not fit into the table.
    pub no_room: u64,
}

/// A packet that one tap has seen.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    seen: TapPacket,
    tap: Tap,
    number: u64,
}

/// When a packet came that waits, or that has been matched since.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    time: Timestamp,
    id: u64,
    /// Distinguishes packets that are equal in all that their identity is made of.
    number: u64,
}

/// Packets of a flow that was seen at one tap so far, by tap.
#[derive(Clone, Copy, Debug, Default)]
struct Early {
    packets: [u64; 2],
    outside: u64,
}

/// The times between which a tap has captured packets.
#[derive(Clone, Copy, Debug, Default)]
struct Captured {
    times: Option<(Timestamp, Timestamp)>,
    has_ended: bool,
}

impl Captured {
    fn add(&mut self, time: Timestamp) {
        let (first, last) = self.times.unwrap_or((time, time));
        self.times = Some((first.min(time), last.max(time)));
    }

    /// Whether a packet that the other tap saw then can be missed here: not long before the first
    /// packet, nor after the last one, when the capture has ended.
    fn covers(&self, time: Timestamp) -> bool {
        self.times.is_some_and(|(first, last)| {
            time >= first.minus(TRAVEL_MAX) && (time <= last || !self.has_ended)
        })
    }
}

type WaitingById = HashMap<u64, VecDeque<Waiting>>;

impl Arrival {
    /// Of packets with one identity those that came first are matched or given up first, so that
    /// those that wait are the last that came.
    fn waits(&self, waiting: &WaitingById) -> bool {
        let first = waiting.get(&self.id).and_then(VecDeque::front);
        first.is_some_and(|first| first.number <= self.number)
    }
}

/// Packets between two taps, handed in in order of time.
pub struct OneWay {
    limits: Limits,
    /// Those with one identity are of one tap: the first of the other tap is matched with them.
    waiting: WaitingById,
    waiting_count: usize,
    /// In the order of their numbers.
    order: VecDeque<Arrival>,
    next_number: u64,
    ways: HashMap<(FlowKey, u8), OneWayFlow>,
    /// Packets of flows that one tap alone has seen so far, until the other one does.
    early: HashMap<(FlowKey, u8), Early>,
    /// By tap.
    captured: [Captured; 2],
    buckets: Budget,
    counts: OneWayCounts,
    /// The least delays over time, by which clocks are compared.
    pub clocks: Clocks,
}

impl OneWay {
    /// Before the first packet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            waiting: HashMap::new(),
            waiting_count: 0,
            order: VecDeque::new(),
            next_number: 0,
            ways: HashMap::new(),
            early: HashMap::new(),
            captured: [Captured::default(); 2],
            buckets: Budget::new(limits.flow_count_max.saturating_mul(BUCKETS_PER_WAY)),
            counts: OneWayCounts::default(),
            clocks: Clocks::default(),
            limits,
        }
    }

    /// Takes in a packet at a tap; none is earlier than those before it by much.
    pub fn add<T: TakeSamples>(&mut self, tap: Tap, seen: TapPacket, out: &mut T) {
        out.at(seen.time);
        self.captured[tap as usize].add(seen.time);
        self.expire(seen.time.minus(WAIT_MAX), out);
        if let Some(first) = self.take_match(tap, seen.id) {
            self.matched(first, tap, seen, out);
        } else if self.waiting_count < self.limits.waiting_max {
            self.keep(tap, seen);
        } else {
            self.counts.no_room += 1;
        }
    }

    fn keep(&mut self, tap: Tap, seen: TapPacket) {
        let Self { waiting, waiting_count, order, next_number, .. } = self;
        let (id, number) = (seen.id, *next_number);
        *next_number += 1;
        *waiting_count += 1;
        waiting.entry(id).or_default().push_back(Waiting { seen, tap, number });
        order.push_back(Arrival { time: seen.time, id, number });
        if order.len() > waiting_count.saturating_mul(2).saturating_add(MATCHED_SPARE) {
            order.retain(|arrival| arrival.waits(waiting));
        }
    }

    fn take_match(&mut self, tap: Tap, id: u64) -> Option<Waiting> {
        let held = self.waiting.get_mut(&id)?;
        if held.front()?.tap == tap {
            return None;
        }
        let found = held.pop_front();
        if held.is_empty() {
            self.waiting.remove(&id);
        }
        self.waiting_count -= 1;
        found
    }

    fn matched<T: TakeSamples>(&mut self, first: Waiting, tap: Tap, seen: TapPacket, out: &mut T) {
        let way = (seen.key, seen.direction as u8);
        let has_room = self.ways.len() < self.limits.flow_count_max;
        if !has_room && !self.ways.contains_key(&way) {
            // The packet at either tap.
            self.counts.no_room += 2;
            return;
        }
        self.counts.matched += 1;
        let (early, outside_sum) = (&mut self.early, &mut self.counts.outside);
        let flow = self.ways.entry(way).or_insert_with(|| {
            let Early { packets: [at_ingress, at_egress], outside } =
                early.remove(&way).unwrap_or_default();
            *outside_sum += outside;
            let (lost, unseen) = match first.tap {
                Tap::Ingress => (at_ingress, at_egress),
                Tap::Egress => (at_egress, at_ingress),
            };
            OneWayFlow {
                first: first.tap,
                delays: Rtt::default(),
                packets: lost,
                lost,
                unseen,
                backwards: 0,
                is_tied: true,
                series: Series::default(),
            }
        });
        flow.packets += 1;
        let mut sample = sample_of(&first.seen);
        if first.seen.time != seen.time {
            flow.pass_first(first.tap);
        }
        // The tap that the flow passes first has seen this packet second.
        let is_backwards = first.tap != flow.first && first.seen.time != seen.time;
        if is_backwards {
            flow.backwards += 1;
            sample = Sample { missing: Some(MissingReason::ClockStep), ..sample_of(&seen) };
        } else {
            let delay = u64::try_from(seen.time.since(first.seen.time).as_ns()).unwrap_or(0);
            flow.delays.add(delay, &mut self.buckets);
            let (in_flow, in_flow_prompt) = flow.series.add(delay, true, &self.limits.sharp);
            sample.latency_ns = Some(delay);
            sample.is_answered = true;
            sample.sharp = Sharp { in_flow, in_flow_prompt, ..Sharp::default() };
        }
        let (ingress, egress) = match tap {
            Tap::Egress => (first.seen.time, seen.time),
            Tap::Ingress => (seen.time, first.seen.time),
        };
        self.clocks.add(flow.first, ingress, egress);
        out.take(&sample);
    }

    fn expire<T: TakeSamples>(&mut self, before: Timestamp, out: &mut T) {
        while let Some(&arrival) = self.order.front().filter(|arrival| arrival.time < before) {
            self.order.pop_front();
            let Arrival { id, number, .. } = arrival;
            let Some(held) = self.waiting.get_mut(&id) else { continue };
            // It may have been matched, and another that is equal to it may wait since.
            if held.front().is_none_or(|first| first.number != number) {
                continue;
            }
            let Some(gone) = held.pop_front() else { continue };
            if held.is_empty() {
                self.waiting.remove(&id);
            }
            self.waiting_count -= 1;
            self.lose(gone, out);
        }
    }

    fn lose<T: TakeSamples>(&mut self, gone: Waiting, out: &mut T) {
        let way = (gone.seen.key, gone.seen.direction as u8);
        let other = &self.captured[gone.tap.other() as usize];
        let outside = u64::from(!other.covers(gone.seen.time));
        match self.ways.get_mut(&way) {
            Some(flow) if flow.first == gone.tap => {
                flow.packets += 1;
                flow.lost += 1;
                self.counts.outside += outside;
                out.take(&Sample { missing: Some(MissingReason::Lost), ..sample_of(&gone.seen) });
            }
            Some(flow) => {
                flow.unseen += 1;
                self.counts.outside += outside;
            }
            None if self.early.len() < self.limits.flow_count_max => {
                let early = self.early.entry(way).or_default();
                early.packets[gone.tap as usize] += 1;
                early.outside += outside;
            }
            None => self.counts.no_room += 1,
        }
    }

    /// A tap has captured no more after its last packet.
    pub const fn end(&mut self, tap: Tap) {
        self.captured[tap as usize].has_ended = true;
    }

    /// No packet comes any more.
    pub fn finish<T: TakeSamples>(&mut self, out: &mut T) {
        self.end(Tap::Ingress);
        self.end(Tap::Egress);
        self.expire(Timestamp::MAX, out);
        let early = std::mem::take(&mut self.early);
        self.counts.elsewhere += early.values().flat_map(|early| early.packets).sum::<u64>();
    }

    /// What was found of each direction of each flow, in the order of their keys.
    #[must_use]
    pub fn take_flows(&mut self) -> Vec<(FlowKey, FlowDirection, OneWayFlow)> {
        let direction = |way: u8| {
            if way == 0 { FlowDirection::LowToHigh } else { FlowDirection::HighToLow }
        };
        let flows = self.ways.drain().map(|((key, way), flow)| (key, direction(way), flow));
        let mut flows: Vec<_> = flows.collect();
        flows.sort_unstable_by_key(|&(key, direction, _)| (key, direction as u8));
        flows
    }

    /// The outcome of packets.
    #[must_use]
    pub const fn counts(&self) -> &OneWayCounts {
        &self.counts
    }
}

fn sample_of(seen: &TapPacket) -> Sample {
    Sample {
        key: seen.key,
        direction: seen.direction,
        time: seen.time,
        seq: None,
        wire_len: seen.wire_len,
        len: seen.len,
        latency_ns: None,
        method: Method::OneWay,
        missing: None,
        held: AckDelay::No,
        wait_ns: None,
        is_answered: false,
        place: Place::New,
        ecn: seen.ecn,
        echo: Echo::default(),
        sharp: Sharp::default(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(ms: i64, id: u64) -> TapPacket {
        let time = Timestamp::from_ns(ms * 1_000_000);
        TapPacket { time, id, ..TapPacket::for_test(FlowDirection::LowToHigh) }
    }

    fn one_way(waiting_max: usize) -> OneWay {
        OneWay::new(Limits { waiting_max, ..Limits::default() })
    }

    #[test]
    fn packets_that_are_equal_are_matched_in_order_however_far_apart_they_are() {
        for period_ms in [1, 5_000, 9_999, 10_000, 10_001, 20_000] {
            let mut one_way = one_way(100);
            for at in 0..30 {
                one_way.add(Tap::Ingress, seen(at * period_ms, 7), &mut ());
                one_way.add(Tap::Egress, seen(at * period_ms + 5, 7), &mut ());
            }
            assert_eq!((one_way.counts.matched, one_way.waiting_count), (30, 0), "{period_ms}");
            assert!(one_way.waiting.is_empty());
            one_way.finish(&mut ());
            let flows = one_way.take_flows();
            let [(_, _, flow)] = flows.as_slice() else { panic!("one flow") };
            assert_eq!((flow.packets, flow.lost, flow.unseen), (30, 0, 0), "{period_ms}");
        }
    }

    #[test]
    fn packets_that_were_matched_take_bounded_memory_while_one_waits() {
        let mut one_way = one_way(4);
        one_way.add(Tap::Ingress, seen(0, 0), &mut ());
        for id in 1..10_000 {
            one_way.add(Tap::Ingress, seen(1, id), &mut ());
            one_way.add(Tap::Egress, seen(2, id), &mut ());
            assert!(one_way.order.len() <= 2 * 4 + MATCHED_SPARE);
        }
        assert_eq!((one_way.counts.matched, one_way.waiting_count), (9_999, 1));
        // The one that waits is still in line.
        one_way.finish(&mut ());
        assert_eq!((one_way.waiting_count, one_way.counts.no_room), (0, 0));
        assert_eq!(one_way.take_flows()[0].2.lost, 1);
    }

    #[test]
    fn the_tap_that_comes_first_is_that_of_the_first_packet_with_a_delay() {
        let mut one_way = one_way(100);
        one_way.add(Tap::Ingress, seen(0, 1), &mut ());
        one_way.add(Tap::Egress, seen(20_000, 2), &mut ());
        one_way.add(Tap::Ingress, seen(20_000, 2), &mut ());
        one_way.add(Tap::Ingress, seen(20_010, 3), &mut ());
        one_way.add(Tap::Egress, seen(20_015, 3), &mut ());
        one_way.finish(&mut ());
        let flow = &one_way.take_flows()[0].2;
        assert_eq!((flow.first, flow.backwards, flow.delays.count), (Tap::Ingress, 0, 2));
        assert_eq!((flow.packets, flow.lost, flow.unseen), (3, 1, 0));
    }

    #[test]
    fn packets_of_flows_without_a_place_are_counted_once() {
        let mut one_way = OneWay::new(Limits { flow_count_max: 1, ..Limits::default() });
        for (id, direction) in [(1, FlowDirection::LowToHigh), (2, FlowDirection::HighToLow)] {
            let at = |ms| TapPacket { direction, ..seen(ms, id) };
            one_way.add(Tap::Ingress, at(0), &mut ());
            one_way.add(Tap::Egress, at(5), &mut ());
        }
        one_way.finish(&mut ());
        let counts = one_way.counts();
        assert_eq!((counts.matched, counts.no_room), (1, 2));
    }

    #[test]
    fn what_one_tap_has_before_and_after_the_other_is_distinguished() {
        let mut one_way = one_way(1_000);
        for second in 0..60 {
            one_way.add(Tap::Ingress, seen(second * 1_000, second as u64), &mut ());
            // One is lost on the way.
            if (20..=40).contains(&second) && second != 30 {
                one_way.add(Tap::Egress, seen(second * 1_000 + 5, second as u64), &mut ());
            }
            if second == 40 {
                one_way.end(Tap::Egress);
            }
        }
        one_way.finish(&mut ());
        let counts = *one_way.counts();
        assert_eq!((counts.matched, counts.outside), (20, 20 + 19));
        assert_eq!(one_way.take_flows()[0].2.lost, counts.outside + 1);
    }

    proptest! {
        #[test]
        fn what_waits_is_what_a_list_of_packets_has(
            packets in prop::collection::vec(
                (
                    prop_oneof![Just(0_i64), Just(2_500_i64), Just(5_000_i64), 0_i64..4_000],
                    any::<bool>(),
                    0_u64..3,
                ),
                1..200,
            ),
            waiting_max in 1_usize..6,
        ) {
            let mut one_way = one_way(waiting_max);
            let mut list: Vec<(i64, bool, u64)> = Vec::new();
            let (mut now_ms, mut matched, mut refused) = (0, 0, 0);
            for (wait_ms, is_egress, id) in packets {
                now_ms += wait_ms;
                list.retain(|&(ms, ..)| ms >= now_ms - 10_000);
                match list.iter().position(|&(_, tap, of)| of == id && tap != is_egress) {
                    Some(at) => {
                        list.remove(at);
                        matched += 1;
                    }
                    None if list.len() < waiting_max => list.push((now_ms, is_egress, id)),
                    None => refused += 1,
                }
                let tap = if is_egress { Tap::Egress } else { Tap::Ingress };
                one_way.add(tap, seen(now_ms, id), &mut ());
                let held: usize = one_way.waiting.values().map(VecDeque::len).sum();
                prop_assert_eq!((one_way.waiting_count, held), (list.len(), list.len()));
                let counts = one_way.counts();
                prop_assert_eq!((counts.matched, counts.no_room), (matched, refused));
                let waits = |arrival: &&Arrival| arrival.waits(&one_way.waiting);
                prop_assert_eq!(one_way.order.iter().filter(waits).count(), list.len());
            }
            one_way.finish(&mut ());
            prop_assert!(one_way.waiting.is_empty() && one_way.waiting_count == 0);
        }
    }
}
