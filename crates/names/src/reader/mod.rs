//! Names of flows, read from their packets.
//!
//! Most packets cost one comparison: a flow is done with after its first bytes. What is read at
//! all is the payload of a flow's first packets, and every message of DNS.

mod asked;
mod cut;
mod datagram;
mod hello;
mod stream;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use engine::flow::{EndReason, FlowEnd, FlowOptions, FlowPacket, FlowSlot, FromFrames, States};
use packet::{FlowDirection, FlowKey, Frame, Layers, Protocol, Span, Timestamp};

use crate::counts::Counts;
use crate::dns::{ANSWERS_MAX, ResolverCache};
use crate::found::{FlowInfo, FlowNames};
use crate::gather::{self, Gather, Handle, Pool};
use crate::greeting;
use crate::quic::ClientKeys;
use asked::{PendingQuery, QUERIES_MAX};
use cut::{Cut, Earlier};
use engine::recent::Recent;
use stream::Side;

/// Flows cut by age or by a window of which it is remembered what was found.
const CUT_FLOWS_MAX: usize = 1 << 17;

/// Budgets of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of handshakes that are being put together.
    pub handshake_bytes: usize,
    /// Bytes of names that flows keep.
    pub name_bytes: usize,
    /// Answers of DNS that are remembered.
    pub answers: usize,
    /// A flow that was cut continues within this time.
    pub idle_timeout: Span,
    /// Whether flows that were closed continue too: windows cut off what comes after a FIN.
    pub has_windows: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake_bytes: gather::BYTES_MAX,
            name_bytes: 256 << 20,
            answers: ANSWERS_MAX,
            idle_timeout: FlowOptions::default().idle_timeout,
            has_windows: false,
        }
    }
}

/// Whether anything more can be found in a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// No packet was seen.
    #[default]
    New,
    /// The first bytes are read.
    Beginning,
    /// The protocol is found, and TLS may begin on top of it within so many packets with payload.
    Upgrading(u8),
    /// All that can be found is found.
    Done,
}

/// What is kept for a flow.
#[derive(Clone, Debug, Default)]
pub struct NameState {
    stage: Stage,
    /// Datagrams that were examined.
    looked: u8,
    /// What was seen in it.
    pub seen: FlowInfo,
    sides: [Side; 2],
    /// Bytes of each side that are put together.
    gathering: [Option<Handle>; 2],
    /// What the part before it is to it, where that may have been cut and is not reported yet.
    earlier: Earlier,
}

impl NameState {
    /// Whether its protocol and its name are found, or will not be. What follows may change how
    /// they are reported: the fingerprint of a hello, or TLS on top of the protocol.
    #[must_use]
    pub fn is_identified(&self) -> bool {
        let is_named = self
            .seen
            .found
            .as_ref()
            .is_some_and(|found| found.server_name.is_some() || found.query.is_some());
        let is_carrying = self.seen.protocol == Some(greeting::Protocol::Socks);
        match self.stage {
            Stage::Done => true,
            Stage::Upgrading(_) => is_named || !is_carrying,
            Stage::New | Stage::Beginning => is_named,
        }
    }

    fn text_len(&self) -> usize {
        self.seen.found.as_ref().map_or(0, |found| found.text_len())
    }

    fn is_gathering(&self) -> bool {
        self.gathering.iter().any(Option::is_some)
    }
}

/// What is read of a packet.
struct Payload<'a> {
    bytes: &'a [u8],
    /// Whether all of it is here: not cut by the capture, nor, of a datagram, in other fragments.
    is_whole: bool,
    ports: [u16; 2],
    key: FlowKey,
    direction: FlowDirection,
    time: Timestamp,
    addresses: [IpAddr; 2],
}

/// Reads names of flows. Lives on one thread: what DNS answers on one flow names another.
pub struct Reader {
    pool: Pool,
    resolved: ResolverCache,
    asked: Recent<PendingQuery, ()>,
    cut: Recent<FlowKey, Cut>,
    /// Flows of this piece before which a cut may be reported, and when they began.
    begun: Vec<(FlowSlot, FlowKey, Timestamp)>,
    limits: Limits,
    name_bytes: usize,
    /// Keys of QUIC clients, by the place of what is put together.
    quic: Vec<ClientKeys>,
    /// For records of TLS, and packets of QUIC in the clear.
    scratch: Vec<u8>,
    /// For what was put together.
    gathered: Vec<u8>,
    counts: Counts,
}

impl Reader {
    /// Nothing read yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            pool: Pool::new(limits.handshake_bytes),
            resolved: ResolverCache::new(limits.answers),
            asked: Recent::new(QUERIES_MAX),
            cut: Recent::new(CUT_FLOWS_MAX),
            begun: Vec::new(),
            limits,
            name_bytes: 0,
            quic: Vec::new(),
            scratch: Vec::new(),
            gathered: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Knows from here on what DNS has answered to another reader, whose place it takes.
    pub fn learn_from(&mut self, other: &Self) {
        self.resolved = other.resolved.clone();
        self.resolved.forgotten = 0;
    }

    /// What was counted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = self.counts.clone();
        counts.evicted = self.pool.evicted();
        // Those that the end of the input has cut.
        (0..self.pool.in_use()).for_each(|_| counts.fault("handshake_unfinished"));
        counts.answers_forgotten = self.resolved.forgotten;
        counts
    }

    /// The first packet of a flow: what is known of it before it says anything.
    #[cold]
    fn begin(&mut self, named: &mut NameState, packet: &FlowPacket, slot: FlowSlot) {
        let key = packet.key();
        named.stage = match key.protocol() {
            Protocol::TCP | Protocol::UDP => Stage::Beginning,
            _ => Stage::Done,
        };
        named.earlier = Earlier::of(packet.tcp_flags);
        // A flow that is cut by this packet ends after it.
        match self.take_earlier(named, &key, packet.timestamp) {
            Some(true) => return,
            Some(false) => {}
            None => self.begun.push((slot, key, packet.timestamp)),
        }
        if self.resolved.is_empty() {
            return;
        }
        let (source, destination) = key.endpoints(packet.direction);
        let (one, other) = (source.address, destination.address);
        let resolved = self.resolved.name(one, other, packet.timestamp);
        // The first packet that was seen may be the server's, unless it opens a connection.
        let is_open = packet.tcp_flags & (SYN | ACK) == SYN;
        let resolved = match resolved {
            None if !is_open => self.resolved.name(other, one, packet.timestamp),
            resolved => resolved,
        };
        // What the server says of itself by multicast.
        let resolved = resolved.or_else(|| self.resolved.name(other, other, packet.timestamp));
        if resolved.is_some() {
            self.find(&mut named.seen, |found| found.resolved = resolved);
        }
    }

    /// What is kept of a flow is no longer counted, and what is put together of it given up.
    fn forget(&mut self, named: &mut NameState) {
        self.name_bytes = self.name_bytes.saturating_sub(named.text_len());
        self.give_up(named);
    }

    fn give_up(&mut self, named: &mut NameState) {
        for page in &mut named.gathering {
            if page.is_some() {
                self.counts.fault("handshake_unfinished");
                self.give_back(page);
            }
        }
    }

    /// What is put together of a side is read, or given up.
    fn give_back(&mut self, page: &mut Option<Handle>) {
        let Some(handle) = page.take() else { return };
        let contradictions = self.pool.get(handle).map_or(0, Gather::contradictions);
        for _ in 0..contradictions {
            self.counts.fault("contradicting_bytes");
        }
        self.pool.give_back(handle);
    }

    /// Changes what was found of a flow, within the budget.
    fn find(&mut self, seen: &mut FlowInfo, change: impl FnOnce(&mut FlowNames)) {
        let found = Arc::make_mut(seen.found.get_or_insert_default());
        let before = found.text_len();
        change(found);
        let after = found.text_len();
        self.name_bytes = self.name_bytes.saturating_sub(before).saturating_add(after);
        if self.name_bytes > self.limits.name_bytes && after > before {
            self.counts.names_dropped += 1;
            self.name_bytes -= after;
            seen.found = None;
        }
    }
}

impl FromFrames for Reader {
    type State = NameState;

    #[inline]
    fn on_frame(
        &mut self,
        named: &mut NameState,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        if named.stage == Stage::Done {
            return;
        }
        if named.stage == Stage::New {
            self.begin(named, packet, slot);
            if named.stage == Stage::Done {
                return;
            }
        }
        let layers = &frame.record.layers;
        let has_payload = layers.payload_len > 0 && layers.has(Layers::TRANSPORT);
        match layers.protocol {
            Protocol::TCP if has_payload || packet.tcp_flags & SYN != 0 => {
                self.on_segment(named, frame, packet);
            }
            Protocol::UDP if has_payload => self.on_datagram(named, &payload(frame, packet)),
            _ => {}
        }
    }

    fn on_end(&mut self, named: &mut NameState, ended: &FlowEnd) {
        let record = &ended.record;
        self.take_earlier(named, &record.key, record.first);
        // A part that follows is not the one before it.
        named.earlier = Earlier::Known;
        match record.reason {
            EndReason::Active | EndReason::Window => self.keep_cut(named, record),
            EndReason::Fin | EndReason::Rst if self.limits.has_windows => {
                self.keep_cut(named, record);
            }
            _ => self.forget(named),
        }
    }

    fn on_fault(&mut self, named: &mut NameState, _: FlowSlot) {
        self.forget(named);
        *named = NameState::default();
    }

    fn on_pause(&mut self, states: &mut States<'_, NameState>) {
        let mut begun = std::mem::take(&mut self.begun);
        for (slot, key, first) in begun.drain(..) {
            if let Some(named) = states.of(slot) {
                self.take_earlier(named, &key, first);
                named.earlier = Earlier::Known;
            }
        }
        self.begun = begun;
    }
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// The payload of a frame, without the padding of its link.
#[inline]
fn payload<'a>(frame: &Frame<'a>, packet: &FlowPacket) -> Payload<'a> {
    let layers = &frame.record.layers;
    let captured = frame.from_offset(layers.payload_offset);
    let len = usize::try_from(layers.payload_len).unwrap_or(usize::MAX);
    let (source, destination) = packet.key().endpoints(packet.direction);
    // The rest of a datagram is in other packets, and of a segment at other places of its stream.
    let has_rest = layers.protocol == Protocol::UDP && layers.has(Layers::FRAGMENT);
    Payload {
        bytes: captured.get(..len).unwrap_or(captured),
        is_whole: captured.len() >= len && !has_rest,
        ports: [source.port, destination.port],
        key: packet.key(),
        direction: packet.direction,
        time: packet.timestamp,
        addresses: [source.address, destination.address],
    }
}
