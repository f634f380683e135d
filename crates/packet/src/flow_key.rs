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

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::batch::Frame;
use crate::hash::{HashSeed, KeyHash};
use crate::layers::{Layers, Protocol};
use crate::wire::{icmp, icmpv6};

/// The two endpoints of a conversation in canonical order, and its protocol.
///
/// Five words without padding, so that comparing is five compares. The order
/// (`Ord`) is by low address, high address, ports, protocol and IP version; it
/// serves stable output, nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    #[inline]
    fn of_message(message_type: u8, code: u8, counterpart: Option<u8>) -> Self {
        Self {
            source: u16::from(message_type),
            destination: u16::from(counterpart.unwrap_or(code)),
            is_one_way: counterpart.is_none(),
        }
    }
}

impl FlowKey {
    /// The key of a frame's innermost IP header and which way the frame goes;
    /// `None` where there is no such header or it was not captured whole.
    #[inline]
    #[must_use]
    pub fn from_frame(frame: &Frame<'_>) -> Option<(Self, FlowDirection)> {
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
    /// that have a counterpart it is not looked at. Type 0 and code 0 of ICMP
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

#[inline]
#[allow(clippy::cast_possible_truncation)]
const fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

/// What a frame has in place of ports. `network_end` is where its network
/// header ends at the earliest: what a cut capture calls the transport header
/// cannot lie before it.
#[inline]
fn frame_ports(frame: &Frame<'_>, network_end: u16) -> Ports {
    let layers = &frame.record.layers;
    // Bytes behind a header that is neither whole nor cut are none of the
    // packet's: link padding, or what a malformed length leaves out.
    let is_present = layers.flags & (Layers::TRANSPORT | Layers::CUT) != 0
        && !layers.has(Layers::LATER_FRAGMENT)
        && layers.transport_offset >= network_end;
    if !is_present {
        return Ports::NONE;
    }
    let bytes = frame.from_offset(layers.transport_offset);
    match layers.protocol {
        Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::UDP_LITE | Protocol::DCCP => {
            bytes.first_chunk().map_or(Ports::NONE, |&[a, b, c, d]| Ports {
                source: u16::from_be_bytes([a, b]),
                destination: u16::from_be_bytes([c, d]),
                is_one_way: false,
            })
        }
        Protocol::ICMP => bytes.first_chunk().map_or(Ports::NONE, |&[kind, code]| {
            Ports::of_message(kind, code, icmp::counterpart(kind))
        }),
        Protocol::ICMPV6 => bytes.first_chunk().map_or(Ports::NONE, |&[kind, code]| {
            Ports::of_message(kind, code, icmpv6::counterpart(kind))
        }),
        _ => Ports::NONE,
    }
}

/// Ports of a tuple that somebody else took apart.
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
            return seed.hash_words(self.low[1] << 32 | self.high[1], self.rest);
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
