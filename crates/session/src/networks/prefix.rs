//! Networks in CIDR notation (RFC 4632, RFC 4291).

use std::net::IpAddr;
use std::str::FromStr;

/// Addresses with the same first bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prefix {
    bits: u128,
    mask: u128,
    is_ipv4: bool,
}

/// An address as a number, its first bit the highest.
const fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => (address.to_bits() as u128) << 96,
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl Prefix {
    pub(super) const fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_ipv4 && bits(address) & self.mask == self.bits
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wanted = "wanted: a prefix such as 10.0.0.0/8 or 2001:db8::/32, or an address";
        let wrong = || format!("`{text}` is not a prefix; {wanted}");
        let (address, len) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let whole: u32 = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            None => whole,
            Some(len) if len.len() <= 3 && len.bytes().all(|byte| byte.is_ascii_digit()) => {
                len.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
        };
        if len > whole {
            return Err(format!("`{text}`: an address has {whole} bits; {wanted}"));
        }
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        let bits = bits(address);
        if bits & !mask != 0 {
            return Err(format!("`{text}` has bits behind its first {len}; {wanted}"));
        }
        Ok(Self { bits, mask, is_ipv4: address.is_ipv4() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_hold_the_addresses_with_their_bits() {
        for (prefix, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "203.0.113.9", "::"),
            ("2001:db8::/32", "2001:db8:ffff::1", "2001:db9::"),
            ("::/0", "ffff::", "0.0.0.0"),
            ("fe80::/10", "febf::1", "fec0::1"),
        ] {
            let prefix: Prefix = prefix.parse().unwrap();
            assert!(prefix.contains(inside.parse().unwrap()), "{inside}");
            assert!(!prefix.contains(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused_by_name() {
        for (text, why) in [
            ("10.0.0.1/8", "behind its first 8"),
            ("10.0.0.0/33", "has 32 bits"),
            ("10.0.0.0/+8", "not a prefix"),
            ("10.0.0.0/", "not a prefix"),
            ("lan", "not a prefix"),
            ("2001:db8::/129", "has 128 bits"),
        ] {
            let error = text.parse::<Prefix>().unwrap_err();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
