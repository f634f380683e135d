//! `wirelens latency`: how long packets take, and which end is slow.

pub mod args;
pub(crate) mod table;

use std::io::Write as _;

use packet::Span;
use session::latency::{By, Latency, LatencyRows, LatencySettings, LatencyView, SortBy};
use session::outlet::{RowsError, Taker};
use session::run::SessionOutcome;
use terminal::First;

use crate::alone::{self, Sources, Ways};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::{summary, view};
use args::LatencyArguments;

/// How often a table of an interface is shown.
const REFRESH: Span = Span::from_seconds(1);

/// Rows of a table unless others are asked for.
const ROWS_SHOWN: usize = 10;

/// Runs `wirelens latency`.
pub(crate) fn run(arguments: &LatencyArguments) -> Result<Status, Failure> {
    let typed = Sources::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let show = output::show(&arguments.output)?;
    let is_live = inputs.interface.is_some();
    let mut settings = args::settings(arguments);
    check(arguments, &settings, show == Show::Table, is_live)?;
    if is_live && settings.by == By::Destination {
        settings.every.get_or_insert(REFRESH);
    }
    let application = |shown| {
        let found = Latency::shown_by(settings.clone(), shown, &arguments.input.read);
        found.map_err(Failure::error)
    };
    let opened = alone::open(&mut inputs, typed, &application(LatencyView::Nothing)?)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let mut ways = Ways::rows(show, &arguments.output);
    let count = match arguments.rows.unwrap_or(ROWS_SHOWN) {
        0 => usize::MAX,
        rows => rows,
    };
    let sort = arguments.sort.unwrap_or(SortBy::Packets);
    ways.view = view::is_wanted(show, &inputs).then(|| first(arguments));
    let shown = match show {
        Show::Rows(_) => LatencyView::Nothing,
        Show::Table if ways.view.is_some() => LatencyView::Nothing,
        Show::Table if is_live => {
            let (outlet, writer) = alone::show("latency", Printed, &inputs);
            ways.shown = Some(writer);
            LatencyView::Each(outlet, REFRESH, count, sort)
        }
        Show::Table => LatencyView::First(count, sort),
    };
    let finished = alone::run(application(shown)?, ways, typed, inputs, opened)?;
    if let Some(found) = found(&finished) {
        table::print(found)?;
    }
    summary::finished(&finished, arguments.input.quiet)
}

/// What a view begins with.
fn first(arguments: &LatencyArguments) -> First {
    let is_of_flows = arguments.by == By::Flow;
    let sort: &[_] = match arguments.sort {
        None => &[],
        Some(SortBy::Packets) if is_of_flows => &["dst_rtt_count", "src_rtt_count"],
        Some(SortBy::P50) if is_of_flows => &["dst_rtt_p50_ns", "src_rtt_p50_ns"],
        Some(SortBy::P99) if is_of_flows => &["dst_rtt_p99_ns", "src_rtt_p99_ns"],
        Some(SortBy::Retransmissions) if is_of_flows => {
            &["src_retransmissions", "dst_retransmissions"]
        }
        Some(SortBy::Packets) => &["rtt_count"],
        Some(SortBy::P50) => &["rtt_p50_ns"],
        Some(SortBy::P99) => &["rtt_p99_ns"],
        Some(SortBy::Retransmissions) => &["retransmissions"],
    };
    let rows = arguments.rows.filter(|&rows| rows > 0);
    First { table: "latency", sort, rows, window_ns: None }
}

/// What was found lately as tables.
struct Printed;

impl Taker<Vec<LatencyRows>> for Printed {
    fn take(&mut self, found: &Vec<LatencyRows>) -> Result<(), RowsError> {
        Ok(found.iter().try_for_each(table::print)?)
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(std::io::stdout().flush()?)
    }
}

fn found(finished: &SessionOutcome) -> Option<&LatencyRows> {
    finished.closings.first()?.1.found.as_ref()?.downcast_ref()
}

/// Refuses what cannot be meant, and what would have no effect.
fn check(
    arguments: &LatencyArguments,
    settings: &LatencySettings,
    is_table: bool,
    is_live: bool,
) -> Result<(), Failure> {
    let has_view = is_table && is_live && settings.by == By::Destination;
    settings
        .check(is_live && !has_view)
        .map_err(|refusal| Failure::usage(format_args!("--{refusal}")))?;
    if is_table && settings.by == By::Packet {
        return Err(Failure::usage(
            "--by packet: too many rows for a table; give -o FILE, or --format with csv, jsonl, \
             parquet or arrow",
        ));
    }
    if !is_table && (arguments.rows.is_some() || arguments.sort.is_some()) {
        return Err(Failure::usage(
            "-n and --sort: only a table is sorted and limited; files and pipes have all rows",
        ));
    }
    Ok(())
}
