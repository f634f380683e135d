//! When a file is full: by its size, or by the time of the rows in it.

use engine::columns::{Columns, Kind, Schema, Values};
use engine::event_time::{EventTime, TimeMove};
use engine::time::{Span, Timestamp};

/// Rows this far behind the latest are of another epoch ([`engine::event_time`]): those of flows
/// are written at their ends, by default up to half an hour after they began.
pub(crate) const ROWS_BACK: Span = Span::from_seconds(86_400);

/// When a file ends and the next begins; never where neither is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rotation {
    /// Once it has this many bytes; a row group, batch or buffer is written whole.
    pub size_bytes: Option<u64>,
    /// At each multiple of this, counted from the epoch in the time of rows.
    pub period_ns: Option<u64>,
}

impl Rotation {
    /// Whether files ever end before the last row.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.size_bytes.is_some() || self.period_ns.is_some()
    }
}

/// Says when a file is full. A row of another epoch begins a file, so that a wrong time does not
/// end rotation.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    rotation: Rotation,
    /// The time of rows; a file has those of one period.
    time: EventTime,
    /// Whether the file has a row: one that has none is not full, however long its beginning is.
    has_rows: bool,
}

impl Turn {
    /// Before the first row.
    #[must_use]
    pub const fn new(rotation: Rotation) -> Self {
        Self { rotation, time: EventTime::new(ROWS_BACK), has_rows: false }
    }

    /// Whether a row of this time belongs into the next file, where this one has `size_bytes`. Rows
    /// that are late stay in the file that is open.
    pub fn is_due(&mut self, size_bytes: u64, time_ns: Option<i64>) -> bool {
        let length = self.rotation.period_ns.and_then(|ns| i64::try_from(ns).ok());
        let is_other = length.zip(time_ns).is_some_and(|(length, time)| {
            let before = self.time.latest();
            let is_epoch = self.time.on_packet(Timestamp::from_ns(time)) == TimeMove::Epoch;
            let period = |time: Timestamp| time.as_ns().div_euclid(length.max(1));
            let is_first = before == Timestamp::MIN;
            !is_first && (is_epoch || period(self.time.latest()) > period(before))
        });
        let is_large = self.rotation.size_bytes.is_some_and(|max| size_bytes >= max);
        std::mem::replace(&mut self.has_rows, true) && (is_other || is_large)
    }
}

/// The column by which rows are put in order of time: `last_ns`, which is when a flow was over,
/// else the first column of time.
#[must_use]
pub fn time_column(schema: Schema) -> Option<usize> {
    let is_time = |index: &usize| schema.get(*index).is_some_and(|f| f.kind == Kind::TimestampNs);
    let last = schema.iter().position(|field| field.name == "last_ns").filter(is_time);
    last.or_else(|| (0..schema.len()).find(is_time))
}

/// The time of a row.
pub(crate) fn time_ns(rows: &Columns, column: Option<usize>, row: usize) -> Option<i64> {
    let column = rows.columns().get(column?)?;
    match column.values() {
        Values::TimestampNs(times) if !column.is_null(row) => times.get(row).copied(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_ends_at_its_size_and_at_each_period_of_event_time() {
        let mut turn = Turn::new(Rotation { size_bytes: Some(100), period_ns: Some(60) });
        assert!(!turn.is_due(0, Some(59)));
        assert!(turn.is_due(0, Some(60)));
        assert!(!turn.is_due(0, Some(61)));
        assert!(!turn.is_due(0, Some(1)), "a late row stays where it is");
        assert!(!turn.is_due(99, None));
        assert!(turn.is_due(100, None));
        assert!(turn.is_due(0, Some(1000)));
        assert!(turn.is_due(0, Some(i64::MAX)), "a wrong time");
        assert!(turn.is_due(0, Some(1060)), "and rotation continues");
        assert!(turn.is_due(0, Some(1090)) && !turn.is_due(0, Some(1091)));
        assert!(!Turn::new(Rotation { size_bytes: Some(1), period_ns: None }).is_due(9, None));
    }

    #[test]
    fn without_limits_a_file_is_never_full() {
        let mut turn = Turn::new(Rotation::default());
        assert!(!turn.is_due(u64::MAX, Some(0)) && !turn.is_due(0, Some(i64::MAX)));
    }
}
