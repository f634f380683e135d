//! Values as they are written in filters and parameters.

use std::net::IpAddr;

use packet::Timestamp;
use packet::when::parse_time;

/// Addresses with the same first bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Net {
    bits: u128,
    /// Of 128; an IPv4 address stands at their end.
    mask: u128,
    is_ipv6: bool,
}

impl Net {
    pub(super) fn read(text: &str) -> Option<Self> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (width, bits) = width_and_bits(address);
        let len = len.unwrap_or(width);
        if len > width {
            return None;
        }
        let mask = u128::MAX.checked_shl(width - len).unwrap_or(0);
        Some(Self { bits: bits & mask, mask, is_ipv6: address.is_ipv6() })
    }

    /// The text of its only address, where that has no other text: of IPv4.
    pub(super) fn only_text(self) -> Option<String> {
        let bits = u32::try_from(self.bits).ok()?;
        let is_one = !self.is_ipv6 && self.mask & u128::from(u32::MAX) == u128::from(u32::MAX);
        is_one.then(|| std::net::Ipv4Addr::from(bits).to_string())
    }

    pub(super) fn has(self, address: IpAddr) -> bool {
        let (_, bits) = width_and_bits(address);
        address.is_ipv6() == self.is_ipv6 && bits & self.mask == self.bits
    }
}

fn width_and_bits(address: IpAddr) -> (u32, u128) {
    match address {
        IpAddr::V4(address) => (32, u32::from(address).into()),
        IpAddr::V6(address) => (128, address.into()),
    }
}

/// Digits of nanoseconds since the epoch, of any time since 1970-01-12; seconds have fewer.
const NS_DIGITS_MIN: usize = 16;

/// A time in text: nanoseconds since the epoch, seconds, or a date and time in UTC.
#[must_use]
pub fn time(text: &str) -> Option<i64> {
    let is_ns = text.len() >= NS_DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_ns { text.parse().ok() } else { parse_time(text).ok().map(Timestamp::as_ns) }
}

/// Units of sizes, powers of ten.
const SIZES: [(&str, f64); 4] = [("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9)];

/// Units of durations, longest first, in seconds.
const DURATIONS: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];

/// A number as it is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Number {
    /// Without a unit, or with that of a size.
    Plain(f64),
    /// A duration, in seconds.
    Seconds(f64),
}

pub(super) fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        #[allow(clippy::cast_precision_loss)]
        return u64::from_str_radix(digits, 16).ok().map(|value| Number::Plain(value as f64));
    }
    let with = |units: &[(&str, f64)]| {
        units.iter().find_map(|(unit, factor)| Some(decimal(text.strip_suffix(unit)?)? * factor))
    };
    let plain = decimal(text).or_else(|| with(&SIZES)).map(Number::Plain);
    plain.or_else(|| with(&DURATIONS).map(Number::Seconds))
}

/// Rust reads words such as inf as numbers.
fn decimal(digits: &str) -> Option<f64> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit() || b".-+eE".contains(&byte));
    let value: Option<f64> = is_number.then(|| digits.parse().ok()).flatten();
    value.filter(|value| value.is_finite())
}
