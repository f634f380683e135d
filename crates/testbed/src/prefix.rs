//! Packets by where they go: the longest prefix of their destination.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Addresses that begin alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    is_v6: bool,
    /// From the highest bit on, as in [`Destination`].
    network: u128,
    len: u8,
}

/// The destination of a packet: an IPv4 address stands in the highest 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    is_v6: bool,
    bits: u128,
}

/// `bits` of an address, so that prefixes of both kinds are compared alike.
fn highest(address: IpAddr) -> Destination {
    match address {
        IpAddr::V4(v4) => Destination { is_v6: false, bits: u128::from(v4.to_bits()) << 96 },
        IpAddr::V6(v6) => Destination { is_v6: true, bits: v6.to_bits() },
    }
}

impl Destination {
    /// Of an IP packet without a header before it; `None` for anything else.
    #[inline]
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => {
                let bytes = packet.get(16..)?.first_chunk()?;
                let bits = u128::from(u32::from_be_bytes(*bytes)) << 96;
                Some(Self { is_v6: false, bits })
            }
            6 => {
                let bytes = packet.get(24..)?.first_chunk()?;
                Some(Self { is_v6: true, bits: u128::from_be_bytes(*bytes) })
            }
            _ => None,
        }
    }
}

impl Prefix {
    fn mask(self) -> u128 {
        u128::MAX.checked_shl(128 - u32::from(self.len)).unwrap_or(0)
    }

    #[inline]
    fn contains(self, destination: Destination) -> bool {
        self.is_v6 == destination.is_v6 && destination.bits & self.mask() == self.network
    }

    /// Whether an address begins so.
    pub(crate) fn holds(self, address: IpAddr) -> bool {
        self.contains(highest(address))
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WANTED: &str = "wanted an address and its length, such as 10.1.0.0/16 or fd00::/64";
        let (address, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let wrong = |_| format!("`{text}` is not a prefix; {WANTED}");
        let address: IpAddr = address.parse().map_err(|_| wrong(()))?;
        let len_max = if address.is_ipv6() { 128 } else { 32 };
        let len = len.map_or(Ok(len_max), str::parse).map_err(|_| wrong(()))?;
        if len > len_max {
            return Err(wrong(()));
        }
        let Destination { is_v6, bits } = highest(address);
        let prefix = Self { is_v6, network: bits, len };
        if bits & !prefix.mask() != 0 {
            return Err(format!("`{text}` has bits set behind its first {len}; {WANTED}"));
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = if self.is_v6 {
            IpAddr::from(self.network.to_be_bytes())
        } else {
            IpAddr::from(((self.network >> 96) as u32).to_be_bytes())
        };
        write!(f, "{address}/{}", self.len)
    }
}

/// Prefixes in the order in which they are asked.
#[derive(Clone, Debug)]
pub(crate) struct Classes {
    /// Longest first, each with its number.
    prefixes: Vec<(Prefix, usize)>,
}

impl Classes {
    /// Numbers the prefixes from 1 on; the rest is class 0.
    pub(crate) fn new(prefixes: impl Iterator<Item = Prefix>) -> Self {
        let mut prefixes: Vec<_> = prefixes.zip(1..).collect();
        prefixes.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len));
        Self { prefixes }
    }

    /// The class of a packet. One prefix after the other: there are some ten, at most a
    /// hundred, and each takes a nanosecond.
    #[inline]
    pub(crate) fn of(&self, packet: &[u8]) -> usize {
        if self.prefixes.is_empty() {
            return 0;
        }
        let Some(destination) = Destination::of(packet) else { return 0 };
        let found = self.prefixes.iter().find(|(prefix, _)| prefix.contains(destination));
        found.map_or(0, |(_, class)| *class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn packet_to(address: &str) -> Vec<u8> {
        if let Ok(v4) = address.parse::<Ipv4Addr>() {
            return [&[0x45; 16], &v4.octets()[..], &[0; 20]].concat();
        }
        let v6: Ipv6Addr = address.parse().unwrap();
        [&[0x60; 24], &v6.octets()[..]].concat()
    }

    fn classes(prefixes: &[&str]) -> Classes {
        Classes::new(prefixes.iter().map(|text| text.parse().unwrap()))
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let classes =
            classes(&["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "fd00::/8", "fd00:1::/32"]);
        let cases = [
            ("10.9.9.9", 1),
            ("10.1.9.9", 2),
            ("10.1.2.3", 3),
            ("11.0.0.1", 0),
            ("fdff::1", 4),
            ("fd00:1::7", 5),
            ("fe80::1", 0),
        ];
        for (address, class) in cases {
            assert_eq!(classes.of(&packet_to(address)), class, "{address}");
        }
    }

    #[test]
    fn every_address_of_its_kind_is_in_the_prefix_of_no_bits() {
        let classes = classes(&["0.0.0.0/0"]);
        assert_eq!(classes.of(&packet_to("203.0.113.9")), 1);
        assert_eq!(classes.of(&packet_to("2001:db8::1")), 0);
    }

    #[test]
    fn what_is_cut_or_no_ip_is_of_no_class() {
        let classes = classes(&["0.0.0.0/0", "::/0"]);
        for bytes in [&[][..], &[0x45; 19], &[0x60; 39], &[0x15; 60]] {
            assert_eq!(classes.of(bytes), 0, "{bytes:?}");
        }
    }

    #[test]
    fn prefixes_are_written_as_they_are_read() {
        for text in ["10.1.0.0/16", "192.0.2.1/32", "fd00::/64", "::/0"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for text in ["", "10.1/16", "10.0.0.0/33", "::/129", "10.0.0.1/8", "10.0.0.0/-1", "a/8"] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
    }
}
