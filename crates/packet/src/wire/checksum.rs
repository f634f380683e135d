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
