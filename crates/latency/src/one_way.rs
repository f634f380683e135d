//! One-way delay: the same packet at two taps.
//!
//! Packets are distinguished by what no router changes: addresses, ports, the identification
//! of IPv4, numbers, flags and timestamps of TCP, and the first bytes that UDP or ICMP carry.
//! Checksums are left out, since a sender's own capture has none yet. Copies that are equal in all
//! of this are matched in order.
//!
//! Which tap comes first is decided for each direction of a flow by the first packet that both
//! have. What the first tap has and the second never does was lost between them.

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

/// Bytes behind the transport header that tell packets apart.
const PAYLOAD_LEN: usize = 16;
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
    /// Delays from packet to packet.
    pub series: Series,
}

/// The outcome of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OneWayCounts {
    /// Packets that both taps saw.
    pub matched: u64,
    /// Packets that one tap saw of flows of which the other saw none.
    pub elsewhere: u64,
    /// Packets that did not fit into the table.
    pub no_room: u64,
}

/// A packet that one tap has seen.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    seen: TapPacket,
    tap: Tap,
}

/// Packets between two taps, handed in in order of time.
pub struct OneWay {
    limits: Limits,
    waiting: HashMap<u64, VecDeque<Waiting>>,
    waiting_count: usize,
    order: VecDeque<(Timestamp, u64)>,
    ways: HashMap<(FlowKey, u8), OneWayFlow>,
    /// Packets of flows that one tap alone has seen so far, until the other one does.
    early: HashMap<(FlowKey, u8), [u64; 2]>,
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
            ways: HashMap::new(),
            early: HashMap::new(),
            buckets: Budget::new(limits.flow_count_max.saturating_mul(BUCKETS_PER_WAY)),
            counts: OneWayCounts::default(),
            clocks: Clocks::default(),
            limits,
        }
    }

    /// Takes in a packet at a tap; none is earlier than those before it by much.
    pub fn add<T: TakeSamples>(&mut self, tap: Tap, seen: TapPacket, out: &mut T) {
        out.at(seen.time);
        self.expire(seen.time.minus(WAIT_MAX), out);
        if let Some(first) = self.take_match(tap, seen.id) {
            self.matched(first, tap, seen, out);
        } else if self.waiting_count < self.limits.waiting_max {
            self.waiting_count += 1;
            self.waiting.entry(seen.id).or_default().push_back(Waiting { seen, tap });
            self.order.push_back((seen.time, seen.id));
        } else {
            self.counts.no_room += 1;
        }
    }

    fn take_match(&mut self, tap: Tap, id: u64) -> Option<Waiting> {
        let held = self.waiting.get_mut(&id)?;
        let place = held.iter().position(|waiting| waiting.tap != tap)?;
        let found = held.remove(place);
        if held.is_empty() {
            self.waiting.remove(&id);
        }
        self.waiting_count -= 1;
        found
    }

    fn matched<T: TakeSamples>(&mut self, first: Waiting, tap: Tap, seen: TapPacket, out: &mut T) {
        self.counts.matched += 1;
        let way = (seen.key, seen.direction as u8);
        let has_room = self.ways.len() < self.limits.flow_count_max;
        if !has_room && !self.ways.contains_key(&way) {
            self.counts.no_room += 1;
            return;
        }
        let early = &mut self.early;
        let flow = self.ways.entry(way).or_insert_with(|| {
            let [at_ingress, at_egress] = early.remove(&way).unwrap_or_default();
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
                series: Series::default(),
            }
        });
        flow.packets += 1;
        let mut sample = sample_of(&first.seen);
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
        while let Some(&(time, id)) = self.order.front().filter(|(time, _)| *time < before) {
            self.order.pop_front();
            let Some(held) = self.waiting.get_mut(&id) else { continue };
            let is_it = held.front().is_some_and(|waiting| waiting.seen.time <= time);
            let Some(gone) = held.pop_front().filter(|_| is_it) else { continue };
            if held.is_empty() {
                self.waiting.remove(&id);
            }
            self.waiting_count -= 1;
            self.lose(gone, out);
        }
    }

    fn lose<T: TakeSamples>(&mut self, gone: Waiting, out: &mut T) {
        let way = (gone.seen.key, gone.seen.direction as u8);
        match self.ways.get_mut(&way) {
            Some(flow) if flow.first == gone.tap => {
                flow.packets += 1;
                flow.lost += 1;
                out.take(&Sample { missing: Some(MissingReason::Lost), ..sample_of(&gone.seen) });
            }
            Some(flow) => flow.unseen += 1,
            None if self.early.len() < self.limits.flow_count_max => {
                self.early.entry(way).or_default()[gone.tap as usize] += 1;
            }
            None => self.counts.no_room += 1,
        }
    }

    /// No packet comes any more.
    pub fn finish<T: TakeSamples>(&mut self, out: &mut T) {
        self.expire(Timestamp::MAX, out);
        let early = std::mem::take(&mut self.early);
        self.counts.elsewhere += early.values().flatten().sum::<u64>();
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
