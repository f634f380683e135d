//! Hours of UTC, by which rows have their folder.

use packet::time::{civil_from_days, days_from_civil};

/// Nanoseconds of an hour.
pub(crate) const HOUR_NS: i64 = 3_600_000_000_000;

/// An hour, counted from 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Hour(i64);

impl Hour {
    pub(crate) const fn of(ns: i64) -> Self {
        Self(ns.div_euclid(HOUR_NS))
    }

    /// Its first nanosecond; the earliest stamp there is where it would be before that.
    pub(crate) const fn start_ns(self) -> i64 {
        self.0.saturating_mul(HOUR_NS)
    }

    /// Its folder within that of a table, as other programs take partitions.
    pub(crate) fn folder(self) -> String {
        let (year, month, day) = civil_from_days(self.0.div_euclid(24));
        let hour = self.0.rem_euclid(24);
        format!("date={year:04}-{month:02}-{day:02}/hour={hour:02}")
    }

    /// Reads the names of such a folder.
    pub(crate) fn read(date: &str, hour: &str) -> Option<Self> {
        let mut parts = date.strip_prefix("date=")?.splitn(3, '-');
        let mut part = || parts.next()?.parse::<i64>().ok();
        let (year, month, day) = (part()?, part()?, part()?);
        let hour: i64 = hour.strip_prefix("hour=")?.parse().ok()?;
        let is_one = (1..10_000).contains(&year) && (1..=12).contains(&month);
        if !is_one || !(1..=31).contains(&day) || !(0..24).contains(&hour) {
            return None;
        }
        Some(Self(days_from_civil(year, month, day) * 24 + hour))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_reads_back() {
        for ns in [0, -1, 1_772_323_199_999_999_999, 1_772_323_200_000_000_000, i64::MAX, i64::MIN]
        {
            let hour = Hour::of(ns);
            let folder = hour.folder();
            let (date, of_day) = folder.split_once('/').unwrap();
            assert_eq!(Hour::read(date, of_day), Some(hour), "{folder}");
        }
        assert_eq!(Hour::of(1_764_076_500_000_000_000).folder(), "date=2025-11-25/hour=13");
        assert_eq!(Hour::of(951_782_400_000_000_000).folder(), "date=2000-02-29/hour=00");
        assert_eq!(Hour::read("date=2025-13-01", "hour=00"), None);
        assert_eq!(Hour::read("date=2025-12-01", "hour=24"), None);
    }
}
