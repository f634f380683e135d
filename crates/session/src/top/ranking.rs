//! The rows of `top`, before they are columns or a table.

use engine::columns::{Columns, RowMismatch, Schema, Value};
use engine::group::Groups;
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::table::Tally;
use packet::Timestamp;

use super::largest::largest;
use super::row::{Row as _, TopGrouping};
use super::{By, Settings, by_name};
use crate::reading::Needs;

/// Calls a function with the grouping that a [`By`] stands for, or does otherwise by name.
macro_rules! with_grouping {
    ($by:expr, $grouping:ident => $result:expr, name => $by_name:expr) => {
        match $by {
            By::Source => with_grouping!(@ BySource, $grouping => $result),
            By::Destination => with_grouping!(@ ByDestination, $grouping => $result),
            By::Pair => with_grouping!(@ ByPair, $grouping => $result),
            By::Port => with_grouping!(@ ByPort, $grouping => $result),
            By::Protocol => with_grouping!(@ ByProtocol, $grouping => $result),
            By::Flow => with_grouping!(@ ByFlow, $grouping => $result),
            By::Name => $by_name,
        }
    };
    (@ $type:ident, $grouping:ident => $result:expr) => {{
        let $grouping = $type;
        $result
    }};
}
pub(super) use with_grouping;

/// The columns of what is found.
#[must_use]
pub fn schema(by: By, has_windows: bool) -> Schema {
    with_grouping!(by, grouping => schema_of(grouping, has_windows), name => {
        if has_windows { by_name::WINDOWED_SCHEMA } else { by_name::SCHEMA }
    })
}

/// What the key is made of.
#[must_use]
pub fn needs(by: By) -> Needs {
    if by == By::Name {
        return crate::names_read::needs("top");
    }
    let len = if needs_transport(by) { Needs::TRANSPORT_LEN } else { Needs::NETWORK_LEN };
    Needs { stage: "top", len, takes_all: false }
}

/// Whether the key is made of transport headers; finding them costs time.
#[must_use]
pub fn needs_transport(by: By) -> bool {
    with_grouping!(by, grouping => needs_transport_of(grouping), name => true)
}

fn schema_of<G: TopGrouping>(_: G, has_windows: bool) -> Schema {
    if has_windows { G::WINDOWED_SCHEMA } else { G::SCHEMA }
}

fn needs_transport_of<G: TopGrouping>(_: G) -> bool {
    G::NEEDS_TRANSPORT
}

/// The largest of one window, or of the whole run, as people read them.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// Start of the window; nothing where there are no windows.
    pub window_start: Option<Timestamp>,
    /// Titles of the key columns.
    pub titles: &'static [&'static str],
    /// The largest, in order: the cells of the key columns, and what was added up.
    pub rows: Vec<(Vec<String>, Tally)>,
    /// The sum of all keys, shown or not.
    pub total: Tally,
    /// How many keys there are, shown or not.
    pub key_count: usize,
}

/// The largest of one window, or of the whole run.
pub(super) struct RankingRows<G: TopGrouping> {
    window_start: Option<Timestamp>,
    rows: Vec<G::Row>,
    total: Tally,
    key_count: usize,
    schema: Schema,
}

/// Rows turned into columns together, so that text buffers stay small.
pub(super) const ROWS_PER_PIECE: usize = 1 << 16;

impl<G: TopGrouping> RankingRows<G> {
    pub(super) fn of(
        grouping: G,
        settings: &Settings,
        window_start: Option<Timestamp>,
        groups: &Groups<G>,
    ) -> Self {
        let row_count_max = if settings.rows == 0 { usize::MAX } else { settings.rows };
        let (rows, total) = largest(groups, row_count_max, settings.sort);
        let schema = schema_of(grouping, settings.window.is_some());
        Self { window_start, rows, total, key_count: groups.key_count(), schema }
    }

    /// The rows as columns, in pieces.
    pub(super) fn columns(&self) -> impl Iterator<Item = Result<Columns, RowMismatch>> {
        self.rows.chunks(ROWS_PER_PIECE).map(|piece| {
            let mut columns = Columns::new(self.schema);
            for row in piece {
                let start = self.window_start.map(|start| Value::TimestampNs(start.as_ns()));
                let values = row.values();
                let values: Vec<_> = start.into_iter().chain(values).collect();
                columns.push_row(&values)?;
            }
            Ok(columns)
        })
    }

    /// As people read them.
    pub(super) fn shown(&self) -> Ranking {
        let Self { window_start, rows, total, key_count, .. } = self;
        Ranking {
            window_start: *window_start,
            titles: G::Row::TITLES,
            rows: rows.iter().map(|row| (row.cells(), row.tally())).collect(),
            total: *total,
            key_count: *key_count,
        }
    }
}
