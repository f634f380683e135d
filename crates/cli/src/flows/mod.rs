//! `wirelens flows`: who talks to whom, from first packet to end.

mod labelled;
mod table;

use session::Host;
use session::application::Application as _;
use session::captures::Captures;
use session::flows::{Flows, FlowsView, Names, ShownFlow};
use session::run::SessionOutcome;
use session::top::SortBy;

use crate::alone::{self, Sources, Ways};
use crate::args::FlowsArguments;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary;

/// Rows of a table unless others are asked for.
const ROWS_SHOWN: usize = 10;

/// Runs `wirelens flows`.
pub(crate) fn run(arguments: &FlowsArguments, host: &Host) -> Result<Status, Failure> {
    if let Some(folder) = &arguments.model {
        return labelled::run(arguments, folder, host);
    }
    let typed = Sources::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let (show, rows, export) = output::flows(&arguments.output)?;
    let is_live = inputs.interface.is_some();
    check(arguments, show == Show::Table, is_live)?;
    let mut ways = Ways { export, ..Ways::rows(show, &rows) };
    let settings = asked::flows(arguments, ways.export.as_ref());
    settings.check_format().map_err(|refusal| Failure::usage(format_args!("--{refusal}")))?;
    let opened =
        alone::open(&mut inputs, typed, &Flows::shown_by(settings.clone(), FlowsView::Rows))?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let shown = match show {
        Show::Rows(_) => FlowsView::Rows,
        Show::Table if is_live => {
            let (outlet, writer) =
                alone::show(Flows::NAME, table::Lines::begin(settings.reads_names())?, &inputs);
            ways.shown = Some(writer);
            FlowsView::Each(outlet)
        }
        Show::Table => {
            let flow_count = arguments.rows.unwrap_or(ROWS_SHOWN);
            FlowsView::Heaviest {
                flow_count: if flow_count == 0 { usize::MAX } else { flow_count },
                by_packets: arguments.sort == Some(SortBy::Packets),
            }
        }
    };
    let finished = alone::run(Flows::shown_by(settings, shown), ways, typed, inputs, opened)?;
    print_heaviest(&finished)?;
    summary::finished(&finished, arguments.input.quiet)
}

/// Prints the heaviest flows, where those were found.
fn print_heaviest(finished: &SessionOutcome) -> Result<(), Failure> {
    let found = finished.closings.first().and_then(|(_, closing)| {
        let flows = closing.found.as_ref()?.downcast_ref::<Vec<ShownFlow>>()?;
        Some((flows, closing.ended?))
    });
    let Some((flows, counts)) = found else { return Ok(()) };
    table::print(flows, &counts, &Captures::of(&finished.inputs))
}

/// Refuses what would have no effect on what is shown or written.
fn check(arguments: &FlowsArguments, is_table: bool, is_live: bool) -> Result<(), Failure> {
    if !is_table || is_live {
        refuse_ranks(arguments)?;
    }
    let is_nfstream = arguments.names == Names::Nfstream;
    if is_table && (arguments.stats || arguments.macs || is_nfstream) {
        return Err(Failure::usage(
            "--stats, --macs and --names: a table does not show these columns; give -o FILE, or \
             --format with csv, jsonl, parquet or arrow",
        ));
    }
    if is_nfstream && (arguments.read_names || arguments.hash_names.is_some()) {
        return Err(Failure::usage(
            "--read-names and --hash-names: not with the columns of NFStream; leave them or \
             --names out",
        ));
    }
    let by_time = arguments.output.partition.is_some() || arguments.output.rotate_time.is_some();
    if is_nfstream && by_time {
        return Err(Failure::usage(
            "--names: NFStream's columns have no time for --partition and --rotate-time; leave it out",
        ));
    }
    for (flag, is_given, what) in
        [("stats", arguments.stats, "statistics"), ("macs", arguments.macs, "MAC addresses")]
    {
        if is_nfstream && is_given {
            return Err(Failure::usage(format_args!(
                "--{flag}: the columns of --names nfstream have {what} already; leave it out"
            )));
        }
    }
    Ok(())
}

/// Refuses to show some flows where all are written.
fn refuse_ranks(arguments: &FlowsArguments) -> Result<(), Failure> {
    if arguments.rows.is_some_and(|count| count > 0) || arguments.sort.is_some() {
        return Err(Failure::usage(
            "-n and --sort: only a table of captures is limited to the heaviest flows; all other \
             outputs have every flow, as it ends. Try `wirelens top --by flow -n N`",
        ));
    }
    Ok(())
}
