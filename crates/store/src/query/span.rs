//! Which rows are of a range of time.

use engine::columns::{Columns, Kind, Schema};

use super::cell::cell;

/// A range of event time in nanoseconds, its end left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TimeRange {
    /// From this on.
    pub from_ns: Option<i64>,
    /// Before this.
    pub to_ns: Option<i64>,
}

/// The columns by which a row has its place in time, the first of them that a table has. A flow is
/// where it ended, since its row comes then.
const TIME_COLUMNS: [&str; 5] = ["start_ns", "time_ns", "decided_ns", "last_ns", "first_ns"];

/// The column by which a table's rows have their place in time.
#[must_use]
pub fn time_column(schema: Schema) -> Option<usize> {
    let place = |name: &&str| {
        let is_it =
            |field: &engine::columns::Field| field.name == *name && field.kind == Kind::TimestampNs;
        schema.iter().position(is_it)
    };
    TIME_COLUMNS.iter().find_map(place)
}

impl TimeRange {
    /// Whether a row is in it. Without a time it is only where no range is asked for.
    #[must_use]
    pub fn has(&self, columns: &Columns, time: Option<usize>, row: usize) -> bool {
        if *self == Self::default() {
            return true;
        }
        let Some(ns) = time.and_then(|time| cell(columns, time, row).time()) else { return false };
        self.from_ns.is_none_or(|from| ns >= from) && self.to_ns.is_none_or(|to| ns < to)
    }
}
