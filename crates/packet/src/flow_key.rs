//! The name of a conversation.
//!
//! A [`FlowKey`] is the same for both directions: it holds the two endpoints
//! in the order of Community ID version 1, so that one key serves the flow
//! table and [`community_id`](crate::community_id) alike. The lower endpoint is
//! the one with the smaller address (as bytes on the wire), and with the
//! smaller port where the addresses are equal.
//!
//! What stands in for ports:
//!
//! - TCP, UDP, UDP-Lite, DCCP and SCTP: their ports, also where the capture
//!   cuts the header but not the ports;
//! - ICMP and `ICMPv6`: type and counterpart type for messages that ask or
//!   answer, so that a request and its reply are one flow; type and code for
//!   messages that go one way. Those keep source and destination in place
//!   ("low" is then the source), as Community ID demands: an error one way and
//!   an error the other way are two flows;
//! - every other protocol, later fragments (they carry no transport header),
//!   and headers that are missing or malformed: 0 and 0. The fragments of a
//!   packet after its first are thus one flow per pair of hosts and protocol,
//!   apart from the flow of the first fragment.
//!
//! VLAN, tunnel identifiers and interface are not part of the key. An IPv4
//! address and its IPv4-mapped form in IPv6 are different hosts here.

mod marked;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::batch::Frame;
use crate::hash::{HashSeed, KeyHash};

use crate::layers::{Layers, Network, Protocol};
use crate::wire::{icmp, icmpv6};

pub use marked::MarkedKey;

/// The two endpoints of a conversation in canonical order, and its protocol.
///
/// Five words without padding, so that comparing is five compares. The order
/// (`Ord`) is by low address, high address, ports, protocol and IP version; it
/// serves stable output, nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(C)]
pub struct FlowKey {
    /// The low endpoint's address: upper and lower half in host order. An IPv4
    /// address lies in the lower half.
    low: [u64; 2],
    /// The high endpoint's address, likewise.
    high: [u64; 2],
    /// Low port, high port, protocol and IP version from the top bit down:
    /// 16, 16, 8 and 8 bits above 16 zeros.
    rest: u64,
}

const _: () = assert!(size_of::<FlowKey>() == 40, "a key is five words");

/// Which way a packet goes between the endpoints of its key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FlowDirection {
    /// From the low endpoint to the high one.
    LowToHigh,
    /// From the high endpoint to the low one.
    HighToLow,
}

impl FlowDirection {
    /// The way back.
    #[inline]
    #[must_use]
    pub const fn opposite(self) -> Self {
        match self {
            Self::LowToHigh => Self::HighToLow,
            Self::HighToLow => Self::LowToHigh,
        }
    }
}

/// One end of a conversation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Endpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its port, or what stands in for it, see [the module](self).
    pub port: u16,
}

/// Source and destination port, or what stands in for them.
#[derive(Clone, Copy)]
struct Ports {
    source: u16,
    destination: u16,
    /// The endpoints keep their places: an ICMP message that goes one way.
    is_one_way: bool,
}

impl Ports {
    const NONE: Self = Self { source: 0, destination: 0, is_one_way: false };

    /// The first four bytes of TCP, UDP, UDP-Lite, DCCP and SCTP alike.
    #[inline]
    fn read(bytes: &[u8]) -> Self {
        bytes.first_chunk().map_or(Self::NONE, |&[a, b, c, d]| Self {
            source: u16::from_be_bytes([a, b]),
            destination: u16::from_be_bytes([c, d]),
            is_one_way: false,
        })
    }

    /// The first two bytes of ICMP and `ICMPv6`: type and code.
    fn of_message(bytes: &[u8], counterpart_of: fn(u8) -> Option<u8>) -> Self {
        bytes.first_chunk().map_or(Self::NONE, |&[message_type, code]| {
            let counterpart = counterpart_of(message_type);
            Self {
                source: u16::from(message_type),
                destination: u16::from(counterpart.unwrap_or(code)),
                is_one_way: counterpart.is_none(),
            }
        })
    }
}

impl FlowKey {
    /// The key of a frame's innermost IP header and which way the frame goes;
    /// `None` where there is no such header or it was not captured whole.
    #[inline]
    #[must_use]
    pub fn from_frame(frame: &Frame<'_>) -> Option<(Self, FlowDirection)> {
        match Self::from_plain_frame(frame) {
            None => Self::from_any_frame(frame),
            plain => plain,
        }
    }

    /// The key of nearly every frame: TCP or UDP over IPv4, its headers whole.
    /// Without a branch on what differs from packet to packet, since half of
    /// those on the direction would be guessed wrong.
    #[inline(always)]
    fn from_plain_frame(frame: &Frame<'_>) -> Option<(Self, FlowDirection)> {
        const LOOKED_AT: u8 = Layers::TRANSPORT | Layers::LATER_FRAGMENT;
        let layers = &frame.record.layers;
        let is_plain = layers.network == Network::Ipv4
            && layers.flags & LOOKED_AT == Layers::TRANSPORT
            && (layers.protocol == Protocol::TCP || layers.protocol == Protocol::UDP);
        if !is_plain {
            return None;
        }
        let &[.., a, b, c, d, e, f, g, h] =
            frame.from_offset(layers.network_offset).first_chunk::<20>()?;
        let &[i, j, k, l] = frame.from_offset(layers.transport_offset).first_chunk::<4>()?;
        // Address and port in one number compare as Community ID compares them.
        let source = u64::from_be_bytes([0, 0, a, b, c, d, i, j]);
        let destination = u64::from_be_bytes([0, 0, e, f, g, h, k, l]);
        let (low, high) = (source.min(destination), source.max(destination));
        let ports = (low & 0xffff) << 48 | (high & 0xffff) << 32;
        let rest = ports | u64::from(layers.protocol.0) << 24 | VERSION_4;
        let key = Self { low: [0, low >> 16], high: [0, high >> 16], rest };
        let directions = [FlowDirection::LowToHigh, FlowDirection::HighToLow];
        Some((key, directions[usize::from(source > destination)]))
    }

    #[inline(never)]
    fn from_any_frame(frame: &Frame<'_>) -> Option<(Self, FlowDirection)> {
        let layers = &frame.record.layers;
        if let Some((source, destination)) = frame.ipv4_addresses() {
            let ports = frame_ports(frame, layers.network_offset.saturating_add(20));
            return Some(Self::from_ipv4(source, destination, ports, layers.protocol));
        }
        let (source, destination) = frame.ipv6_addresses()?;
        let ports = frame_ports(frame, layers.network_offset.saturating_add(40));
        Some(Self::from_ipv6(source, destination, ports, layers.protocol))
    }

    /// The key of a tuple and which way it points.
    ///
    /// For ICMP and `ICMPv6` `source_port` is the message's type, and
    /// `destination_port` its code or the type of its counterpart; for types
    /// that have a counterpart it is ignored. Type 0 and code 0 of ICMP
    /// are an echo reply here, not a fragment.
    ///
    /// Addresses of different versions cannot meet in one packet; the IPv4
    /// address of such a pair is taken in its IPv4-mapped form.
    #[must_use]
    pub fn from_tuple(
        source: IpAddr,
        destination: IpAddr,
        source_port: u16,
        destination_port: u16,
        protocol: Protocol,
    ) -> (Self, FlowDirection) {
        let ports = tuple_ports(source_port, destination_port, protocol);
        if let (IpAddr::V4(source), IpAddr::V4(destination)) = (source, destination) {
            return Self::from_ipv4(source.to_bits(), destination.to_bits(), ports, protocol);
        }
        let bits = |address| match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        Self::from_ipv6(bits(source), bits(destination), ports, protocol)
    }

    #[inline]
    fn from_ipv4(
        source: u32,
        destination: u32,
        ports: Ports,
        protocol: Protocol,
    ) -> (Self, FlowDirection) {
        // Address and port in one number compare as Community ID compares them.
        let source_word = u64::from(source) << 16 | u64::from(ports.source);
        let destination_word = u64::from(destination) << 16 | u64::from(ports.destination);
        let is_ordered = ports.is_one_way || source_word <= destination_word;
        let (source, destination) = ([0, u64::from(source)], [0, u64::from(destination)]);
        Self::from_parts(source, destination, ports, protocol, VERSION_4, is_ordered)
    }

    #[inline]
    fn from_ipv6(
        source: u128,
        destination: u128,
        ports: Ports,
        protocol: Protocol,
    ) -> (Self, FlowDirection) {
        let is_ordered = ports.is_one_way
            || source < destination
            || (source == destination && ports.source <= ports.destination);
        let (source, destination) = (halves(source), halves(destination));
        Self::from_parts(source, destination, ports, protocol, VERSION_6, is_ordered)
    }

    #[inline]
    fn from_parts(
        source: [u64; 2],
        destination: [u64; 2],
        ports: Ports,
        protocol: Protocol,
        version: u64,
        is_ordered: bool,
    ) -> (Self, FlowDirection) {
        let tag = u64::from(protocol.0) << 24 | version;
        let rest = |low: u16, high: u16| u64::from(low) << 48 | u64::from(high) << 32 | tag;
        if is_ordered {
            let rest = rest(ports.source, ports.destination);
            (Self { low: source, high: destination, rest }, FlowDirection::LowToHigh)
        } else {
            let rest = rest(ports.destination, ports.source);
            (Self { low: destination, high: source, rest }, FlowDirection::HighToLow)
        }
    }

    /// The endpoint that comes first in the key's order.
    #[must_use]
    pub fn low(&self) -> Endpoint {
        Endpoint { address: self.address(self.low), port: self.low_port() }
    }

    /// The endpoint that comes second in the key's order.
    #[must_use]
    pub fn high(&self) -> Endpoint {
        Endpoint { address: self.address(self.high), port: self.high_port() }
    }

    /// Source and destination of a packet that goes this way.
    #[must_use]
    pub fn endpoints(&self, direction: FlowDirection) -> (Endpoint, Endpoint) {
        match direction {
            FlowDirection::LowToHigh => (self.low(), self.high()),
            FlowDirection::HighToLow => (self.high(), self.low()),
        }
    }

    /// The low endpoint's port.
    #[inline]
    #[must_use]
    pub const fn low_port(&self) -> u16 {
        let [a, b, ..] = self.rest.to_be_bytes();
        u16::from_be_bytes([a, b])
    }

    /// The high endpoint's port.
    #[inline]
    #[must_use]
    pub const fn high_port(&self) -> u16 {
        let [_, _, a, b, ..] = self.rest.to_be_bytes();
        u16::from_be_bytes([a, b])
    }

    /// The protocol above IP.
    #[inline]
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        let [_, _, _, _, protocol, ..] = self.rest.to_be_bytes();
        Protocol(protocol)
    }

    /// Whether the endpoints have IPv6 addresses.
    #[inline]
    #[must_use]
    pub const fn is_ipv6(&self) -> bool {
        self.rest & VERSION_MASK == VERSION_6
    }

    /// Two words in place of five: different for different IPv4 conversations,
    /// and for an IPv4 and an IPv6 one; IPv6 conversations may share theirs.
    #[inline(always)]
    #[must_use]
    pub const fn words(&self) -> [u64; 2] {
        if self.is_ipv6() {
            // Any mixture will do: who relies on it compares the rest as well.
            let low = self.low[0].rotate_left(17) ^ self.low[1];
            let high = self.high[0].rotate_left(41) ^ self.high[1].rotate_left(24);
            return [low ^ high, self.rest];
        }
        [self.low[1] << 32 | self.high[1], self.rest]
    }

    fn address(&self, halves: [u64; 2]) -> IpAddr {
        let bits = u128::from(halves[0]) << 64 | u128::from(halves[1]);
        if self.is_ipv6() {
            return Ipv6Addr::from_bits(bits).into();
        }
        let [.., a, b, c, d] = bits.to_be_bytes();
        Ipv4Addr::new(a, b, c, d).into()
    }
}

const VERSION_4: u64 = 4 << 16;
const VERSION_6: u64 = 6 << 16;
const VERSION_MASK: u64 = 0xff << 16;
/// Bits of the last word that are zero in every key.
const FREE_MASK: u64 = 0xffff;

#[inline]
#[allow(clippy::cast_possible_truncation)]
const fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

/// Bytes of UDP-Lite; DCCP has more.
const UNREAD_HEADER_LEN_MIN: u32 = 8;

/// Source and destination port of a frame's innermost transport header, where
/// the protocol has ports and they can be read: as in its [`FlowKey`].
#[inline]
#[must_use]
pub fn ports(frame: &Frame<'_>) -> Option<(u16, u16)> {
    let layers = &frame.record.layers;
    let has_ports = matches!(
        layers.protocol,
        Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::UDP_LITE | Protocol::DCCP
    );
    if !has_ports || !layers.is_ip() {
        return None;
    }
    let header_len = if layers.network == Network::Ipv4 { 20 } else { 40 };
    transport_bytes(frame, layers.network_offset.saturating_add(header_len))?
        .first_chunk()
        .map(|&[a, b, c, d]: &[u8; 4]| (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// What a frame has in place of ports. `network_end` is where its network
/// header ends at the earliest: what a cut capture calls the transport header
/// cannot lie before it.
#[inline]
fn frame_ports(frame: &Frame<'_>, network_end: u16) -> Ports {
    let Some(bytes) = transport_bytes(frame, network_end) else { return Ports::NONE };
    match frame.record.layers.protocol {
        Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::UDP_LITE | Protocol::DCCP => {
            Ports::read(bytes)
        }
        Protocol::ICMP => Ports::of_message(bytes, icmp::counterpart),
        Protocol::ICMPV6 => Ports::of_message(bytes, icmpv6::counterpart),
        _ => Ports::NONE,
    }
}

/// The transport header and what follows, where its first bytes are the packet's.
#[inline]
fn transport_bytes<'a>(frame: &Frame<'a>, network_end: u16) -> Option<&'a [u8]> {
    let layers = &frame.record.layers;
    // Bytes behind a header that is neither whole nor cut are none of the
    // packet's: link padding, or what a malformed length leaves out.
    let is_read = layers.flags & (Layers::TRANSPORT | Layers::CUT) != 0;
    // The headers of these are never read whole; their first bytes are ports all the same.
    let is_unread = matches!(layers.protocol, Protocol::UDP_LITE | Protocol::DCCP)
        && layers.payload_len >= UNREAD_HEADER_LEN_MIN;
    let is_present = (is_read || is_unread)
        && !layers.has(Layers::LATER_FRAGMENT)
        && layers.transport_offset >= network_end;
    is_present.then(|| frame.from_offset(layers.transport_offset))
}

/// Ports of a tuple that the caller parsed.
fn tuple_ports(source: u16, destination: u16, protocol: Protocol) -> Ports {
    let is_message = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
    if !is_message {
        return Ports { source, destination, is_one_way: false };
    }
    let counterpart = u8::try_from(source).ok().and_then(|kind| match protocol {
        Protocol::ICMP => icmp::counterpart(kind),
        _ => icmpv6::counterpart(kind),
    });
    Ports {
        source,
        destination: counterpart.map_or(destination, u16::from),
        is_one_way: counterpart.is_none(),
    }
}

/// Equal for both directions, because the key is.
impl KeyHash for FlowKey {
    #[inline]
    fn key_hash(&self, seed: HashSeed) -> u64 {
        if !self.is_ipv6() {
            let [addresses, rest] = self.words();
            return seed.hash_words(addresses, rest);
        }
        let low = seed.hash_words(self.low[0], self.low[1]);
        let high = seed.hash_words(self.high[0], self.high[1]);
        // `low` is unknown without the seed, so that nobody can choose `rest` to cancel it.
        seed.hash_words(low ^ self.rest, high)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(address) => write!(f, "{address}:{}", self.port),
            IpAddr::V6(address) => write!(f, "[{address}]:{}", self.port),
        }
    }
}

/// `tcp 10.0.0.1:443 - 10.0.0.2:50000`, the low endpoint first.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} - {}", self.protocol(), self.low(), self.high())
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layers::Network;
    use crate::record::Record;

    const V4_A: [u8; 4] = [10, 0, 0, 1];
    const V4_B: [u8; 4] = [10, 0, 0, 2];

    /// The network header's addresses and what follows it, with the layers a
    /// dissector would tell of them.
    fn packet(source: IpAddr, destination: IpAddr, transport: &[u8]) -> (Vec<u8>, Layers) {
        let (mut bytes, network) = match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => (
                [[0; 12].as_slice(), &source.octets(), &destination.octets()].concat(),
                Network::Ipv4,
            ),
            (IpAddr::V6(source), IpAddr::V6(destination)) => (
                [[0; 8].as_slice(), &source.octets(), &destination.octets()].concat(),
                Network::Ipv6,
            ),
            _ => panic!("one version in one packet"),
        };
        bytes.splice(0..0, [0xee; 14]);
        let transport_offset = u16::try_from(bytes.len()).unwrap();
        bytes.extend(transport);
        let layers = Layers {
            network_offset: 14,
            transport_offset,
            network,
            protocol: Protocol::UDP,
            flags: Layers::TRANSPORT,
            ..Layers::default()
        };
        (bytes, layers)
    }

    fn key_of(bytes: &[u8], layers: Layers) -> Option<(FlowKey, FlowDirection)> {
        let captured_len = u32::try_from(bytes.len()).unwrap();
        let record = Record { captured_len, layers, ..Record::default() };
        FlowKey::from_frame(&Frame::new(bytes, &record))
    }

    fn v4_key_of(transport: &[u8], flags: u8, protocol: Protocol) -> FlowKey {
        let (bytes, layers) = packet(V4_B.into(), V4_A.into(), transport);
        key_of(&bytes, Layers { flags, protocol, ..layers }).unwrap().0
    }

    fn ports(key: &FlowKey) -> (u16, u16) {
        (key.low_port(), key.high_port())
    }

    #[test]
    fn the_smaller_address_is_low_then_the_smaller_port() {
        let key = |a: [u8; 4], b: [u8; 4], a_port, b_port| {
            FlowKey::from_tuple(a.into(), b.into(), a_port, b_port, Protocol::TCP)
        };
        let (by_address, direction) = key(V4_B, V4_A, 1, 2);
        assert_eq!(direction, FlowDirection::HighToLow);
        assert_eq!(by_address.to_string(), "tcp 10.0.0.1:2 - 10.0.0.2:1");
        // As bytes, not as signed or little-endian numbers.
        assert_eq!(key([200, 0, 0, 1], [3, 0, 0, 9], 1, 2).1, FlowDirection::HighToLow);
        let (by_port, direction) = key(V4_A, V4_A, 9, 8);
        assert_eq!((ports(&by_port), direction), ((8, 9), FlowDirection::HighToLow));
        assert_eq!(key(V4_A, V4_A, 8, 8).1, FlowDirection::LowToHigh);
        assert_eq!(format!("{by_port:?}"), "FlowKey(tcp 10.0.0.1:8 - 10.0.0.1:9)");
    }

    #[test]
    fn protocols_whose_headers_are_not_read_have_ports_where_they_have_a_header() {
        let (bytes, layers) = packet(V4_A.into(), V4_B.into(), &[0, 5, 0, 9, 0, 8, 0, 0]);
        for protocol in [Protocol::UDP_LITE, Protocol::DCCP] {
            let unread = Layers { flags: 0, protocol, payload_len: 8, ..layers };
            assert_eq!(ports(&key_of(&bytes, unread).unwrap().0), (5, 9));
            // Link padding is no header.
            let padded = Layers { payload_len: 7, ..unread };
            assert_eq!(ports(&key_of(&bytes, padded).unwrap().0), (0, 0));
            let later = Layers { flags: Layers::LATER_FRAGMENT, ..unread };
            assert_eq!(ports(&key_of(&bytes, later).unwrap().0), (0, 0));
        }
    }

    #[test]
    fn ipv6_addresses_are_ordered_by_both_halves() {
        let key = |a: u128, b: u128| {
            let (a, b) = (IpAddr::V6(a.into()), IpAddr::V6(b.into()));
            FlowKey::from_tuple(a, b, 1, 1, Protocol::TCP)
        };
        assert_eq!(key(1 << 64, 2).1, FlowDirection::HighToLow);
        assert_eq!(key(5, 4).1, FlowDirection::HighToLow);
        assert_eq!(key(5, 4).0.to_string(), "tcp [::4]:1 - [::5]:1");
    }

    #[test]
    fn a_frame_without_ip_has_no_key() {
        let (bytes, layers) = packet(V4_A.into(), V4_B.into(), &[0; 4]);
        for network in [Network::None, Network::Arp] {
            assert_eq!(key_of(&bytes, Layers { network, ..layers }), None);
        }
        assert_eq!(key_of(&bytes[..14 + 19], layers), None, "addresses cut off");
        assert!(key_of(&bytes[..14 + 20], layers).is_some());
        assert_eq!(key_of(&bytes, Layers { network: Network::Ipv6, ..layers }), None);
    }

    #[test]
    fn ports_are_read_for_the_protocols_that_have_them() {
        let both = Layers::TRANSPORT | Layers::FRAGMENT;
        for number in 0..=u8::MAX {
            let protocol = Protocol(number);
            let transport = if number == 1 { [9, 0, 0, 0] } else { [0, 9, 0, 8] };
            let expected = match number {
                6 | 17 | 33 | 132 | 136 => (8, 9),
                // Router advertisement and its counterpart; type and code, in place.
                1 => (10, 9),
                58 => (0, 9),
                _ => (0, 0),
            };
            let key = v4_key_of(&transport, Layers::TRANSPORT, protocol);
            assert_eq!(ports(&key), expected, "{protocol}");
            assert_eq!(v4_key_of(&transport, both, protocol), key, "first fragment");
        }
    }

    #[test]
    fn a_cut_header_gives_its_ports_if_they_were_captured() {
        let ports_of = |transport: &[u8], flags| ports(&v4_key_of(transport, flags, Protocol::TCP));
        assert_eq!(ports_of(&[0, 9, 0, 8], Layers::CUT), (8, 9));
        assert_eq!(ports_of(&[0, 9, 0], Layers::CUT), (0, 0));
        assert_eq!(ports_of(&[0, 9, 0, 8], 0), (0, 0), "malformed: may be link padding");
        let later = Layers::FRAGMENT | Layers::LATER_FRAGMENT;
        assert_eq!(ports_of(&[0, 9, 0, 8], later), (0, 0));
        assert_eq!(ports_of(&[0, 9, 0, 8], later | Layers::CUT), (0, 0));
    }

    #[test]
    fn a_transport_header_cannot_lie_before_the_network_header_ends() {
        let (bytes, layers) = packet(V4_A.into(), V4_B.into(), &[0, 9, 0, 8]);
        for transport_offset in [0, 14, 33, u16::MAX] {
            let layers = Layers { transport_offset, flags: Layers::CUT, ..layers };
            assert_eq!(ports(&key_of(&bytes, layers).unwrap().0), (0, 0));
        }
    }

    #[test]
    fn icmp_requests_and_replies_are_one_flow() {
        let request = packet(V4_B.into(), V4_A.into(), &[8, 0]);
        let reply = packet(V4_A.into(), V4_B.into(), &[0, 0]);
        let [request, reply] = [request, reply].map(|(bytes, layers)| {
            key_of(&bytes, Layers { protocol: Protocol::ICMP, ..layers }).unwrap()
        });
        assert_eq!(request.0, reply.0);
        assert_eq!((request.1, reply.1), (FlowDirection::HighToLow, FlowDirection::LowToHigh));
        assert_eq!(ports(&request.0), (0, 8));
    }

    #[test]
    fn icmp_errors_go_one_way_and_stay_in_place() {
        let there = packet(V4_B.into(), V4_A.into(), &[3, 4]);
        let back = packet(V4_A.into(), V4_B.into(), &[3, 4]);
        let [there, back] = [there, back].map(|(bytes, layers)| {
            key_of(&bytes, Layers { protocol: Protocol::ICMP, ..layers }).unwrap()
        });
        assert_ne!(there.0, back.0);
        assert_eq!((there.1, back.1), (FlowDirection::LowToHigh, FlowDirection::LowToHigh));
        assert_eq!(there.0.to_string(), "icmp 10.0.0.2:3 - 10.0.0.1:4");
    }

    #[test]
    fn icmpv6_has_its_own_types() {
        let key =
            |transport: &[u8]| ports(&v4_key_of(transport, Layers::TRANSPORT, Protocol::ICMPV6));
        assert_eq!(key(&[135, 0]), (136, 135));
        assert_eq!(key(&[8, 0]), (8, 0), "no echo request here");
        assert_eq!(key(&[1]), (0, 0), "code not captured");
    }

    #[test]
    fn ipv4_and_its_mapped_form_are_different_flows() {
        let mapped = |address: [u8; 4]| Ipv4Addr::from(address).to_ipv6_mapped();
        let compatible = |address: [u8; 4]| Ipv6Addr::from(u128::from(u32::from_be_bytes(address)));
        let key = |a, b| FlowKey::from_tuple(a, b, 1, 2, Protocol::TCP).0;
        let v4 = key(V4_A.into(), V4_B.into());
        let v6 = key(mapped(V4_A).into(), mapped(V4_B).into());
        assert_ne!(v4, v6);
        assert_ne!(v4, key(compatible(V4_A).into(), compatible(V4_B).into()));
        assert_eq!(key(V4_A.into(), mapped(V4_B).into()), v6, "a mixed pair is IPv6");
        assert!(v6.is_ipv6() && !v4.is_ipv6());
        let seed = HashSeed::new(7);
        assert_ne!(v4.key_hash(seed), v6.key_hash(seed));
    }

    #[test]
    fn neighbouring_flows_spread_over_the_top_six_bits() {
        let seed = HashSeed::new(1);
        for prefix in [None, Some(0x2001_0db8u128 << 96)] {
            let mut partition_counts = [0u32; 64];
            for index in 0..64_000u32 {
                let address = |low: u32| match prefix {
                    None => IpAddr::V4(low.into()),
                    Some(prefix) => IpAddr::V6((prefix | u128::from(low)).into()),
                };
                let source_port = u16::try_from(index % 1000).unwrap();
                let source = address(0x0a00_0000 + index / 1000);
                let (key, _) =
                    FlowKey::from_tuple(source, address(1), source_port, 443, Protocol::TCP);
                partition_counts[usize::try_from(key.key_hash(seed) >> 58).unwrap()] += 1;
            }
            // 1000 expected each; six standard deviations of a binomial are 190.
            for count in partition_counts {
                assert!((810..1190).contains(&count), "{partition_counts:?}");
            }
        }
    }

    fn any_addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        let v4 = prop_oneof![any::<u32>(), 0x0a00_0000..0x0a00_0004u32];
        let v6 = prop_oneof![any::<u128>(), 0..4u128, (0..4u128).prop_map(|low| 1 << 64 | low)];
        prop_oneof![
            (v4.clone(), v4).prop_map(|(a, b)| (IpAddr::V4(a.into()), IpAddr::V4(b.into()))),
            (v6.clone(), v6).prop_map(|(a, b)| (IpAddr::V6(a.into()), IpAddr::V6(b.into()))),
        ]
    }

    fn any_protocol() -> impl Strategy<Value = Protocol> {
        prop_oneof![prop::sample::select(vec![1, 6, 17, 33, 58, 132, 136]), any::<u8>()]
            .prop_map(Protocol)
    }

    proptest! {
        #[test]
        fn both_directions_are_one_key_and_one_hash(
            (a, b) in any_addresses(), a_port: u16, b_port: u16, number: u64,
            protocol in any_protocol().prop_filter("ports", |p| ![1, 58].contains(&p.0)),
        ) {
            let seed = HashSeed::new(number);
            let (key, direction) = FlowKey::from_tuple(a, b, a_port, b_port, protocol);
            let (back_key, back) = FlowKey::from_tuple(b, a, b_port, a_port, protocol);
            prop_assert_eq!(key, back_key);
            prop_assert_eq!(key.key_hash(seed), back_key.key_hash(seed));
            if (a, a_port) == (b, b_port) {
                prop_assert_eq!(direction, back);
            } else {
                prop_assert_eq!(direction, back.opposite());
            }
            let (low, high) = (key.low(), key.high());
            prop_assert!((low.address, low.port) <= (high.address, high.port));
        }

        /// Few addresses and ports, so that many are equal.
        #[test]
        fn the_plain_way_and_the_other_give_the_same_key(
            source in 0u32..3, destination in 0u32..3, source_port in 0u16..3,
            destination_port in 0u16..3, is_tcp: bool,
            scale in prop_oneof![Just(1), Just(0x5555_5555)],
        ) {
            let ports = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
            let [source, destination] =
                [source, destination].map(|bits| Ipv4Addr::from_bits(bits * scale));
            let (bytes, layers) = packet(source.into(), destination.into(), &ports);
            let protocol = if is_tcp { Protocol::TCP } else { Protocol::UDP };
            let captured_len = u32::try_from(bytes.len()).unwrap();
            let record = Record {
                captured_len,
                layers: Layers { protocol, ..layers },
                ..Record::default()
            };
            let frame = Frame::new(&bytes, &record);
            let plain = FlowKey::from_plain_frame(&frame);
            prop_assert!(plain.is_some());
            prop_assert_eq!(plain, FlowKey::from_any_frame(&frame));
        }

        #[test]
        fn a_key_gives_its_tuple_back(
            (a, b) in any_addresses(), a_port: u16, b_port: u16, protocol in any_protocol(),
        ) {
            let (key, direction) = FlowKey::from_tuple(a, b, a_port, b_port, protocol);
            let (source, destination) = key.endpoints(direction);
            prop_assert_eq!((source.address, destination.address), (a, b));
            prop_assert_eq!(source.port, a_port);
            prop_assert_eq!(key.protocol(), protocol);
            let again = FlowKey::from_tuple(
                source.address, destination.address, source.port, destination.port, protocol,
            );
            prop_assert_eq!(again, (key, direction));
            prop_assert_eq!(key.endpoints(direction.opposite()), (destination, source));
        }

        #[test]
        fn a_frame_and_its_tuple_have_one_key(
            (a, b) in any_addresses(), transport: [u8; 4], protocol in any_protocol(),
        ) {
            let (bytes, layers) = packet(a, b, &transport);
            let from_frame = key_of(&bytes, Layers { protocol, ..layers }).unwrap();
            let [w, x, y, z] = transport;
            let (source_port, destination_port) = match protocol.0 {
                1 | 58 => (u16::from(w), u16::from(x)),
                6 | 17 | 33 | 132 | 136 => (u16::from_be_bytes([w, x]), u16::from_be_bytes([y, z])),
                _ => (0, 0),
            };
            let from_tuple = FlowKey::from_tuple(a, b, source_port, destination_port, protocol);
            prop_assert_eq!(from_frame, from_tuple);
        }

        #[test]
        fn any_layers_and_bytes_give_a_key_or_none(
            bytes in prop::collection::vec(any::<u8>(), 0..80), offsets: [u8; 2],
            flags: u8, is_v6: bool, protocol in any_protocol(),
        ) {
            let [network_offset, transport_offset] = offsets.map(u16::from);
            let network = if is_v6 { Network::Ipv6 } else { Network::Ipv4 };
            let layers = Layers {
                network_offset, transport_offset, network, protocol, flags, ..Layers::default()
            };
            if let Some((key, direction)) = key_of(&bytes, layers) {
                let _ = (key.to_string(), key.endpoints(direction));
            }
        }
    }
}
