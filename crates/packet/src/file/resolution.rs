//! Timestamp resolution: how long a tick of a file's clock is.

use std::fmt;

/// Length of a tick in seconds, as `if_tsresol` gives it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Resolution {
    /// 10⁻ⁿ seconds.
    Decimal(u8),
    /// 2⁻ⁿ seconds.
    Binary(u8),
}

const NS_PER_SECOND: u64 = 1_000_000_000;

/// Microseconds: what pcapng means where it does not tell.
impl Default for Resolution {
    fn default() -> Self {
        Self::MICROSECONDS
    }
}

impl Resolution {
    /// 10⁻⁶ seconds.
    pub const MICROSECONDS: Self = Self::Decimal(6);
    /// 10⁻⁹ seconds.
    pub const NANOSECONDS: Self = Self::Decimal(9);

    /// From the byte of `if_tsresol`: the top bit chooses the base.
    #[must_use]
    pub const fn from_option(byte: u8) -> Self {
        if byte & 0x80 == 0 { Self::Decimal(byte) } else { Self::Binary(byte & 0x7f) }
    }

    /// The byte of `if_tsresol`.
    #[must_use]
    pub const fn to_option(self) -> u8 {
        match self {
            Self::Decimal(power) => power & 0x7f,
            Self::Binary(power) => power | 0x80,
        }
    }

    /// Nanoseconds in a tick where that is a whole number, which covers what
    /// capture tools write: a stamp then costs one multiplication.
    #[must_use]
    pub(super) const fn ns_per_tick(self) -> Option<u64> {
        match self {
            Self::Decimal(power @ 0..=9) => Some(10_u64.pow(9 - power as u32)),
            Self::Binary(power @ 0..=9) => Some(NS_PER_SECOND >> power),
            _ => None,
        }
    }

    /// Nanoseconds in `ticks`, rounded down; `None` past the year 2262.
    #[must_use]
    pub fn ns_of(self, ticks: u64) -> Option<i64> {
        i64::try_from(self.wide_ns_of(ticks)).ok()
    }

    /// Nanoseconds in `ticks`, rounded down: below 2^94, so that an offset can be added.
    #[must_use]
    pub(super) fn wide_ns_of(self, ticks: u64) -> i128 {
        let scaled = u128::from(ticks) * u128::from(NS_PER_SECOND);
        let ns = match self {
            // 10^39 is above any u128: such a clock has not ticked a nanosecond yet.
            Self::Decimal(power) => {
                10_u128.checked_pow(u32::from(power)).map_or(0, |unit| scaled / unit)
            }
            Self::Binary(power) => scaled.checked_shr(u32::from(power)).unwrap_or(0),
        };
        ns.cast_signed()
    }
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal(power) => write!(f, "10^-{power} s"),
            Self::Binary(power) => write!(f, "2^-{power} s"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_both_bases() {
        let cases = [
            (Resolution::Decimal(0), 3, Some(3_000_000_000)),
            (Resolution::Decimal(6), 1_500_000, Some(1_500_000_000)),
            (Resolution::Decimal(9), 7, Some(7)),
            (Resolution::Decimal(12), 7_999, Some(7)),
            (Resolution::Decimal(127), u64::MAX, Some(0)),
            (Resolution::Binary(0), 2, Some(2_000_000_000)),
            (Resolution::Binary(9), 512, Some(1_000_000_000)),
            (Resolution::Binary(10), 512, Some(500_000_000)),
            (Resolution::Binary(32), 1 << 31, Some(500_000_000)),
            (Resolution::Binary(127), u64::MAX, Some(0)),
            (Resolution::Decimal(6), u64::MAX, None),
            (Resolution::Decimal(9), u64::MAX, None),
            (Resolution::Decimal(10), u64::MAX, Some(1_844_674_407_370_955_161)),
            (Resolution::Binary(20), u64::MAX, None),
        ];
        for (resolution, ticks, ns) in cases {
            assert_eq!(resolution.ns_of(ticks), ns, "{resolution} {ticks}");
        }
    }

    #[test]
    fn option_byte_both_ways() {
        for byte in 0..=u8::MAX {
            assert_eq!(Resolution::from_option(byte).to_option(), byte);
        }
    }
}
