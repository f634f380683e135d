//! Whether the clock of a sensor agrees with that of this machine.

use std::time::Duration;

/// Clocks that differ by less agree: a message is on its way for some time as well.
const AGREES_NS: u64 = 5_000_000_000;

/// Metrics that waited here for longer, as where the history is slow, come together: one that is
/// old for that says nothing of a clock.
const HOLDS_FOR: Duration = Duration::from_secs(1);

/// The clock of a sensor.
#[derive(Default)]
pub(super) struct SensorClock {
    /// Since when it differs.
    since: Option<Duration>,
    is_off: bool,
}

/// What is new of a clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClockChange {
    /// It differs, by so many nanoseconds: ahead of this machine's, or behind it below 0.
    Off(i64),
    /// It agrees again.
    Agrees,
}

impl SensorClock {
    /// Takes in what it showed when it was so late here.
    pub(super) fn take(&mut self, theirs: i64, ours: i64, now: Duration) -> Option<ClockChange> {
        let ahead = theirs.saturating_sub(ours);
        if ahead.unsigned_abs() < AGREES_NS {
            self.since = None;
            return std::mem::take(&mut self.is_off).then_some(ClockChange::Agrees);
        }
        let since = *self.since.get_or_insert(now);
        let is_new = !self.is_off && now.saturating_sub(since) >= HOLDS_FOR;
        self.is_off |= is_new;
        is_new.then_some(ClockChange::Off(ahead))
    }

    /// Whether it differs.
    pub(super) const fn is_off(&self) -> bool {
        self.is_off
    }
}

impl ClockChange {
    /// For users.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn line(self, sensor: &str) -> String {
        match self {
            Self::Off(ahead) => {
                let seconds = ahead.unsigned_abs() as f64 / 1e9;
                let way = if ahead > 0 { "ahead of" } else { "behind" };
                format!(
                    "sensors: the clock of {sensor} is {seconds:.0} s {way} this machine's: its \
                     rows keep its time, and its flows are not joined with those of others; \
                     wanted: less than 5 s; set both clocks by NTP"
                )
            }
            Self::Agrees => format!("sensors: the clock of {sensor} agrees again"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn a_clock_that_stays_away_is_off_once() {
        let (mut clock, second) = (SensorClock::default(), Duration::from_secs);
        assert_eq!(clock.take(100 * S, 96 * S, second(0)), None);
        assert_eq!(clock.take(90 * S, 97 * S, second(1)), None, "it may have waited here");
        assert_eq!(clock.take(107 * S, 107 * S, second(2)), None);
        assert_eq!(clock.take(90 * S, 110 * S, second(10)), None);
        assert_eq!(clock.take(100 * S, 120 * S, second(20)), Some(ClockChange::Off(-20 * S)));
        assert!(clock.is_off());
        assert_eq!(clock.take(110 * S, 130 * S, second(30)), None);
        assert_eq!(clock.take(140 * S, 140 * S, second(40)), Some(ClockChange::Agrees));
        assert!(!clock.is_off());
        assert_eq!(clock.take(i64::MIN, i64::MAX, second(50)), None);
        assert_eq!(clock.take(i64::MAX, i64::MIN, second(60)), Some(ClockChange::Off(i64::MAX)));
    }

    #[test]
    fn a_line_says_which_way() {
        let line = ClockChange::Off(7200 * S).line("roof");
        assert!(line.contains("clock of roof is 7200 s ahead of this machine's"), "{line}");
        assert!(ClockChange::Off(-7 * S).line("roof").contains("7 s behind this"));
    }
}
