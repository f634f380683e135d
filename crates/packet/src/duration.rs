//! Lengths of time as people type them.

use crate::Span;

/// Reads `1s`, `100ms`, `250us`, `1h`, `2.5s`: a positive number and its unit.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_duration(text: &str) -> Result<Span, String> {
    let ns = parse_ns(text)?;
    // A window of less than a microsecond is a typing error; 10,000 days is past every capture.
    if !(1e3..=8.64e17).contains(&ns) {
        return Err(String::from("wanted at least 1us and at most 10000d"));
    }
    Ok(span(ns))
}

/// Reads the delay of a link, which may be `0ms`.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_delay(text: &str) -> Result<Span, String> {
    let ns = parse_ns(text)?;
    // Light needs less for every way on Earth; to Mars and back it is an hour.
    if !(0.0..=3_600e9).contains(&ns) {
        return Err(String::from("wanted at most 1h"));
    }
    Ok(span(ns))
}

/// Reads a shift of timestamps, which may be negative: `-3ms`, `0`, `+1s`.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_offset(text: &str) -> Result<Span, String> {
    match text.strip_prefix('-') {
        Some(text) => parse_duration(text).map(|span| Span::from_ns(-span.as_ns())),
        None if is_zero(text) => Ok(Span::default()),
        None => parse_duration(text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Whether this is nothing, with a unit or without.
fn is_zero(text: &str) -> bool {
    text == "0" || parse_ns(text).is_ok_and(|ns| ns == 0.0)
}

#[allow(clippy::cast_possible_truncation)]
fn span(ns: f64) -> Span {
    Span::from_ns(ns.round() as i64)
}

fn parse_ns(text: &str) -> Result<f64, String> {
    const WANTED: &str = "wanted a number with a unit, such as 100ms, 1s, 5m or 1h";
    let unit_start = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').ok_or(WANTED)?;
    let (number, unit) = text.split_at(unit_start);
    let unit_ns: f64 = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return Err(format!("`{unit}` is not a unit of time; {WANTED}")),
    };
    let number: f64 = number.trim().parse().map_err(|_| WANTED)?;
    Ok(number * unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_fractions() {
        let cases = [
            ("1s", 1_000_000_000),
            ("100ms", 100_000_000),
            ("2.5us", 2_500),
            ("1m", 60_000_000_000),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_duration(text), Ok(Span::from_ns(ns)));
        }
    }

    #[test]
    fn a_delay_may_be_nothing_but_not_less() {
        assert_eq!(parse_delay("0ms"), Ok(Span::from_ns(0)));
        assert_eq!(parse_delay("12.5ms"), Ok(Span::from_ns(12_500_000)));
        for text in ["-1ms", "0", "2h", "nan s"] {
            assert!(parse_delay(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "1", "s", "0s", "-1s", "1 fortnight", "nan s", "1e99d", "infs"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
