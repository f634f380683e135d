//! Sizes, as people type them.

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
        _ => return Err(format!("`{unit}` is not a unit of size; {WANTED}")),
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
}
