//! The internet checksum (RFC 1071) and the pseudo headers that TCP, UDP and
//! `ICMPv6` put in front of what it covers (RFC 9293 §3.1, RFC 8200 §8.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::layers::Protocol;

/// A sum under way. 64 bits wide: carries are folded once, at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checksum(u64);

impl Checksum {
    /// With `bytes` added. Only the last part of a sum may have an odd length: its
    /// last byte is paired with a zero.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Self {
        let (words, tail) = bytes.as_chunks::<4>();
        for &word in words {
            // 2³² words of four bytes before a carry could be lost; a frame has 2³⁰.
            self.0 = self.0.wrapping_add(u64::from(u32::from_be_bytes(word)));
        }
        let last = match *tail {
            [a, b, c] => [a, b, c, 0],
            [a, b] => [a, b, 0, 0],
            [a] => [a, 0, 0, 0],
            _ => [0; 4],
        };
        self.0 = self.0.wrapping_add(u64::from(u32::from_be_bytes(last)));
        self
    }

    /// The checksum: the complement of the ones' complement sum.
    #[must_use]
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        let [low, high, ..] = sum.to_le_bytes();
        !u16::from_le_bytes([low, high])
    }
}

/// The checksum of `bytes` alone, as IPv4 headers and ICMP have it. 0 for
/// bytes that carry their own valid checksum.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u16 {
    Checksum::default().with(bytes).finish()
}

/// The addresses that a transport checksum also covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PseudoHeader {
    /// Over IPv4: source and destination.
    Ipv4(Ipv4Addr, Ipv4Addr),
    /// Over IPv6: source and destination (the last one, where a routing header names several).
    Ipv6(Ipv6Addr, Ipv6Addr),
}

impl PseudoHeader {
    /// The pseudo header of two addresses, or `None` where their versions differ.
    #[must_use]
    pub fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::Ipv4(source, destination)),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::Ipv6(source, destination)),
            _ => None,
        }
    }

    /// The checksum of a transport header and its payload. 0 for bytes that
    /// carry their own valid checksum.
    #[must_use]
    pub fn checksum(&self, protocol: Protocol, segment: &[u8]) -> u16 {
        let addresses = match self {
            Self::Ipv4(source, destination) => {
                Checksum::default().with(&source.octets()).with(&destination.octets())
            }
            Self::Ipv6(source, destination) => {
                Checksum::default().with(&source.octets()).with(&destination.octets())
            }
        };
        // The two pseudo headers order and pad length and protocol
        // differently, but their sums are the same.
        let segment_len = segment.len() as u64;
        addresses.with(&segment_len.to_be_bytes()).with(&[0, protocol.0]).with(segment).finish()
    }
}

/// Writes the checksum of `out[start..]` at `start + at`, where 0 stands now.
/// Does nothing where there is no room for it.
pub(super) fn fill(
    out: &mut [u8],
    start: usize,
    at: usize,
    pseudo: &PseudoHeader,
    protocol: Protocol,
) {
    let sum = pseudo.checksum(protocol, out.get(start..).unwrap_or_default());
    write(out, start, at, sum);
}

/// Writes `sum` at `start + at`; does nothing where there is no room for it.
pub(super) fn write(out: &mut [u8], start: usize, at: usize, sum: u16) {
    let target = out.get_mut(start..).and_then(|bytes| bytes.get_mut(at..));
    if let Some(target) = target.and_then(|bytes| bytes.first_chunk_mut::<2>()) {
        *target = sum.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 word for word: sixteen bits at a time, carry folded each time.
    fn checksum_by_the_book(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !u16::try_from(sum).unwrap()
    }

    #[test]
    fn example_of_rfc_1071() {
        // §3: the sum of these is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
    }

    #[test]
    fn versions_do_not_mix() {
        let v4 = IpAddr::from([192, 0, 2, 1]);
        let v6 = IpAddr::from([0; 16]);
        assert_eq!(PseudoHeader::new(v4, v6), None);
        assert!(PseudoHeader::new(v4, v4).is_some() && PseudoHeader::new(v6, v6).is_some());
    }

    #[test]
    fn a_place_outside_is_left_alone() {
        let mut bytes = [0u8; 4];
        write(&mut bytes, 0, 3, 0xffff);
        write(&mut bytes, 9, 0, 0xffff);
        assert_eq!(bytes, [0; 4]);
        write(&mut bytes, 1, 1, 0x1234);
        assert_eq!(bytes, [0, 0, 0x12, 0x34]);
    }

    proptest! {
        #[test]
        fn agrees_with_the_book(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert_eq!(checksum(&bytes), checksum_by_the_book(&bytes));
        }

        #[test]
        fn agrees_with_the_book_over_a_pseudo_header(
            source: u128, destination: u128, protocol: u8,
            segment in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            let pseudo = PseudoHeader::Ipv6(source.into(), destination.into());
            let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
            bytes.extend(u32::try_from(segment.len()).unwrap().to_be_bytes());
            bytes.extend([0, 0, 0, protocol]);
            bytes.extend(&segment);
            let expected = checksum_by_the_book(&bytes);
            prop_assert_eq!(pseudo.checksum(Protocol(protocol), &segment), expected);
        }
    }
}
