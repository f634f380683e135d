//! New rows of one table, and the rules that look at them.

use std::sync::Arc;

use engine::columns::{Columns, Schema};
use packet::Timestamp;
use store::Table;
use store::query::{cell, time_column};

use crate::alert::Alert;
use crate::indicators::{ListStates, Lists, RowLook};
use crate::rules::{At, Rule};

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

    fn is_used(&self) -> bool {
        !self.rules.is_empty() || !self.looks.is_empty()
    }

    /// Whether rows that are not final are examined.
    pub(crate) fn is_open(&self) -> bool {
        !self.looks.is_empty() || self.rules.iter().any(|rule| rule.is_open)
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
        for rows in view.final_rows() {
            for row in 0..rows.row_count() {
                if at >= self.received {
                    let time = self.time_of(rows, row);
                    self.clock = self.clock.max(time);
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
        for held in view.chunks().split_off(final_count) {
            let rows = held.columns();
            for row in 0..rows.row_count() {
                let time = self.time_of(rows, row);
                let at = At { now: self.clock.max(time), row: time, is_open: true };
                self.look_at(rows, row, at, looking);
            }
        }
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
            let ScanContext { lists, list_states, out } = looking;
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
