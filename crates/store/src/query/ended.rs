//! Flows that have ended since open ones were handed in: the final row counts.

use std::collections::HashSet;

use engine::columns::Columns;

use super::cell::{Cell, cell};
use crate::table::View;

/// The flows that have ended, by ID and first time stamp.
pub(crate) struct EndedFlows {
    columns: Option<(usize, usize)>,
    flows: HashSet<(String, i64)>,
}

impl EndedFlows {
    /// The final rows of a view that came after so many.
    pub(crate) fn since(received: Option<u64>, view: &View) -> Self {
        let place = |name| view.schema().iter().position(|field| field.name == name);
        let columns = place("community_id").zip(place("first_ns"));
        let mut ended = Self { columns, flows: HashSet::new() };
        let (Some(received), Some(_)) = (received, columns) else { return ended };
        for (before, chunk) in view.final_chunks() {
            let skipped = received.saturating_sub(before);
            let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
            for row in skipped.min(chunk.row_count())..chunk.row_count() {
                ended.flows.extend(ended.id(chunk, row));
            }
        }
        ended
    }

    fn id(&self, rows: &Columns, row: usize) -> Option<(String, i64)> {
        let (id, first) = self.columns?;
        let first = match cell(rows, first, row) {
            Cell::Time(ns) => ns,
            _ => i64::MIN,
        };
        Some((cell(rows, id, row).text()?.to_owned(), first))
    }

    /// The rows of those that have not.
    pub(crate) fn without(&self, rows: Columns) -> Columns {
        if self.flows.is_empty() {
            return rows;
        }
        let is_open = |row: &usize| self.id(&rows, *row).is_none_or(|id| !self.flows.contains(&id));
        let open: Vec<usize> = (0..rows.row_count()).filter(is_open).collect();
        if open.len() == rows.row_count() { rows } else { rows.picked(&open) }
    }
}
