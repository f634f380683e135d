//! Packets of a few flows, and what is around them.

use crate::input::Input;

/// Flows that traffic is of at a time.
pub(super) const FLOW_COUNT: usize = 8;

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_LEN: usize = 20;

/// Ports of servers, of which names and classes depend.
const SERVER_PORTS: [u16; FLOW_COUNT] = [443, 80, 25, 53, 22, 8080, 443, 853];

/// A pair of ends, and where their streams are.
pub(super) struct Flow {
    is_v6: bool,
    /// The client's host.
    pub host: u16,
    client_port: u16,
    server_port: u16,
    /// The sequence number that each side sends next.
    pub next: [u32; 2],
    /// What each side has of the other.
    seen: [u32; 2],
    /// The last timestamp of each side (RFC 7323).
    stamps: [u32; 2],
}

/// What a segment is besides its place.
#[derive(Clone, Copy)]
pub(super) struct Segment<'a> {
    /// Flags (RFC 9293 §3.1).
    pub flags: u8,
    /// The sequence number; otherwise the flow's next.
    pub seq: Option<u32>,
    /// What is acknowledged; otherwise all that was sent.
    pub ack: Option<u32>,
    /// Blocks of SACK.
    pub sack: &'a [(u32, u32)],
    /// Options in place of the usual ones.
    pub options: Option<&'a [u8]>,
    /// Data.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    pub(super) const FIN: u8 = 1;
    pub(super) const SYN: u8 = 2;
    pub(super) const PUSH: u8 = 8;
    pub(super) const ACK: u8 = 16;
}

impl Default for Segment<'_> {
    fn default() -> Self {
        Self { flags: Self::ACK, seq: None, ack: None, sack: &[], options: None, payload: &[] }
    }
}

impl Flow {
    /// Every second pair of them has IPv6.
    pub(super) fn all() -> [Self; FLOW_COUNT] {
        std::array::from_fn(|at| {
            let number = u16::try_from(at).unwrap_or_default();
            Self {
                is_v6: at & 2 != 0,
                host: number,
                client_port: 40_000 + number,
                server_port: SERVER_PORTS[at],
                next: [1; 2],
                seen: [1; 2],
                stamps: [0; 2],
            }
        })
    }

    /// A segment, after which the flow is further on by its data and flags.
    pub(super) fn segment(&mut self, way: usize, segment: &Segment<'_>, now_ns: i64) -> Vec<u8> {
        let Segment { flags, seq, ack, payload, .. } = *segment;
        let place = seq.unwrap_or(self.next[way]);
        let ack = ack.unwrap_or(self.next[way ^ 1]);
        let bits = u32::from(flags & Segment::SYN != 0) + u32::from(flags & Segment::FIN != 0);
        let len = u32::try_from(payload.len()).unwrap_or_default().wrapping_add(bits);
        if seq.is_none() {
            self.next[way] = place.wrapping_add(len);
        }
        self.seen[way] = ack;
        let options = self.options(way, segment, now_ns);
        let mut packet = Vec::new();
        for port in self.ports(way, self.server_port) {
            packet.extend(port.to_be_bytes());
        }
        packet.extend(place.to_be_bytes());
        packet.extend(ack.to_be_bytes());
        let words = u8::try_from((20 + options.len()) / 4).unwrap_or(15);
        packet.extend([words << 4, flags, 0x7f, 0xff, 0, 0, 0, 0]);
        packet.extend(options);
        packet.extend(payload);
        self.ip(way, TCP, &packet)
    }

    fn options(&mut self, way: usize, segment: &Segment<'_>, now_ns: i64) -> Vec<u8> {
        let mut options = Vec::new();
        if let Some(given) = segment.options {
            options.extend(given);
        } else {
            if segment.flags & Segment::SYN != 0 {
                options.extend([2, 4, 5, 180, 4, 2, 3, 3, 7]);
            }
            let now_ms = u32::try_from(now_ns / 1_000_000 % (1 << 32)).unwrap_or_default();
            options.extend([8, 10]);
            options.extend(now_ms.to_be_bytes());
            options.extend(self.stamps[way ^ 1].to_be_bytes());
            self.stamps[way] = now_ms;
            if !segment.sack.is_empty() {
                options.extend([5, 2 + 8 * u8::try_from(segment.sack.len()).unwrap_or(3)]);
                for (start, end) in segment.sack {
                    options.extend(start.to_be_bytes());
                    options.extend(end.to_be_bytes());
                }
            }
        }
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 1);
        options
    }

    /// A datagram to a port.
    pub(super) fn datagram(&self, way: usize, port: u16, payload: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        for port in self.ports(way, port) {
            packet.extend(port.to_be_bytes());
        }
        packet.extend(u16::try_from(8 + payload.len()).unwrap_or(u16::MAX).to_be_bytes());
        packet.extend([0, 0]);
        packet.extend(payload);
        self.ip(way, UDP, &packet)
    }

    fn ports(&self, way: usize, server_port: u16) -> [u16; 2] {
        let ports = [self.client_port, server_port];
        if way == 0 { ports } else { [ports[1], ports[0]] }
    }

    /// With the header of IP.
    fn ip(&self, way: usize, protocol: u8, payload: &[u8]) -> Vec<u8> {
        let len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let host = self.host.to_be_bytes();
        let mut packet = Vec::new();
        if self.is_v6 {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(len.to_be_bytes());
            packet.extend([protocol, 64]);
            let mut ends = [[0; 16]; 2];
            for (end, last) in ends.iter_mut().zip([host, [0xff, 1]]) {
                end[..4].copy_from_slice(&[0x20, 1, 0xd, 0xb8]);
                end[14..].copy_from_slice(&last);
            }
            packet.extend(ends[way]);
            packet.extend(ends[way ^ 1]);
        } else {
            packet.extend([0x45, 0]);
            packet.extend(len.saturating_add(20).to_be_bytes());
            packet.extend([0, 7, 0, 0, 64, protocol, 0, 0]);
            let ends = [[10, 0, host[0], host[1]], [192, 0, 2, 1]];
            packet.extend(ends[way]);
            packet.extend(ends[way ^ 1]);
        }
        packet.extend(payload);
        packet
    }
}

/// An echo, or an error about a datagram of the flow.
pub(super) fn icmp(flow: &Flow, way: usize, input: &mut Input<'_>) -> Vec<u8> {
    let (kind, code) = (input.u8(), input.u8());
    let mut message = vec![kind, code, 0, 0, 0, 1, 0, code];
    if kind & 1 != 0 {
        message.extend(flow.datagram(way ^ 1, 53, b"asked"));
    }
    flow.ip(way, if flow.is_v6 { 58 } else { 1 }, &message)
}

/// A packet of another protocol with anything in it.
pub(super) fn other(flow: &Flow, way: usize, input: &mut Input<'_>) -> Vec<u8> {
    let (protocol, len) = (input.u8(), usize::from(input.u8() & 63));
    flow.ip(way, protocol, input.bytes(len))
}

/// A packet of IPv4 in pieces, the second so many times eight bytes further on than it should be.
pub(super) fn pieces(packet: &[u8], gap: u8) -> Vec<Vec<u8>> {
    let Some((head, payload)) = packet.split_at_checked(IPV4_LEN) else { return Vec::new() };
    if head[0] >> 4 != 4 {
        return vec![packet.to_vec()];
    }
    let half = (payload.len() / 2).next_multiple_of(8).min(payload.len());
    let (first, second) = payload.split_at(half);
    let later = u16::try_from(half / 8).unwrap_or_default().wrapping_add(u16::from(gap));
    let piece = |part: &[u8], field: u16| {
        let mut piece = head.to_vec();
        let len = u16::try_from(IPV4_LEN + part.len()).unwrap_or(u16::MAX);
        piece[2..4].copy_from_slice(&len.to_be_bytes());
        piece[6..8].copy_from_slice(&field.to_be_bytes());
        piece.extend(part);
        piece
    };
    vec![piece(first, 0x2000), piece(second, later & 0x1fff)]
}

fn kind_of(packet: &[u8]) -> [u8; 2] {
    if packet.first().is_some_and(|first| first >> 4 == 6) { [0x86, 0xdd] } else { [8, 0] }
}

fn ethernet(kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend(kind);
    frame.extend(payload);
    frame
}

/// IPv4 between two routers, and what it carries.
fn carried(protocol: u8, head: &[u8], payload: &[u8]) -> Vec<u8> {
    let inner = [head, payload].concat();
    let len = u16::try_from(IPV4_LEN + inner.len()).unwrap_or(u16::MAX).to_be_bytes();
    let mut packet = vec![0x45, 0, len[0], len[1], 0, 0, 0, 0, 64, protocol, 0, 0];
    packet.extend([198, 51, 100, 1, 198, 51, 100, 2]);
    packet.extend(inner);
    packet
}

fn datagram_between(port: u16, head: &[u8], payload: &[u8]) -> Vec<u8> {
    let port = port.to_be_bytes();
    let len = u16::try_from(8 + head.len() + payload.len()).unwrap_or(u16::MAX).to_be_bytes();
    let udp = [&[port[0], port[1], port[0], port[1], len[0], len[1], 0, 0], head].concat();
    carried(UDP, &udp, payload)
}

/// A packet in Ethernet, in the tunnel of this number.
pub(super) fn framed(tunnel: u8, packet: Vec<u8>) -> Vec<u8> {
    let kind = kind_of(&packet);
    let len = u16::try_from(packet.len()).unwrap_or(u16::MAX).to_be_bytes();
    let plain = |packet: &[u8]| ethernet(kind_of(packet), packet);
    match tunnel {
        1 => ethernet([0x81, 0], &[&[0x60, 5, kind[0], kind[1]], &*packet].concat()),
        2 => {
            let tags = [0, 7, 0x81, 0, 0x60, 5, kind[0], kind[1]];
            ethernet([0x88, 0xa8], &[&tags, &*packet].concat())
        }
        3 => plain(&carried(47, &[0, 0, kind[0], kind[1]], &packet)),
        4 => plain(&datagram_between(4789, &[8, 0, 0, 0, 0, 0, 5, 0], &plain(&packet))),
        5 => plain(&datagram_between(2152, &[0x30, 255, len[0], len[1], 0, 0, 0, 1], &packet)),
        6 => plain(&carried(if kind == [8, 0] { 4 } else { 41 }, &[], &packet)),
        7 => ethernet([0x88, 0x47], &[&[0, 1, 0x11, 64], &*packet].concat()),
        8 => {
            let inner = carried(4, &[], &packet);
            plain(&datagram_between(4789, &[8, 0, 0, 0, 0, 0, 6, 0], &plain(&inner)))
        }
        _ => plain(&packet),
    }
}
