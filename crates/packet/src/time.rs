//! Event time: nanoseconds, from the packet, never from a clock.

use std::fmt;

/// Nanoseconds in a second.
pub const NS_PER_SECOND: i64 = 1_000_000_000;

/// Nanoseconds since 1970-01-01T00:00:00 UTC, as the capture records it.
///
/// Signed, so that `if_tsoffset` may reach before 1970; it spans 1677 to 2262.
/// Arithmetic saturates: a damaged stamp is wrong, but it is no panic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(i64);

impl Timestamp {
    /// The earliest stamp: before anything was seen.
    pub const MIN: Self = Self(i64::MIN);
    /// The stamp of a frame whose capture gives no time: before everything else.
    pub const UNKNOWN: Self = Self::MIN;
    /// The earliest stamp that a frame can have.
    pub const EARLIEST: Self = Self(i64::MIN + 1);
    /// The latest stamp: after everything was seen.
    pub const MAX: Self = Self(i64::MAX);

    /// From nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// From whole seconds and nanoseconds within the second.
    #[inline]
    #[must_use]
    pub const fn from_parts(seconds: i64, ns: i64) -> Self {
        Self(seconds.saturating_mul(NS_PER_SECOND).saturating_add(ns))
    }

    /// Nanoseconds since the epoch.
    #[inline]
    #[must_use]
    pub const fn as_ns(self) -> i64 {
        self.0
    }

    /// Time since `earlier`; negative where `earlier` is later.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }

    /// This much later.
    #[inline]
    #[must_use]
    pub const fn plus(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// This much earlier.
    #[inline]
    #[must_use]
    pub const fn minus(self, span: Span) -> Self {
        Self(self.0.saturating_sub(span.0))
    }

    /// Start of the window of length `window` in which this stamp lies.
    /// Windows are aligned to the epoch, so every run cuts at the same places.
    #[inline]
    #[must_use]
    pub const fn window_start(self, window: Span) -> Self {
        if window.0 <= 0 {
            return self;
        }
        Self(self.0.saturating_sub(self.0.rem_euclid(window.0)))
    }
}

impl Span {
    /// From nanoseconds.
    #[inline]
    #[must_use]
    pub const fn from_ns(ns: i64) -> Self {
        Self(ns)
    }

    /// From whole seconds.
    #[inline]
    #[must_use]
    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(NS_PER_SECOND))
    }

    /// In nanoseconds.
    #[inline]
    #[must_use]
    pub const fn as_ns(self) -> i64 {
        self.0
    }

    /// In seconds, for people and for rates.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn as_seconds_f64(self) -> f64 {
        self.0 as f64 / NS_PER_SECOND as f64
    }
}

/// RFC 3339 in UTC with all nine digits: `2026-11-21T09:30:00.000000001Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(NS_PER_SECOND);
        let ns = self.0.rem_euclid(NS_PER_SECOND);
        let days = seconds.div_euclid(86_400);
        let second_of_day = seconds.rem_euclid(86_400);
        let (year, month, day) = civil_from_days(days);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ns:09}Z",
            second_of_day / 3_600,
            second_of_day / 60 % 60,
            second_of_day % 60,
        )
    }
}

/// Gregorian date of a day counted from 1970-01-01.
///
/// Counts in eras of 400 years (146,097 days) that begin on 1 March, so that
/// the leap day is the last of its year and month lengths follow one formula.
#[must_use]
pub const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// The day of a Gregorian date, counted from 1970-01-01; the inverse of [`civil_from_days`].
#[must_use]
pub const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_rfc_3339_with_nanoseconds() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000000Z"),
            (951_782_400_000_000_001, "2000-02-29T00:00:00.000000001Z"),
            (1_795_253_399_999_999_999, "2026-11-21T09:29:59.999999999Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
        ];
        for (ns, text) in cases {
            assert_eq!(Timestamp::from_ns(ns).to_string(), text);
        }
    }

    #[test]
    fn windows_are_aligned_to_the_epoch_on_both_sides_of_it() {
        let window = Span::from_seconds(10);
        let start = |seconds| Timestamp::from_parts(seconds, 5).window_start(window);
        assert_eq!(start(19), Timestamp::from_parts(10, 0));
        assert_eq!(start(20), Timestamp::from_parts(20, 0));
        assert_eq!(start(-1), Timestamp::from_parts(-10, 0));
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Timestamp::MAX.plus(Span::from_ns(1)), Timestamp::MAX);
        assert_eq!(Timestamp::from_parts(i64::MAX, 0), Timestamp::MAX);
        assert!(Timestamp::MIN.to_string().starts_with("1677-"));
    }
}
