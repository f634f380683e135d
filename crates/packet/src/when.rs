//! Moments as people type them.

use crate::Timestamp;
use crate::time::{NS_PER_SECOND, days_from_civil};

const WANTED: &str =
    "wanted a time in UTC, such as 2026-03-01T10:00:00Z or 2026-03-01, or seconds since 1970";

/// Reads `2026-03-01T10:00:00.5Z`, `2026-03-01 10:00`, `2026-03-01`, or seconds since 1970.
///
/// # Errors
/// What was wanted, for the message of the argument.
pub fn parse_time(text: &str) -> Result<Timestamp, String> {
    let text = text.trim();
    let is_number = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let ns = if is_number { seconds(text) } else { zoned(text) };
    ns.map(Timestamp::from_ns).ok_or_else(|| String::from(WANTED))
}

/// A time in UTC, or with its distance from that as RFC 3339 has it: `+01:00`.
fn zoned(text: &str) -> Option<i64> {
    let split = text.len().checked_sub("+01:00".len()).and_then(|at| text.split_at_checked(at));
    let offset = split.and_then(|(time, offset)| Some((time, offset_ns(offset)?)));
    match offset {
        Some((time, offset)) if time.contains(['T', ' ']) => calendar(time)?.checked_sub(offset),
        _ => calendar(text.trim_end_matches('Z')),
    }
}

fn offset_ns(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let sign = if hours.starts_with('-') { -1 } else { 1 };
    let hours: i64 = hours.strip_prefix(['+', '-'])?.parse().ok()?;
    let minutes: i64 = minutes.parse().ok()?;
    let is_offset = hours < 24 && (0..60).contains(&minutes);
    is_offset.then_some(sign * (hours * 60 + minutes) * 60 * NS_PER_SECOND)
}

/// A decimal number of seconds, to the nanosecond.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    whole.checked_mul(NS_PER_SECOND)?.checked_add(fraction_ns(fraction)?)
}

fn fraction_ns(digits: &str) -> Option<i64> {
    if digits.len() > 9 || !digits.chars().all(|c| c.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<9}").parse().ok()
}

fn calendar(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00"));
    let date: Vec<&str> = date.split('-').collect();
    let &[year, month, day] = date.as_slice() else { return None };
    let (year, month, day): (i64, i64, i64) =
        (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let last = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if !(1970..=2262).contains(&year) || !(1..=12).contains(&month) || !(1..=last).contains(&day) {
        return None;
    }
    let mut clock = time.split(':');
    let hour: i64 = clock.next()?.parse().ok()?;
    let minute: i64 = clock.next()?.parse().ok()?;
    let second = clock.next().unwrap_or("0");
    if clock.next().is_some() || !(0..24).contains(&hour) || !(0..60).contains(&minute) {
        return None;
    }
    let second_ns = seconds(second).filter(|&ns| ns < 60 * NS_PER_SECOND)?;
    let days = days_from_civil(year, month, day);
    let of_day = (hour * 60 + minute) * 60 * NS_PER_SECOND + second_ns;
    days.checked_mul(86_400 * NS_PER_SECOND)?.checked_add(of_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_date_shows_them() {
        let cases = [
            ("1970-01-01", 0),
            ("2000-02-29T12:34:56.25Z", 951_827_696_250_000_000),
            ("2026-03-01 10:00", 1_772_359_200_000_000_000),
            ("2026-03-01T11:30:00+01:30", 1_772_359_200_000_000_000),
            ("2026-03-01T09:00:00.000-01:00", 1_772_359_200_000_000_000),
            ("1772359200.000000001", 1_772_359_200_000_000_001),
        ];
        for (text, ns) in cases {
            assert_eq!(parse_time(text).map(Timestamp::as_ns), Ok(ns), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "now", "2026-02-29", "2026-13-01", "2026-03-01T24:00", "1.2.3", "99999999999"]
        {
            assert!(parse_time(text).unwrap_err().contains("UTC"), "{text}");
        }
    }
}
