//! `ICMPv6` (RFC 4443; neighbour discovery, RFC 4861): type, code, checksum,
//! and a body whose layout the type gives.

use std::fmt;
use std::net::Ipv6Addr;

use super::checksum::{self, PseudoHeader};
use crate::layers::Protocol;
use crate::malformed::Malformed;

mod field {
    pub(super) const TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
}

/// Bytes of the header; the body's own first words are not counted.
pub const HEADER_LEN: usize = 4;

/// Message types, as IANA assigns them.
pub mod kind {
    /// Destination unreachable.
    pub const DESTINATION_UNREACHABLE: u8 = 1;
    /// Packet too big.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Multicast listener query (RFC 2710).
    pub const LISTENER_QUERY: u8 = 130;
    /// Multicast listener report (RFC 2710).
    pub const LISTENER_REPORT: u8 = 131;
    /// Multicast listener done (RFC 2710).
    pub const LISTENER_DONE: u8 = 132;
    /// Router solicitation.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour solicitation.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    /// Redirect.
    pub const REDIRECT: u8 = 137;
    /// Node information query (RFC 4620), "who are you".
    pub const NODE_INFORMATION_QUERY: u8 = 139;
    /// Node information response (RFC 4620).
    pub const NODE_INFORMATION_RESPONSE: u8 = 140;
    /// Multicast listener report, version 2 (RFC 3810).
    pub const LISTENER_REPORT_2: u8 = 143;
    /// Home agent address discovery request (RFC 6275).
    pub const HOME_AGENT_REQUEST: u8 = 144;
    /// Home agent address discovery reply (RFC 6275).
    pub const HOME_AGENT_REPLY: u8 = 145;
}

/// The type that answers `message_type`, or that it answers; `None` for
/// messages that go one way.
#[inline]
#[must_use]
pub const fn counterpart(message_type: u8) -> Option<u8> {
    Some(match message_type {
        kind::ECHO_REQUEST => kind::ECHO_REPLY,
        kind::ECHO_REPLY => kind::ECHO_REQUEST,
        kind::LISTENER_QUERY => kind::LISTENER_REPORT,
        kind::LISTENER_REPORT => kind::LISTENER_QUERY,
        kind::ROUTER_SOLICITATION => kind::ROUTER_ADVERTISEMENT,
        kind::ROUTER_ADVERTISEMENT => kind::ROUTER_SOLICITATION,
        kind::NEIGHBOUR_SOLICITATION => kind::NEIGHBOUR_ADVERTISEMENT,
        kind::NEIGHBOUR_ADVERTISEMENT => kind::NEIGHBOUR_SOLICITATION,
        kind::NODE_INFORMATION_QUERY => kind::NODE_INFORMATION_RESPONSE,
        kind::NODE_INFORMATION_RESPONSE => kind::NODE_INFORMATION_QUERY,
        kind::HOME_AGENT_REQUEST => kind::HOME_AGENT_REPLY,
        kind::HOME_AGENT_REPLY => kind::HOME_AGENT_REQUEST,
        _ => return None,
    })
}

/// An `ICMPv6` message, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Icmpv6<'a> {
    header: &'a [u8; HEADER_LEN],
    body: &'a [u8],
}

impl<'a> Icmpv6<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed::Icmpv6HeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, body) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::Icmpv6HeaderShort)?;
        Ok(Self { header, body })
    }

    /// Message type, see [`kind`].
    #[inline]
    #[must_use]
    pub fn message_type(&self) -> u8 {
        self.header[field::TYPE]
    }

    /// Code within the type.
    #[inline]
    #[must_use]
    pub fn code(&self) -> u8 {
        self.header[field::CODE]
    }

    /// Checksum as it stands in the header.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        u16::from_be_bytes([self.header[field::CHECKSUM], self.header[field::CHECKSUM + 1]])
    }

    /// Whether the message reports an error (types below 128, RFC 4443 §2.1).
    #[inline]
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.message_type() < 128
    }

    /// Identifier and sequence number of an echo message, if captured.
    #[must_use]
    pub fn echo(&self) -> Option<(u16, u16)> {
        let is_echo = matches!(self.message_type(), kind::ECHO_REQUEST | kind::ECHO_REPLY);
        let [a, b, c, d] = *self.body.first_chunk().filter(|_| is_echo)?;
        Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
    }

    /// The MTU in bytes that "packet too big" names, if captured.
    #[must_use]
    pub fn mtu(&self) -> Option<u32> {
        let is_too_big = self.message_type() == kind::PACKET_TOO_BIG;
        self.body.first_chunk().filter(|_| is_too_big).map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// The target of neighbour discovery and redirects, if captured.
    #[must_use]
    pub fn target(&self) -> Option<Ipv6Addr> {
        let has_target = matches!(
            self.message_type(),
            kind::NEIGHBOUR_SOLICITATION | kind::NEIGHBOUR_ADVERTISEMENT | kind::REDIRECT
        );
        let bytes: &[u8; 16] = self.body.get(4..)?.first_chunk().filter(|_| has_target)?;
        Some(Ipv6Addr::from(*bytes))
    }

    /// The start of the packet that an error message is about, if captured.
    #[inline]
    #[must_use]
    pub fn original_packet(&self) -> Option<&'a [u8]> {
        self.body.get(4..).filter(|_| self.is_error())
    }

    /// Captured bytes behind the checksum.
    #[inline]
    #[must_use]
    pub fn body(&self) -> &'a [u8] {
        self.body
    }
}

const fn name(message_type: u8) -> Option<&'static str> {
    Some(match message_type {
        kind::DESTINATION_UNREACHABLE => "destination unreachable",
        kind::PACKET_TOO_BIG => "packet too big",
        kind::TIME_EXCEEDED => "time exceeded",
        kind::PARAMETER_PROBLEM => "parameter problem",
        kind::ECHO_REQUEST => "echo request",
        kind::ECHO_REPLY => "echo reply",
        kind::LISTENER_QUERY => "multicast listener query",
        kind::LISTENER_REPORT => "multicast listener report",
        kind::LISTENER_DONE => "multicast listener done",
        kind::ROUTER_SOLICITATION => "router solicitation",
        kind::ROUTER_ADVERTISEMENT => "router advertisement",
        kind::NEIGHBOUR_SOLICITATION => "neighbor solicitation",
        kind::NEIGHBOUR_ADVERTISEMENT => "neighbor advertisement",
        kind::REDIRECT => "redirect",
        kind::NODE_INFORMATION_QUERY => "node information query",
        kind::NODE_INFORMATION_RESPONSE => "node information response",
        kind::LISTENER_REPORT_2 => "multicast listener report v2",
        kind::HOME_AGENT_REQUEST => "home agent discovery request",
        kind::HOME_AGENT_REPLY => "home agent discovery reply",
        _ => return None,
    })
}

/// An `ICMPv6` header as a value. Any type and code may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Icmpv6Repr {
    /// Message type, see [`kind`].
    pub message_type: u8,
    /// Code within the type.
    pub code: u8,
}

impl Icmpv6Repr {
    /// The value of a header.
    ///
    /// # Errors
    /// None; the signature is that of every protocol.
    pub fn parse(icmpv6: &Icmpv6<'_>) -> Result<Self, Malformed> {
        Ok(Self { message_type: icmpv6.message_type(), code: icmpv6.code() })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header with a checksum of 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.message_type, self.code, 0, 0]);
    }

    /// Appends header and body, checksum included.
    pub fn emit_message(&self, pseudo: &PseudoHeader, body: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.emit(out);
        out.extend_from_slice(body);
        checksum::fill(out, start, field::CHECKSUM, pseudo, Protocol::ICMPV6);
    }
}

/// `ICMP6, echo request, id 1, seq 2, length 64` (bytes of the whole message)
impl fmt::Display for Icmpv6<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.message_type()) {
            Some(name) => write!(f, "ICMP6, {name}")?,
            None => write!(f, "ICMP6, type {}", self.message_type())?,
        }
        if let Some((identifier, sequence)) = self.echo() {
            write!(f, ", id {identifier}, seq {sequence}")?;
        } else {
            write!(f, ", code {}", self.code())?;
        }
        if let Some(mtu) = self.mtu() {
            write!(f, ", mtu {mtu}")?;
        }
        if let Some(target) = self.target() {
            write!(f, ", target {target}")?;
        }
        write!(f, ", length {}", HEADER_LEN + self.body.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From 2001:db8::1 to 2001:db8::2; crafted with Scapy 2.6, checksums found good by TShark.
    const ECHO: [u8; 12] = [0x80, 0, 0x33, 0x38, 0x12, 0x34, 0, 7, 0x70, 0x69, 0x6e, 0x67];
    const TOO_BIG: [u8; 56] = [
        0x02, 0x00, 0x2b, 0xe9, 0x00, 0x00, 0x05, 0x00, 0x60, 0x00, 0x00, 0x00, 0x00, 0x08, 0x11,
        0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0d, 0xb8,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x00, 0x35, 0x00, 0x35, 0x00, 0x08, 0xa3, 0xff,
    ];
    const SOLICITATION: [u8; 24] = [
        0x87, 0x00, 0xef, 0x7c, 0, 0, 0, 0, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 2,
    ];

    fn address(last: u16) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last)
    }

    #[test]
    fn reads_and_tells() {
        let echo = Icmpv6::new(&ECHO).unwrap();
        assert_eq!((echo.message_type(), echo.code(), echo.checksum()), (128, 0, 0x3338));
        assert_eq!((echo.echo(), echo.is_error()), (Some((0x1234, 7)), false));
        assert_eq!(echo.to_string(), "ICMP6, echo request, id 4660, seq 7, length 12");

        let too_big = Icmpv6::new(&TOO_BIG).unwrap();
        assert_eq!((too_big.mtu(), too_big.is_error()), (Some(1280), true));
        assert_eq!(too_big.original_packet().unwrap().len(), 48);
        assert_eq!(too_big.to_string(), "ICMP6, packet too big, code 0, mtu 1280, length 56");

        let solicitation = Icmpv6::new(&SOLICITATION).unwrap();
        assert_eq!(solicitation.target(), Some(address(2)));
        assert_eq!(
            solicitation.to_string(),
            "ICMP6, neighbor solicitation, code 0, target 2001:db8::2, length 24"
        );
    }

    #[test]
    fn what_was_not_captured_is_none() {
        let echo = Icmpv6::new(&ECHO[..7]).unwrap();
        assert_eq!((echo.echo(), echo.mtu(), echo.target()), (None, None, None));
        assert_eq!(echo.to_string(), "ICMP6, echo request, code 0, length 7");
        assert_eq!(Icmpv6::new(&SOLICITATION[..23]).unwrap().target(), None);
        assert_eq!(Icmpv6::new(&TOO_BIG[..7]).unwrap().original_packet(), None);
    }

    #[test]
    fn emits_the_same_bytes_with_the_checksum_tshark_wants() {
        let pseudo = PseudoHeader::Ipv6(address(1), address(2));
        for bytes in [&ECHO[..], &TOO_BIG, &SOLICITATION] {
            let icmpv6 = Icmpv6::new(bytes).unwrap();
            let mut out = Vec::new();
            Icmpv6Repr::parse(&icmpv6).unwrap().emit_message(&pseudo, icmpv6.body(), &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Icmpv6::new(&ECHO[..3]).unwrap_err(), Malformed::Icmpv6HeaderShort);
    }

    #[test]
    fn the_counterpart_of_a_counterpart_is_the_message() {
        let pairs = (0..=u8::MAX).filter_map(|kind| Some((kind, counterpart(kind)?)));
        for (kind, answer) in pairs.clone() {
            assert_eq!(counterpart(answer), Some(kind));
            assert!(name(kind).is_some());
        }
        assert_eq!(pairs.count(), 12);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(message_type: u8, code: u8) {
            let value = Icmpv6Repr { message_type, code };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(Icmpv6Repr::parse(&Icmpv6::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..32)) {
            if let Ok(icmpv6) = Icmpv6::new(&bytes) {
                let _ = (icmpv6.to_string(), icmpv6.original_packet(), icmpv6.body());
            }
        }
    }
}
