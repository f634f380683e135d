//! Flows with what a trained cascade says of them: `wirelens flows --model`.

use std::path::Path;
use std::sync::Arc;

use classify::{Options, Standing};
use engine::flow::{EndedFlow, FlowStatistics, TakeEnded};
use engine::run::Control;
use session::Host;
use session::captures::Captures;
use session::classify::serve::Request;
use session::classify::{lines, needs, read};
use session::flows::{LabelledRows, Laid, ROWS_PER_PIECE};
use session::reading::hash_seed;

use crate::args::FlowsArguments;
use crate::asked;
use crate::classify::match_headers;
use crate::clock::CLOCK;
use crate::environment;
use crate::failure::{Failure, Status};
use crate::live::{self, Upkeep};
use crate::output::{self, Show};
use crate::summary;

/// Where flows go.
struct Written<'a> {
    /// Nothing after a file could not be begun anew.
    rows: Option<output::Rows>,
    columns: LabelledRows<'a>,
    upkeep: Option<Upkeep>,
    control: &'a Control,
    failure: Option<Failure>,
}

impl Written<'_> {
    fn put<P: Laid>(&mut self, flows: &[EndedFlow<(Standing, P)>]) -> Result<(), Failure> {
        let Some(rows) = &mut self.rows else { return Ok(()) };
        for piece in flows.chunks(ROWS_PER_PIECE) {
            rows.write(self.columns.fill(piece).map_err(Failure::error)?)?;
        }
        if let Some(upkeep) = &mut self.upkeep
            && let Some(rows) = self.rows.take()
        {
            self.rows = Some(upkeep.look(rows)?);
        }
        Ok(())
    }
}

impl<P: Laid> TakeEnded<(Standing, P)> for Written<'_> {
    fn take(&mut self, flows: &[EndedFlow<(Standing, P)>]) {
        if self.failure.is_some() {
            return;
        }
        if let Err(failure) = self.put(flows) {
            self.failure = Some(failure);
            self.control.fail();
        }
    }
}

/// Runs `wirelens flows --model FOLDER`.
pub(super) fn run(
    arguments: &FlowsArguments,
    folder: &Path,
    host: &Host,
) -> Result<Status, Failure> {
    let cascade = read(folder, host, environment)?;
    let cascade = Arc::new(match arguments.unknown_below {
        Some(below) => cascade.with_unknown_below(below),
        None => cascade,
    });
    let mut inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    match_headers(&mut inputs, &cascade, folder, arguments.input.no_decap)?;
    if cascade.every().is_some() {
        return Err(Failure::usage(format_args!(
            "--model: {} was trained on windows; give it to `wirelens classify --every`",
            folder.display()
        )));
    }
    let Show::Rows(format) = output::show(&arguments.output)? else {
        return Err(Failure::usage(
            "--model: flows with labels are written as rows; give -o FILE or --format, or try \
             `wirelens classify` for a table of labels",
        ));
    };
    super::refuse_ranks(arguments)?;
    let opened = inputs.open_any(needs(&cascade), 1)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let quiet = arguments.input.quiet;
    let request = Request {
        cascade: Arc::clone(&cascade),
        options: Options { is_live: inputs.interface.is_some(), ..Options::default() },
        flow_count_max: arguments.max_flows,
        seed: hash_seed(arguments.input.seed),
        pace: None,
        clock: CLOCK,
    };
    let columns = LabelledRows::new(&cascade, Captures::of(&inputs), arguments.stats);
    let written = Written {
        rows: Some(output::create(&arguments.output, format, columns.schema())?),
        columns,
        upkeep: Upkeep::of(&opened),
        control: &inputs.control,
        failure: None,
    };
    live::begin(&arguments.live, &opened, &inputs.control, quiet);
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    let control = &inputs.control;
    let (part, written) = if arguments.stats {
        request.run_with::<FlowStatistics, _>(&mut source, control, written)
    } else {
        request.run_with::<(), _>(&mut source, control, written)
    };
    drop(bar);
    let (mut done, counts) = part;
    done.received = source.received();
    let Written { rows, failure, .. } = written;
    failure.map_or(Ok(()), Err)?;
    rows.map_or(Ok(()), output::Rows::finish)?;
    let status = summary::print(&inputs, quiet, &done.received, Some(&done.stage()))?;
    if !quiet {
        eprint!("{}{}", done.lines(), lines(&cascade, &counts));
    }
    Ok(status)
}
