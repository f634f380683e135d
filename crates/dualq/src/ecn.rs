//! The ECN field of an IP header (RFC 3168, section 5).

use std::fmt;

/// What the two bits say.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport cannot be marked: congestion is said by loss.
    #[default]
    NotEct = 0b00,
    /// Capable, and L4S (RFC 9331).
    Ect1 = 0b01,
    /// Capable, classic.
    Ect0 = 0b10,
    /// Congestion was experienced.
    Ce = 0b11,
}

impl Ecn {
    /// Of the lowest two bits of a traffic class or type of service.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether congestion may be said by a mark.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Whether a dual queue takes it for L4S: ECT(1), and CE, which may have been that
    /// (RFC 9332, section 2.3).
    #[must_use]
    pub const fn is_l4s(self) -> bool {
        matches!(self, Self::Ect1 | Self::Ce)
    }
}

impl fmt::Display for Ecn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::NotEct => "Not-ECT",
            Self::Ect1 => "ECT(1)",
            Self::Ect0 => "ECT(0)",
            Self::Ce => "CE",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_header() {
        for bits in 0..=u8::MAX {
            assert_eq!(Ecn::from_bits(bits).bits(), bits & 0b11);
        }
        assert!(Ecn::from_bits(0b01).is_l4s() && Ecn::from_bits(0b11).is_l4s());
        assert!(!Ecn::from_bits(0b10).is_l4s() && !Ecn::from_bits(0b00).is_capable());
    }
}
