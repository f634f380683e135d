//! `wirelens flows`: who talks to whom, from first packet to end.

mod compute;
mod table;

pub use compute::{Done, FlowsRequest, Output, compute, heaviest};

use engine::group::Outcome;

use crate::args::{FlowsArguments, SortBy};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary::{self, StageSummary};

/// Runs `wirelens flows`.
pub(crate) fn run(arguments: &FlowsArguments) -> Result<Status, Failure> {
    let inputs = asked::find(&arguments.input, true)?;
    let sources = inputs.open()?;
    let show = output::show(&arguments.output)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let request = asked::flows(arguments);
    let by_packets = arguments.sort == SortBy::Packets;
    let (flows, done) = heaviest(&request, &inputs, sources, arguments.rows, by_packets);
    table::print(&flows, &done.counts)?;
    let stage = StageSummary {
        name: "flows",
        outcome: &done.outcome,
        key: "an IP header",
        late: done.late,
        beyond_max_keys: 0,
    };
    summary::print(&inputs, arguments.input.quiet, &done.received, Some(&stage))
}
