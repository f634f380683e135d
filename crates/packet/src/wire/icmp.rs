//! ICMP (RFC 792): type, code, checksum, and four bytes whose meaning the type
//! gives: identifier and sequence number, a gateway, a next-hop MTU.

use std::fmt;
use std::net::Ipv4Addr;

use super::checksum;
use crate::malformed::Malformed;

mod field {
    pub(super) const TYPE: usize = 0;
    pub(super) const CODE: usize = 1;
    pub(super) const CHECKSUM: usize = 2;
    pub(super) const REST: usize = 4;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;

/// Message types, as IANA assigns them.
pub mod kind {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const DESTINATION_UNREACHABLE: u8 = 3;
    /// Source quench (deprecated).
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Router advertisement (RFC 1256).
    pub const ROUTER_ADVERTISEMENT: u8 = 9;
    /// Router solicitation (RFC 1256).
    pub const ROUTER_SOLICITATION: u8 = 10;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp request.
    pub const TIMESTAMP_REQUEST: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
    /// Information request.
    pub const INFORMATION_REQUEST: u8 = 15;
    /// Information reply.
    pub const INFORMATION_REPLY: u8 = 16;
    /// Address mask request (RFC 950).
    pub const MASK_REQUEST: u8 = 17;
    /// Address mask reply (RFC 950).
    pub const MASK_REPLY: u8 = 18;
}

/// The type that answers `message_type`, or that it answers; `None` for
/// messages that go one way.
#[inline]
#[must_use]
pub const fn counterpart(message_type: u8) -> Option<u8> {
    Some(match message_type {
        kind::ECHO_REQUEST => kind::ECHO_REPLY,
        kind::ECHO_REPLY => kind::ECHO_REQUEST,
        kind::ROUTER_ADVERTISEMENT => kind::ROUTER_SOLICITATION,
        kind::ROUTER_SOLICITATION => kind::ROUTER_ADVERTISEMENT,
        kind::TIMESTAMP_REQUEST => kind::TIMESTAMP_REPLY,
        kind::TIMESTAMP_REPLY => kind::TIMESTAMP_REQUEST,
        kind::INFORMATION_REQUEST => kind::INFORMATION_REPLY,
        kind::INFORMATION_REPLY => kind::INFORMATION_REQUEST,
        kind::MASK_REQUEST => kind::MASK_REPLY,
        kind::MASK_REPLY => kind::MASK_REQUEST,
        _ => return None,
    })
}

/// An ICMP message, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Icmp<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed::IcmpHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::IcmpHeaderShort)?;
        Ok(Self { header, payload })
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
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
        self.u16_at(field::CHECKSUM)
    }

    /// The four bytes behind the checksum.
    #[inline]
    #[must_use]
    pub fn rest_of_header(&self) -> [u8; 4] {
        let [_, _, _, _, a, b, c, d] = *self.header;
        [a, b, c, d]
    }

    /// Identifier, for requests and replies.
    #[inline]
    #[must_use]
    pub fn identifier(&self) -> Option<u16> {
        self.is_query().then(|| self.u16_at(field::REST))
    }

    /// Sequence number, for requests and replies.
    #[inline]
    #[must_use]
    pub fn sequence_number(&self) -> Option<u16> {
        self.is_query().then(|| self.u16_at(field::REST + 2))
    }

    /// The gateway that a redirect names.
    #[must_use]
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        (self.message_type() == kind::REDIRECT).then(|| Ipv4Addr::from(self.rest_of_header()))
    }

    /// The next hop's MTU in bytes, for "fragmentation needed" (RFC 1191 §4);
    /// 0 where the router does not tell.
    #[must_use]
    pub fn next_hop_mtu(&self) -> Option<u16> {
        let is_needed = self.message_type() == kind::DESTINATION_UNREACHABLE && self.code() == 4;
        is_needed.then(|| self.u16_at(field::REST + 2))
    }

    /// The start of the packet that an error message is about: an IPv4 header
    /// and at least 8 bytes behind it, if all is well.
    #[inline]
    #[must_use]
    pub fn original_packet(&self) -> Option<&'a [u8]> {
        matches!(
            self.message_type(),
            kind::DESTINATION_UNREACHABLE
                | kind::SOURCE_QUENCH
                | kind::REDIRECT
                | kind::TIME_EXCEEDED
                | kind::PARAMETER_PROBLEM
        )
        .then_some(self.payload)
    }

    /// Captured bytes behind the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Whether the type has an identifier and a sequence number. Router
    /// messages have a counterpart too, but neither of the two.
    #[inline]
    fn is_query(&self) -> bool {
        let kind = self.message_type();
        counterpart(kind).is_some()
            && kind != kind::ROUTER_ADVERTISEMENT
            && kind != kind::ROUTER_SOLICITATION
    }
}

const fn name(message_type: u8) -> Option<&'static str> {
    Some(match message_type {
        kind::ECHO_REPLY => "echo reply",
        kind::DESTINATION_UNREACHABLE => "destination unreachable",
        kind::SOURCE_QUENCH => "source quench",
        kind::REDIRECT => "redirect",
        kind::ECHO_REQUEST => "echo request",
        kind::ROUTER_ADVERTISEMENT => "router advertisement",
        kind::ROUTER_SOLICITATION => "router solicitation",
        kind::TIME_EXCEEDED => "time exceeded",
        kind::PARAMETER_PROBLEM => "parameter problem",
        kind::TIMESTAMP_REQUEST => "timestamp request",
        kind::TIMESTAMP_REPLY => "timestamp reply",
        kind::INFORMATION_REQUEST => "information request",
        kind::INFORMATION_REPLY => "information reply",
        kind::MASK_REQUEST => "address mask request",
        kind::MASK_REPLY => "address mask reply",
        _ => return None,
    })
}

/// An ICMP header as a value. Any type and code may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IcmpRepr {
    /// Message type, see [`kind`].
    pub message_type: u8,
    /// Code within the type.
    pub code: u8,
    /// The four bytes behind the checksum.
    pub rest_of_header: [u8; 4],
}

impl IcmpRepr {
    /// An echo request, or the reply to one.
    #[must_use]
    pub const fn echo(is_reply: bool, identifier: u16, sequence_number: u16) -> Self {
        let [a, b] = identifier.to_be_bytes();
        let [c, d] = sequence_number.to_be_bytes();
        let message_type = if is_reply { kind::ECHO_REPLY } else { kind::ECHO_REQUEST };
        Self { message_type, code: 0, rest_of_header: [a, b, c, d] }
    }

    /// The value of a header.
    ///
    /// # Errors
    /// None; the signature is that of every protocol.
    pub fn parse(icmp: &Icmp<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            message_type: icmp.message_type(),
            code: icmp.code(),
            rest_of_header: icmp.rest_of_header(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header with a checksum of 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.message_type, self.code, 0, 0]);
        out.extend_from_slice(&self.rest_of_header);
    }

    /// Appends header and payload, checksum included.
    pub fn emit_message(&self, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.emit(out);
        out.extend_from_slice(payload);
        let sum = checksum::checksum(out.get(start..).unwrap_or_default());
        checksum::write(out, start, field::CHECKSUM, sum);
    }
}

/// `ICMP echo request, id 1, seq 2, length 64` (bytes of the whole message)
impl fmt::Display for Icmp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.message_type()) {
            Some(name) => write!(f, "ICMP {name}")?,
            None => write!(f, "ICMP type {}", self.message_type())?,
        }
        if let (Some(identifier), Some(sequence)) = (self.identifier(), self.sequence_number()) {
            write!(f, ", id {identifier}, seq {sequence}")?;
        } else {
            write!(f, ", code {}", self.code())?;
        }
        if let Some(gateway) = self.gateway() {
            write!(f, ", gateway {gateway}")?;
        }
        if let Some(mtu) = self.next_hop_mtu() {
            write!(f, ", mtu {mtu}")?;
        }
        write!(f, ", length {}", HEADER_LEN + self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Crafted with Scapy 2.6, checksums found good by TShark.
    const ECHO: [u8; 12] = [0x08, 0, 0x06, 0xf4, 0x12, 0x34, 0, 7, 0x70, 0x69, 0x6e, 0x67];
    const TOO_BIG: [u8; 36] = [
        0x03, 0x04, 0xe3, 0xd4, 0x00, 0x00, 0x05, 0x78, 0x45, 0x00, 0x00, 0x1c, 0x00, 0x01, 0x00,
        0x00, 0x40, 0x11, 0x8e, 0x99, 0xc6, 0x33, 0x64, 0x02, 0xc0, 0x00, 0x02, 0x01, 0x00, 0x01,
        0x00, 0x02, 0x00, 0x08, 0x13, 0xa4,
    ];
    const REDIRECT: [u8; 8] = [0x05, 0x01, 0xbe, 0xf4, 0xcb, 0x00, 0x71, 0x09];

    #[test]
    fn reads_and_tells() {
        let echo = Icmp::new(&ECHO).unwrap();
        assert_eq!((echo.message_type(), echo.code(), echo.checksum()), (8, 0, 0x06f4));
        assert_eq!((echo.identifier(), echo.sequence_number()), (Some(0x1234), Some(7)));
        assert_eq!(echo.original_packet(), None);
        assert_eq!(echo.to_string(), "ICMP echo request, id 4660, seq 7, length 12");

        let too_big = Icmp::new(&TOO_BIG).unwrap();
        assert_eq!(too_big.next_hop_mtu(), Some(1400));
        assert_eq!((too_big.identifier(), too_big.gateway()), (None, None));
        assert_eq!(too_big.original_packet().unwrap().len(), 28);
        assert_eq!(
            too_big.to_string(),
            "ICMP destination unreachable, code 4, mtu 1400, length 36"
        );

        let redirect = Icmp::new(&REDIRECT).unwrap();
        assert_eq!(redirect.to_string(), "ICMP redirect, code 1, gateway 203.0.113.9, length 8");
        assert_eq!(
            Icmp::new(&[40, 2, 0, 0, 0, 0, 0, 0]).unwrap().to_string(),
            "ICMP type 40, code 2, length 8"
        );
    }

    #[test]
    fn emits_the_same_bytes_with_the_checksum_tshark_wants() {
        for bytes in [&ECHO[..], &TOO_BIG, &REDIRECT] {
            let icmp = Icmp::new(bytes).unwrap();
            let mut out = Vec::new();
            IcmpRepr::parse(&icmp).unwrap().emit_message(icmp.payload(), &mut out);
            assert_eq!(out, bytes);
        }
        let echo = IcmpRepr::parse(&Icmp::new(&ECHO).unwrap());
        assert_eq!(echo, Ok(IcmpRepr::echo(false, 0x1234, 7)));
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Icmp::new(&ECHO[..7]).unwrap_err(), Malformed::IcmpHeaderShort);
    }

    #[test]
    fn the_counterpart_of_a_counterpart_is_the_message() {
        let pairs = (0..=u8::MAX).filter_map(|kind| Some((kind, counterpart(kind)?)));
        for (kind, answer) in pairs.clone() {
            assert_eq!(counterpart(answer), Some(kind));
            assert!(name(kind).is_some());
        }
        assert_eq!(pairs.count(), 10);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            message_type: u8, code: u8, rest_of_header: [u8; 4],
        ) {
            let value = IcmpRepr { message_type, code, rest_of_header };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(IcmpRepr::parse(&Icmp::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..16)) {
            if let Ok(icmp) = Icmp::new(&bytes) {
                let _ = (icmp.to_string(), icmp.original_packet(), icmp.payload());
            }
        }
    }
}
