//! `wirelens top`: who sends what.

mod row;
mod table;

pub(crate) use table::{grouped, share};

use engine::columns::{Columns, Schema, Value};
use engine::exchange::exchange;
use engine::group::{GroupStage, Groups, Outcome};
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};
use engine::table::{Entry as _, Tally};
use engine::window::{WindowExtract, WindowOwner, fold_windows};
use packet::{HashSeed, Span, Timestamp};

use crate::args::{By, SortBy, TopArguments};
use crate::failure::{Failure, Status};
use crate::output::{self, Rows, Show};
use crate::reading::{Inputs, Received, hash_seed};
use crate::summary::{self, StageSummary};
use row::{Presented, Row as _};

/// The columns of each grouping, without windows and with them.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens top --by source", BySource::SCHEMA),
        ("wirelens top --by destination", ByDestination::SCHEMA),
        ("wirelens top --by pair", ByPair::SCHEMA),
        ("wirelens top --by port", ByPort::SCHEMA),
        ("wirelens top --by protocol", ByProtocol::SCHEMA),
        ("wirelens top --by flow", ByFlow::SCHEMA),
        ("wirelens top --by source --window DURATION", BySource::WINDOWED_SCHEMA),
    ]
}

/// Runs `wirelens top`.
pub(crate) fn run(arguments: &TopArguments) -> Result<Status, Failure> {
    match arguments.by {
        By::Source => run_by(arguments, BySource),
        By::Destination => run_by(arguments, ByDestination),
        By::Pair => run_by(arguments, ByPair),
        By::Port => run_by(arguments, ByPort),
        By::Protocol => run_by(arguments, ByProtocol),
        By::Flow => run_by(arguments, ByFlow),
    }
}

/// One run: what was asked, where it goes.
struct Run<'a, G> {
    arguments: &'a TopArguments,
    grouping: G,
    inputs: Inputs,
    seed: HashSeed,
    show: Show,
    schema: Schema,
    rows: Option<Rows>,
}

fn run_by<G: Presented>(arguments: &TopArguments, grouping: G) -> Result<Status, Failure> {
    let inputs = Inputs::find(&arguments.input, G::NEEDS_TRANSPORT)?;
    let sources = inputs.open()?;
    let show = output::show(&arguments.output)?;
    let windowed = arguments.window.is_some();
    let schema = if windowed { G::WINDOWED_SCHEMA } else { G::SCHEMA };
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let rows = match show {
        Show::Table => None,
        Show::Rows(format) => Some(output::create(&arguments.output, format, schema)?),
    };
    let seed = hash_seed(arguments.input.seed);
    let mut run = Run { arguments, grouping, inputs, seed, show, schema, rows };
    let (outcome, received, late, refused) = match arguments.window {
        None => run.whole(sources)?,
        Some(window) => run.windowed(sources, window)?,
    };
    if let Some(rows) = run.rows.take() {
        rows.finish()?;
    }
    let stage = StageSummary {
        name: "top",
        outcome: &outcome,
        key: G::KEY,
        late,
        beyond_max_keys: refused.packets,
    };
    summary::print(&run.inputs, arguments.input.quiet, &received, Some(&stage))
}

type Ran = (Outcome, Received, u64, Tally);

impl<G: Presented> Run<'_, G> {
    fn whole(&mut self, sources: Vec<capture::FileSource>) -> Result<Ran, Failure> {
        let (grouping, seed, max_keys) = (self.grouping, self.seed, self.arguments.max_keys);
        let make_stage = || GroupStage::new(grouping, seed, max_keys);
        let (stage, received) = self.inputs.run_unordered(sources, make_stage)?;
        let (groups, outcome) = stage.finish();
        let refused = G::tally(&groups.refused());
        self.put(None, &groups)?;
        Ok((outcome, received, 0, refused))
    }

    fn windowed(
        &mut self,
        sources: Vec<capture::FileSource>,
        window: Span,
    ) -> Result<Ran, Failure> {
        let mut source = self.inputs.in_order(sources);
        let mut extract = WindowExtract::new(self.grouping, self.seed, window);
        let (seed, max_keys) = (self.seed, self.arguments.max_keys);
        let thread_count = self.inputs.thread_count;
        let control = std::sync::Arc::clone(&self.inputs.control);
        let mut refused = Tally::default();
        let mut written = Ok(());
        let bar = self.inputs.bar();
        exchange(
            &mut source,
            &mut extract,
            || WindowOwner::<G>::new(seed, max_keys),
            thread_count,
            &control,
            |parts| {
                for (start, groups) in fold_windows(parts) {
                    refused.fold(&G::tally(&groups.refused()));
                    if written.is_ok() {
                        written = self.put(Some(start), &groups);
                    }
                    if written.is_err() {
                        control.stop();
                    }
                }
            },
        );
        drop(bar);
        written?;
        let (outcome, late) = extract.finish();
        Ok((outcome, source.received(), late, refused))
    }

    /// Writes the rows of one window, or of the whole run.
    fn put(&mut self, window_start: Option<Timestamp>, groups: &Groups<G>) -> Result<(), Failure> {
        let limit = if self.arguments.rows == 0 { usize::MAX } else { self.arguments.rows };
        let (rows, total) = largest(groups, limit, self.arguments.sort);
        if self.show == Show::Table {
            return table::print(window_start, &rows, total, groups.key_count());
        }
        let Some(output) = &mut self.rows else { return Ok(()) };
        // Rows go out in pieces, so that text buffers stay small.
        for piece in rows.chunks(ROWS_PER_PIECE) {
            let mut columns = Columns::new(self.schema);
            for row in piece {
                let start = window_start.map(|start| Value::TimestampNs(start.as_ns()));
                let values = row.values();
                let values: Vec<_> = start.into_iter().chain(values).collect();
                columns.push_row(&values).map_err(Failure::error)?;
            }
            output.write(&columns)?;
        }
        Ok(())
    }
}

/// Rows turned into columns at once.
const ROWS_PER_PIECE: usize = 1 << 16;

/// The largest groups in order, and the sum of all groups.
fn largest<G: Presented>(groups: &Groups<G>, limit: usize, sort: SortBy) -> (Vec<G::Row>, Tally) {
    let mut largest = Largest { rows: Vec::new(), limit, sort, least: (0, 0) };
    let mut total = Tally::default();
    for (key, value) in groups.narrow.iter() {
        let tally = G::tally(value);
        total.fold(&tally);
        largest.offer(tally, || G::narrow_row(key, value));
    }
    for (key, value) in groups.wide.iter() {
        let tally = G::tally(value);
        total.fold(&tally);
        largest.offer(tally, || G::wide_row(key, value));
    }
    (largest.into_rows(), total)
}

/// Keeps the largest rows of many without making a row of each.
struct Largest<R> {
    rows: Vec<R>,
    limit: usize,
    sort: SortBy,
    /// The rank below which no row can be among the largest any more.
    least: (u64, u64),
}

/// Rows kept beyond the limit before the smaller ones are dropped.
const SPARE_ROWS: usize = 1024;

impl<R: row::Row> Largest<R> {
    fn rank(sort: SortBy, tally: Tally) -> (u64, u64) {
        match sort {
            SortBy::Bytes => (tally.bytes, tally.packets),
            SortBy::Packets => (tally.packets, tally.bytes),
        }
    }

    #[inline]
    fn offer(&mut self, tally: Tally, make_row: impl FnOnce() -> R) {
        if Self::rank(self.sort, tally) < self.least {
            return;
        }
        self.rows.push(make_row());
        if self.rows.len() >= self.limit.saturating_add(SPARE_ROWS) {
            self.drop_smaller();
        }
    }

    /// Ties are broken by the key, so that equal runs print equal rows.
    fn order(sort: SortBy) -> impl Fn(&R, &R) -> std::cmp::Ordering {
        let rank = move |row: &R| Self::rank(sort, row.tally());
        move |a, b| rank(b).cmp(&rank(a)).then_with(|| a.cmp(b))
    }

    fn drop_smaller(&mut self) {
        if self.limit < self.rows.len() {
            self.rows.select_nth_unstable_by(self.limit, Self::order(self.sort));
            self.rows.truncate(self.limit);
            let ranks = self.rows.iter().map(|row| Self::rank(self.sort, row.tally()));
            self.least = ranks.min().unwrap_or_default();
        }
    }

    fn into_rows(mut self) -> Vec<R> {
        self.drop_smaller();
        self.rows.sort_unstable_by(Self::order(self.sort));
        self.rows
    }
}
