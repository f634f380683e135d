//! What `top` finds, before anyone shows it.

use std::sync::Arc;

use engine::columns::{Columns, RowRefused, Schema, Value};
use engine::exchange::exchange;
use engine::group::{GroupStage, Groups, Outcome};
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::table::{Entry as _, Tally};
use engine::window::{WindowExtract, WindowOwner, fold_windows};
use packet::{HashSeed, Span, Timestamp};

use super::largest::largest;
use super::row::{Presented, Row};
use super::{By, SortBy};
use crate::reading::{InputError, Inputs, Needs, Opened, Received};

/// What is asked of `top`, whoever asks.
#[derive(Clone, Copy, Debug)]
pub struct TopRequest {
    /// What to add up by.
    pub by: By,
    /// Rows of each window, or of the whole run, at most; `usize::MAX` for all.
    pub row_count_max: usize,
    /// Order of the rows, largest first.
    pub sort: SortBy,
    /// Add up each window of this length for itself.
    pub window: Option<Span>,
    /// Keys of each width kept at most; packets of others are counted together.
    pub max_keys: usize,
    /// Seed of the hash that spreads keys.
    pub seed: HashSeed,
}

/// The rows of one window, or of the whole run.
pub struct Shown<'a, R> {
    /// Start of the window; nothing where there are no windows.
    pub window_start: Option<Timestamp>,
    /// The largest, in order.
    pub rows: &'a [R],
    /// The sum of all keys, shown or not.
    pub total: Tally,
    /// How many keys there are, shown or not.
    pub key_count: usize,
    schema: Schema,
}

/// Who receives what `top` finds.
pub trait Output {
    /// Why it takes no more, or why nothing can be found.
    type Error: From<InputError>;

    /// Takes the rows of the next window, or of the whole run.
    ///
    /// # Errors
    /// Its own; they end the run.
    fn put<R: Row>(&mut self, shown: &Shown<'_, R>) -> Result<(), Self::Error>;

    /// Called when windows have ended, in which there may have been nothing.
    ///
    /// # Errors
    /// Its own; they end the run.
    fn look(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// What became of the packets of a run.
pub struct Done {
    /// Packets by what the stage did with them.
    pub outcome: Outcome,
    /// Packets by what became of them before.
    pub received: Received,
    /// Packets whose window was closed already.
    pub late: u64,
    /// Packets and bytes of keys beyond the maximum.
    pub refused: Tally,
    /// Flows of which was forgotten who is the source.
    pub forgotten: u64,
    /// What packets without a key lack, such as "an IP source".
    pub key: &'static str,
}

impl Done {
    /// What there is to say besides the counts that every command has, each line ended.
    #[must_use]
    pub fn lines(&self) -> String {
        if self.forgotten == 0 {
            return String::new();
        }
        format!(
            "top: the source of {} flows was forgotten to bound memory; where they come back it is \
             the sender of the next packet\n",
            self.forgotten
        )
    }
}

/// Calls a function with the grouping that a [`By`] stands for.
macro_rules! with_grouping {
    ($by:expr, $grouping:ident => $result:expr) => {
        match $by {
            By::Source => with_grouping!(@ BySource, $grouping => $result),
            By::Destination => with_grouping!(@ ByDestination, $grouping => $result),
            By::Pair => with_grouping!(@ ByPair, $grouping => $result),
            By::Port => with_grouping!(@ ByPort, $grouping => $result),
            By::Protocol => with_grouping!(@ ByProtocol, $grouping => $result),
            By::Flow => with_grouping!(@ ByFlow, $grouping => $result),
        }
    };
    (@ $type:ident, $grouping:ident => $result:expr) => {{
        let $grouping = $type;
        $result
    }};
}

/// The columns of what is found.
#[must_use]
pub fn schema(by: By, has_windows: bool) -> Schema {
    with_grouping!(by, grouping => schema_of(grouping, has_windows))
}

/// What the key is made of.
#[must_use]
pub fn needs(by: By) -> Needs {
    let len = if needs_transport(by) { Needs::TRANSPORT_LEN } else { Needs::NETWORK_LEN };
    Needs { stage: "top", len, takes_all: false }
}

/// Whether the key is made of transport headers; finding them costs time.
#[must_use]
pub fn needs_transport(by: By) -> bool {
    with_grouping!(by, grouping => needs_transport_of(grouping))
}

/// Reads `sources` to their ends and hands what is found to `output`.
///
/// # Errors
/// What `output` returns, or a capture that can no longer be opened.
pub fn compute<O: Output>(
    request: &TopRequest,
    inputs: &Inputs,
    opened: Opened,
    output: &mut O,
) -> Result<Done, O::Error> {
    with_grouping!(request.by, grouping => {
        let mut run = Run { request, inputs, grouping, output };
        match request.window {
            None => run.whole(opened),
            Some(window) => run.windowed(opened, window),
        }
    })
}

fn schema_of<G: Presented>(_: G, has_windows: bool) -> Schema {
    if has_windows { G::WINDOWED_SCHEMA } else { G::SCHEMA }
}

fn needs_transport_of<G: Presented>(_: G) -> bool {
    G::NEEDS_TRANSPORT
}

/// One run: what was asked, where it goes.
struct Run<'a, G, O> {
    request: &'a TopRequest,
    inputs: &'a Inputs,
    grouping: G,
    output: &'a mut O,
}

impl<G: Presented, O: Output> Run<'_, G, O> {
    fn whole(&mut self, opened: Opened) -> Result<Done, O::Error> {
        let (grouping, TopRequest { seed, max_keys, .. }) = (self.grouping, *self.request);
        let is_merged = self.inputs.merges_unordered(&opened);
        let make_stage = || GroupStage::new(grouping, seed, max_keys).of_merged(is_merged);
        let (stage, received) = self.inputs.run_unordered(opened, make_stage)?;
        let (groups, outcome) = stage.finish();
        let refused = G::tally(&groups.refused());
        self.put(None, &groups)?;
        Ok(Done { outcome, received, late: 0, refused, forgotten: 0, key: G::KEY })
    }

    fn windowed(&mut self, opened: Opened, window: Span) -> Result<Done, O::Error> {
        let mut source = self.inputs.in_order(opened);
        let TopRequest { seed, max_keys, .. } = *self.request;
        let mut extract = WindowExtract::new(self.grouping, seed, window);
        let control = Arc::clone(&self.inputs.control);
        let (mut refused, mut forgotten) = (Tally::default(), 0);
        let mut written = Ok(());
        let bar = self.inputs.bar();
        exchange(
            &mut source,
            &mut extract,
            || WindowOwner::<G>::new(seed, max_keys),
            self.inputs.thread_count,
            &control,
            |parts| {
                for (start, groups) in fold_windows(parts) {
                    refused.fold(&G::tally(&groups.refused()));
                    forgotten += groups.forgotten;
                    if written.is_ok() {
                        written = self.put(Some(start), &groups);
                    }
                }
                if written.is_ok() {
                    written = self.output.look();
                }
                if written.is_err() {
                    control.fail();
                }
            },
        );
        drop(bar);
        written?;
        let (outcome, late) = extract.finish();
        Ok(Done { outcome, received: source.received(), late, refused, forgotten, key: G::KEY })
    }

    /// Hands on the rows of one window, or of the whole run.
    fn put(&mut self, window_start: Option<Timestamp>, groups: &Groups<G>) -> Result<(), O::Error> {
        shown(self.grouping, self.request, window_start, groups, |shown| self.output.put(shown))
    }
}

/// Hands the largest of one window, or of the whole run, to `put`.
pub(super) fn shown<G: Presented, E>(
    grouping: G,
    request: &TopRequest,
    window_start: Option<Timestamp>,
    groups: &Groups<G>,
    put: impl FnOnce(&Shown<'_, G::Row>) -> Result<(), E>,
) -> Result<(), E> {
    let (rows, total) = largest(groups, request.row_count_max, request.sort);
    let schema = schema_of(grouping, request.window.is_some());
    let key_count = groups.key_count();
    put(&Shown { window_start, rows: &rows, total, key_count, schema })
}

/// Rows turned into columns at once, so that text buffers stay small.
const ROWS_PER_PIECE: usize = 1 << 16;

impl<R: Row> Shown<'_, R> {
    /// The rows as columns, in pieces.
    pub fn columns(&self) -> impl Iterator<Item = Result<Columns, RowRefused>> {
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
}
