//! Netfilter's log (`LINKTYPE_NFLOG`): a header of 4 bytes, then attributes, of which one is the
//! packet, from its network header on. Lengths and types of attributes are in the byte order of the
//! host that captured, which no field gives: types are small, so that the first one does.

use std::fmt;
use std::ops::Range;

use crate::malformed::Malformed;

/// Bytes of the header: family, version, resource.
pub const HEADER_LEN: usize = 4;
/// Bytes of an attribute before its value: length, these bytes included, and type.
pub const ATTRIBUTE_HEADER_LEN: usize = 4;
/// The attribute that gives the EtherType (`NFULA_PACKET_HDR`).
pub const PACKET_HEADER: u16 = 1;
/// The attribute that is the packet (`NFULA_PAYLOAD`).
pub const PAYLOAD: u16 = 9;
/// Family of IPv4.
pub const FAMILY_IPV4: u8 = 2;
/// Family of IPv6.
pub const FAMILY_IPV6: u8 = 10;

/// Types are below this; in the other byte order they are multiples of 256.
const TYPE_END: u16 = 256;

/// A header with the attributes behind it.
#[derive(Clone, Copy, Debug)]
pub struct Nflog<'a> {
    bytes: &'a [u8],
    is_big: bool,
}

impl<'a> Nflog<'a> {
    /// # Errors
    /// [`Malformed::NflogHeaderShort`].
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER_LEN {
            return Err(Malformed::NflogHeaderShort);
        }
        let is_big = match bytes.get(HEADER_LEN..) {
            Some(&[_, _, low, high, ..]) => u16::from_le_bytes([low, high]) >= TYPE_END,
            _ => false,
        };
        Ok(Self { bytes, is_big })
    }

    /// Address family.
    #[must_use]
    pub fn family(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }

    /// The EtherType, if an attribute gives it.
    #[must_use]
    pub fn ether_type(&self) -> Option<u16> {
        let (_, range) = self.attributes().flatten().find(|(kind, _)| *kind == PACKET_HEADER)?;
        let value = self.bytes.get(range)?.first_chunk()?;
        Some(u16::from_be_bytes(*value))
    }

    /// Where the packet is, from the start of the header. Its end may be past the bytes that were
    /// captured; nothing where no attribute is a packet.
    ///
    /// # Errors
    /// [`Malformed::NflogAttributeWrong`] where an attribute before it ends before its value
    /// begins, or the bytes end before it is found.
    pub fn packet(&self) -> Result<Option<Range<usize>>, Malformed> {
        for attribute in self.attributes() {
            let (kind, range) = attribute?;
            if kind == PAYLOAD {
                return Ok(Some(range));
            }
        }
        Ok(None)
    }

    /// Types of the attributes, and where their values are.
    fn attributes(&self) -> impl Iterator<Item = Result<(u16, Range<usize>), Malformed>> {
        let half = |bytes: [u8; 2]| {
            if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
        };
        let mut at = HEADER_LEN;
        std::iter::from_fn(move || {
            if at >= self.bytes.len() {
                return None;
            }
            let header = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
            let Some(&[a, b, c, d]) = header else {
                at = self.bytes.len();
                return Some(Err(Malformed::NflogAttributeWrong));
            };
            let (len, kind) = (usize::from(half([a, b])), half([c, d]));
            if len < ATTRIBUTE_HEADER_LEN {
                at = self.bytes.len();
                return Some(Err(Malformed::NflogAttributeWrong));
            }
            let range = at + ATTRIBUTE_HEADER_LEN..at + len;
            at += len.next_multiple_of(ATTRIBUTE_HEADER_LEN);
            Some(Ok((kind, range)))
        })
    }
}

/// A packet of netfilter's log as a value, with the packet as its one attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NflogRepr {
    /// Address family.
    pub family: u8,
    /// Bytes of the packet.
    pub packet_len: u16,
}

impl NflogRepr {
    /// # Errors
    /// As of [`Nflog::packet`], also where there is no packet or one too long.
    pub fn parse(view: &Nflog<'_>) -> Result<Self, Malformed> {
        let range = view.packet()?.ok_or(Malformed::NflogAttributeWrong)?;
        let packet_len = u16::try_from(range.len()).map_err(|_| Malformed::NflogAttributeWrong)?;
        Ok(Self { family: view.family(), packet_len })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + ATTRIBUTE_HEADER_LEN
    }

    /// Appends the header and that of the attribute, as a little-endian host does.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.family, 0, 0, 0]);
        let len = self.packet_len.saturating_add(ATTRIBUTE_HEADER_LEN as u16);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&PAYLOAD.to_le_bytes());
    }
}

impl fmt::Display for Nflog<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NFLOG AF {}", self.family())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn attribute(is_big: bool, kind: u16, value: &[u8]) -> Vec<u8> {
        let half = |value: u16| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut bytes = [half(value.len() as u16 + 4), half(kind)].concat();
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn the_packet_is_found_among_attributes_of_either_order() {
        for is_big in [false, true] {
            let mut bytes = vec![FAMILY_IPV6, 0, 0, 5];
            bytes.extend(attribute(is_big, PACKET_HEADER, &[0x86, 0xdd, 1, 0]));
            bytes.extend(attribute(is_big, 10, b"no\0"));
            bytes.extend(attribute(is_big, PAYLOAD, &[0x60; 41]));
            bytes.extend(attribute(is_big, 8, &[1; 8]));
            let view = Nflog::new(&bytes).unwrap();
            assert_eq!((view.family(), view.ether_type()), (FAMILY_IPV6, Some(0x86dd)));
            let range = view.packet().unwrap().unwrap();
            assert_eq!(bytes.get(range), Some(&[0x60; 41][..]));
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(Nflog::new(&[2, 0, 0]).err(), Some(Malformed::NflogHeaderShort));
        let of = |bytes: &[u8]| Nflog::new(bytes).unwrap().packet();
        assert_eq!(of(&[2, 0, 0, 0]), Ok(None));
        assert_eq!(of(&[2, 0, 0, 0, 3, 0, 9, 0]), Err(Malformed::NflogAttributeWrong));
        assert_eq!(of(&[2, 0, 0, 0, 8, 0, 1]), Err(Malformed::NflogAttributeWrong));
        // The bytes end before an attribute that tells a length.
        assert_eq!(of(&[2, 0, 0, 0, 200, 0, 1, 0]), Ok(None));
        assert_eq!(of(&[2, 0, 0, 0, 200, 0, 9, 0]), Ok(Some(8..204)));
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(family: u8, packet_len in 0..=u16::MAX - 4) {
            let value = NflogRepr { family, packet_len };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(NflogRepr::parse(&Nflog::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_have_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(view) = Nflog::new(&bytes) {
                let _ = (view.packet(), view.ether_type(), view.to_string());
            }
        }
    }
}
