//! Which columns flows are written in, and writing them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::columns::{Columns, RowRefused, Schema};
use engine::flow::{FlowRecord, FlowStatistics};
use packet::Span;

use crate::captures::Captures;

use super::{Names, ROWS_PER_PIECE, nfstream, row};

/// Whose names columns have, and what they tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// Whose names.
    pub(super) names: Names,
    /// Sizes, gaps and flags as well.
    pub(super) statistics: bool,
    /// The windows, if there are any.
    pub(super) window: Option<Span>,
    /// Names and protocols that the payload shows, as well.
    pub(super) reads_names: bool,
    /// What records of other tools are made of, which take names as well.
    pub(super) is_exported: bool,
    /// The capture as well.
    pub(super) has_capture: bool,
}

/// What can be laid out: flows alone, or with statistics.
pub(super) trait Laid: row::Kept {
    /// The statistics, where they were kept.
    fn statistics(&self) -> Option<&FlowStatistics>;
}

impl Laid for () {
    fn statistics(&self) -> Option<&FlowStatistics> {
        None
    }
}

impl Laid for FlowStatistics {
    fn statistics(&self) -> Option<&FlowStatistics> {
        Some(self)
    }
}

impl Layout {
    /// Whether statistics must be kept.
    #[must_use]
    pub(super) fn needs_statistics(&self) -> bool {
        self.statistics || self.names == Names::Nfstream
    }

    /// The columns.
    #[must_use]
    pub(super) fn schema(&self) -> Schema {
        if self.is_exported {
            return row::EXPORTED[usize::from(self.has_capture)];
        }
        if self.reads_names {
            let schemas = match (self.statistics, self.window) {
                (false, None) => row::NAMED,
                (false, Some(_)) => row::WINDOWED_NAMED,
                (true, None) => row::NAMED_WITH_STATISTICS,
                (true, Some(_)) => row::WINDOWED_NAMED_WITH_STATISTICS,
            };
            return schemas[usize::from(self.has_capture)];
        }
        let schemas = match (self.names, self.statistics, self.window) {
            (Names::Nfstream, ..) => nfstream::SCHEMAS,
            (Names::Wirelens, false, None) => row::PLAIN,
            (Names::Wirelens, false, Some(_)) => row::WINDOWED,
            (Names::Wirelens, true, None) => row::WITH_STATISTICS,
            (Names::Wirelens, true, Some(_)) => row::WINDOWED_WITH_STATISTICS,
        };
        schemas[usize::from(self.has_capture)]
    }
}

/// Turns flows into columns, piece by piece. Clones number rows together.
#[derive(Clone)]
pub(super) struct Rows {
    layout: Layout,
    captures: Captures,
    columns: Columns,
    written: Arc<AtomicU64>,
}

impl Rows {
    /// Nothing written yet, of flows in these captures.
    #[must_use]
    pub(super) fn new(layout: Layout, captures: Captures) -> Self {
        let layout = Layout { has_capture: captures.are_named(), ..layout };
        Self { layout, captures, columns: Columns::new(layout.schema()), written: Arc::default() }
    }

    /// Hands flows to `write` as columns.
    ///
    /// # Errors
    /// What `write` returns.
    pub(super) fn put<S: Laid, E>(
        &mut self,
        flows: &[(FlowRecord, S)],
        mut write: impl FnMut(Result<&Columns, RowRefused>) -> Result<(), E>,
    ) -> Result<(), E> {
        for piece in flows.chunks(ROWS_PER_PIECE) {
            self.columns.clear();
            let filled = self.push_all(piece);
            write(filled.map(|()| &self.columns))?;
        }
        Ok(())
    }

    fn push_all<S: Laid>(&mut self, flows: &[(FlowRecord, S)]) -> Result<(), RowRefused> {
        if self.layout.needs_statistics() {
            return flows.iter().try_for_each(|(record, kept)| self.push(record, kept));
        }
        let records = flows.iter().map(|(record, _)| record);
        row::push_plain(&mut self.columns, self.layout.window, records, &self.captures)
    }

    fn push<S: Laid>(&mut self, record: &FlowRecord, kept: &S) -> Result<(), RowRefused> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        match (self.layout.names, kept.statistics()) {
            (Names::Nfstream, Some(statistics)) => {
                nfstream::push(&mut self.columns, number, record, statistics, &self.captures)
            }
            _ => row::push(&mut self.columns, self.layout.window, record, kept, &self.captures),
        }
    }
}
