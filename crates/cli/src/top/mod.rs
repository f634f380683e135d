//! `wirelens top`: who sends what.

mod compute;
mod largest;
mod row;
mod table;

pub use compute::{Done, Output, Shown, TopRequest, compute, needs_transport, schema};
pub use row::Row;
pub(crate) use table::{grouped, share};

use engine::columns::Schema;
use engine::grouping::{ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource};

use crate::args::TopArguments;
pub use crate::args::{By, SortBy};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Rows, Show};
use crate::summary::{self, StageSummary};
use row::Presented as _;

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
    let inputs = asked::find(&arguments.input, needs_transport(arguments.by))?;
    let sources = inputs.open()?;
    let show = output::show(&arguments.output)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let request = asked::top(arguments);
    let mut printed = match show {
        Show::Table => Printed::Table,
        Show::Rows(format) => {
            let schema = schema(request.by, request.window.is_some());
            Printed::Rows(output::create(&arguments.output, format, schema)?)
        }
    };
    let done = compute(&request, &inputs, sources, &mut printed)?;
    if let Printed::Rows(rows) = printed {
        rows.finish()?;
    }
    let stage = StageSummary {
        name: "top",
        outcome: &done.outcome,
        key: done.key,
        late: done.late,
        beyond_max_keys: done.refused.packets,
    };
    summary::print(&inputs, arguments.input.quiet, &done.received, Some(&stage))
}

/// Where the command puts rows.
enum Printed {
    Table,
    Rows(Rows),
}

impl Output for Printed {
    type Error = Failure;

    fn put<R: Row>(&mut self, shown: &Shown<'_, R>) -> Result<(), Failure> {
        let Self::Rows(rows) = self else { return table::print(shown) };
        for columns in shown.columns() {
            rows.write(&columns.map_err(Failure::error)?)?;
        }
        Ok(())
    }
}
