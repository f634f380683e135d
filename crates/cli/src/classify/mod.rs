//! `wirelens classify`: what flows are, from their first packets.

pub mod args;
mod commented;
mod eve;
mod lines;
mod table;
mod zeek;

use std::path::Path;
use std::sync::Arc;

use classify::{Cascade, TakeVerdicts, Verdict};
use engine::columns::{Columns, Schema};
use engine::run::Control;
use session::Host;
use session::captures::Captures;
use session::classify::serve::{self, Request};
use session::classify::{
    ROWS_PER_PIECE, account_for, lines as closing_lines, needs, read, rows, wants_inner,
};
use session::reading::{Inputs, hash_seed};
use session::summary::StageSummary;

use crate::asked;
use crate::clock::CLOCK;
use crate::environment;
use crate::failure::{Failure, Status};
use crate::live::{self, Upkeep};
use crate::output::{self, Show};
use crate::summary;
use args::ClassifyArguments;
use commented::Commented;
use lines::{Lines, Style};

/// Runs `wirelens classify`.
pub(crate) fn run(arguments: &ClassifyArguments, host: &Host) -> Result<Status, Failure> {
    let cascade = read(&arguments.model, host, environment)?;
    let cascade = Arc::new(match arguments.unknown_below {
        Some(below) => cascade.with_unknown_below(below),
        None => cascade,
    });
    let mut inputs = asked::find(&arguments.input, Some(&arguments.live), true)?;
    let files = [&arguments.output.output, &arguments.output.pcapng];
    asked::spare(&inputs, files.map(Option::as_ref))?;
    let no_decap = arguments.input.no_decap;
    match_headers(&mut inputs, &cascade, &arguments.model, no_decap)?;
    let shown = Shown::of(arguments)?;
    match_windows(&cascade, arguments, shown)?;
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
        clock: CLOCK,
    };
    let upkeep = Upkeep::of(&opened);
    let commented = arguments.output.pcapng.as_deref();
    let commented = commented.map(|path| Commented::create(arguments, path)).transpose()?;
    let captures = Captures::of(&inputs);
    let schema = cascade.schema(captures.are_named());
    let form = Form::create(arguments, shown, schema, upkeep.is_some())?;
    live::begin(&arguments.live, &opened, &inputs.control, quiet);
    if matches!(form, Form::Table) {
        table::begin()?;
    }
    let control = Arc::clone(&inputs.control);
    let cascade_of = Arc::clone(&cascade);
    let written =
        Written { cascade: cascade_of, captures, form, commented, upkeep, control, failure: None };
    let ((done, counts), written) = serve::serve(&request, &inputs, opened, written);
    written.finish(&inputs, done.received.handed_out())?;
    if shown == Shown::Plain(Show::Table) && inputs.interface.is_none() {
        table::print(&cascade, &counts)?;
    }
    let stage = StageSummary { name: "classify", ..done.stage() };
    let status = summary::print(&inputs, quiet, &done.received, Some(&stage))?;
    if !quiet {
        eprint!("{}{}", done.lines(), closing_lines(&cascade, &counts));
    }
    account_for(&cascade, &done, &counts).map_err(Failure::error)?;
    Ok(status)
}

/// Tunnels are opened as they were in training.
pub(crate) fn match_headers(
    inputs: &mut Inputs,
    cascade: &Cascade,
    folder: &Path,
    no_decap: bool,
) -> Result<(), Failure> {
    let wants_inner = wants_inner(cascade);
    if wants_inner && no_decap {
        return Err(Failure::usage(format_args!(
            "--no-decap: {} was trained on the headers inside of tunnels; leave it out",
            folder.display()
        )));
    }
    inputs.options.dissect.decapsulate = wants_inner;
    Ok(())
}

/// Windows are those of training, and what cannot show them is not asked to.
fn match_windows(
    cascade: &Cascade,
    arguments: &ClassifyArguments,
    shown: Shown,
) -> Result<(), Failure> {
    let model = arguments.model.display();
    let refused =
        |what: &str| Err(Failure::usage(format_args!("{what}: not with --every; {WAYS}")));
    match (cascade.every(), arguments.every) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Failure::usage(format_args!(
            "--every: {model} was trained on flows, each reported once; leave it out, or give a \
             model of windows"
        ))),
        (Some(every), asked) if asked != Some(every) => Err(Failure::usage(format_args!(
            "{model} was trained on windows of {} s; give --every {0}s",
            every.as_seconds_f64()
        ))),
        _ if arguments.consumers > 1 => refused("--consumers"),
        _ if arguments.output.pcapng.is_some() => refused("--pcapng"),
        _ if matches!(shown, Shown::Lines(_)) => refused("--format"),
        _ => Ok(()),
    }
}

/// What windows can be told by.
const WAYS: &str = "windows are reported by one thread, as a table, csv, jsonl, parquet or arrow";

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    /// As other commands show things.
    Plain(Show),
    /// As lines of other tools.
    Lines(Style),
}

impl Shown {
    fn of(arguments: &ClassifyArguments) -> Result<Self, Failure> {
        Ok(match arguments.output.style() {
            Some(style) => Self::Lines(style),
            None => Self::Plain(output::show(&arguments.output.plain())?),
        })
    }
}

/// Where verdicts go.
enum Form {
    /// Only counted: a table follows.
    Counts,
    /// A line each on the terminal.
    Table,
    /// As rows; nothing after a file could not be begun anew.
    Rows(Option<output::Rows>, Columns),
    /// As lines of other tools; likewise.
    Lines(Option<Lines>),
}

impl Form {
    /// Opens the output, before any work is done for it.
    fn create(
        arguments: &ClassifyArguments,
        shown: Shown,
        schema: Schema,
        is_live: bool,
    ) -> Result<Self, Failure> {
        Ok(match shown {
            Shown::Plain(Show::Table) if is_live => Self::Table,
            Shown::Plain(Show::Table) => Self::Counts,
            Shown::Plain(Show::Rows(format)) => {
                let rows = output::create(&arguments.output.plain(), format, schema)?;
                Self::Rows(Some(rows), Columns::new(schema))
            }
            Shown::Lines(style) => Self::Lines(Some(Lines::create(&arguments.output, style)?)),
        })
    }

    fn put(
        &mut self,
        cascade: &Cascade,
        captures: &Captures,
        verdicts: &[Verdict],
    ) -> Result<(), Failure> {
        match self {
            Self::Counts | Self::Rows(None, _) | Self::Lines(None) => Ok(()),
            Self::Table => verdicts.iter().try_for_each(|verdict| table::verdict(cascade, verdict)),
            Self::Rows(Some(rows), columns) => {
                for piece in verdicts.chunks(ROWS_PER_PIECE) {
                    rows::fill(columns, cascade, captures, piece).map_err(Failure::error)?;
                    rows.write(columns)?;
                }
                Ok(())
            }
            Self::Lines(Some(lines)) => lines.put(cascade, captures, verdicts),
        }
    }

    fn look(&mut self, upkeep: &mut Upkeep) -> Result<(), Failure> {
        match self {
            Self::Counts | Self::Table => {}
            Self::Rows(rows, _) => {
                if let Some(open) = rows.take() {
                    *rows = Some(upkeep.look(open)?);
                }
            }
            Self::Lines(lines) => {
                if let Some(open) = lines.take() {
                    *lines = Some(upkeep.look(open)?);
                }
            }
        }
        Ok(())
    }
}

/// Where the command writes verdicts.
struct Written {
    cascade: Arc<Cascade>,
    captures: Captures,
    form: Form,
    commented: Option<Commented>,
    upkeep: Option<Upkeep>,
    control: Arc<Control>,
    failure: Option<Failure>,
}

impl Written {
    fn put(&mut self, verdicts: &[Verdict]) -> Result<(), Failure> {
        self.form.put(&self.cascade, &self.captures, verdicts)?;
        if let Some(commented) = &mut self.commented {
            commented.put(verdicts);
        }
        match &mut self.upkeep {
            Some(upkeep) => self.form.look(upkeep),
            None => Ok(()),
        }
    }

    /// Gives files their names; of the captures `frame_count` frames were looked at.
    fn finish(self, inputs: &Inputs, frame_count: u64) -> Result<(), Failure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        match self.form {
            Form::Rows(Some(rows), _) => rows.finish()?,
            Form::Lines(Some(lines)) => lines.finish()?,
            _ => {}
        }
        match self.commented {
            Some(commented) => commented.finish(inputs, &self.cascade, frame_count),
            None => Ok(()),
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
            self.control.fail();
        }
    }
}
