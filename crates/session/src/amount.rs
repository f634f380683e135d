//! Rates and sizes, as people type them.

/// Bits a second, such as `100mbit`.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    const WANTED: &str = "wanted a rate from 1kbit to 100gbit, such as 100mbit";
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit_bits = match unit {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return Err(format!("`{unit}` is no unit of a rate; {WANTED}")),
    };
    let bits = number.parse::<f64>().map_err(|_| WANTED)? * unit_bits;
    if (1e3..=1e11).contains(&bits) { Ok(bits.round() as u64) } else { Err(WANTED.to_owned()) }
}

/// Bytes of a ring that works: one page for each of its blocks at least, and what 32 bits can say.
const RING_SIZES: std::ops::RangeInclusive<u64> = 64 << 10..=2 << 30;

/// Bytes, such as `32MiB`.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_ring_size(text: &str) -> Result<usize, String> {
    const WANTED: &str = "wanted a size from 64KiB to 2GiB";
    let unit_start = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit_bytes: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(format!("`{unit}` is no unit of size; {WANTED}")),
    };
    let number: u64 = number.parse().map_err(|_| WANTED)?;
    let bytes = number.checked_mul(unit_bytes).filter(|bytes| RING_SIZES.contains(bytes));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| WANTED.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_ring_size("32MiB"), Ok(32 << 20));
        assert_eq!(parse_ring_size("65536"), Ok(65_536));
        for text in ["", "MiB", "1", "3GiB", "32MB", "-1MiB", "99999999999999999999KiB"] {
            assert!(parse_ring_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_have_units() {
        assert_eq!(parse_rate("100mbit"), Ok(100_000_000));
        assert_eq!(parse_rate("0.5gbit"), Ok(500_000_000));
        for text in ["", "100", "1bit", "mbit", "-5mbit", "200gbit", "100Mbps", "nanmbit"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
