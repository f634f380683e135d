//! What is kept of a flow.

use packet::wire::dns::Dns;
use packet::wire::quic::Quic;
use packet::wire::tcp::{SeqNumber, TcpFlags};
use packet::{FlowDirection, Span, Timestamp};

use crate::budget::Budget;
use crate::context::{Context, PacketContext};
use crate::echo::{Counters, EchoKind};
use crate::outstanding::Waiting;
use crate::sample::{Echo, Method, MissingReason, TakeSamples};
use crate::segment::Segment;
use crate::spin::Spin;
use crate::way::Way;

/// DNS queries of one flow that wait for a response at most.
const QUERIES_MAX: usize = 64;
/// A query that has waited for so long is answered no more, and none with its number repeats it: no
/// resolver waits longer.
const QUERY_WAIT_MAX: Span = Span::from_seconds(30);

/// A packet of the handshake, until the connection is open: what a scan leaves costs no more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandshakePacket {
    packet: Waiting,
    /// When it was sent for the last time, where more than once, and how often again.
    again: Timestamp,
    copies: u16,
    flags: TcpFlags,
    direction: FlowDirection,
}

impl HandshakePacket {
    fn of(segment: &Segment, direction: FlowDirection) -> Self {
        let (packet, again, copies) = (Waiting::of(segment), Timestamp::UNKNOWN, 0);
        Self { packet, again, copies, flags: segment.flags, direction }
    }

    /// Whether this is the same packet once more.
    fn is_again(&self, segment: &Segment, direction: FlowDirection) -> bool {
        self.direction == direction && self.packet.seq == segment.seq
    }

    fn segment(&self, ack: Option<SeqNumber>) -> Segment {
        Segment {
            time: self.packet.time,
            seq: self.packet.seq,
            len: 1,
            ack,
            flags: self.flags,
            wire_len: self.packet.wire_len,
            segments: 1,
            ecn: self.packet.ecn,
            ticks: self.packet.ticks().map(|ticks| (ticks, 0)),
            ..Segment::default()
        }
    }
}

/// What was seen of a handshake.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening {
    syn: Option<HandshakePacket>,
    syn_ack: Option<HandshakePacket>,
}

impl Opening {
    /// Takes in a packet that opens a connection.
    pub(crate) fn add(&mut self, segment: &Segment, direction: FlowDirection) {
        let held = if segment.ack.is_some() { &mut self.syn_ack } else { &mut self.syn };
        match held {
            Some(held) if held.is_again(segment, direction) => {
                held.again = segment.time;
                held.copies = held.copies.saturating_add(1);
            }
            _ if segment.ack.is_some() => {
                self.syn_ack = Some(HandshakePacket::of(segment, direction))
            }
            _ => *self = Self { syn: Some(HandshakePacket::of(segment, direction)), syn_ack: None },
        }
    }

    /// Whether both sides have sent, with this packet without data, which may refuse (RST).
    pub(crate) fn is_answered_by(&self, segment: &Segment, direction: FlowDirection) -> bool {
        let refuses = |syn: HandshakePacket| {
            syn.direction != direction && segment.ack == Some(syn.packet.end)
        };
        self.syn_ack.is_some() || self.syn.is_some_and(refuses)
    }

    /// Whether nothing was seen.
    pub(crate) const fn is_empty(&self) -> bool {
        self.syn.is_none() && self.syn_ack.is_none()
    }
}

/// A flow that is measured.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Which way its first packet went: its sender is the source.
    pub source: FlowDirection,
    /// From the low endpoint, and from the high one.
    pub ways: [Way; 2],
    /// How marks are echoed.
    pub echo: EchoKind,
    spin: Spin,
    queries: Vec<(FlowDirection, Waiting)>,
    /// Who sent data last, and when.
    last_data: Option<(FlowDirection, Timestamp)>,
}

impl Flow {
    /// Of which a packet that goes this way is the first.
    pub(crate) fn of_first(source: FlowDirection) -> Self {
        Self {
            source,
            ways: Default::default(),
            echo: EchoKind::default(),
            spin: Spin::default(),
            queries: Vec::new(),
            last_data: None,
        }
    }

    /// Of a connection with a handshake so far.
    pub(crate) fn opened<T: TakeSamples>(
        opening: &Opening,
        first: FlowDirection,
        context: &mut Context<'_, T>,
    ) -> Self {
        let answered = opening.syn_ack.map(|syn_ack| syn_ack.direction.opposite());
        let source = opening.syn.map(|syn| syn.direction).or(answered);
        let mut flow = Self::of_first(source.unwrap_or(first));
        if let (Some(syn), Some(syn_ack)) = (opening.syn, opening.syn_ack) {
            flow.echo = EchoKind::agreed(syn.flags, syn_ack.flags);
        }
        let ack = opening.syn.map(|syn| syn.packet.end);
        for (opened, ack) in [(opening.syn, None), (opening.syn_ack, ack)] {
            let Some(opened) = opened else { continue };
            flow.on_tcp(&opened.segment(ack), opened.direction, context);
            if opened.copies > 0 {
                let way = &mut flow.ways[opened.direction as usize];
                let copy = Waiting { time: opened.again, ..opened.packet };
                context.direction = opened.direction;
                way.resent_at_opening(copy, opened.copies, context);
            }
            if flow.echo == EchoKind::Accurate {
                flow.ways[opened.direction as usize].counters = Counters::from_handshake();
            }
        }
        flow
    }

    /// Takes in a packet of TCP.
    #[inline]
    pub(crate) fn on_tcp<T: TakeSamples>(
        &mut self,
        segment: &Segment,
        direction: FlowDirection,
        context: &mut Context<'_, T>,
    ) {
        // First what it acknowledges: its own data cannot be part of that.
        if let Some(ack) = segment.ack {
            context.direction = direction.opposite();
            let way = &mut self.ways[direction.opposite() as usize];
            way.on_ack(segment, ack, &mut self.echo, context);
        }
        if segment.len == 0 {
            return;
        }
        context.direction = direction;
        let is_new = self.ways[direction as usize].on_data(segment, context);
        if is_new && segment.payload_len > 0 {
            self.on_turn(segment.time, direction, context.buckets);
        }
    }

    /// The first data after data of the other side: how long that side thought.
    #[inline]
    fn on_turn(&mut self, time: Timestamp, direction: FlowDirection, buckets: &mut Budget) {
        let before = self.last_data.replace((direction, time));
        let Some((_, asked)) = before.filter(|&(of, _)| of != direction) else { return };
        let Some(travel) = self.ways[direction.opposite() as usize].rtt.min() else { return };
        if let Ok(turn) = u64::try_from(time.since(asked).as_ns()) {
            self.ways[direction as usize].think.add(turn.saturating_sub(travel), buckets);
        }
    }

    /// Takes in a packet of DNS.
    pub(crate) fn on_dns<T: TakeSamples>(
        &mut self,
        dns: &Dns<'_>,
        mut packet: Waiting,
        direction: FlowDirection,
        context: &mut Context<'_, T>,
    ) {
        // Told by number, not by place.
        packet.seq = SeqNumber(dns.id().into());
        packet.end = packet.seq.plus(packet.end.0);
        let asker = if dns.is_response() { direction.opposite() } else { direction };
        context.direction = asker;
        let same =
            |&(of, ref other): &(FlowDirection, Waiting)| of == asker && other.seq == packet.seq;
        let known = self.queries.iter().position(same);
        if !dns.is_response() {
            return self.on_query(asker, packet, known, context);
        }
        let Some(place) = known else { return };
        let (_, query) = self.take_query(place, context.packets);
        let way = &mut self.ways[asker as usize];
        if query.has(Waiting::RESENT) {
            return way.miss(&query, MissingReason::Ambiguous, context);
        }
        let found =
            PacketContext { is_answered: true, ..PacketContext::new(Method::Dns, Echo::default()) };
        way.find(&query, packet.time, found, context);
    }

    /// Takes in a query; `known` is the place of one that waits with its number.
    fn on_query<T: TakeSamples>(
        &mut self,
        asker: FlowDirection,
        mut packet: Waiting,
        known: Option<usize>,
        context: &mut Context<'_, T>,
    ) {
        let (way, now) = (&mut self.ways[asker as usize], packet.time);
        way.totals.packets += 1;
        let is_over = |query: &Waiting| now.since(query.time) >= QUERY_WAIT_MAX;
        if let Some((_, first)) = known.and_then(|place| self.queries.get_mut(place))
            && !is_over(first)
        {
            first.flags |= Waiting::RESENT;
            packet.flags |= Waiting::COPY;
            way.totals.retransmissions += 1;
            return way.miss(&packet, MissingReason::Ambiguous, context);
        }
        // Numbers are few and come again: what has waited for so long was another query.
        let is_full = self.queries.len() >= QUERIES_MAX;
        let by_time = self.queries.iter().enumerate().map(|(place, (_, query))| (query, place));
        let oldest = by_time.min_by_key(|(query, _)| query.time).filter(|_| is_full);
        let known = known.and_then(|place| Some((&self.queries.get(place)?.1, place)));
        if let Some((_, place)) = known.or(oldest).filter(|(query, _)| is_over(query)) {
            let (of, query) = self.take_query(place, context.packets);
            context.direction = of;
            self.ways[of as usize].miss(&query, MissingReason::NoAnswer, context);
            context.direction = asker;
        }
        if self.queries.len() < QUERIES_MAX && context.packets.take(1) {
            self.queries.push((asker, packet));
        } else {
            self.ways[asker as usize].miss(&packet, MissingReason::NoRoom, context);
        }
    }

    /// Takes out a query that waits, and gives its memory back with the last one.
    fn take_query(&mut self, place: usize, packets: &mut Budget) -> (FlowDirection, Waiting) {
        let query = self.queries.swap_remove(place);
        packets.give(1);
        if self.queries.is_empty() {
            self.queries = Vec::new();
        }
        query
    }

    /// Takes in a packet of QUIC.
    pub(crate) fn on_quic<T: TakeSamples>(
        &mut self,
        quic: &Quic<'_>,
        packet: Waiting,
        direction: FlowDirection,
        context: &mut Context<'_, T>,
    ) {
        self.ways[direction as usize].totals.packets += 1;
        let Some(spin) = quic.spin() else { return };
        let Some((of, edge)) = self.spin.on_packet(spin, packet, direction) else { return };
        context.direction = of;
        let way = &mut self.ways[of as usize];
        let found = PacketContext {
            is_answered: true,
            ..PacketContext::new(Method::Spin, Echo::default())
        };
        if !Spin::is_reordered(&way.rtt, edge.time, packet.time) {
            way.find(&edge, packet.time, found, context);
        }
    }

    /// Nothing of it comes any more.
    pub(crate) fn give_up<T: TakeSamples>(&mut self, context: &mut Context<'_, T>) {
        for direction in [FlowDirection::LowToHigh, FlowDirection::HighToLow] {
            context.direction = direction;
            self.ways[direction as usize].give_up(context);
        }
        context.packets.give(self.queries.len());
        for (asker, query) in std::mem::take(&mut self.queries) {
            context.direction = asker;
            self.ways[asker as usize].miss(&query, MissingReason::NoAnswer, context);
        }
    }

    /// Data of the source, and acknowledgements of the destination.
    #[must_use]
    pub const fn to_destination(&self) -> &Way {
        &self.ways[self.source as usize]
    }

    /// Data of the destination, and acknowledgements of the source.
    #[must_use]
    pub const fn to_source(&self) -> &Way {
        &self.ways[self.source.opposite() as usize]
    }

    /// Gives its buckets back.
    pub(crate) fn release(&mut self, buckets: &mut Budget) {
        for way in &mut self.ways {
            way.rtt.release(buckets);
            way.think.release(buckets);
        }
    }

    /// Whether its spin bit says nothing, as an end sets it at random.
    #[must_use]
    pub const fn has_random_spin(&self) -> bool {
        self.spin.is_random()
    }
}
