//! Ethernet (IEEE 802.3): destination and source address of 6 bytes each, then
//! 2 bytes that are an EtherType from 0x0600 on and a length up to 1,500.

use std::fmt;

use crate::malformed::Malformed;

/// Byte offsets.
mod field {
    pub(super) const TYPE: usize = 12;
}

/// Bytes of the header.
pub const HEADER_LEN: usize = 14;
/// The largest value that is a length (IEEE 802.3); what follows is LLC.
pub const LENGTH_MAX: u16 = 1_500;
/// The smallest value that is an EtherType; between the two lies nothing.
pub const ETHER_TYPE_MIN: u16 = 0x0600;

/// EtherTypes that this project reads.
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Reverse ARP; on Cisco HDLC the same number is SLARP.
    pub const RARP: u16 = 0x8035;
    /// Ethernet within GRE (RFC 1701's "transparent Ethernet bridging").
    pub const TRANSPARENT_ETHERNET: u16 = 0x6558;
    /// ERSPAN of types I and II, within GRE.
    pub const ERSPAN: u16 = 0x88be;
    /// ERSPAN of type III, within GRE.
    pub const ERSPAN_III: u16 = 0x22eb;
    /// MACsec (IEEE 802.1AE).
    pub const MACSEC: u16 = 0x88e5;
    /// IEEE 802.1Q tag.
    pub const VLAN: u16 = 0x8100;
    /// PPP within enhanced GRE (RFC 2637).
    pub const PPP: u16 = 0x880b;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS.
    pub const MPLS: u16 = 0x8847;
    /// MPLS with an upstream-assigned label (RFC 5332), once "multicast".
    pub const MPLS_UPSTREAM: u16 = 0x8848;
    /// PPPoE discovery.
    pub const PPPOE_DISCOVERY: u16 = 0x8863;
    /// PPPoE session.
    pub const PPPOE_SESSION: u16 = 0x8864;
    /// IEEE 802.1ad service tag.
    pub const SERVICE_VLAN: u16 = 0x88a8;
    /// Stacked tags as switches wrote them before 802.1ad.
    pub const STACKED_VLAN_OLD: u16 = 0x9100;
}

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MacAddress(pub [u8; 6]);

/// An Ethernet header.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Ethernet<'a> {
    /// # Errors
    /// [`Malformed::EthernetHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::EthernetHeaderShort)?;
        Ok(Self { header })
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> MacAddress {
        let [a, b, c, d, e, f, ..] = *self.header;
        MacAddress([a, b, c, d, e, f])
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> MacAddress {
        let [_, _, _, _, _, _, a, b, c, d, e, f, ..] = *self.header;
        MacAddress([a, b, c, d, e, f])
    }

    /// EtherType or length.
    #[inline]
    #[must_use]
    pub fn type_or_length(&self) -> u16 {
        u16::from_be_bytes([self.header[field::TYPE], self.header[field::TYPE + 1]])
    }
}

/// An Ethernet header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EthernetRepr {
    /// Destination address.
    pub destination: MacAddress,
    /// Source address.
    pub source: MacAddress,
    /// EtherType or length.
    pub type_or_length: u16,
}

impl EthernetRepr {
    /// # Errors
    /// None at present: every view is a valid value.
    pub fn parse(view: &Ethernet<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            destination: view.destination(),
            source: view.source(),
            type_or_length: view.type_or_length(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.destination.0);
        out.extend_from_slice(&self.source.0);
        out.extend_from_slice(&self.type_or_length.to_be_bytes());
    }
}

impl MacAddress {
    /// Reads six bytes in hexadecimal, separated by colons or dashes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next().filter(|part| part.len() == 2)?;
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(Self(bytes))
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Display for Ethernet<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.type_or_length();
        write!(f, "{} > {}, ", self.source(), self.destination())?;
        if value <= LENGTH_MAX {
            write!(f, "802.3 length {value}")
        } else {
            write!(f, "ethertype {value:#06x}")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BYTES: [u8; 14] =
        [0x00, 0x25, 0x90, 0x4c, 0x1a, 0x01, 0x02, 0x42, 0xac, 0x11, 0x00, 0x02, 0x08, 0x00];

    #[test]
    fn reads_and_tells() {
        let view = Ethernet::new(&BYTES).unwrap();
        assert_eq!(view.to_string(), "02:42:ac:11:00:02 > 00:25:90:4c:1a:01, ethertype 0x0800");
        let mut with_length = BYTES;
        with_length[12..].copy_from_slice(&38_u16.to_be_bytes());
        assert!(Ethernet::new(&with_length).unwrap().to_string().ends_with("802.3 length 38"));
    }

    #[test]
    fn thirteen_bytes_are_short() {
        assert_eq!(Ethernet::new(&BYTES[..13]).unwrap_err(), Malformed::EthernetHeaderShort);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            destination: [u8; 6], source: [u8; 6], type_or_length: u16,
        ) {
            let value = EthernetRepr {
                destination: MacAddress(destination), source: MacAddress(source), type_or_length,
            };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(EthernetRepr::parse(&Ethernet::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = Ethernet::new(&bytes) {
                let _ = (view.to_string(), EthernetRepr::parse(&view));
            }
        }
    }
}
