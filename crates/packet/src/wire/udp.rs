//! UDP (RFC 768): source port, destination port, length of header and payload,
//! checksum; two bytes each.

use std::fmt;

use super::checksum::{self, PseudoHeader};
use crate::layers::Protocol;
use crate::malformed::Malformed;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const LENGTH: usize = 4;
    pub(super) const CHECKSUM: usize = 6;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 8;
/// The most payload that the length field can tell, in bytes.
pub const PAYLOAD_LEN_MAX: u16 = u16::MAX - 8;

/// A UDP datagram, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

impl<'a> Udp<'a> {
    /// Reads the header at the start of `bytes`. The length field is not
    /// judged here, see [`check_length`](Self::check_length).
    ///
    /// # Errors
    /// [`Malformed::UdpHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, payload) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::UdpHeaderShort)?;
        Ok(Self { header, payload })
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    /// Source port; 0 where the sender wants no answer.
    #[inline]
    #[must_use]
    pub fn source_port(&self) -> u16 {
        self.u16_at(field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        self.u16_at(field::DESTINATION_PORT)
    }

    /// Bytes of header and payload as the header gives them; 0 in an IPv6
    /// jumbogram (RFC 2675 §4).
    #[inline]
    #[must_use]
    pub fn length(&self) -> u16 {
        self.u16_at(field::LENGTH)
    }

    /// Checksum as it stands in the header; 0 where the sender computed none.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.u16_at(field::CHECKSUM)
    }

    /// Whether the length field can be true in a packet that has `available`
    /// bytes from this header on (on the wire, captured or not). A length of 0
    /// is right only in IPv6 beyond 65,535 bytes, so that it depends on `available` alone.
    ///
    /// # Errors
    /// [`Malformed::UdpLengthSmall`] or [`Malformed::UdpLengthLong`].
    #[inline]
    pub fn check_length(&self, available: usize) -> Result<(), Malformed> {
        let length = usize::from(self.length());
        if length > available {
            return Err(Malformed::UdpLengthLong);
        }
        let is_jumbogram = length == 0 && available > usize::from(u16::MAX);
        if length < HEADER_LEN && !is_jumbogram {
            return Err(Malformed::UdpLengthSmall);
        }
        Ok(())
    }

    /// Captured bytes behind the header, up to the length field's end where it is valid.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        usize::from(self.length())
            .checked_sub(HEADER_LEN)
            .and_then(|payload_len| self.payload.get(..payload_len))
            .unwrap_or(self.payload)
    }
}

/// A UDP header as a value; jumbograms are not represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Bytes of payload, at most [`PAYLOAD_LEN_MAX`]; more is emitted as that.
    pub payload_len: u16,
}

impl UdpRepr {
    /// The value of a header.
    ///
    /// # Errors
    /// [`Malformed::UdpLengthSmall`].
    pub fn parse(udp: &Udp<'_>) -> Result<Self, Malformed> {
        let payload_len = udp.length().checked_sub(8).ok_or(Malformed::UdpLengthSmall)?;
        Ok(Self {
            source_port: udp.source_port(),
            destination_port: udp.destination_port(),
            payload_len,
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header with a checksum of 0: none computed.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.payload_len.saturating_add(8).to_be_bytes());
        out.extend_from_slice(&[0, 0]);
    }

    /// Appends header and payload, checksum included. The length is that of
    /// `payload`, whatever `payload_len` says.
    pub fn emit_datagram(&self, pseudo: &PseudoHeader, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        let payload_len = u16::try_from(payload.len()).unwrap_or(PAYLOAD_LEN_MAX);
        Self { payload_len, ..*self }.emit(out);
        out.extend_from_slice(payload);
        let sum = pseudo.checksum(Protocol::UDP, out.get(start..).unwrap_or_default());
        // A sum of 0 is sent as its other form, because 0 says "none".
        checksum::write(out, start, field::CHECKSUM, if sum == 0 { u16::MAX } else { sum });
    }
}

/// `53 > 50000: UDP, length 44` (payload bytes, as tcpdump counts)
impl fmt::Display for Udp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.source_port(), self.destination_port());
        match usize::from(self.length()).checked_sub(HEADER_LEN) {
            Some(payload_len) => write!(f, "{source} > {destination}: UDP, length {payload_len}"),
            None => write!(f, "{source} > {destination}: UDP, bad length {}", self.length()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// From 192.0.2.1 to 198.51.100.2; crafted with Scapy 2.6, checksum found good by TShark.
    const OVER_IPV4: [u8; 13] =
        [0x00, 0x35, 0xc3, 0x50, 0x00, 0x0d, 0x0c, 0x45, 0x68, 0x65, 0x6c, 0x6c, 0x6f];
    /// From 2001:db8::1 to 2001:db8::2, likewise.
    const OVER_IPV6: [u8; 14] =
        [0x00, 0x35, 0xc3, 0x50, 0x00, 0x0e, 0x9c, 0xe4, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0x21];

    #[test]
    fn reads_and_tells() {
        let udp = Udp::new(&OVER_IPV4).unwrap();
        assert_eq!((udp.source_port(), udp.destination_port()), (53, 50_000));
        assert_eq!((udp.length(), udp.checksum()), (13, 0x0c45));
        assert_eq!(udp.payload(), b"hello");
        assert_eq!(udp.to_string(), "53 > 50000: UDP, length 5");
    }

    #[test]
    fn emits_the_same_bytes_with_the_checksum_tshark_wants() {
        let v4 = PseudoHeader::Ipv4([192, 0, 2, 1].into(), [198, 51, 100, 2].into());
        let address = |last| [0x2001, 0xdb8, 0, 0, 0, 0, 0, last].into();
        let v6 = PseudoHeader::Ipv6(address(1), address(2));
        for (pseudo, bytes) in [(v4, &OVER_IPV4[..]), (v6, &OVER_IPV6)] {
            let udp = Udp::new(bytes).unwrap();
            let mut out = Vec::new();
            UdpRepr::parse(&udp).unwrap().emit_datagram(&pseudo, udp.payload(), &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn a_checksum_of_0_is_sent_as_its_other_form() {
        let pseudo = PseudoHeader::Ipv4([0; 4].into(), [0; 4].into());
        // Choose the payload so that everything sums up to ffff.
        let mut out = Vec::new();
        UdpRepr::default().emit_datagram(&pseudo, &[0, 0], &mut out);
        let payload = [out[6], out[7]];
        out.clear();
        UdpRepr::default().emit_datagram(&pseudo, &payload, &mut out);
        assert_eq!(Udp::new(&out).unwrap().checksum(), 0xffff);
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Udp::new(&OVER_IPV4[..7]).unwrap_err(), Malformed::UdpHeaderShort);
        let check = |length: u16, available| {
            let mut bytes = OVER_IPV4;
            bytes[4..6].copy_from_slice(&length.to_be_bytes());
            Udp::new(&bytes).unwrap().check_length(available)
        };
        assert_eq!(check(13, 13), Ok(()));
        assert_eq!(check(8, 13), Ok(()), "IP may carry more than UDP tells of");
        assert_eq!(check(7, 13), Err(Malformed::UdpLengthSmall));
        assert_eq!(check(14, 13), Err(Malformed::UdpLengthLong));
        assert_eq!(check(0, 65_535), Err(Malformed::UdpLengthSmall));
        assert_eq!(check(0, 65_536), Ok(()), "a jumbogram");
    }

    #[test]
    fn a_strange_length_keeps_the_captured_payload() {
        for (length, text) in [(7, "bad length 7"), (200, "length 192")] {
            let mut bytes = OVER_IPV4;
            bytes[5] = length;
            let udp = Udp::new(&bytes).unwrap();
            assert_eq!(udp.payload(), b"hello");
            assert_eq!(udp.to_string(), format!("53 > 50000: UDP, {text}"));
        }
        let mut bytes = OVER_IPV4;
        bytes[5] = 10;
        assert_eq!(Udp::new(&bytes).unwrap().payload(), b"he", "padding is left out");
        bytes[5] = 7;
        let udp = Udp::new(&bytes).unwrap();
        assert_eq!(UdpRepr::parse(&udp), Err(Malformed::UdpLengthSmall));
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            source_port: u16, destination_port: u16, payload_len in 0..=PAYLOAD_LEN_MAX,
        ) {
            let value = UdpRepr { source_port, destination_port, payload_len };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(UdpRepr::parse(&Udp::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..16), available: usize,
        ) {
            if let Ok(udp) = Udp::new(&bytes) {
                let _ = (udp.to_string(), udp.payload(), UdpRepr::parse(&udp));
                let _ = udp.check_length(available);
            }
        }
    }
}
