//! `wirelens top`: who sends what.

mod table;
mod view;

pub(crate) use table::grouped;

use session::summary::StageSummary;
use session::top::{Output, Row, Shown, compute, needs, needs_transport, schema};

use crate::args::TopArguments;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::live::{self, Upkeep};
use crate::output::{self, Rows, Show};
use crate::summary;
use view::View;

/// Runs `wirelens top`.
pub(crate) fn run(arguments: &TopArguments) -> Result<Status, Failure> {
    let by = arguments.by;
    let inputs = asked::find(&arguments.input, Some(&arguments.live), needs_transport(by))?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let show = output::show(&arguments.output)?;
    let has_view = show == Show::Table && inputs.interface.is_some() && view::is_watched();
    let window = arguments.window.or(has_view.then_some(view::REFRESH));
    // In windows time must go on in one place.
    let socket_count = if window.is_some() { 1 } else { inputs.thread_count };
    let opened = inputs.open_any(needs(by), socket_count)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let request = asked::top(arguments, window);
    let mut printed = match show {
        Show::Table if has_view => Printed::View(View::new(&inputs, window.unwrap_or_default())),
        Show::Table => Printed::Table,
        Show::Rows(format) => {
            let schema = schema(request.by, request.window.is_some());
            let rows = output::create(&arguments.output, format, schema)?;
            Printed::Rows { rows: Some(rows), upkeep: Upkeep::of(&opened) }
        }
    };
    live::begin(&arguments.live, &opened, &inputs.control, arguments.input.quiet);
    let done = compute(&request, &inputs, opened, &mut printed)?;
    printed.finish()?;
    let stage = StageSummary {
        name: "top",
        outcome: &done.outcome,
        key: done.key,
        late: done.late,
        beyond_max_keys: done.refused.packets,
    };
    let status = summary::print(&inputs, arguments.input.quiet, &done.received, Some(&stage))?;
    if !arguments.input.quiet {
        eprint!("{}", done.lines());
    }
    Ok(status)
}

/// Where the command puts rows.
enum Printed {
    Table,
    View(View),
    Rows {
        /// Nothing after a file could not be begun anew.
        rows: Option<Rows>,
        upkeep: Option<Upkeep>,
    },
}

impl Printed {
    fn finish(self) -> Result<(), Failure> {
        match self {
            Self::Rows { rows: Some(rows), .. } => rows.finish(),
            _ => Ok(()),
        }
    }
}

impl Output for Printed {
    type Error = Failure;

    fn put<R: Row>(&mut self, shown: &Shown<'_, R>) -> Result<(), Failure> {
        let rows = match self {
            Self::Table => return table::print(shown),
            Self::View(view) => return view.put(shown),
            Self::Rows { rows: None, .. } => return Ok(()),
            Self::Rows { rows: Some(rows), .. } => rows,
        };
        for columns in shown.columns() {
            rows.write(&columns.map_err(Failure::error)?)?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Failure> {
        match self {
            Self::View(view) => view.look(),
            Self::Rows { rows, upkeep: Some(upkeep) } => {
                if let Some(open) = rows.take() {
                    *rows = Some(upkeep.look(open)?);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
