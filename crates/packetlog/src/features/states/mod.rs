//! States of flows and hosts: what one packet cannot say, and sums of a second cannot either.
//!
//! A handshake that was refused, a server that was not known before, a log-in that is tried for the
//! fortieth time, a connection that is opened each minute on the second: all of that is small and
//! stays for minutes. It is kept in four memories of fixed size: of flows, of pairs (a client, a
//! server, its port and the protocol), of clients and of servers. The oldest state makes room for
//! another, and is counted. What each column means stands in `docs/specs/packetlog-features.md`.

mod columns;
mod flow;
mod hosts;
mod places;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::ops::Range;

use model::numeric::BLOCK_ROWS;
use packet::wire::tcp::TcpFlags;
use packet::{
    Batch, FlowDirection, FlowKey, Frame, HashSeed, KeyHash as _, Layers, Network, Protocol,
    Record, Span, Timestamp,
};

pub use columns::StateColumn;
pub use places::PlaceCounts;
pub(crate) use places::{PlaceIndex, Places};

use super::columns::MISSING;
use super::facts::Facts;
use super::{PacketSet, address_hash, arp_addresses};
use columns::StateView;
use flow::{FlowCounts, FlowState, Handshake, PairState};
use hosts::HostState;

const TCP_FIN: u8 = TcpFlags::FIN.bits() as u8;
const TCP_SYN: u8 = TcpFlags::SYN.bits() as u8;
const TCP_RST: u8 = TcpFlags::RST.bits() as u8;
const TCP_ACK: u8 = TcpFlags::ACK.bits() as u8;

/// Below it are the ports of services that need privileges (RFC 6335: system ports).
const SYSTEM_PORTS_END: u16 = 1_024;
/// From here on Linux chooses ports of clients; others begin at 49,152 (RFC 6335).
const EPHEMERAL_PORTS_START: u16 = 32_768;
/// ARP has no number among IP's protocols; this one is reserved for experiments (RFC 3692).
const ARP_PROTOCOL: Protocol = Protocol(254);
const ICMP_ECHO_REPLY: i16 = 0;
const ICMPV6_ECHO_REPLY: i16 = 129;
/// Packets between asking for the state of one's flow and examining it.
const FLOW_AHEAD: usize = 12;
/// Packets between asking whose states those of its pair and hosts are, and examining them.
const SETS_AHEAD: usize = 8;
/// Packets between asking for these states and examining them.
const STATES_AHEAD: usize = 4;

/// The outcome of each kind of state: of flows, pairs, clients and servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StateCounts {
    /// Of flows.
    pub flows: PlaceCounts,
    /// Of pairs.
    pub pairs: PlaceCounts,
    /// Of clients.
    pub clients: PlaceCounts,
    /// Of servers.
    pub servers: PlaceCounts,
}

/// Packets on their way to the states.
pub(super) struct Arrivals<'a> {
    pub(super) records: &'a [Record],
    pub(super) facts: &'a [Facts],
    pub(super) times: &'a [Timestamp],
    pub(super) flows: &'a [Option<(FlowKey, FlowDirection)>],
    /// Those whose columns are read.
    pub(super) asked: PacketSet,
}

/// Follows flows and hosts.
pub(super) struct States {
    columns: Vec<StateColumn>,
    seed: HashSeed,
    flows: Places<FlowState>,
    pairs: Places<PairState>,
    clients: Places<HostState>,
    servers: Places<HostState>,
    /// Of each packet the hash of its flow; none of what has neither a flow nor is ARP.
    hashes: Vec<Option<NonZeroU64>>,
    ways: Vec<FlowDirection>,
    /// Of packets of ARP who asks whom, by the packet.
    arps: Vec<(usize, FlowKey, FlowDirection)>,
    values: Vec<[f32; BLOCK_ROWS]>,
}

impl States {
    /// Before the first packet; `count` places for each kind of state.
    pub(super) fn new(
        columns: Vec<StateColumn>,
        count: usize,
        idle_timeout: Span,
        seed: HashSeed,
    ) -> Self {
        Self {
            values: vec![[MISSING; BLOCK_ROWS]; columns.len()],
            columns,
            seed,
            flows: Places::new(count, idle_timeout),
            pairs: Places::new(count, PAIR_IDLE_TIMEOUT.max(idle_timeout)),
            clients: Places::new(count, PAIR_IDLE_TIMEOUT),
            servers: Places::new(count, PAIR_IDLE_TIMEOUT),
            hashes: Vec::with_capacity(BLOCK_ROWS),
            ways: Vec::with_capacity(BLOCK_ROWS),
            arps: Vec::new(),
        }
    }

    /// The values of the columns, in their order.
    pub(super) fn values(&self) -> &[[f32; BLOCK_ROWS]] {
        &self.values
    }

    pub(super) const fn counts(&self) -> StateCounts {
        StateCounts {
            flows: self.flows.counts(),
            pairs: self.pairs.counts(),
            clients: self.clients.counts(),
            servers: self.servers.counts(),
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        let hosts = self.clients.size_bytes() + self.servers.size_bytes();
        self.flows.size_bytes() + self.pairs.size_bytes() + hosts
    }

    /// The clock was set back.
    pub(super) fn forget(&mut self) {
        self.flows.forget();
        self.pairs.forget();
        self.clients.forget();
        self.servers.forget();
    }

    /// Whom each packet belongs to; the states of their flows are asked for.
    pub(super) fn read(
        &mut self,
        batch: &Batch<'_>,
        flows: &[Option<(FlowKey, FlowDirection)>],
        (hashes, ways): (&[u64], &[FlowDirection]),
    ) {
        self.hashes.clear();
        self.ways.clear();
        self.arps.clear();
        for (at, ((frame, flow), &hash)) in batch.frames().zip(flows).zip(hashes).enumerate() {
            let mut way = ways[at];
            let mut hash = flow.is_some().then_some(hash);
            if flow.is_none()
                && let Some((key, arp_way)) = arp_key(&frame)
            {
                (hash, way) = (Some(key.key_hash(self.seed)), arp_way);
                self.arps.push((at, key, way));
            }
            if let Some(hash) = hash {
                self.flows.prefetch(hash);
            }
            self.ways.push(way);
            // Hashes of 0 and of 1 are one, as in the memories.
            self.hashes.push(hash.and_then(|hash| NonZeroU64::new(hash.max(1))));
        }
    }

    /// Takes in packets in order, of those that were [read](Self::read).
    pub(super) fn observe(&mut self, arrived: &Arrivals<'_>, range: Range<usize>) {
        for at in range.clone() {
            self.prefetch(at, range.end);
            match self.hashes[at] {
                Some(hash) => {
                    let facts = &arrived.facts[at];
                    let packet =
                        Arrival::new(&arrived.records[at].layers, facts, arrived.times[at]);
                    self.take(at, hash.get(), arrived, &packet);
                }
                None => self.values.iter_mut().for_each(|values| values[at] = MISSING),
            }
        }
    }

    /// Asks for states of packets after this one, in the order in which each becomes known.
    #[inline(always)]
    fn prefetch(&self, at: usize, end: usize) {
        let hash = |ahead: usize| {
            self.hashes[..end].get(at + ahead).copied().flatten().map(NonZeroU64::get)
        };
        if let Some(hash) = hash(FLOW_AHEAD) {
            self.flows.prefetch_state(hash);
        }
        if let Some(state) = hash(SETS_AHEAD).and_then(|hash| self.flows.get(hash)) {
            self.pairs.prefetch(state.pair);
            self.clients.prefetch(state.client);
            self.servers.prefetch(state.server);
        }
        if let Some(state) = hash(STATES_AHEAD).and_then(|hash| self.flows.get(hash)) {
            self.pairs.prefetch_state(state.pair);
            self.clients.prefetch_state(state.client);
            self.servers.prefetch_state(state.server);
        }
    }

    fn take(&mut self, at: usize, hash: u64, arrived: &Arrivals<'_>, packet: &Arrival) {
        let now = packet.time;
        let (flow, before) = self.flows.take(hash, now);
        let is_again = packet.is_syn() && flow.handshake.is_over();
        if is_again {
            *flow = FlowState::default();
        }
        let begins = !flow.has_begun;
        if begins {
            let arp = self.arps.iter().find(|(packet, ..)| *packet == at);
            let member = arrived.flows[at].or_else(|| arp.map(|&(_, key, way)| (key, way)));
            if let Some((key, way)) = member {
                flow.begin(&key, way, packet, self.seed);
            }
        }
        let is_from_client = (self.ways[at] == FlowDirection::HighToLow) == flow.is_server_low;
        let news = flow.add(is_from_client, packet);
        let (pair, _) = self.pairs.take(flow.pair, now);
        let (client, _) = self.clients.take(flow.client, now);
        let (server, _) = self.servers.take(flow.server, now);
        // What they remember is that of this time.
        client.at(now);
        server.at(now);
        let is_new_pair = pair.meet(now);
        if begins {
            pair.begin(now);
            let port = self.seed.hash_word(flow.port.into());
            client.at(now).begin(flow.server, port, flow.is_unsolicited, is_new_pair);
            server.at(now).begin(flow.client, port, flow.is_unsolicited, is_new_pair);
        }
        pair.payload_bytes[usize::from(!is_from_client)] += u64::from(packet.payload_bytes);
        news.tell(&mut pair.counts);
        for host in [&mut *client, &mut *server] {
            if let Some(period) = host.of_begin(flow.first) {
                news.tell(&mut period.counts);
            }
        }
        if !arrived.asked.has(at) {
            return;
        }
        let before = before.filter(|_| !begins);
        let view = StateView {
            idle_s: before.map(|before| now.since(before).as_seconds_f64() as f32),
            age_s: now.since(flow.first).as_seconds_f64() as f32,
            is_from_client,
            pair_age_s: now.since(pair.first).as_seconds_f64() as f32,
            flow,
            pair,
            client,
            server,
        };
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            values[at] = column.value(&view);
        }
    }
}

/// A pair of hosts that was silent for so long meets for the first time again.
const PAIR_IDLE_TIMEOUT: Span = Span::from_seconds(600);

/// What a packet says of its flow.
struct Arrival {
    time: Timestamp,
    packets: u32,
    payload_bytes: u32,
    first_payload_bytes: u16,
    /// Of TCP alone.
    tcp_flags: Option<u8>,
    is_icmp_reply: bool,
    is_arp_reply: bool,
}

impl Arrival {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn new(layers: &Layers, facts: &Facts, time: Timestamp) -> Self {
        let reply = if facts.network == 6 { ICMPV6_ECHO_REPLY } else { ICMP_ECHO_REPLY };
        Self {
            time,
            packets: facts.segments.max(1).into(),
            payload_bytes: layers.payload_len,
            first_payload_bytes: facts.payload_len.clamp(0, u16::MAX.into()) as u16,
            tcp_flags: (facts.tcp_flags >= 0).then_some((facts.tcp_flags & 0xff) as u8),
            is_icmp_reply: facts.icmp_type == reply,
            is_arp_reply: facts.arp_operation == 2,
        }
    }

    fn has(&self, flag: u8) -> bool {
        self.tcp_flags.is_some_and(|flags| flags & flag != 0)
    }

    fn is_syn(&self) -> bool {
        self.has(TCP_SYN) && !self.has(TCP_ACK)
    }
}

/// What a packet changed.
#[derive(Clone, Copy, Default)]
struct News {
    is_answered: bool,
    is_refused: bool,
    /// A SYN came, and its handshake is not at its end.
    is_half_open: bool,
    /// That handshake is at its end, whichever it is.
    is_open: bool,
}

impl News {
    fn tell(self, counts: &mut FlowCounts) {
        counts.unanswered = counts.unanswered.saturating_sub(self.is_answered.into());
        counts.refused = counts.refused.saturating_add(self.is_refused.into());
        counts.half_open = counts.half_open.saturating_add(self.is_half_open.into());
        counts.half_open = counts.half_open.saturating_sub(self.is_open.into());
    }
}

impl FlowState {
    /// Its first packet.
    #[cold]
    fn begin(&mut self, key: &FlowKey, way: FlowDirection, packet: &Arrival, seed: HashSeed) {
        let (sender, receiver) = key.endpoints(way);
        let is_tcp = packet.tcp_flags.is_some();
        let is_by_ports = if is_tcp {
            !packet.is_syn() && is_server_port(sender.port, receiver.port)
        } else {
            answers_from(sender.port, receiver.port)
        };
        let is_syn_ack = packet.has(TCP_SYN) && packet.has(TCP_ACK);
        // A segment from the middle of a connection was asked for before the capture began.
        self.is_unsolicited = packet.is_icmp_reply
            || packet.is_arp_reply
            || is_syn_ack
            || packet.has(TCP_RST)
            || (!is_tcp && is_by_ports);
        let is_from_server =
            is_by_ports || is_syn_ack || packet.is_icmp_reply || packet.is_arp_reply;
        self.is_server_low = (way == FlowDirection::LowToHigh) == is_from_server;
        let (client, server) = if is_from_server { (receiver, sender) } else { (sender, receiver) };
        self.has_begun = true;
        self.first = packet.time;
        self.client = address_hash(seed, client.address);
        self.server = address_hash(seed, server.address);
        let protocol = key.protocol();
        let is_message = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
        self.port = if is_message { 0 } else { server.port };
        let service = u64::from(self.port) << 8 | u64::from(protocol.0);
        self.pair = seed.hash_words(self.client ^ self.server.rotate_left(32), service);
        self.handshake = if is_tcp { Handshake::NotSeen } else { Handshake::NotTcp };
    }

    /// A packet of it.
    fn add(&mut self, is_from_client: bool, packet: &Arrival) -> News {
        let mut news = News::default();
        let others = self.sides[usize::from(is_from_client)].packets;
        if !self.is_answered && others > 0 {
            self.is_answered = true;
            news.is_answered = true;
        }
        let side = &mut self.sides[usize::from(!is_from_client)];
        let is_first = side.packets == 0;
        side.packets = side.packets.saturating_add(packet.packets);
        if packet.payload_bytes > 0 {
            if side.payload_bytes == 0 {
                side.first_payload_bytes = packet.first_payload_bytes;
            }
            side.payload_bytes = side.payload_bytes.saturating_add(packet.payload_bytes);
            self.take_payload(is_from_client, packet.time);
        }
        if packet.tcp_flags.is_some() {
            let before = self.handshake;
            self.handshake = before.after(is_from_client, is_first, packet);
            news.is_refused = self.handshake == Handshake::Refused && before != Handshake::Refused;
            news.is_half_open = !before.is_half_open() && self.handshake.is_half_open();
            news.is_open = before.is_half_open() && !self.handshake.is_half_open();
        }
        news
    }

    fn take_payload(&mut self, is_from_client: bool, now: Timestamp) {
        let has_payload_before = self.has_payload;
        let is_turn = has_payload_before && self.is_last_payload_of_client != is_from_client;
        self.turns = self.turns.saturating_add(is_turn.into());
        if is_from_client && (is_turn || !has_payload_before) {
            self.requests.add(now);
        }
        self.has_payload = true;
        self.is_last_payload_of_client = is_from_client;
    }
}

impl Handshake {
    /// After a segment; the first of its side or not.
    fn after(self, is_from_client: bool, is_first: bool, packet: &Arrival) -> Self {
        let is_new = matches!(self, Self::NotSeen | Self::Syn);
        match self {
            Self::Refused | Self::Finished | Self::Reset => self,
            _ if packet.has(TCP_RST) => {
                let is_refusal = is_new && !is_from_client && is_first;
                if is_refusal { Self::Refused } else { Self::Reset }
            }
            _ if packet.has(TCP_SYN) && !packet.has(TCP_ACK) && is_new => Self::Syn,
            _ if packet.has(TCP_SYN) && packet.has(TCP_ACK) && is_new => Self::SynAck,
            _ if packet.has(TCP_FIN) && !(self == Self::NotSeen && is_first) => Self::Finished,
            Self::SynAck if is_from_client && packet.has(TCP_ACK) => Self::Established,
            _ => self,
        }
    }
}

impl PairState {
    /// Whether nothing was known of it. What made room for another is not known any more.
    fn meet(&mut self, now: Timestamp) -> bool {
        let is_new = !self.has_begun;
        if is_new {
            self.first = now;
            self.has_begun = true;
        }
        is_new
    }

    fn begin(&mut self, now: Timestamp) {
        self.counts.begin();
        self.begins.add(now);
    }
}

/// Whether a datagram from one port to another is an answer, if it is all that is known. Ports of
/// clients may be any from 1,024 on, so that what sends from one of these began.
fn answers_from(sender: u16, receiver: u16) -> bool {
    let is_service = sender < SYSTEM_PORTS_END || REFLECTORS.contains(&sender);
    is_service && receiver >= SYSTEM_PORTS_END && !REFLECTORS.contains(&receiver)
}

/// Services above the system ports that are known to answer forged requests (CISA, alert TA14-017A,
/// UDP-based amplification attacks): Microsoft SQL, SSDP, STUN, WS-Discovery, mDNS, CoAP, memcached
/// and Quake.
const REFLECTORS: [u16; 8] = [1_434, 1_900, 3_478, 3_702, 5_353, 5_683, 11_211, 27_960];

/// Whether a segment from one port to another was sent by the server, if it is all that is known.
const fn is_server_port(sender: u16, receiver: u16) -> bool {
    (sender < SYSTEM_PORTS_END && receiver >= SYSTEM_PORTS_END)
        || (sender < EPHEMERAL_PORTS_START && receiver >= EPHEMERAL_PORTS_START)
}

/// Who asks and who is asked, as a key of a flow.
#[cold]
fn arp_key(frame: &Frame<'_>) -> Option<(FlowKey, FlowDirection)> {
    if frame.record.layers.network != Network::Arp {
        return None;
    }
    let (sender, target) = arp_addresses(frame)?;
    Some(FlowKey::from_tuple(sender, target, 0, 0, ARP_PROTOCOL))
}
