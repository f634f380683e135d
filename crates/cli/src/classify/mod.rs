//! `wirelens classify`: what flows are, from their first packets.

pub mod args;
pub(crate) mod artifact;
mod outside;
mod serve;
mod summary;
mod table;

use std::sync::Arc;

use classify::{Cascade, TakeVerdicts, Verdict, columns};
use engine::columns::{Columns, Schema};
use engine::run::Control;
use model::Headers;
use model::block::Block;

use crate::asked;
use crate::failure::{Failure, Status};
use crate::live::{self, Upkeep};
use crate::output::{self, Show};
use crate::reading::{Inputs, Needs, hash_seed};
use crate::summary::StageSummary;
use args::ClassifyArguments;
use serve::Request;

/// Rows turned into columns at once, so that text buffers stay small.
const ROWS_PER_PIECE: usize = 1 << 12;

/// What is read of RTP.
const RTP_HEADER_LEN: u16 = 12;

/// The columns of verdicts.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens classify", columns::SCHEMA),
        ("wirelens classify --every DURATION", columns::WINDOW_SCHEMA),
    ]
}

/// Runs `wirelens classify`.
pub(crate) fn run(arguments: &ClassifyArguments) -> Result<Status, Failure> {
    let cascade = Arc::new(artifact::read(&arguments.model)?);
    let mut inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    match_headers(&mut inputs, &cascade, arguments)?;
    match_windows(&cascade, arguments)?;
    let schema = cascade.schema();
    let plain = arguments.output.plain();
    let show = output::show(&plain)?;
    let opened = inputs.open_any(needs(&cascade), inputs.thread_count)?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let quiet = arguments.input.quiet;
    let request = Request {
        cascade: Arc::clone(&cascade),
        options: classify::Options {
            waiting_max: arguments.waiting_max,
            consumer_count: arguments.consumers.into(),
            is_live: inputs.interface.is_some(),
        },
        flow_count_max: arguments.max_flows,
        seed: hash_seed(arguments.input.seed),
        pace: arguments.pace,
    };
    let upkeep = Upkeep::of(&opened);
    let form = match show {
        Show::Table if upkeep.is_some() => Form::Lines,
        Show::Table => Form::Counts,
        Show::Rows(format) => {
            let rows = output::create(&plain, format, schema)?;
            Form::Rows { rows: Some(rows), columns: Columns::new(schema), upkeep }
        }
    };
    live::begin(&arguments.live, &opened, &inputs.control, quiet);
    if matches!(form, Form::Lines) {
        table::begin()?;
    }
    let control = Arc::clone(&inputs.control);
    let written = Written { cascade: Arc::clone(&cascade), form, control, failure: None };
    let ((done, counts), written) = serve::serve(&request, &inputs, opened, written);
    written.finish()?;
    if show == Show::Table && inputs.interface.is_none() {
        table::print(&cascade, &counts)?;
    }
    let stage = StageSummary { name: "classify", ..done.stage() };
    let status = crate::summary::print(&inputs, quiet, &done.received, Some(&stage))?;
    if !quiet {
        eprint!("{}{}", done.lines(), summary::lines(&cascade, &counts));
    }
    // In windows a flow has as many verdicts as windows.
    let is_of_flows = cascade.every().is_none();
    let has_all = !is_of_flows || counts.decided() == done.counts.total();
    if counts.begun != counts.decided() || !has_all {
        return Err(Failure::error(format_args!(
            "verdicts are missing: {} begun, {} verdicts; please report this",
            counts.begun,
            counts.decided()
        )));
    }
    Ok(status)
}

/// Tunnels are opened as they were in training.
fn match_headers(
    inputs: &mut Inputs,
    cascade: &Cascade,
    arguments: &ClassifyArguments,
) -> Result<(), Failure> {
    let wants_inner = cascade.features().headers() == Headers::Innermost;
    if wants_inner && arguments.input.no_decap {
        return Err(Failure::usage(format_args!(
            "--no-decap: {} was trained on the headers inside of tunnels; leave it out",
            arguments.model.display()
        )));
    }
    inputs.options.dissect.decapsulate = wants_inner;
    Ok(())
}

/// Windows are those of training.
fn match_windows(cascade: &Cascade, arguments: &ClassifyArguments) -> Result<(), Failure> {
    let model = arguments.model.display();
    match (cascade.every(), arguments.every) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Failure::usage(format_args!(
            "--every: {model} was trained on flows, each told of once; leave it out, or give a \
             model of windows"
        ))),
        (Some(every), Some(asked)) if every == asked && arguments.consumers > 1 => {
            Err(Failure::usage("--consumers: with --every there is one; leave it out"))
        }
        (Some(every), Some(asked)) if every == asked => Ok(()),
        (Some(every), _) => Err(Failure::usage(format_args!(
            "{model} was trained on windows of {} s; give --every {0}s",
            every.as_seconds_f64()
        ))),
    }
}

/// What models look at of a frame.
fn needs(cascade: &Cascade) -> Needs {
    let layout_len = cascade.features().layout().len(Block::Payload);
    let reads_rtp = |stage: &classify::Stage| stage.window().is_some_and(|w| w.reads_rtp());
    let rtp_len = if cascade.stages().iter().any(reads_rtp) { RTP_HEADER_LEN } else { 0 };
    let payload_len = layout_len.max(rtp_len);
    Needs { stage: "classify", len: Needs::TRANSPORT_LEN + u32::from(payload_len) }
}

/// How verdicts are shown.
enum Form {
    /// Only counted: a table follows.
    Counts,
    /// A line each.
    Lines,
    /// As rows.
    Rows {
        /// Nothing after a file could not be begun anew.
        rows: Option<output::Rows>,
        columns: Columns,
        upkeep: Option<Upkeep>,
    },
}

/// Where the command writes verdicts.
struct Written {
    cascade: Arc<Cascade>,
    form: Form,
    control: Arc<Control>,
    failure: Option<Failure>,
}

impl Written {
    fn put(&mut self, verdicts: &[Verdict]) -> Result<(), Failure> {
        let cascade = &self.cascade;
        match &mut self.form {
            Form::Counts => Ok(()),
            Form::Lines => verdicts.iter().try_for_each(|verdict| table::verdict(cascade, verdict)),
            Form::Rows { rows, columns, upkeep } => {
                let Some(writer) = rows else { return Ok(()) };
                for piece in verdicts.chunks(ROWS_PER_PIECE) {
                    columns.clear();
                    let mut verdicts = piece.iter();
                    let filled =
                        verdicts.try_for_each(|verdict| columns::push(columns, cascade, verdict));
                    filled.map_err(Failure::error)?;
                    writer.write(columns)?;
                }
                if let Some(upkeep) = upkeep
                    && let Some(writer) = rows.take()
                {
                    *rows = Some(upkeep.look(writer)?);
                }
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<(), Failure> {
        match (self.failure, self.form) {
            (Some(failure), _) => Err(failure),
            (None, Form::Rows { rows: Some(rows), .. }) => rows.finish(),
            (None, _) => Ok(()),
        }
    }
}

impl TakeVerdicts for Written {
    fn take(&mut self, verdicts: &[Verdict]) {
        if self.failure.is_some() {
            return;
        }
        if let Err(failure) = self.put(verdicts) {
            self.failure = Some(failure);
            self.control.stop();
        }
    }
}
