//! New rows of one table, and the rules that look at them.

use std::sync::Arc;

use engine::columns::{Columns, Schema};
use packet::event_time::STEP_BACK;
use packet::{Span, Timestamp};
use store::query::{cell, time_column};
use store::{Store, Table};

use crate::alert::Alert;
use crate::indicators::{ListStates, Lists, RowLook};
use crate::rules::{At, Rule};

/// A row of a live run may be so much later than what the passes say: they say it twice a second.
/// What is later has a stamp that is wrong, and moves no clock.
const AHEAD_MAX: Span = Span::from_seconds(60);

/// A table with what looks at it.
pub(crate) struct Source {
    table: Arc<Table>,
    time: Option<usize>,
    pub rules: Vec<Rule>,
    pub looks: Vec<RowLook>,
    /// How far event time has come, as the table's rows say.
    pub clock: Timestamp,
    /// Rows that were examined or missed.
    received: u64,
}

/// What looking at rows needs and changes.
pub(crate) struct ScanContext<'a> {
    /// Of a live run, whose passes say how far time has come.
    pub live: Option<&'a Store>,
    pub lists: &'a Lists,
    pub list_states: &'a mut [ListStates],
    pub out: &'a mut Vec<Arc<Alert>>,
}

/// How many rows there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RowCounts {
    pub rows: u64,
    /// Rows that were evicted before.
    pub missed: u64,
}

impl ScanContext<'_> {
    /// The latest time that a row may have to move a clock.
    fn time_max(&self) -> Timestamp {
        let time = self.live.and_then(Store::time_ns).map(Timestamp::from_ns);
        time.map_or(Timestamp::MAX, |time| time.plus(AHEAD_MAX))
    }
}

/// Whether time of a live run has come from a clock back to this; see [`packet::event_time`].
pub(crate) fn is_epoch(clock: Timestamp, time: Timestamp) -> bool {
    clock.since(time) >= STEP_BACK
}

impl Source {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let time = time_column(table.schema());
        // What is there already is looked at: a run of captures may be over before this begins.
        Self {
            table,
            time,
            rules: Vec::new(),
            looks: Vec::new(),
            clock: Timestamp::UNKNOWN,
            received: 0,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.table.name()
    }

    pub(crate) fn schema(&self) -> Schema {
        self.table.schema()
    }

    pub(crate) fn is_used(&self) -> bool {
        !self.rules.is_empty() || !self.looks.is_empty()
    }

    /// Whether rows that are not final are examined.
    pub(crate) fn is_open(&self) -> bool {
        !self.looks.is_empty() || self.rules.iter().any(|rule| rule.is_open)
    }

    /// Event time of a live run has come so far, also where the table has no rows. Returns whether
    /// an epoch begins.
    pub(crate) fn pass_time(&mut self, time: Timestamp) -> bool {
        if !is_epoch(self.clock, time) {
            self.clock = self.clock.max(time);
            return false;
        }
        self.clock = time;
        self.rules.iter_mut().for_each(|rule| rule.step_back(time));
        true
    }

    /// Looks at the rows that came since the last time.
    pub(crate) fn look(&mut self, looking: &mut ScanContext<'_>) -> RowCounts {
        let received = self.table.state().received;
        if received == self.received {
            return RowCounts::default();
        }
        if !self.is_used() {
            // A rule that comes later begins with the rows that come then.
            self.received = received;
            return RowCounts::default();
        }
        let view = self.table.since(self.received);
        let mut at = view.received() - view.row_count() as u64;
        let missed = at.saturating_sub(self.received);
        let mut looked = RowCounts { rows: 0, missed };
        // After the rows, so that it is no earlier than what they were made of.
        let time_max = looking.time_max();
        for rows in view.final_rows() {
            for row in 0..rows.row_count() {
                if at >= self.received {
                    let time = self.time_of(rows, row);
                    self.clock = self.clock_with(time, time_max);
                    let at = At { now: self.clock, row: time, is_open: false };
                    self.look_at(rows, row, at, looking);
                    looked.rows += 1;
                }
                at += 1;
            }
        }
        self.received = view.received();
        looked
    }

    /// Looks at the rows that are not final.
    pub(crate) fn look_open(&mut self, looking: &mut ScanContext<'_>) {
        if !self.is_open() || self.table.state().open_row_count == 0 {
            return;
        }
        let view = self.table.view();
        let final_count = view.final_rows().len();
        let time_max = looking.time_max();
        for held in view.chunks().split_off(final_count) {
            let rows = held.columns();
            for row in 0..rows.row_count() {
                let time = self.time_of(rows, row);
                let now = self.clock_with(time, time_max);
                let at = At { now, row: time, is_open: true };
                self.look_at(rows, row, at, looking);
            }
        }
    }

    /// How far time has come with a row of this time.
    fn clock_with(&self, time: Timestamp, time_max: Timestamp) -> Timestamp {
        if time > time_max { self.clock } else { self.clock.max(time) }
    }

    fn time_of(&self, rows: &Columns, row: usize) -> Timestamp {
        let ns = self.time.and_then(|time| cell(rows, time, row).time());
        ns.map_or(Timestamp::UNKNOWN, Timestamp::from_ns)
    }

    fn look_at(&mut self, rows: &Columns, row: usize, at: At, looking: &mut ScanContext<'_>) {
        for rule in &mut self.rules {
            rule.look(rows, row, at, looking.out);
        }
        for look in &self.looks {
            let ScanContext { lists, list_states, out, .. } = looking;
            look.look(lists, list_states, (rows, row), at, out);
        }
    }

    /// Resolves what is over.
    pub(crate) fn expire(&mut self, out: &mut Vec<Arc<Alert>>) {
        for rule in &mut self.rules {
            rule.states.expire(self.clock, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Field, Kind, Value};
    use store::TableLimits;

    use super::*;

    const SCHEMA: Schema = &[Field::new("last_ns", Kind::TimestampNs, "")];

    fn second(seconds: i64) -> Timestamp {
        Timestamp::from_parts(seconds, 0)
    }

    /// A table after a row of each time was inspected.
    fn looked_at(store: &Store, is_live: bool, seconds: &[i64]) -> Source {
        let table = store.add("flows", "", SCHEMA, TableLimits::default());
        let settings = toml::from_str("name = 'rule'\ntable = 'flows'").unwrap();
        let mut source = Source::new(Arc::clone(&table));
        source.rules.push(Rule::bind(&settings, SCHEMA).ok().unwrap());
        let lists = Lists::open(&[]).unwrap();
        let (mut list_states, mut out) = (Vec::new(), Vec::new());
        let live = is_live.then_some(store);
        let mut looking =
            ScanContext { live, lists: &lists, list_states: &mut list_states, out: &mut out };
        for &seconds in seconds {
            let mut rows = Columns::new(SCHEMA);
            rows.push_row(&[Value::TimestampNs(second(seconds).as_ns())]).unwrap();
            table.push(&rows);
            source.look(&mut looking);
        }
        source
    }

    #[test]
    fn a_row_that_is_ahead_moves_no_clock_of_a_live_run() {
        let store = Store::new();
        store.put_time(second(100).as_ns());
        let seconds = [90, 3 * 3_600, 160];
        assert_eq!(looked_at(&store, true, &seconds).clock, second(160));
        assert_eq!(looked_at(&store, false, &seconds).clock, second(3 * 3_600));
        let source = looked_at(&Store::new(), true, &[90, 3 * 3_600]);
        assert_eq!(source.clock, second(3 * 3_600), "nothing has said how far time is");
    }

    #[test]
    fn the_clock_of_a_live_run_steps_back() {
        let mut source = looked_at(&Store::new(), true, &[3 * 3_600]);
        assert!(!source.pass_time(second(3 * 3_600 - 119)), "it is late");
        assert_eq!(source.clock, second(3 * 3_600));
        assert!(source.pass_time(second(100)));
        assert!(!source.pass_time(second(101)));
        assert_eq!(source.clock, second(101));
        let mut out = Vec::new();
        source.expire(&mut out);
        source.pass_time(second(160));
        source.expire(&mut out);
        assert_eq!(out.len(), 1, "the alert of the row that was ahead is resolved");
    }
}
