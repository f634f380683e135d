//! Rates of links as people type them.

/// Reads `20mbit`, `1.5gbit`, as `tc` does; in bits a second.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    const WANTED: &str = "wanted a number with a unit, such as 800kbit, 20mbit or 1.5gbit";
    let text = text.to_ascii_lowercase();
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).ok_or(WANTED)?;
    let (number, unit) = text.split_at(unit_start);
    let unit_bits =
        unit_bits(unit).ok_or_else(|| format!("`{unit}` is not a unit of rates; {WANTED}"))?;
    let rate = number.trim().parse::<f64>().map_err(|_| WANTED)? * unit_bits;
    // No link is slower or faster.
    if !(1e4..=1e12).contains(&rate) {
        return Err(String::from("wanted at least 10kbit and at most 1000gbit"));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    Ok(rate.round() as u64)
}

/// Bits a second of a link of the testbed, such as `100mbit`.
///
/// # Errors
/// What was wanted, for the message of the argument.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn parse_link_rate(text: &str) -> Result<u64, String> {
    const WANTED: &str = "wanted a rate from 1kbit to 100gbit, such as 100mbit";
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_start);
    let unit_bits =
        unit_bits(unit).ok_or_else(|| format!("`{unit}` is not a unit of a rate; {WANTED}"))?;
    let bits = number.parse::<f64>().map_err(|_| WANTED)? * unit_bits;
    if (1e3..=1e11).contains(&bits) { Ok(bits.round() as u64) } else { Err(WANTED.to_owned()) }
}

fn unit_bits(unit: &str) -> Option<f64> {
    match unit {
        "bit" => Some(1.0),
        "kbit" => Some(1e3),
        "mbit" => Some(1e6),
        "gbit" => Some(1e9),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_tc_reads_them() {
        assert_eq!(parse_rate("20mbit"), Ok(20_000_000));
        assert_eq!(parse_rate("1.5Gbit"), Ok(1_500_000_000));
        for wrong in ["20", "mbit", "20mb", "1bit", "-5mbit", "nanmbit"] {
            assert!(parse_rate(wrong).unwrap_err().contains("wanted"), "{wrong}");
        }
    }

    #[test]
    fn rates_of_links_have_units() {
        assert_eq!(parse_link_rate("100mbit"), Ok(100_000_000));
        assert_eq!(parse_link_rate("0.5gbit"), Ok(500_000_000));
        for text in ["", "100", "1bit", "mbit", "-5mbit", "200gbit", "100Mbps", "nanmbit"] {
            assert!(parse_link_rate(text).is_err(), "{text}");
        }
    }
}
