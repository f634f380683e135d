//! Addresses as text without the formatting machinery.
//!
//! A flow's row has two of them, and what `Display` costs for those two is more
//! than all its numbers together.

use std::net::{IpAddr, Ipv6Addr};

/// Bytes of the longest address: eight groups of four digits and their colons.
/// An embedded IPv4 address takes the place of two groups, and less than both.
const TEXT_LEN_MAX: usize = 39;

/// Room behind the end, because an octet is always copied as four bytes.
const BUFFER_LEN: usize = TEXT_LEN_MAX + 4;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Each octet's decimal digits and a dot, with the length of both together.
const OCTETS: [([u8; 4], u8); 256] = octets();

const fn octets() -> [([u8; 4], u8); 256] {
    let mut table = [([0; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let [hundreds, tens, ones] = [octet / 100, octet / 10 % 10, octet % 10];
        let mut len = 0;
        if hundreds > 0 {
            table[octet].0[len] = b'0' + hundreds as u8;
            len += 1;
        }
        if octet >= 10 {
            table[octet].0[len] = b'0' + tens as u8;
            len += 1;
        }
        table[octet].0[len] = b'0' + ones as u8;
        table[octet].0[len + 1] = b'.';
        table[octet].1 = len as u8 + 2;
        octet += 1;
    }
    table
}

/// The text of one address.
pub(super) struct AddressText {
    bytes: [u8; BUFFER_LEN],
    len: usize,
}

impl AddressText {
    pub(super) fn new(address: IpAddr) -> Self {
        let mut text = Self { bytes: [0; BUFFER_LEN], len: 0 };
        match address {
            IpAddr::V4(address) => text.dotted(address.octets()),
            IpAddr::V6(address) => text.groups(address),
        }
        text
    }

    pub(super) fn as_str(&self) -> &str {
        let text = self.bytes.get(..self.len).unwrap_or_default();
        str::from_utf8(text).unwrap_or_default()
    }

    fn dotted(&mut self, octets: [u8; 4]) {
        for octet in octets {
            let (digits, len) = OCTETS[usize::from(octet)];
            if let Some(place) = self.bytes.get_mut(self.len..self.len + 4) {
                place.copy_from_slice(&digits);
            }
            self.len += usize::from(len);
        }
        // The last octet has no dot behind it.
        self.len -= 1;
    }

    /// As RFC 5952 has it: the first longest run of two or more zero groups is
    /// left out, and an embedded IPv4 address is written as one (section 5).
    fn groups(&mut self, address: Ipv6Addr) {
        if let Some(embedded) = address.to_ipv4_mapped() {
            b"::ffff:".iter().for_each(|&byte| self.push(byte));
            self.dotted(embedded.octets());
            return;
        }
        let segments = address.segments();
        let (gap, gap_len) = longest_zeros(segments);
        let mut index = 0;
        while let Some(&segment) = segments.get(index) {
            if gap_len > 1 && index == gap {
                self.push(b':');
                self.push(b':');
                index += gap_len;
                continue;
            }
            if index > 0 && (gap_len < 2 || index != gap + gap_len) {
                self.push(b':');
            }
            self.group(segment);
            index += 1;
        }
    }

    fn group(&mut self, segment: u16) {
        let digit_count = (16 - segment.leading_zeros()).div_ceil(4).max(1);
        for place in (0..digit_count).rev() {
            self.push(HEX[usize::from(segment >> (4 * place) & 15)]);
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
        }
        self.len += 1;
    }
}

/// Where the first of the longest runs of zero groups begins, and how long it is.
fn longest_zeros(segments: [u16; 8]) -> (usize, usize) {
    let mut longest = (0, 0);
    let mut run_len = 0;
    for (index, segment) in segments.into_iter().enumerate() {
        run_len = if segment == 0 { run_len + 1 } else { 0 };
        if run_len > longest.1 {
            longest = (index + 1 - run_len, run_len);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(address: IpAddr) -> String {
        AddressText::new(address).as_str().to_owned()
    }

    #[test]
    fn the_longest_fit() {
        for longest in [
            "255.255.255.255",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "::ffff:255.255.255.255",
            "::",
            "::1",
            "1::",
        ] {
            assert_eq!(text(longest.parse().unwrap()), longest);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn ipv4_is_as_displayed(address: u32) {
            let address = IpAddr::V4(address.into());
            prop_assert_eq!(text(address), address.to_string());
        }

        // Groups mostly of few bits, so that zeros stand together in every way.
        #[test]
        fn ipv6_is_as_displayed(
            groups in prop::array::uniform8(
                prop_oneof![Just(0), Just(0xffff), 0_u16..3, any::<u16>()]
            )
        ) {
            let address = IpAddr::V6(Ipv6Addr::from(groups));
            prop_assert_eq!(text(address), address.to_string());
        }
    }
}
