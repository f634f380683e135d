//! Which alerts of a rule are pending or active, by key.

use std::collections::HashMap;
use std::sync::Arc;

use packet::{Span, Timestamp};

use crate::alert::Alert;

/// Keys of a rule that are pending or active at most. A new one beyond them is refused, not an old
/// one forgotten: a sender that floods a rule with keys must not resolve alerts by that.
pub(crate) const ACTIVE_MAX: usize = 10_000;

/// When a row matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    /// How far event time has come.
    pub now: Timestamp,
    /// The row's own time.
    pub row: Timestamp,
    /// Whether the row is not final, and therefore seen again and again.
    pub is_open: bool,
}

/// The states of one rule.
pub(crate) struct States {
    entries: HashMap<String, Entry>,
    hold: Span,
    resolve_after: Span,
    /// Keys that were refused as there were too many.
    pub refused: u64,
}

struct Entry {
    /// Time of the first row that matched.
    first: Timestamp,
    /// When matching began, and when it was last so.
    since: Timestamp,
    last: Timestamp,
    /// Final rows: an open one is seen again and again, and once more when it is final.
    rows: u64,
    alert: Option<Arc<Alert>>,
}

impl Entry {
    /// Whether it is over. What is pending may have gaps as long as it has to hold.
    fn is_over(&self, now: Timestamp, hold: Span, resolve_after: Span) -> bool {
        let gap_max = if self.alert.is_some() { resolve_after } else { resolve_after.max(hold) };
        now.since(self.last) >= gap_max
    }

    /// Rows that matched: where none is final yet, an open one has.
    fn row_count(&self) -> u64 {
        self.rows.max(1)
    }

    fn resolve(&self, resolve_after: Span, out: &mut Vec<Arc<Alert>>) {
        let time = self.last.plus(resolve_after);
        let resolved = |alert: &Arc<Alert>| Arc::new(alert.resolved(time, self.row_count()));
        out.extend(self.alert.as_ref().map(resolved));
    }

    /// Nothing of it is later than this.
    fn step_back(&mut self, now: Timestamp) {
        for time in [&mut self.first, &mut self.since, &mut self.last] {
            *time = (*time).min(now);
        }
        // Receivers take an alert that ends before it began for one that is active.
        if let Some(alert) = self.alert.as_mut().filter(|alert| alert.fired > now) {
            Arc::make_mut(alert).fired = now;
        }
    }
}

impl States {
    pub(crate) fn new(hold: Span, resolve_after: Span) -> Self {
        Self { entries: HashMap::new(), hold, resolve_after, refused: 0 }
    }

    /// Active alerts.
    pub(crate) fn active_count(&self) -> usize {
        self.entries.values().filter(|entry| entry.alert.is_some()).count()
    }

    /// A row of a key matches. The alert is made if it fires; it is given the time of the first
    /// matching row and the rows so far.
    pub(crate) fn matched(
        &mut self,
        key: String,
        at: At,
        make: impl FnOnce(Timestamp, u64) -> Alert,
        out: &mut Vec<Arc<Alert>>,
    ) {
        let At { now, row, is_open } = at;
        if self.entries.len() >= ACTIVE_MAX && !self.entries.contains_key(&key) {
            self.refused += 1;
            return;
        }
        let began = || Entry { first: row, since: now, last: now, rows: 0, alert: None };
        let entry = self.entries.entry(key).or_insert_with(began);
        // It was over in between, which no one had noticed yet.
        if entry.is_over(now, self.hold, self.resolve_after) {
            entry.resolve(self.resolve_after, out);
            *entry = began();
        }
        // Tables of one list may be at different times.
        entry.last = entry.last.max(now);
        entry.rows += u64::from(!is_open);
        if entry.alert.is_none() && now.since(entry.since) >= self.hold {
            let alert = Arc::new(make(entry.first, entry.row_count()));
            entry.alert = Some(Arc::clone(&alert));
            out.push(alert);
        }
    }

    /// Whether a row that does not match could change anything.
    pub(crate) fn is_pending(&self) -> bool {
        self.hold > Span::default() && !self.entries.is_empty()
    }

    /// A row of a key does not match: what was pending begins again.
    pub(crate) fn unmatched(&mut self, key: &str) {
        if self.entries.get(key).is_some_and(|entry| entry.alert.is_none()) {
            self.entries.remove(key);
        }
    }

    /// Resolves all that is active: there is no such rule any more.
    pub(crate) fn finish(&mut self, now: Timestamp, out: &mut Vec<Arc<Alert>>) {
        for (_, entry) in self.entries.drain() {
            let row_count = entry.row_count();
            let resolved = entry.alert.map(|alert| Arc::new(alert.resolved(now, row_count)));
            out.extend(resolved);
        }
    }

    /// Time was set back to this: what was later would not end until time is there again.
    pub(crate) fn step_back(&mut self, now: Timestamp) {
        self.entries.values_mut().for_each(|entry| entry.step_back(now));
    }

    /// Resolves what has not matched for long enough. The time of the end is that of the event, not
    /// of this look, so that it does not depend on when one looks.
    pub(crate) fn expire(&mut self, now: Timestamp, out: &mut Vec<Arc<Alert>>) {
        let (hold, resolve_after) = (self.hold, self.resolve_after);
        self.entries.retain(|_, entry| {
            let is_over = entry.is_over(now, hold, resolve_after);
            if is_over {
                entry.resolve(resolve_after, out);
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::State;
    use crate::alert::tests::sample;

    fn at(seconds: i64) -> At {
        let now = Timestamp::from_ns(seconds * 1_000_000_000);
        At { now, row: now, is_open: false }
    }

    fn matched(states: &mut States, key: &str, seconds: i64) -> Vec<Arc<Alert>> {
        let mut out = Vec::new();
        let make = |first, rows| Alert { first, rows, ..sample(1) };
        states.matched(key.into(), at(seconds), make, &mut out);
        out
    }

    #[test]
    fn an_alert_fires_once_and_is_resolved_when_rows_stop() {
        let mut states = States::new(Span::default(), Span::from_seconds(60));
        assert_eq!(matched(&mut states, "a", 0).len(), 1);
        assert_eq!(matched(&mut states, "a", 30).len(), 0);
        assert_eq!(matched(&mut states, "b", 31).len(), 1);
        let mut out = Vec::new();
        states.expire(at(89).now, &mut out);
        assert_eq!((out.len(), states.active_count()), (0, 2));
        states.expire(at(90).now, &mut out);
        assert_eq!((out.len(), states.active_count()), (1, 1));
        assert_eq!((out[0].state, out[0].rows, out[0].time), (State::Resolved, 2, at(90).now));
    }

    #[test]
    fn a_gap_that_no_one_saw_resolves_and_fires_again() {
        let mut states = States::new(Span::default(), Span::from_seconds(60));
        matched(&mut states, "a", 0);
        let out = matched(&mut states, "a", 500);
        let told: Vec<_> = out.iter().map(|alert| (alert.state, alert.rows)).collect();
        assert_eq!(told, [(State::Resolved, 1), (State::Firing, 1)]);
        assert_eq!(out[0].time, at(60).now);
    }

    #[test]
    fn what_has_to_hold_begins_again_when_it_does_not() {
        let mut states = States::new(Span::from_seconds(10), Span::from_seconds(60));
        for seconds in [0, 5, 9] {
            assert_eq!(matched(&mut states, "a", seconds).len(), 0);
        }
        assert!(states.is_pending());
        states.unmatched("a");
        assert_eq!(matched(&mut states, "a", 11).len(), 0);
        assert_eq!(matched(&mut states, "a", 20).len(), 0);
        let out = matched(&mut states, "a", 21);
        assert_eq!((out.len(), out[0].first, out[0].rows), (1, at(11).now, 3));
        states.unmatched("a");
        assert_eq!(states.active_count(), 1, "active ones end by time alone");
    }

    #[test]
    fn a_flow_that_is_open_first_counts_once() {
        let mut states = States::new(Span::default(), Span::from_seconds(60));
        let mut out = Vec::new();
        let mut see = |seconds, is_open| {
            let make = |first, rows| Alert { first, rows, ..sample(1) };
            states.matched("a".into(), At { is_open, ..at(seconds) }, make, &mut out);
        };
        see(0, true);
        see(1, true);
        see(2, false);
        states.expire(at(62).now, &mut out);
        let rows: Vec<_> = out.iter().map(|alert| (alert.state, alert.rows)).collect();
        assert_eq!(rows, [(State::Firing, 1), (State::Resolved, 1)]);
    }

    #[test]
    fn alerts_end_where_time_was_ahead_and_steps_back() {
        let mut states = States::new(Span::default(), Span::from_seconds(60));
        let hours = 3 * 3_600;
        let mut out = Vec::new();
        let make = |first, rows| Alert { first, rows, fired: at(hours).now, ..sample(1) };
        states.matched("a".into(), at(hours), make, &mut out);
        states.step_back(at(10).now);
        out.clear();
        states.expire(at(69).now, &mut out);
        assert_eq!(out.len(), 0);
        states.expire(at(70).now, &mut out);
        assert_eq!((out.len(), out[0].time, out[0].fired), (1, at(70).now, at(10).now));
    }

    #[test]
    fn what_has_to_hold_passes_where_time_was_ahead_and_steps_back() {
        let mut states = States::new(Span::from_seconds(10), Span::from_seconds(60));
        assert_eq!(matched(&mut states, "a", 3 * 3_600).len(), 0);
        states.step_back(at(20).now);
        assert_eq!(matched(&mut states, "a", 25).len(), 0);
        let out = matched(&mut states, "a", 30);
        assert_eq!((out.len(), out[0].first), (1, at(20).now));
    }

    #[test]
    fn what_has_to_hold_may_have_gaps_as_long() {
        let mut states = States::new(Span::from_seconds(300), Span::from_seconds(60));
        let mut out = Vec::new();
        for seconds in [0, 120, 240] {
            assert_eq!(matched(&mut states, "a", seconds).len(), 0);
            states.expire(at(seconds + 119).now, &mut out);
        }
        assert_eq!((out.len(), matched(&mut states, "a", 360).len()), (0, 1));
        states.expire(at(420).now, &mut out);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn keys_are_bounded_and_refused_ones_counted() {
        let mut states = States::new(Span::default(), Span::from_seconds(60));
        for number in 0..ACTIVE_MAX + 5 {
            matched(&mut states, &number.to_string(), 0);
        }
        assert_eq!((states.active_count(), states.refused), (ACTIVE_MAX, 5));
        assert_eq!(matched(&mut states, "0", 1).len(), 0, "known keys go on");
    }

    #[test]
    fn rows_without_a_time_fire_and_stay() {
        let mut states = States::new(Span::default(), Span::from_seconds(60));
        let at = At { now: Timestamp::UNKNOWN, row: Timestamp::UNKNOWN, is_open: false };
        let mut out = Vec::new();
        states.matched("a".into(), at, |_, _| sample(1), &mut out);
        states.expire(Timestamp::UNKNOWN, &mut out);
        assert_eq!(out.len(), 1);
    }
}
