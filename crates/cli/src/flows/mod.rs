//! `wirelens flows`: who talks to whom, from first packet to end.

mod compute;
mod nfstream;
mod row;
mod table;

pub use compute::{Done, FlowsRequest, Output, compute, heaviest};
pub use layout::{Layout, Rows};

mod layout;

use capture::FileSource;
use engine::columns::Schema;
use engine::flow::{FlowRecord, FlowStatistics};

pub use crate::args::Names;
use crate::args::{FlowsArguments, SortBy};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::reading::Inputs;
use crate::summary::{self, StageSummary};

/// The columns of flows, in every form.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens flows", row::SCHEMA),
        ("wirelens flows --window DURATION", row::WINDOWED),
        ("wirelens flows --stats", row::WITH_STATISTICS),
        ("wirelens flows --names nfstream", nfstream::SCHEMA),
    ]
}

/// Runs `wirelens flows`.
pub(crate) fn run(arguments: &FlowsArguments) -> Result<Status, Failure> {
    let inputs = asked::find(&arguments.input, true)?;
    let sources = inputs.open()?;
    let show = output::show(&arguments.output)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let request = asked::flows(arguments);
    let done = match show {
        Show::Table => {
            let by_packets = arguments.sort == SortBy::Packets;
            let (flows, done) = heaviest(&request, &inputs, sources, arguments.rows, by_packets);
            table::print(&flows, &done.counts)?;
            done
        }
        Show::Rows(format) => {
            let layout = Layout {
                names: arguments.names,
                statistics: arguments.stats,
                window: arguments.window,
            };
            let rows = output::create(&arguments.output, format, layout.schema())?;
            let mut written = Written { rows, encode: Rows::new(layout) };
            let done = written.fill(&request, &inputs, sources, layout)?;
            written.rows.finish()?;
            done
        }
    };
    let stage = StageSummary {
        name: "flows",
        outcome: &done.outcome,
        key: "an IP header",
        late: 0,
        beyond_max_keys: 0,
    };
    let status = summary::print(&inputs, arguments.input.quiet, &done.received, Some(&stage))?;
    if !arguments.input.quiet {
        eprint!("{}", done.lines());
    }
    Ok(status)
}

/// Where the command writes every flow.
struct Written {
    rows: output::Rows,
    encode: Rows,
}

impl Written {
    fn fill(
        &mut self,
        request: &FlowsRequest,
        inputs: &Inputs,
        sources: Vec<FileSource>,
        layout: Layout,
    ) -> Result<Done, Failure> {
        if layout.needs_statistics() {
            compute::<FlowStatistics, _>(request, inputs, sources, self)
        } else {
            compute::<(), _>(request, inputs, sources, self)
        }
    }
}

impl<S: layout::Laid> Output<S> for Written {
    type Error = Failure;

    fn put(&mut self, flows: &[(FlowRecord, S)]) -> Result<(), Failure> {
        self.encode.put(flows, |columns| match columns {
            Ok(columns) => self.rows.write(columns),
            Err(refused) => Err(Failure::error(refused)),
        })
    }
}
