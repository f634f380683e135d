//! IPv6 (RFC 8200 §3): version 6, traffic class, flow label, payload length,
//! next header, hop limit, source, destination; 40 bytes, always.

use std::fmt;
use std::net::Ipv6Addr;

use crate::layers::Protocol;
use crate::malformed::Malformed;

/// Byte offsets.
mod field {
    pub(super) const PAYLOAD_LENGTH: usize = 4;
    pub(super) const NEXT_HEADER: usize = 6;
    pub(super) const HOP_LIMIT: usize = 7;
    pub(super) const SOURCE: usize = 8;
    pub(super) const DESTINATION: usize = 24;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 40;
/// The largest flow label.
pub const FLOW_LABEL_MAX: u32 = 0x000f_ffff;

/// An IPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Ipv6<'a> {
    /// # Errors
    /// [`Malformed::Ipv6HeaderShort`], [`Malformed::Ipv6VersionWrong`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::Ipv6HeaderShort)?;
        if header[0] >> 4 != 6 {
            return Err(Malformed::Ipv6VersionWrong);
        }
        Ok(Self { header })
    }

    /// Traffic class: 6 bits of differentiated services, 2 of congestion notification.
    #[inline]
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// Explicit congestion notification (RFC 3168 §5): 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Differentiated services code point.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Flow label, 20 bits.
    #[inline]
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        u32::from_be_bytes([0, self.header[1] & 0x0f, self.header[2], self.header[3]])
    }

    /// Bytes behind this header; 0 in jumbograms (RFC 2675) and before segmentation offload.
    #[inline]
    #[must_use]
    pub fn payload_length(&self) -> u16 {
        u16::from_be_bytes([
            self.header[field::PAYLOAD_LENGTH],
            self.header[field::PAYLOAD_LENGTH + 1],
        ])
    }

    /// What follows: an extension header or the transport.
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.header[field::NEXT_HEADER])
    }

    /// Hop limit.
    #[inline]
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.header[field::HOP_LIMIT]
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Ipv6Addr {
        self.address(field::SOURCE)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> Ipv6Addr {
        self.address(field::DESTINATION)
    }

    #[inline]
    fn address(&self, at: usize) -> Ipv6Addr {
        let octets: [u8; 16] = std::array::from_fn(|index| self.header[at + index]);
        Ipv6Addr::from(octets)
    }
}

/// An IPv6 header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ipv6Repr {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label; bits above the 20th are not emitted.
    pub flow_label: u32,
    /// Bytes behind this header.
    pub payload_length: u16,
    /// What follows.
    pub next_header: Protocol,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Repr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Ipv6<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            traffic_class: view.traffic_class(),
            flow_label: view.flow_label(),
            payload_length: view.payload_length(),
            next_header: view.next_header(),
            hop_limit: view.hop_limit(),
            source: view.source(),
            destination: view.destination(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let word = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL_MAX;
        out.extend_from_slice(&word.to_be_bytes());
        out.extend_from_slice(&self.payload_length.to_be_bytes());
        out.extend_from_slice(&[self.next_header.0, self.hop_limit]);
        out.extend_from_slice(&self.source.octets());
        out.extend_from_slice(&self.destination.octets());
    }
}

impl fmt::Display for Ipv6<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IP6 {} > {}: {}, hlim {}, payload length {}",
            self.source(),
            self.destination(),
            self.next_header(),
            self.hop_limit(),
            self.payload_length()
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: [u8; 40] = [
        0x6b, 0x71, 0x23, 0x45, 0x00, 0x14, 0x06, 0x40, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 1, 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
    ];

    #[test]
    fn reads_and_tells() {
        let view = Ipv6::new(&BYTES).unwrap();
        assert_eq!((view.traffic_class(), view.dscp(), view.ecn()), (0xb7, 45, 3));
        assert_eq!(view.flow_label(), 0x1_2345);
        assert_eq!(
            view.to_string(),
            "IP6 2001:db8::1 > 2001:db8::2: tcp, hlim 64, payload length 20"
        );
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Ipv6::new(&BYTES[..39]).unwrap_err(), Malformed::Ipv6HeaderShort);
        let mut bytes = BYTES;
        bytes[0] = 0x45;
        assert_eq!(Ipv6::new(&bytes).unwrap_err(), Malformed::Ipv6VersionWrong);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            traffic_class: u8, flow_label in 0..=FLOW_LABEL_MAX, payload_length: u16,
            next_header: u8, hop_limit: u8, source: u128, destination: u128,
        ) {
            let value = Ipv6Repr {
                traffic_class, flow_label, payload_length, hop_limit,
                next_header: Protocol(next_header),
                source: source.into(), destination: destination.into(),
            };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(Ipv6Repr::parse(&Ipv6::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 36..44)) {
            bytes[0] = bytes[0] & 0x0f | 0x60;
            if let Ok(view) = Ipv6::new(&bytes) {
                let _ = (view.to_string(), Ipv6Repr::parse(&view));
            }
        }
    }
}
