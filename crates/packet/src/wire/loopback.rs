//! BSD loopback (`LINKTYPE_NULL`, `LINKTYPE_LOOP`): 4 bytes of address family,
//! NULL in the byte order of the host that captured, LOOP in network order.
//! IPv4 is 2 everywhere; IPv6 has a number per system.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;
/// Family of IPv4.
pub const FAMILY_IPV4: u32 = 2;
/// Families of IPv6: Linux, Windows, NetBSD and OpenBSD, FreeBSD, Darwin.
pub const FAMILIES_IPV6: [u32; 5] = [10, 23, 24, 28, 30];

/// A loopback header.
#[derive(Clone, Copy, Debug)]
pub struct Loopback<'a> {
    header: &'a [u8; HEADER_LEN],
}

impl<'a> Loopback<'a> {
    /// # Errors
    /// [`Malformed::LoopbackHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header = bytes.first_chunk().ok_or(Malformed::LoopbackHeaderShort)?;
        Ok(Self { header })
    }

    /// Address family. Families are below 65,536, so that the half that is zero shows the byte
    /// order.
    #[inline]
    #[must_use]
    pub fn family(&self) -> u32 {
        let family = u32::from_be_bytes(*self.header);
        if family > u32::from(u16::MAX) { family.swap_bytes() } else { family }
    }

    /// Whether what follows is IPv4.
    #[inline]
    #[must_use]
    pub fn is_ipv4(&self) -> bool {
        self.family() == FAMILY_IPV4
    }

    /// Whether what follows is IPv6.
    #[inline]
    #[must_use]
    pub fn is_ipv6(&self) -> bool {
        FAMILIES_IPV6.contains(&self.family())
    }
}

/// A loopback header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopbackRepr {
    /// Address family.
    pub family: u16,
}

impl LoopbackRepr {
    /// # Errors
    /// [`Malformed::LoopbackHeaderShort`] where neither half is zero: no family needs more than 2
    /// bytes.
    pub fn parse(view: &Loopback<'_>) -> Result<Self, Malformed> {
        let family = u16::try_from(view.family()).map_err(|_| Malformed::LoopbackHeaderShort)?;
        Ok(Self { family })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header in network order, as LOOP has it and NULL may.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&u32::from(self.family).to_be_bytes());
    }
}

impl fmt::Display for Loopback<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AF {}", self.family())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_both_orders() {
        for bytes in [[0, 0, 0, 2], [2, 0, 0, 0]] {
            assert!(Loopback::new(&bytes).unwrap().is_ipv4());
        }
        for bytes in [[0, 0, 0, 30], [24, 0, 0, 0], [28, 0, 0, 0], [10, 0, 0, 0]] {
            assert!(Loopback::new(&bytes).unwrap().is_ipv6());
        }
        assert_eq!(Loopback::new(&[30, 0, 0, 0]).unwrap().to_string(), "AF 30");
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Loopback::new(&[2, 0, 0]).unwrap_err(), Malformed::LoopbackHeaderShort);
        let view = Loopback::new(&[1, 2, 3, 4]).unwrap();
        assert!(!view.is_ipv4() && !view.is_ipv6());
        assert_eq!(LoopbackRepr::parse(&view), Err(Malformed::LoopbackHeaderShort));
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(family: u16) {
            let value = LoopbackRepr { family };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(LoopbackRepr::parse(&Loopback::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..8)) {
            if let Ok(view) = Loopback::new(&bytes) {
                let _ = (view.to_string(), LoopbackRepr::parse(&view));
            }
        }
    }
}
