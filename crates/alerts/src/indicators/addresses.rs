//! A set of IP addresses and prefixes.
//!
//! Prefixes are nested or apart, never half over each other, so that they cut the addresses into
//! intervals of which each has one longest prefix. The intervals' first addresses are sorted; a
//! look-up is a binary search, begun in the part that the first 16 bits name. An interval keeps
//! only the length of its prefix: the prefix is the address that was asked for, masked by it.
//!
//! A prefix makes two intervals at most: 10 bytes of IPv4, 34 of IPv6, and 257 KiB for either
//! family's first bits. A million IPv6 prefixes take 34 MB.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// No prefix.
const NONE: u8 = u8::MAX;

/// Addresses with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Prefix {
    address: IpAddr,
    len: u8,
}

impl Prefix {
    /// Reads `192.0.2.0/24`, `2001:db8::/32`, or an address alone. Bits after the prefix are
    /// dropped; IPv4 addresses in IPv6 (`::ffff:192.0.2.1`) are IPv4.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let width = width(address);
        let is_number = |len: &&str| len.bytes().all(|byte| byte.is_ascii_digit());
        let len = match len {
            Some(len) => Some(len).filter(is_number)?.parse().ok().filter(|&len| len <= width)?,
            None => width,
        };
        let canonical = address.to_canonical();
        match (address, canonical) {
            (IpAddr::V6(_), IpAddr::V4(_)) if len >= 96 => Some(Self::of(canonical, len - 96)),
            // Shorter ones hold all of IPv4 in IPv6 beside other addresses: they are IPv6.
            _ => Some(Self::of(address, len)),
        }
    }

    fn of(address: IpAddr, len: u8) -> Self {
        let address = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & mask).into())
            }
        };
        Self { address, len }
    }
}

const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len == width(self.address) {
            return write!(f, "{}", self.address);
        }
        write!(f, "{}/{}", self.address, self.len)
    }
}

/// Bits of an address.
trait Bits: Copy + Ord {
    /// The first 16.
    fn top(self) -> usize;
    /// The last address of a prefix that begins here.
    fn last(self, len: u8) -> Self;
    /// The next address; none after the last of all.
    fn next(self) -> Option<Self>;
    const ZERO: Self;
}

impl Bits for u32 {
    fn top(self) -> usize {
        (self >> 16) as usize
    }

    fn last(self, len: u8) -> Self {
        self | Self::MAX.checked_shr(len.into()).unwrap_or(0)
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    const ZERO: Self = 0;
}

impl Bits for u128 {
    #[allow(clippy::cast_possible_truncation)]
    fn top(self) -> usize {
        (self >> 112) as usize
    }

    fn last(self, len: u8) -> Self {
        self | Self::MAX.checked_shr(len.into()).unwrap_or(0)
    }

    fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    const ZERO: Self = 0;
}

/// Intervals of one family.
struct Intervals<A> {
    /// First addresses, sorted.
    starts: Vec<A>,
    /// Lengths of the longest prefix of each.
    lens: Vec<u8>,
    /// How many intervals begin before these first 16 bits.
    tops: Box<[u32]>,
}

impl<A: Bits> Intervals<A> {
    fn new(mut prefixes: Vec<(A, u8)>) -> Self {
        prefixes.sort_unstable();
        prefixes.dedup();
        let mut made = Self {
            starts: Vec::with_capacity(prefixes.len() * 2 + 1),
            lens: Vec::with_capacity(prefixes.len() * 2 + 1),
            tops: Box::default(),
        };
        made.begin(A::ZERO, NONE);
        // Prefixes that are open at the place that was come to, the innermost last. A shorter
        // prefix sorts first among those that begin together.
        let mut open: Vec<(A, u8)> = Vec::new();
        for (start, len) in prefixes {
            made.close(&mut open, Some(start));
            made.begin(start, len);
            open.push((start.last(len), len));
        }
        made.close(&mut open, None);
        made.starts.shrink_to_fit();
        made.lens.shrink_to_fit();
        let mut tops = vec![0_u32; (1 << 16) + 1].into_boxed_slice();
        for start in &made.starts {
            if let Some(count) = tops.get_mut(start.top() + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for count in &mut tops {
            sum += *count;
            *count = sum;
        }
        made.tops = tops;
        made
    }

    /// An interval begins; one that begins at the same place is replaced.
    fn begin(&mut self, start: A, len: u8) {
        if self.starts.last() == Some(&start) {
            self.starts.pop();
            self.lens.pop();
        }
        if self.lens.last() != Some(&len) || len != NONE {
            self.starts.push(start);
            self.lens.push(len);
        }
    }

    /// Ends the prefixes that end before an address.
    fn close(&mut self, open: &mut Vec<(A, u8)>, before: Option<A>) {
        while let Some(&(last, _)) = open.last() {
            if before.is_some_and(|before| before <= last) {
                return;
            }
            open.pop();
            let outer = open.last().map_or(NONE, |&(_, len)| len);
            if let Some(next) = last.next() {
                self.begin(next, outer);
            }
        }
    }

    /// The length of the longest prefix of an address.
    fn find(&self, address: A) -> Option<u8> {
        let top = address.top();
        let bound = |at: usize| self.tops.get(at).map_or(0, |&bound| bound as usize);
        let (from, to) = (bound(top), bound(top + 1));
        let part = self.starts.get(from..to).unwrap_or_default();
        let place = from + part.partition_point(|start| *start <= address);
        let len = *self.lens.get(place.checked_sub(1)?)?;
        (len != NONE).then_some(len)
    }

    fn byte_count(&self) -> usize {
        size_of::<A>() * self.starts.capacity() + self.lens.capacity() + 4 * self.tops.len()
    }
}

/// A set of IP addresses and prefixes.
pub struct Addresses {
    v4: Intervals<u32>,
    v6: Intervals<u128>,
}

impl Addresses {
    /// Of these prefixes.
    #[must_use]
    pub fn new(prefixes: impl IntoIterator<Item = Prefix>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for Prefix { address, len } in prefixes {
            match address {
                IpAddr::V4(address) => v4.push((u32::from(address), len)),
                IpAddr::V6(address) => v6.push((u128::from(address), len)),
            }
        }
        Self { v4: Intervals::new(v4), v6: Intervals::new(v6) }
    }

    /// The longest prefix that an address has.
    #[must_use]
    #[inline]
    pub fn find(&self, address: IpAddr) -> Option<Prefix> {
        let address = address.to_canonical();
        let len = match address {
            IpAddr::V4(address) => self.v4.find(u32::from(address))?,
            IpAddr::V6(address) => self.v6.find(u128::from(address))?,
        };
        Some(Prefix::of(address, len))
    }

    /// Bytes of memory.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        self.v4.byte_count() + self.v6.byte_count()
    }
}

impl From<Ipv4Addr> for Prefix {
    fn from(address: Ipv4Addr) -> Self {
        Self::of(address.into(), 32)
    }
}

impl From<Ipv6Addr> for Prefix {
    fn from(address: Ipv6Addr) -> Self {
        Self::of(address.into(), 128)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(prefix: Prefix, address: IpAddr) -> bool {
        width(address) == width(prefix.address) && Prefix::of(address, prefix.len) == prefix
    }

    fn naive(prefixes: &[Prefix], address: IpAddr) -> Option<Prefix> {
        let address = address.to_canonical();
        prefixes.iter().filter(|one| has(**one, address)).max_by_key(|one| one.len).copied()
    }

    /// Few bits differ, so that prefixes nest and addresses hit.
    fn any_v4() -> impl Strategy<Value = IpAddr> {
        (0_u32..64, any::<bool>()).prop_map(|(bits, is_high)| {
            let bits = (bits & 7) | (bits >> 3) << 29;
            IpAddr::V4(if is_high { bits | 0x00ff_fff8 } else { bits }.into())
        })
    }

    fn any_v6() -> impl Strategy<Value = IpAddr> {
        (0_u128..64, any::<bool>()).prop_map(|(bits, is_high)| {
            let bits = (bits & 7) | (bits >> 3) << 125;
            IpAddr::V6(if is_high { bits | 0xffff_0000_fff8 } else { bits }.into())
        })
    }

    fn any_prefix() -> impl Strategy<Value = Prefix> {
        let v4 = (any_v4(), 0_u8..=32).prop_map(|(address, len)| Prefix::of(address, len));
        let v6 = (any_v6(), 0_u8..=128).prop_map(|(address, len)| Prefix::of(address, len));
        prop_oneof![v4, v6]
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(
            prefixes in proptest::collection::vec(any_prefix(), 0..40),
            asked in proptest::collection::vec(prop_oneof![any_v4(), any_v6()], 1..60),
            random in any::<u128>(),
        ) {
            let set = Addresses::new(prefixes.iter().copied());
            let edges = prefixes.iter().map(|prefix| prefix.address);
            for address in asked.into_iter().chain(edges).chain([IpAddr::V6(random.into())]) {
                prop_assert_eq!(set.find(address), naive(&prefixes, address), "{}", address);
            }
        }

        #[test]
        fn a_prefix_parses_back(prefix in any_prefix()) {
            let read = Prefix::parse(&prefix.to_string());
            let is_mapped = prefix.address.to_canonical() != prefix.address;
            prop_assert!(is_mapped || read == Some(prefix));
        }
    }

    #[test]
    fn many_prefixes_are_told_from_each_other() {
        let random = |at: u32| at.wrapping_mul(2_654_435_761);
        let prefix = |at: u32| {
            let bits = u128::from(random(at)) << 96;
            let v6 = IpAddr::V6((bits | bits >> 40).into());
            let v4 = IpAddr::V4(random(at).into());
            Prefix::of(if at.is_multiple_of(2) { v4 } else { v6 }, 8 + (at % 25) as u8)
        };
        let prefixes: Vec<_> = (0..9_000).map(prefix).collect();
        let set = Addresses::new(prefixes.iter().copied());
        for at in 0..2_000 {
            let v4 = IpAddr::V4(random(at * 5 + 1).into());
            let v6 = IpAddr::V6((u128::from(random(at * 7)) << 96).into());
            for address in [v4, v6, prefix(at).address] {
                assert_eq!(set.find(address), naive(&prefixes, address), "{address}");
            }
        }
    }

    #[test]
    fn prefixes_are_read() {
        for (text, wanted) in [
            ("192.0.2.7/24", "192.0.2.0/24"),
            ("192.0.2.7", "192.0.2.7"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("2001:DB8::1/32", "2001:db8::/32"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7/120", "192.0.2.0/24"),
        ] {
            assert_eq!(Prefix::parse(text).unwrap().to_string(), wanted, "{text}");
        }
        for text in ["", "192.0.2", "192.0.2.7/33", "::/129", "1.2.3.4/", "1.2.3.4/+1", "a.b"] {
            assert_eq!(Prefix::parse(text), None, "{text}");
        }
        let all = Addresses::new([Prefix::parse("0.0.0.0/0").unwrap()]);
        assert!(all.find("255.255.255.255".parse().unwrap()).is_some());
        assert!(all.find("::ffff:1.2.3.4".parse().unwrap()).is_some());
        assert_eq!(all.find("::1".parse().unwrap()), None);
    }
}
