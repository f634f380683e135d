//! The rows of one table that were not sent yet.

use std::sync::Arc;

use store::Table;

use crate::message::{ROWS_MAX, RowMessage, json_lines};

/// A table, and how far it was taken.
pub(crate) struct Source {
    pub table: Arc<Table>,
    /// Rows that were taken or lost.
    pub taken: u64,
}

/// Rows that were not taken, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Losses {
    /// Later rows had evicted them.
    pub evicted: u64,
    /// One of them alone is larger than a message may be.
    pub too_large: u64,
}

impl Source {
    pub(crate) const fn new(table: Arc<Table>) -> Self {
        Self { table, taken: 0 }
    }

    /// Rows that wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.table.state().received.saturating_sub(self.taken)
    }

    /// The next rows, as a message of at most so many bytes.
    pub(crate) fn next(&mut self, len_max: usize, lost: &mut Losses) -> Option<RowMessage> {
        loop {
            let before = lost.too_large;
            let message = self.attempt(len_max, lost);
            if message.is_some() || lost.too_large == before {
                return message;
            }
        }
    }

    /// The same, or a row that is too large is counted.
    fn attempt(&mut self, len_max: usize, lost: &mut Losses) -> Option<RowMessage> {
        let view = self.table.since(self.taken);
        let mut at = view.received() - view.row_count() as u64;
        lost.evicted += at.saturating_sub(self.taken);
        self.taken = self.taken.max(at);
        for rows in view.final_rows() {
            let end = at + rows.row_count() as u64;
            let begin = usize::try_from(self.taken.saturating_sub(at)).unwrap_or(usize::MAX);
            at = end;
            let mut count = rows.row_count().saturating_sub(begin).min(ROWS_MAX);
            while count > 0 {
                let places: Vec<usize> = (begin..begin + count).collect();
                // Rows of the store have the columns of its tables, which JSON can say.
                let lines = json_lines(&rows.picked(&places)).unwrap_or_default();
                if lines.len() <= len_max && !lines.is_empty() {
                    let (first, row_count) = (self.taken, count as u64);
                    self.taken += row_count;
                    let table = self.table.name().to_owned();
                    let payload = lines.into();
                    return Some(RowMessage { table, first, row_count, payload });
                }
                if count == 1 {
                    lost.too_large += 1;
                    self.taken += 1;
                    return None;
                }
                count /= 2;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use engine::columns::{Columns, Field, Kind, Value};
    use store::{Store, TableLimits};

    use super::*;

    const SCHEMA: &[Field] = &[Field::new("name", Kind::Text, "A name.")];

    fn rows(names: &[&str]) -> Columns {
        let mut rows = Columns::new(SCHEMA);
        names.iter().for_each(|name| rows.push_row(&[Value::Str(name)]).unwrap());
        rows
    }

    #[test]
    fn each_row_is_taken_once_or_counted() {
        let store = Store::new();
        let limits = TableLimits { row_count: 2_048, ..TableLimits::default() };
        let mut source = Source::new(store.add("names", "Names.", SCHEMA, limits));
        let mut lost = Losses::default();
        source.table.push(&rows(&["a", "b"]));
        let first = source.next(1_000, &mut lost).unwrap();
        assert_eq!((first.first, first.row_count), (0, 2));
        assert_eq!(&first.payload[..], b"{\"name\":\"a\"}\n{\"name\":\"b\"}\n");
        assert!(source.next(1_000, &mut lost).is_none());
        // A row that no message holds is counted, and those after it come all the same.
        source.table.push(&rows(&["c", &"long".repeat(300), "d"]));
        let (mut seen, mut numbers) = (0, Vec::new());
        while let Some(message) = source.next(1_000, &mut lost) {
            seen += message.row_count;
            numbers.push(message.first);
        }
        assert_eq!((seen, numbers, lost), (2, vec![2, 4], Losses { evicted: 0, too_large: 1 }));
        // More than the table keeps.
        (0..5_000).for_each(|_| source.table.push(&rows(&["e"])));
        let mut seen = 0;
        while let Some(message) = source.next(100_000, &mut lost) {
            assert!(message.row_count <= ROWS_MAX as u64);
            seen += message.row_count;
        }
        assert!(lost.evicted > 0 && seen > 0);
        assert_eq!(seen + lost.evicted, 5_000);
        assert_eq!(source.waiting(), 0);
    }
}
