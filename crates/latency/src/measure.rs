//! All flows of a pass.

use engine::flow::pass::Piece;
use engine::flow::{FlowPacket, PerFlow, SideSlab};
use packet::wire::dns::{self, Dns};
use packet::wire::quic::Quic;
use packet::{FlowDirection, FlowKey, FlowSlot, Frame, Layers, Protocol, Timestamp};

use crate::budget::Budget;
use crate::context::{BUCKETS_PER_FLOW, Context, Limits, Queues};
use crate::flow::{Flow, Opening};
use crate::outstanding::Waiting;
use crate::sample::TakeSamples;
use crate::segment::{self, Segment};

/// The outcome of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// TCP that was measured.
    pub tcp: u64,
    /// DNS over UDP that was measured.
    pub dns: u64,
    /// QUIC that was measured.
    pub quic: u64,
    /// Packets of other protocols, and UDP of which nothing is known: they are not answered in a
    /// way that the tap can see.
    pub other: u64,
    /// Packets of flows that did not fit into the table.
    pub no_place: u64,
    /// Packets without a stamp.
    pub no_time: u64,
    /// Later fragments, and headers that were cut off or cannot be.
    pub unreadable: u64,
}

/// What is kept of a flow.
#[derive(Clone, Debug, Default)]
struct State {
    opening: Opening,
    flow: Option<Box<Flow>>,
}

impl PerFlow for State {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// Latencies of the packets of a pass.
pub struct Latency {
    limits: Limits,
    states: SideSlab<State>,
    flows: Budget,
    packets: Budget,
    buckets: Budget,
    queues: Queues,
    counts: Counts,
}

/// What all flows share, apart from their states.
macro_rules! context {
    ($latency:expr, $key:expr, $direction:expr, $out:expr) => {
        Context {
            key: $key,
            direction: $direction,
            limits: &$latency.limits,
            packets: &mut $latency.packets,
            buckets: &mut $latency.buckets,
            queues: &mut $latency.queues,
            out: $out,
        }
    };
}

impl Latency {
    /// Before the first packet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            states: SideSlab::default(),
            flows: Budget::new(limits.flow_count_max),
            packets: Budget::new(limits.waiting_max),
            buckets: Budget::new(limits.flow_count_max.saturating_mul(BUCKETS_PER_FLOW)),
            queues: Queues::default(),
            counts: Counts::default(),
            limits,
        }
    }

    /// Takes in the packets of a piece.
    pub fn take<T: TakeSamples>(&mut self, piece: &Piece<'_>, out: &mut T) {
        piece.slots.iter().for_each(|&slot| self.states.prefetch(slot));
        for (_, frame, packet, slot) in piece.flows() {
            self.take_packet(&frame, packet, slot, out);
        }
    }

    /// Takes in one packet, for who looks at each of them in turn.
    #[inline]
    pub fn take_packet<T: TakeSamples>(
        &mut self,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
        out: &mut T,
    ) {
        let layers = &frame.record.layers;
        if frame.record.timestamp == Timestamp::UNKNOWN {
            self.counts.no_time += 1;
            return;
        }
        out.at(frame.record.timestamp);
        if layers.protocol == Protocol::TCP {
            match Segment::from_frame(frame) {
                Some(segment) => self.add_tcp(&segment, packet, slot, out),
                None => self.counts.unreadable += 1,
            }
        } else if layers.protocol == Protocol::UDP && layers.has(Layers::TRANSPORT) {
            self.add_udp(frame, packet, slot, out);
        } else {
            self.counts.other += 1;
        }
    }

    #[inline]
    fn add_tcp<T: TakeSamples>(
        &mut self,
        segment: &Segment,
        packet: &FlowPacket,
        slot: FlowSlot,
        out: &mut T,
    ) {
        let Some(state) = self.states.state(slot) else { return };
        let (key, direction) = (packet.marked_key.key(), packet.direction);
        self.counts.tcp += 1;
        let mut context = context!(self, key, direction, out);
        if let Some(flow) = &mut state.flow {
            return flow.on_tcp(segment, direction, &mut context);
        }
        if segment.opens() && segment.payload_len == 0 {
            return state.opening.add(segment, direction);
        }
        // An acknowledgement of nothing that was seen is nothing to measure.
        if segment.len == 0 && !state.opening.is_answered_by(segment, direction) {
            return;
        }
        if !self.flows.take(1) {
            self.counts.tcp -= 1;
            self.counts.no_place += 1;
            return;
        }
        let mut flow = Box::new(Flow::opened(&state.opening, direction, &mut context));
        flow.on_tcp(segment, direction, &mut context);
        (state.opening, state.flow) = (Opening::default(), Some(flow));
    }

    fn add_udp<T: TakeSamples>(
        &mut self,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
        out: &mut T,
    ) {
        let (key, direction) = (packet.marked_key.key(), packet.direction);
        let payload = frame.from_offset(frame.record.layers.payload_offset);
        let is_dns = key.low_port() == dns::PORT || key.high_port() == dns::PORT;
        let waiting = Waiting::of(&Segment {
            time: frame.record.timestamp,
            len: frame.record.layers.payload_len,
            wire_len: frame.record.wire_len,
            ecn: segment::ecn(frame),
            ..Segment::default()
        });
        if is_dns {
            let Some(dns) = Dns::new(payload) else {
                self.counts.other += 1;
                return;
            };
            // A response to nothing that was seen begins nothing.
            let Some((flow, mut context)) =
                self.flow_of(slot, !dns.is_response(), (key, direction), out)
            else {
                return;
            };
            flow.on_dns(&dns, waiting, direction, &mut context);
            self.counts.dns += 1;
            return;
        }
        let Some(quic) = Quic::new(payload) else {
            self.counts.other += 1;
            return;
        };
        let begins = quic.has_known_version();
        let Some((flow, mut context)) = self.flow_of(slot, begins, (key, direction), out) else {
            return;
        };
        flow.on_quic(&quic, waiting, direction, &mut context);
        self.counts.quic += 1;
    }

    /// The flow in a slot, begun if it may be; else the packet is counted.
    fn flow_of<'a, T: TakeSamples>(
        &'a mut self,
        slot: FlowSlot,
        begins: bool,
        (key, direction): (FlowKey, FlowDirection),
        out: &'a mut T,
    ) -> Option<(&'a mut Flow, Context<'a, T>)> {
        let state = self.states.state(slot)?;
        if state.flow.is_none() {
            if !begins {
                self.counts.other += 1;
                return None;
            }
            if !self.flows.take(1) {
                self.counts.no_place += 1;
                return None;
            }
            state.flow = Some(Box::new(Flow::of_first(direction)));
        }
        Some((state.flow.as_deref_mut()?, context!(self, key, direction, out)))
    }

    /// Looks at a flow that has not ended.
    pub fn look<R>(&self, slot: FlowSlot, look: impl FnOnce(&Flow) -> R) -> Option<R> {
        self.states.seen(slot)?.flow.as_deref().map(look)
    }

    /// A flow has ended: gives up what waits, and looks at it once more.
    pub fn end<T: TakeSamples, R>(
        &mut self,
        slot: FlowSlot,
        key: FlowKey,
        out: &mut T,
        look: impl FnOnce(&Flow) -> R,
    ) -> Option<R> {
        let state = self.states.existing(slot)?;
        let (opening, flow) = (std::mem::take(&mut state.opening), state.flow.take());
        let mut context = context!(self, key, FlowDirection::LowToHigh, out);
        let was_measured = flow.is_some();
        let mut flow = match flow {
            Some(flow) => flow,
            None if opening.is_empty() => return None,
            None => Box::new(Flow::opened(&opening, FlowDirection::LowToHigh, &mut context)),
        };
        flow.give_up(&mut context);
        let found = look(&flow);
        flow.release(&mut self.buckets);
        if was_measured {
            self.flows.give(1);
        }
        Some(found)
    }

    /// The outcome of packets.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What may be kept, and what counts as what.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sharp changes within queues: of all packets, and of those whose acknowledgement was not
    /// held back; then latencies of senders for which there was no room.
    #[must_use]
    pub fn queues(&self) -> (u64, u64, u64) {
        let (sharp, prompt) = self.queues.sharp();
        (sharp, prompt, self.queues.left_out)
    }

    /// Flows that are measured, packets that wait and buckets in use: nothing once all flows have
    /// ended.
    #[must_use]
    pub const fn in_use(&self) -> [usize; 3] {
        [self.flows.used(), self.packets.used(), self.buckets.used()]
    }
}
