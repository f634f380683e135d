//! Accurate ECN feedback in TCP (RFC 9768): the counter in three header flags, and the options
//! with counts of bytes.
//!
//! ```text
//! kind 172: |kind|length| EE0B (24 bits) | ECEB (24 bits) | EE1B (24 bits) |
//! kind 174: |kind|length| EE1B (24 bits) | ECEB (24 bits) | EE0B (24 bits) |
//! ```
//!
//! Fields at the end may be left out. The counters are the receiver's and wrap: what was marked
//! between two acknowledgements is their difference modulo 8 or 2²⁴.

use std::fmt;

use super::tcp::TcpFlags;
use super::tcp_options::{TcpOption, kind};

mod field {
    pub(super) const COUNTER_LEN: usize = 3;
    pub(super) const COUNTER_COUNT_MAX: usize = 3;
}

/// One more than the largest value of a counter of bytes.
pub const BYTES_MODULUS: u32 = 1 << 24;
/// One more than the largest value of the counter of packets.
pub const PACKETS_MODULUS: u8 = 8;
/// The counter of packets at the beginning of a connection (RFC 9768 §3.2.1).
pub const PACKETS_INITIAL: u8 = 5;

/// The three flags AE, CWR and ECE as one number: a handshake code where SYN is set, else the
/// counter of packets that arrived with CE.
#[inline]
#[must_use]
pub const fn ace(flags: TcpFlags) -> u8 {
    (flags.contains(TcpFlags::AE) as u8) << 2
        | (flags.contains(TcpFlags::CWR) as u8) << 1
        | flags.contains(TcpFlags::ECE) as u8
}

/// Whether a SYN asks for Accurate ECN.
#[inline]
#[must_use]
pub const fn is_asked(ace: u8) -> bool {
    ace == 0b111
}

/// Whether a SYN/ACK grants Accurate ECN: it reports with which codepoint the SYN arrived.
#[inline]
#[must_use]
pub const fn is_granted(ace: u8) -> bool {
    matches!(ace, 0b010 | 0b011 | 0b100 | 0b110)
}

/// The counters of bytes in an option. One that was left out is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccurateEcnRepr {
    /// Bytes that arrived with ECT(0), modulo 2²⁴, from 1 on.
    pub ect0_bytes: Option<u32>,
    /// Bytes that arrived with CE, modulo 2²⁴, from 0 on.
    pub ce_bytes: Option<u32>,
    /// Bytes that arrived with ECT(1), modulo 2²⁴, from 1 on.
    pub ect1_bytes: Option<u32>,
}

impl AccurateEcnRepr {
    /// The counters of an option, where it is one of both kinds and holds whole counters.
    #[must_use]
    pub fn parse(option: &TcpOption<'_>) -> Option<Self> {
        let TcpOption::Raw { kind, data } = *option else { return None };
        let is_order_1 = match kind {
            kind::ACCURATE_ECN_0 => false,
            kind::ACCURATE_ECN_1 => true,
            _ => return None,
        };
        let (counters, rest) = data.as_chunks::<{ field::COUNTER_LEN }>();
        if !rest.is_empty() || counters.len() > field::COUNTER_COUNT_MAX {
            return None;
        }
        let mut counters = counters.iter().map(|&[a, b, c]| u32::from_be_bytes([0, a, b, c]));
        let [first, ce_bytes, last] = [counters.next(), counters.next(), counters.next()];
        Some(if is_order_1 {
            Self { ect0_bytes: last, ce_bytes, ect1_bytes: first }
        } else {
            Self { ect0_bytes: first, ce_bytes, ect1_bytes: last }
        })
    }

    /// Appends the data of an option of order 0; counters after one that is missing are left out.
    pub fn emit(&self, out: &mut Vec<u8>) {
        for counter in [self.ect0_bytes, self.ce_bytes, self.ect1_bytes] {
            let Some(counter) = counter else { return };
            out.extend(counter.to_be_bytes().into_iter().skip(1));
        }
    }
}

/// `e0b 1 ceb 0 e1b 1461`, as far as there are counters.
impl fmt::Display for AccurateEcnRepr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = [("e0b", self.ect0_bytes), ("ceb", self.ce_bytes), ("e1b", self.ect1_bytes)];
        let mut space = "";
        for (name, counter) in named {
            if let Some(counter) = counter {
                write!(f, "{space}{name} {counter}")?;
                space = " ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_orders_name_the_same_counters() {
        let data = [0, 0, 1, 0, 0, 2, 0, 1, 0];
        let order_0 = TcpOption::Raw { kind: kind::ACCURATE_ECN_0, data: &data };
        let order_1 = TcpOption::Raw { kind: kind::ACCURATE_ECN_1, data: &data };
        let found = AccurateEcnRepr::parse(&order_0).unwrap();
        assert_eq!(found.to_string(), "e0b 1 ceb 2 e1b 256");
        let found = AccurateEcnRepr::parse(&order_1).unwrap();
        assert_eq!(found.to_string(), "e0b 256 ceb 2 e1b 1");
        let short = TcpOption::Raw { kind: kind::ACCURATE_ECN_1, data: &data[..3] };
        let found = AccurateEcnRepr::parse(&short).unwrap();
        assert_eq!((found.ect1_bytes, found.ce_bytes, found.ect0_bytes), (Some(1), None, None));
    }

    #[test]
    fn half_a_counter_is_none() {
        for len in [1, 2, 4, 5, 7, 10, 12] {
            let data = vec![0; len];
            let option = TcpOption::Raw { kind: kind::ACCURATE_ECN_0, data: &data };
            assert_eq!(AccurateEcnRepr::parse(&option), None, "{len}");
        }
        assert_eq!(AccurateEcnRepr::parse(&TcpOption::SackPermitted), None);
    }

    #[test]
    fn the_handshake_is_told_from_classic_ecn() {
        let asks = TcpFlags::SYN | TcpFlags::AE | TcpFlags::CWR | TcpFlags::ECE;
        assert!(is_asked(ace(asks)));
        // RFC 3168: the SYN has CWR and ECE, the SYN/ACK has ECE.
        assert!(!is_asked(ace(TcpFlags::SYN | TcpFlags::CWR | TcpFlags::ECE)));
        assert!(!is_granted(ace(TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE)));
        assert!(is_granted(ace(TcpFlags::SYN | TcpFlags::ACK | TcpFlags::CWR)));
    }

    proptest! {
        #[test]
        fn what_is_emitted_parses_back(counters in prop::collection::vec(0..BYTES_MODULUS, 0..4)) {
            let at = |index: usize| counters.get(index).copied();
            let repr =
                AccurateEcnRepr { ect0_bytes: at(0), ce_bytes: at(1), ect1_bytes: at(2) };
            let mut data = Vec::new();
            repr.emit(&mut data);
            let option = TcpOption::Raw { kind: kind::ACCURATE_ECN_0, data: &data };
            prop_assert_eq!(AccurateEcnRepr::parse(&option), Some(repr));
        }
    }
}
