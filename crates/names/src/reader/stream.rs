//! The first bytes of a TCP connection, in whatever order they come.

use engine::flow::FlowPacket;
use packet::wire::tcp::{SeqNumber, Tcp, TcpFlags};
use packet::{FlowDirection, Frame};

use super::{NameState, Payload, Reader, Stage, payload};
use crate::gather::{self, Handle};
use crate::greeting::{self, Protocol};
use crate::http::{self, Request};
use crate::{text, tls};

/// Packets with payload after which a flow that may be upgraded to TLS is no longer examined.
const UPGRADE_PACKETS_MAX: u8 = 24;
/// Packets with payload of one side of a connection whose start was not seen that are examined.
const LOOKED_MAX: u8 = 3;
/// Fewer bytes than this decide nothing, unless they are all that comes.
const DECIDING_LEN: usize = 8;
/// Places of a segment's first byte that are examined.
const OFFSETS: std::ops::Range<i32> = 0..gather::LEN_MAX as i32;
/// Segments of one side that are put together at most.
const SEGMENTS_MAX: u8 = 64;

/// Bytes of the line that a proxy begins with, at most.
const PROXY_LEN_MAX: usize = 108;

/// What is known of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Side {
    /// The sequence number of its first byte, where that is known.
    base: Option<SeqNumber>,
    /// Segments with payload.
    segments: u8,
    /// Its first bytes were read.
    is_read: bool,
}

/// What the first bytes of one side show.
pub(super) enum Reading {
    /// Nothing yet.
    NeedMore,
    /// A protocol, and all that was wanted of it.
    Shown(Protocol),
    /// A protocol of which each side has something to say.
    Both(Protocol),
    /// A tunnel, in which another protocol follows.
    Tunnel,
    /// No protocol that is known here.
    Unknown,
}

impl NameState {
    fn side(&mut self, direction: FlowDirection) -> &mut Side {
        let [low, high] = &mut self.sides;
        match direction {
            FlowDirection::LowToHigh => low,
            FlowDirection::HighToLow => high,
        }
    }

    /// What of a side is put together.
    pub(super) fn page(&mut self, direction: FlowDirection) -> &mut Option<Handle> {
        let [low, high] = &mut self.gathering;
        match direction {
            FlowDirection::LowToHigh => low,
            FlowDirection::HighToLow => high,
        }
    }
}

impl Reader {
    pub(super) fn on_segment(
        &mut self,
        named: &mut NameState,
        frame: &Frame<'_>,
        packet: &FlowPacket,
    ) {
        let layers = &frame.record.layers;
        let Ok(tcp) = Tcp::new(frame.from_offset(layers.transport_offset)) else { return };
        let (mut seq, payload) = (tcp.sequence_number(), payload(frame, packet));
        let side = named.side(packet.direction);
        if tcp.flags().contains(TcpFlags::SYN) {
            // SYN takes up a number; data may come along with it (RFC 7413).
            seq = seq.plus(1);
            // Where data were taken in, a SYN of another number is not the server's affair.
            if side.base != Some(seq) && side.segments == 0 {
                *side = Side { base: Some(seq), ..Side::default() };
            }
        }
        if payload.bytes.is_empty() {
            return;
        }
        side.segments = side.segments.saturating_add(1);
        match named.page(payload.direction) {
            Some(_) => self.gather(named, seq, &payload),
            None => self.begin_side(named, seq, &payload),
        }
    }

    /// A segment of a side of which nothing waits.
    fn begin_side(&mut self, named: &mut NameState, seq: SeqNumber, payload: &Payload<'_>) {
        let stage = named.stage;
        let side = named.side(payload.direction);
        let offset = side.base.map_or(0, |base| seq.since(base));
        if side.is_read || !OFFSETS.contains(&offset) {
            if let Stage::Upgrading(left) = stage {
                self.await_upgrade(named, left, seq, payload);
            }
            return;
        }
        if offset > 0 {
            // What comes before it is still under way.
            return self.gather(named, seq, payload);
        }
        let reading = self.read(named, payload.bytes, payload);
        let reading = match reading {
            Reading::NeedMore if payload.is_whole => {
                named.side(payload.direction).base = Some(seq);
                return self.gather(named, seq, payload);
            }
            Reading::NeedMore => {
                self.counts.fault("payload_not_captured");
                Reading::Unknown
            }
            reading => reading,
        };
        self.conclude(named, payload.direction, &reading);
    }

    /// Puts bytes in their place, and reads what is there without gaps.
    fn gather(&mut self, named: &mut NameState, seq: SeqNumber, payload: &Payload<'_>) {
        let side = *named.side(payload.direction);
        let page = named.page(payload.direction);
        let handle = *page.get_or_insert_with(|| self.pool.lend());
        let Some(gather) = self.pool.get_mut(handle) else {
            // It had to make room for others.
            *page = None;
            return self.conclude(named, payload.direction, &Reading::Unknown);
        };
        let offset = side.base.map_or(0, |base| seq.since(base));
        let before = gather.bytes().len();
        if let Ok(offset) = u64::try_from(offset) {
            gather.insert(offset, payload.bytes);
        }
        let after = gather.bytes().len();
        let is_last =
            after >= gather::LEN_MAX || side.segments >= SEGMENTS_MAX || !payload.is_whole;
        if after == before && !is_last {
            // Nothing new to read.
            return;
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.clear();
        gathered.extend_from_slice(gather.bytes());
        let reading = match gathered.is_empty() {
            true => Reading::NeedMore,
            false => self.read(named, &gathered, payload),
        };
        self.gathered = gathered;
        let reading = match reading {
            Reading::NeedMore if !is_last => return,
            Reading::NeedMore => {
                self.counts.fault("handshake_unfinished");
                Reading::Unknown
            }
            reading => reading,
        };
        self.give_back(named.page(payload.direction));
        self.conclude(named, payload.direction, &reading);
    }

    /// Reads the first bytes of one side.
    fn read(&mut self, named: &mut NameState, bytes: &[u8], payload: &Payload<'_>) -> Reading {
        // A proxy may say first for whom it speaks (the PROXY protocol, version 1).
        if bytes.starts_with(b"PROXY ") {
            let end = bytes.iter().take(PROXY_LEN_MAX).position(|&byte| byte == b'\n');
            return match end.and_then(|end| bytes.get(end + 1..)) {
                None | Some([]) => Reading::NeedMore,
                Some(rest) if rest.starts_with(b"PROXY ") => Reading::Unknown,
                Some(rest) => self.read(named, rest, payload),
            };
        }
        if tls::begins_like_hello(bytes) {
            if bytes.len() >= DECIDING_LEN {
                named.seen.protocol.get_or_insert(Protocol::Tls);
            }
            return match self.read_hello(&mut named.seen, bytes) {
                true => Reading::Shown(Protocol::Tls),
                false => Reading::NeedMore,
            };
        }
        if payload.ports.contains(&packet::wire::dns::PORT) {
            return self.read_dns_stream(named, bytes, payload);
        }
        if http::begins_like_request(bytes) {
            named.seen.protocol.get_or_insert(Protocol::Http);
            return match http::read(bytes) {
                Request::NeedMore => Reading::NeedMore,
                Request::Read { host, is_connect } => {
                    self.counts.requests += 1;
                    let host = host.map(text::shown);
                    self.find(&mut named.seen, |found| {
                        found.server_name = host.map(Into::into).or(found.server_name.take());
                    });
                    if is_connect { Reading::Tunnel } else { Reading::Shown(Protocol::Http) }
                }
            };
        }
        // Answers, where the request was not seen: it may yet come, as taps merge out of order.
        match bytes {
            [22, 3, 0..=4, _, _, 2, ..] => return Reading::Both(Protocol::Tls),
            _ if bytes.starts_with(b"HTTP/1.") => return Reading::Both(Protocol::Http),
            _ => {}
        }
        match greeting::of_stream(bytes) {
            Some(protocol) => Reading::Shown(protocol),
            None if bytes.len() < DECIDING_LEN => Reading::NeedMore,
            None => Reading::Unknown,
        }
    }

    /// Notes what the first bytes of one side have shown.
    fn conclude(&mut self, named: &mut NameState, direction: FlowDirection, reading: &Reading) {
        let side = named.side(direction);
        let is_shown = !matches!(reading, Reading::NeedMore | Reading::Unknown);
        side.is_read = is_shown || side.base.is_some() || side.segments >= LOOKED_MAX;
        let are_read = named.sides.iter().all(|side| side.is_read);
        let (protocol, stage) = match *reading {
            Reading::NeedMore => return,
            Reading::Shown(protocol) if protocol.may_upgrade() => {
                (Some(protocol), Stage::Upgrading(UPGRADE_PACKETS_MAX))
            }
            Reading::Shown(protocol) => (Some(protocol), Stage::Done),
            Reading::Tunnel => (Some(Protocol::Http), Stage::Upgrading(UPGRADE_PACKETS_MAX)),
            // The answer to CONNECT, behind which TLS follows.
            Reading::Both(protocol) if matches!(named.stage, Stage::Upgrading(_)) => {
                (Some(protocol), named.stage)
            }
            Reading::Both(protocol) => {
                (Some(protocol), if are_read { Stage::Done } else { Stage::Beginning })
            }
            Reading::Unknown if are_read && named.stage == Stage::Beginning => (None, Stage::Done),
            Reading::Unknown => return,
        };
        named.seen.protocol = named.seen.protocol.or(protocol);
        named.stage = stage;
        if stage == Stage::Done {
            for direction in [direction, direction.opposite()] {
                self.give_back(named.page(direction));
            }
        }
    }

    /// A packet of a flow that may continue in TLS.
    fn await_upgrade(
        &mut self,
        named: &mut NameState,
        left: u8,
        seq: SeqNumber,
        payload: &Payload<'_>,
    ) {
        if payload.bytes.len() >= DECIDING_LEN && tls::begins_like_hello(payload.bytes) {
            let side = named.side(payload.direction);
            *side = Side { base: Some(seq), ..Side::default() };
            return self.begin_side(named, seq, payload);
        }
        named.stage = match left.checked_sub(1) {
            Some(left) => Stage::Upgrading(left),
            None => Stage::Done,
        };
    }
}
