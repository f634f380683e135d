//! Which columns flows are written in, and writing them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use engine::columns::{Columns, Field, RowMismatch, Schema, joined};
use engine::flow::{FlowRecord, FlowStatistics};
use packet::wire::ethernet::MacAddress;
use packet::{FlowDirection, Span};

use classify::columns::CAPTURE;

use crate::captures::Captures;

use super::lengths::LENGTHS;
use super::macs::MACS;
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
    /// MAC addresses as well.
    pub(super) has_macs: bool,
    /// Names and protocols that the payload shows, as well.
    pub(super) reads_names: bool,
    /// What records of other tools are made of as well.
    pub(super) is_exported: bool,
    /// What a trained cascade says as well.
    pub(super) has_label: bool,
    /// The capture as well.
    pub(super) has_capture: bool,
}

/// What can be laid out: flows alone, or with statistics.
pub(super) trait FlowColumns: row::StateColumns {
    /// The statistics, where they were kept.
    fn statistics(&self) -> Option<&FlowStatistics>;

    /// MAC addresses of source and destination, where they were kept.
    fn macs(&self, _: FlowDirection) -> [Option<MacAddress>; 2] {
        [None; 2]
    }
}

impl FlowColumns for () {
    fn statistics(&self) -> Option<&FlowStatistics> {
        None
    }
}

impl FlowColumns for FlowStatistics {
    fn statistics(&self) -> Option<&FlowStatistics> {
        Some(self)
    }
}

impl Layout {
    /// Flows alone, under our own names.
    pub(super) const PLAIN: Self = Self {
        names: Names::Wirelens,
        statistics: false,
        window: None,
        has_macs: false,
        reads_names: false,
        is_exported: false,
        has_label: false,
        has_capture: false,
    };

    /// Whether statistics must be kept.
    #[must_use]
    pub(super) fn needs_statistics(&self) -> bool {
        self.statistics || self.names == Names::Nfstream
    }

    /// Whether anything must be kept besides records.
    #[must_use]
    pub(super) fn keeps_any(&self) -> bool {
        self.needs_statistics() || self.has_macs
    }

    /// The columns.
    #[must_use]
    pub(super) fn schema(&self) -> Schema {
        if self.names == Names::Nfstream {
            return nfstream::SCHEMAS[usize::from(self.has_capture)];
        }
        let parts: [(bool, &[Field]); 8] = [
            (self.window.is_some(), &row::WINDOW),
            (true, &row::FLOW),
            (self.statistics, &row::STATISTICS),
            (self.is_exported, &LENGTHS),
            (self.has_macs, &MACS),
            (self.reads_names, &row::NAMES),
            (self.has_label, &row::LABEL),
            (self.has_capture, &CAPTURE),
        ];
        joined(&parts.map(|(is_there, fields)| if is_there { fields } else { &[] }))
    }
}

/// 45 kB of records.
const FLOWS_IN_CACHE: usize = 512;

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
    pub(super) fn put<S: FlowColumns, E>(
        &mut self,
        flows: &[(FlowRecord, S)],
        mut write: impl FnMut(Result<&Columns, RowMismatch>) -> Result<(), E>,
    ) -> Result<(), E> {
        for piece in flows.chunks(ROWS_PER_PIECE) {
            self.columns.clear();
            let filled = self.push_all(piece);
            write(filled.map(|()| &self.columns))?;
        }
        Ok(())
    }

    fn push_all<S: FlowColumns>(&mut self, flows: &[(FlowRecord, S)]) -> Result<(), RowMismatch> {
        if self.layout.keeps_any() {
            return flows.iter().try_for_each(|(record, kept)| self.push(record, kept));
        }
        // Flows are visited once for each column: so few stay in the processor's caches meanwhile.
        flows.chunks(FLOWS_IN_CACHE).try_for_each(|flows| {
            let records = flows.iter().map(|(record, _)| record);
            row::push_plain(&mut self.columns, self.layout.window, records, &self.captures)
        })
    }

    fn push<S: FlowColumns>(&mut self, record: &FlowRecord, kept: &S) -> Result<(), RowMismatch> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        match (self.layout.names, kept.statistics()) {
            (Names::Nfstream, Some(statistics)) => {
                let macs = kept.macs(record.direction);
                nfstream::push(
                    &mut self.columns,
                    number,
                    record,
                    (statistics, macs),
                    &self.captures,
                )
            }
            _ => row::push(&mut self.columns, self.layout.window, record, kept, &self.captures),
        }
    }
}
