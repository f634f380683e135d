//! IPv6 extension headers (RFC 8200 §4): next header, length in 8-byte units
//! without the first, content. The authentication header counts 4-byte units
//! without the first two (RFC 4302 §2.2); the fragment header is 8 bytes:
//! next header, reserved, 13 bits offset in 8-byte units, 2 reserved, 1 bit
//! more fragments, 32 bits identification.

use std::fmt;

use crate::layers::Protocol;
use crate::malformed::Malformed;

/// Bytes of the shortest extension header.
pub const HEADER_LEN_MIN: usize = 8;
/// Bytes of an authentication header without its check value.
pub const AH_HEADER_LEN_MIN: usize = 12;
/// Bytes of the fragment header.
pub const FRAGMENT_HEADER_LEN: usize = 8;

/// An extension header of any kind that has a length.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Extension<'a> {
    protocol: Protocol,
    bytes: &'a [u8],
}

impl<'a> Ipv6Extension<'a> {
    /// `protocol` is the number that announced this header. Its content need
    /// not be there: where the next header lies is known from the first 2 bytes.
    ///
    /// # Errors
    /// [`Malformed::Ipv6ExtensionShort`].
    #[inline]
    pub fn new(protocol: Protocol, bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < 2 {
            return Err(Malformed::Ipv6ExtensionShort);
        }
        Ok(Self { protocol, bytes })
    }

    /// Whether `protocol` names a header that this view reads.
    #[inline]
    #[must_use]
    pub fn is_extension(protocol: Protocol) -> bool {
        matches!(
            protocol,
            Protocol::HOP_BY_HOP
                | Protocol::IPV6_ROUTE
                | Protocol::IPV6_FRAGMENT
                | Protocol::AH
                | Protocol::IPV6_OPTIONS
                | Protocol::MOBILITY
                | Protocol::HIP
                | Protocol::SHIM6
        )
    }

    /// What follows.
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.bytes[0])
    }

    /// Bytes of this header, present or not.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        let units = usize::from(self.bytes[1]);
        match self.protocol {
            Protocol::IPV6_FRAGMENT => FRAGMENT_HEADER_LEN,
            Protocol::AH => (units + 2) * 4,
            _ => (units + 1) * 8,
        }
    }
}

/// A fragment header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6Fragment<'a> {
    header: &'a [u8; FRAGMENT_HEADER_LEN],
}

impl<'a> Ipv6Fragment<'a> {
    /// # Errors
    /// [`Malformed::Ipv6ExtensionShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::Ipv6ExtensionShort)?;
        Ok(Self { header })
    }

    /// What the whole packet's fragmentable part begins with.
    #[inline]
    #[must_use]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.header[0])
    }

    /// Where this fragment lies, in bytes.
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]]) & 0xfff8
    }

    /// Whether another fragment follows.
    #[inline]
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.header[3] & 1 != 0
    }

    /// Identification, the same in all fragments of a packet.
    #[inline]
    #[must_use]
    pub fn identification(&self) -> u32 {
        u32::from_be_bytes([self.header[4], self.header[5], self.header[6], self.header[7]])
    }

    /// False for an atomic fragment (RFC 6946), which is the whole packet.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.fragment_offset() != 0 || self.more_fragments()
    }
}

/// An extension header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ipv6ExtensionRepr {
    /// A fragment header.
    Fragment {
        /// What follows.
        next_header: Protocol,
        /// Where this fragment lies, in bytes; the low three bits are not emitted.
        fragment_offset: u16,
        /// Whether another fragment follows.
        more_fragments: bool,
        /// Identification.
        identification: u32,
    },
    /// Options, routing or another header in 8-byte units.
    Units {
        /// What follows.
        next_header: Protocol,
        /// All behind the length; 6 bytes and a multiple of 8, 2,046 at most. Other lengths are
        /// padded or cut.
        content: Vec<u8>,
    },
}

impl Ipv6ExtensionRepr {
    /// # Errors
    /// [`Malformed::Ipv6ExtensionShort`] where the content is not all there, and for
    /// authentication headers, which this value does not hold.
    pub fn parse(view: &Ipv6Extension<'_>) -> Result<Self, Malformed> {
        match view.protocol {
            Protocol::AH => Err(Malformed::Ipv6ExtensionShort),
            Protocol::IPV6_FRAGMENT => {
                let fragment = Ipv6Fragment::new(view.bytes)?;
                Ok(Self::Fragment {
                    next_header: fragment.next_header(),
                    fragment_offset: fragment.fragment_offset(),
                    more_fragments: fragment.more_fragments(),
                    identification: fragment.identification(),
                })
            }
            _ => {
                let content = view.bytes.get(2..view.header_len());
                let content = content.ok_or(Malformed::Ipv6ExtensionShort)?.to_vec();
                Ok(Self::Units { next_header: view.next_header(), content })
            }
        }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        match self {
            Self::Fragment { .. } => FRAGMENT_HEADER_LEN,
            Self::Units { content, .. } => (content.len() + 2).div_ceil(8).min(256) * 8,
        }
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let end = out.len() + self.header_len();
        match self {
            Self::Fragment { next_header, fragment_offset, more_fragments, identification } => {
                out.extend_from_slice(&[next_header.0, 0]);
                let word = fragment_offset & 0xfff8 | u16::from(*more_fragments);
                out.extend_from_slice(&word.to_be_bytes());
                out.extend_from_slice(&identification.to_be_bytes());
            }
            Self::Units { next_header, content } => {
                let units = u8::try_from(self.header_len() / 8 - 1).unwrap_or(u8::MAX);
                out.extend_from_slice(&[next_header.0, units]);
                out.extend_from_slice(content);
                out.resize(end, 0);
            }
        }
    }
}

impl fmt::Display for Ipv6Extension<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, length {}, next {}", self.protocol, self.header_len(), self.next_header())
    }
}

impl fmt::Display for Ipv6Fragment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.more_fragments() { ", more" } else { "" };
        write!(f, "frag {:#010x}, offset {}{more}", self.identification(), self.fragment_offset())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_count_in_the_units_of_their_kind() {
        let bytes = [6, 4, 0, 0, 0, 0, 0, 0];
        let len = |protocol| Ipv6Extension::new(protocol, &bytes).unwrap().header_len();
        assert_eq!(len(Protocol::HOP_BY_HOP), 40);
        assert_eq!(len(Protocol::AH), 24);
        assert_eq!(len(Protocol::IPV6_FRAGMENT), 8);
        let view = Ipv6Extension::new(Protocol::AH, &bytes).unwrap();
        assert_eq!(view.to_string(), "ah, length 24, next tcp");
    }

    #[test]
    fn fragments() {
        let view = Ipv6Fragment::new(&[17, 0, 0x05, 0xa9, 0, 0, 0xbe, 0xef]).unwrap();
        assert!(view.is_fragment());
        assert_eq!(view.to_string(), "frag 0x0000beef, offset 1448, more");
        assert!(!Ipv6Fragment::new(&[17, 0, 0, 0, 0, 0, 0, 1]).unwrap().is_fragment());
    }

    #[test]
    fn ends_early() {
        let short = Malformed::Ipv6ExtensionShort;
        assert_eq!(Ipv6Extension::new(Protocol::AH, &[6]).unwrap_err(), short);
        assert_eq!(Ipv6Fragment::new(&[17; 7]).unwrap_err(), short);
        let cut = Ipv6Extension::new(Protocol::HOP_BY_HOP, &[6, 0, 1, 4]).unwrap();
        assert_eq!(Ipv6ExtensionRepr::parse(&cut), Err(short));
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            next_header in any::<u8>().prop_map(Protocol), offset: u16, more_fragments: bool,
            identification: u32, units in 0_usize..256, filler: u8,
        ) {
            let fragment_offset = offset & 0xfff8;
            let fragment = Ipv6ExtensionRepr::Fragment {
                next_header, fragment_offset, more_fragments, identification,
            };
            let content = vec![filler; units * 8 + 6];
            let options = Ipv6ExtensionRepr::Units { next_header, content };
            let kinds = [(Protocol::IPV6_FRAGMENT, fragment), (Protocol::IPV6_OPTIONS, options)];
            for (protocol, value) in kinds {
                let mut bytes = Vec::new();
                value.emit(&mut bytes);
                prop_assert_eq!(bytes.len(), value.header_len());
                let view = Ipv6Extension::new(protocol, &bytes).unwrap();
                prop_assert_eq!(view.header_len(), bytes.len());
                prop_assert_eq!(Ipv6ExtensionRepr::parse(&view), Ok(value));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            protocol: u8, bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            if let Ok(view) = Ipv6Extension::new(Protocol(protocol), &bytes) {
                let _ = (view.to_string(), view.header_len(), Ipv6ExtensionRepr::parse(&view));
            }
            if let Ok(view) = Ipv6Fragment::new(&bytes) {
                let _ = (view.to_string(), view.is_fragment());
            }
        }
    }
}
