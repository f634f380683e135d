//! Growth of numbers per second, from one refresh to the next.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Below this a change is too short to divide by.
const SPAN_MIN_NS: i64 = 200_000_000;

/// Who did not look for this long begins again: the mean of a minute ago would read as of now.
const LOOK_GAP_MAX: Duration = Duration::from_secs(5);

/// Event time stands still: nothing comes any more.
const QUIET: Duration = Duration::from_secs(3);

/// Numbers of the refresh before, as many as that had rows.
#[derive(Default)]
pub(crate) struct Rates {
    before: Option<Before>,
    per_second: HashMap<String, f64>,
}

struct Before {
    event_ns: i64,
    looked: Instant,
    moved: Instant,
    numbers: HashMap<String, f64>,
}

impl Rates {
    /// Takes in the numbers of now, by event time: a capture that is read quickly has the rates
    /// that it had when it was recorded.
    pub(crate) fn update<'a>(
        &mut self,
        event_ns: Option<i64>,
        now: Instant,
        numbers: impl Iterator<Item = (&'a str, f64)>,
    ) {
        let Some(event_ns) = event_ns else {
            self.per_second.clear();
            return;
        };
        let begin =
            |numbers: HashMap<String, f64>| Before { event_ns, looked: now, moved: now, numbers };
        let owned = |numbers: &mut dyn Iterator<Item = (&'a str, f64)>| {
            numbers.map(|(id, number)| (id.to_owned(), number)).collect()
        };
        let mut numbers = numbers;
        let Some(before) = self.before.as_mut() else {
            self.before = Some(begin(owned(&mut numbers)));
            return;
        };
        let gap = now.saturating_duration_since(before.looked);
        before.looked = now;
        if gap > LOOK_GAP_MAX {
            *before = begin(owned(&mut numbers));
            self.per_second.clear();
            return;
        }
        let span_ns = event_ns.saturating_sub(before.event_ns);
        if span_ns < SPAN_MIN_NS {
            if now.saturating_duration_since(before.moved) > QUIET {
                self.per_second.clear();
            }
            return;
        }
        #[allow(clippy::cast_precision_loss)]
        let seconds = span_ns as f64 / 1e9;
        let numbers: HashMap<String, f64> = owned(&mut numbers);
        // What shrank lost rows to the table's limit: its growth is not known.
        let growth = |(id, number): (&String, &f64)| {
            let grown = number - before.numbers.get(id)?;
            (grown >= 0.0).then(|| (id.clone(), grown / seconds))
        };
        self.per_second = numbers.iter().filter_map(growth).collect();
        self.before = Some(begin(numbers));
    }

    /// Growth per second, where it is known.
    pub(crate) fn of(&self, id: &str) -> Option<f64> {
        self.per_second.get(id).copied()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn growth_is_by_event_time_and_ends_when_nothing_comes() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut rates = Rates::default();
        rates.update(Some(SECOND), at(0), [("a", 100.0)].into_iter());
        assert_eq!(rates.of("a"), None);
        rates.update(Some(3 * SECOND), at(500), [("a", 300.0), ("b", 7.0)].into_iter());
        assert_eq!((rates.of("a"), rates.of("b")), (Some(100.0), None));
        rates.update(Some(3 * SECOND), at(1_000), [("a", 300.0)].into_iter());
        assert_eq!(rates.of("a"), Some(100.0), "too short to divide by");
        rates.update(Some(3 * SECOND), at(4_000), [("a", 300.0)].into_iter());
        assert_eq!(rates.of("a"), None, "quiet");
    }

    #[test]
    fn growth_after_a_long_look_away_or_a_loss_of_rows_is_not_known() {
        let start = Instant::now();
        let mut rates = Rates::default();
        rates.update(Some(0), start, [("a", 1.0)].into_iter());
        rates.update(Some(SECOND), start + Duration::from_secs(60), [("a", 9.0)].into_iter());
        assert_eq!(rates.of("a"), None);
        let later = start + Duration::from_millis(60_500);
        rates.update(Some(2 * SECOND), later, [("a", 5.0)].into_iter());
        assert_eq!(rates.of("a"), None);
    }
}
