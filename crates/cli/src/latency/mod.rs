//! `wirelens latency`: how long packets take, and which end is slow.

pub mod args;
mod table;

use session::latency::{By, Found, Latency, LatencySettings, Shown, SortBy};
use session::run::Finished;

use crate::alone::{self, Typed, Ways};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary;
use args::LatencyArguments;

/// Rows of a table unless others are asked for.
const ROWS_SHOWN: usize = 10;

/// Runs `wirelens latency`.
pub(crate) fn run(arguments: &LatencyArguments) -> Result<Status, Failure> {
    let typed = Typed::new(&arguments.input, &arguments.live);
    let mut inputs = asked::find(typed.input, typed.live, true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let show = output::show(&arguments.output)?;
    let is_live = inputs.interface.is_some();
    let settings = args::settings(arguments);
    check(arguments, &settings, show == Show::Table, is_live)?;
    let application = |shown| Latency::shown_by(settings.clone(), shown);
    let opened = alone::open(&mut inputs, typed, &application(Shown::Nothing))?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let ways = Ways::rows(show, &arguments.output);
    let shown = match show {
        Show::Rows(_) => Shown::Nothing,
        Show::Table => {
            let rows = arguments.rows.unwrap_or(ROWS_SHOWN);
            let count = if rows == 0 { usize::MAX } else { rows };
            Shown::First(count, arguments.sort.unwrap_or(SortBy::Packets))
        }
    };
    let finished = alone::run(application(shown), ways, typed, inputs, opened)?;
    if let Some(found) = found(&finished) {
        table::print(found)?;
    }
    summary::finished(&finished, arguments.input.quiet)
}

fn found(finished: &Finished) -> Option<&Found> {
    finished.closings.first()?.1.found.as_ref()?.downcast_ref()
}

/// Refuses what cannot be meant, and what would have no effect.
fn check(
    arguments: &LatencyArguments,
    settings: &LatencySettings,
    is_table: bool,
    is_live: bool,
) -> Result<(), Failure> {
    settings.check(is_live).map_err(Failure::usage)?;
    if is_table && settings.by == By::Packet {
        return Err(Failure::usage(
            "--by packet: too many rows for a table; give -o FILE, or --format with csv, jsonl, \
             parquet or arrow",
        ));
    }
    if !is_table && (arguments.rows.is_some() || arguments.sort.is_some()) {
        return Err(Failure::usage(
            "-n and --sort: only a table shows some rows first; files and pipes have all of them",
        ));
    }
    Ok(())
}
