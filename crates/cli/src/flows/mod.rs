//! `wirelens flows`: who talks to whom, from first packet to end.

mod labelled;
mod table;

use engine::flow::{FlowRecord, FlowStatistics};
use session::Host;
use session::captures::Captures;
use session::flows::{
    Done, FlowsRequest, Laid, Layout, NEEDS, Names, Output, Rows, compute, heaviest,
};
use session::reading::{Inputs, Opened};
use session::top::SortBy;

use crate::args::FlowsArguments;
use crate::asked;
use crate::failure::{Failure, Status};
use crate::live::{self, Upkeep};
use crate::output::{self, Show};
use crate::summary;

/// Rows of a table unless others are asked for.
const ROWS_SHOWN: usize = 10;

/// Runs `wirelens flows`.
pub(crate) fn run(arguments: &FlowsArguments, host: &Host) -> Result<Status, Failure> {
    if let Some(folder) = &arguments.model {
        return labelled::run(arguments, folder, host);
    }
    let inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let show = output::show(&arguments.output)?;
    check(arguments, show == Show::Table, inputs.interface.is_some())?;
    let row_count = arguments.rows.unwrap_or(ROWS_SHOWN);
    let opened = inputs.open_any(NEEDS, inputs.thread_count)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let quiet = arguments.input.quiet;
    let request = asked::flows(arguments);
    let upkeep = Upkeep::of(&opened);
    let captures = Captures::of(&inputs);
    let done = match show {
        Show::Table if upkeep.is_some() => {
            live::begin(&arguments.live, &opened, &inputs.control, quiet);
            compute::<(), _>(&request, &inputs, opened, &mut table::Lines::begin()?)?
        }
        Show::Table => {
            let by_packets = arguments.sort == Some(SortBy::Packets);
            let row_count = if row_count == 0 { usize::MAX } else { row_count };
            let (flows, done) = heaviest(&request, &inputs, opened, row_count, by_packets);
            table::print(&flows, &done.counts, &captures)?;
            done
        }
        Show::Rows(format) => {
            let layout = Layout {
                names: arguments.names,
                statistics: arguments.stats,
                window: arguments.window,
                has_capture: captures.are_named(),
            };
            let rows = output::create(&arguments.output, format, layout.schema())?;
            live::begin(&arguments.live, &opened, &inputs.control, quiet);
            let mut written =
                Written { rows: Some(rows), encode: Rows::new(layout, captures), upkeep };
            let done = written.fill(&request, &inputs, opened, layout)?;
            written.finish()?;
            done
        }
    };
    let status = summary::print(&inputs, quiet, &done.received, Some(&done.stage()))?;
    if !quiet {
        eprint!("{}", done.lines());
    }
    Ok(status)
}

/// Refuses what would have no effect on what is shown or written.
fn check(arguments: &FlowsArguments, is_table: bool, is_live: bool) -> Result<(), Failure> {
    if !is_table || is_live {
        refuse_ranks(arguments)?;
    }
    let is_nfstream = arguments.names == Names::Nfstream;
    if is_table && (arguments.stats || is_nfstream) {
        return Err(Failure::usage(
            "--stats and --names: a table shows the same columns with and without; give -o FILE, \
             or --format with csv, jsonl, parquet or arrow",
        ));
    }
    if is_nfstream && arguments.stats {
        return Err(Failure::usage(
            "--stats: the columns of --names nfstream have statistics already; leave it out",
        ));
    }
    Ok(())
}

/// Refuses to show some flows where all are written.
fn refuse_ranks(arguments: &FlowsArguments) -> Result<(), Failure> {
    if arguments.rows.is_some_and(|count| count > 0) || arguments.sort.is_some() {
        return Err(Failure::usage(
            "-n and --sort: only a table of captures shows some flows, the heaviest; everything \
             else has all of them, as they end. Try `wirelens top --by flow -n N`",
        ));
    }
    Ok(())
}

/// Where the command writes every flow.
struct Written {
    /// Nothing after a file could not be begun anew.
    rows: Option<output::Rows>,
    encode: Rows,
    upkeep: Option<Upkeep>,
}

impl Written {
    fn fill(
        &mut self,
        request: &FlowsRequest,
        inputs: &Inputs,
        opened: Opened,
        layout: Layout,
    ) -> Result<Done, Failure> {
        if layout.needs_statistics() {
            compute::<FlowStatistics, _>(request, inputs, opened, self)
        } else {
            compute::<(), _>(request, inputs, opened, self)
        }
    }

    fn finish(self) -> Result<(), Failure> {
        self.rows.map_or(Ok(()), output::Rows::finish)
    }
}

impl<S: Laid> Output<S> for Written {
    type Error = Failure;

    fn put(&mut self, flows: &[(FlowRecord, S)]) -> Result<(), Failure> {
        let Self { rows: Some(rows), encode, .. } = self else { return Ok(()) };
        encode.put(flows, |columns| match columns {
            Ok(columns) => rows.write(columns),
            Err(refused) => Err(Failure::error(refused)),
        })
    }

    fn look(&mut self) -> Result<(), Failure> {
        if let Some(upkeep) = &mut self.upkeep
            && let Some(rows) = self.rows.take()
        {
            self.rows = Some(upkeep.look(rows)?);
        }
        Ok(())
    }
}
