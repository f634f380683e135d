//! QUIC (RFC 9000): as much as is not encrypted and shows delays: which header a packet has, its
//! version, and the spin bit.
//!
//! ```text
//! long header:  |1|1|type|.....| version (32 bits) | connection identifiers …
//! short header: |0|1|S|........| connection identifier …
//! ```
//!
//! A short header does not say that it is one of QUIC: only who has seen a long header of the
//! same flow may ask for its spin bit.

use std::fmt;

mod field {
    pub(super) const FIRST: usize = 0;
    pub(super) const VERSION: usize = 1;
}

/// Bytes of a long header up to the version.
pub const LONG_LEN: usize = 5;

/// Version 1 (RFC 9000).
pub const VERSION_1: u32 = 1;
/// Version 2 (RFC 9369).
pub const VERSION_2: u32 = 0x6b33_43cf;

const IS_LONG: u8 = 1 << 7;
const IS_FIXED: u8 = 1 << 6;
const SPINS: u8 = 1 << 5;

/// The first packet in a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Quic<'a> {
    bytes: &'a [u8],
}

impl<'a> Quic<'a> {
    /// Reads what begins a datagram's payload; `None` where it can be no packet of QUIC: without
    /// the fixed bit, or a long header that ends before its version does.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let first = *bytes.get(field::FIRST)?;
        let is_whole = first & IS_LONG == 0 || bytes.len() >= LONG_LEN;
        (first & IS_FIXED != 0 && is_whole).then_some(Self { bytes })
    }

    #[inline]
    fn first(&self) -> u8 {
        self.bytes.first().copied().unwrap_or_default()
    }

    /// The version of a long header.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Option<u32> {
        let version = self.bytes.get(field::VERSION..)?.first_chunk()?;
        (self.first() & IS_LONG != 0).then_some(u32::from_be_bytes(*version))
    }

    /// Whether this is a long header of a version whose short headers have a spin bit.
    #[inline]
    #[must_use]
    pub fn has_known_version(&self) -> bool {
        matches!(self.version(), Some(VERSION_1 | VERSION_2))
    }

    /// The spin bit of a short header (RFC 9000 §17.4).
    #[inline]
    #[must_use]
    pub fn spin(&self) -> Option<bool> {
        let first = self.first();
        (first & IS_LONG == 0).then_some(first & SPINS != 0)
    }
}

/// `quic long, version 0x1` or `quic short, spin 0`.
impl fmt::Display for Quic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.version(), self.spin()) {
            (Some(version), _) => write!(f, "quic long, version {version:#x}"),
            (None, spin) => write!(f, "quic short, spin {}", u8::from(spin.unwrap_or_default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_told_by_their_first_bits() {
        let long = Quic::new(&[0xc3, 0, 0, 0, 1, 8]).unwrap();
        assert_eq!((long.to_string().as_str(), long.spin()), ("quic long, version 0x1", None));
        assert!(long.has_known_version());
        let short = Quic::new(&[0x61, 9, 9]).unwrap();
        assert_eq!((short.to_string().as_str(), short.spin()), ("quic short, spin 1", Some(true)));
        assert!(!short.has_known_version());
    }

    #[test]
    fn what_cannot_be_quic_is_none() {
        // No byte, no fixed bit (RTP, STUN, DTLS), a long header cut off.
        for bytes in [&[][..], &[0x80, 96, 0, 1, 0, 0], &[0x16, 254, 253], &[0xc0, 0, 0, 0]] {
            assert!(Quic::new(bytes).is_none(), "{bytes:?}");
        }
        // Version negotiation: no version that has a spin bit.
        assert!(!Quic::new(&[0xc0, 0, 0, 0, 0]).unwrap().has_known_version());
    }
}
