//! `wirelens classify`: what flows are, from their first packets.

pub mod args;
mod commented;
mod table;

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use classify::{Cascade, HostVerdict, Options, Verdict};
use session::Host;
use session::application::Application as _;
use session::captures::Captures;
use session::classify::{
    By, Classify, StyledVerdicts, Totals, VerdictView as ShownAs, no_memory, read, wants_inner,
};
use session::exports::Style;
use session::outlet::{OutletWriter, RowsError, Taker};
use session::reading::Inputs;

use crate::alone::{self, Sources, Ways};
use crate::asked;
use crate::environment;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::summary;
use args::ClassifyArguments;
use commented::{CommentedCapture, VerdictBuffer};

/// Runs `wirelens classify`.
pub(crate) fn run(arguments: &ClassifyArguments, host: &Host) -> Result<Status, Failure> {
    let cascade = read(&arguments.model, host, environment)?;
    let cascade = Arc::new(match arguments.unknown_below {
        Some(below) => cascade.with_unknown_below(below),
        None => cascade,
    });
    let typed = Sources { pace: arguments.pace, ..Sources::new(&arguments.input, &arguments.live) };
    let mut inputs = asked::find(typed.input, typed.live, true)?;
    let files = [&arguments.output.output, &arguments.output.pcapng];
    asked::spare(&inputs, files.map(Option::as_ref))?;
    match_headers(&mut inputs, &cascade, &arguments.model, arguments.input.no_decap)?;
    let shown = OutputStyle::of(arguments)?;
    match_rows(&cascade, arguments, shown)?;
    let is_live = inputs.interface.is_some();
    let options = Options {
        waiting_max: arguments.waiting_max,
        consumer_count: arguments.consumers.into(),
        hosts_max: arguments.hosts_max,
        is_live,
        version: 0,
    };
    let (by, max_flows) = (arguments.by, arguments.max_flows);
    let classify = |shown| Classify::shown_by(Arc::clone(&cascade), options, max_flows, by, shown);
    let opened = alone::open(&mut inputs, typed, &classify(ShownAs::Nothing))?;
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let commented = arguments.output.pcapng.as_deref();
    let commented = commented.map(|path| CommentedCapture::create(arguments, path)).transpose()?;
    let mut ways = Ways::default();
    let form = match shown {
        OutputStyle::Plain(show @ Show::Rows(_)) => {
            ways = Ways::rows(show, &arguments.output.plain());
            None
        }
        OutputStyle::Plain(Show::Table) if is_live => {
            table::begin(by)?;
            Some(Form::Table(Arc::clone(&cascade)))
        }
        // Of captures what was counted is shown, at the end.
        OutputStyle::Plain(Show::Table) => None,
        OutputStyle::Lines(style) => {
            let captures = Captures::of(&inputs);
            let cascade = Arc::clone(&cascade);
            let (path, force) = (arguments.output.output.as_deref(), arguments.output.force);
            let lines = StyledVerdicts::create(path, force, style, cascade, captures)?;
            ways.heeds_hangup = true;
            Some(Form::Lines(Box::new(lines)))
        }
    };
    let kept = commented.as_ref().map(CommentedCapture::kept);
    let mut shown_as = ShownAs::Nothing;
    if form.is_some() || kept.is_some() {
        let (shown, writer) = begin(by, VerdictOutput { form, kept }, &inputs);
        (shown_as, ways.shown) = (shown, Some(writer));
    }
    let finished = alone::run(classify(shown_as), ways, typed, inputs, opened)?;
    if let Some(commented) = commented {
        commented.finish(&finished.inputs, &cascade, finished.received.handed_out())?;
    }
    let found = finished.closings.first().and_then(|(_, closing)| closing.found.as_ref());
    if shown == OutputStyle::Plain(Show::Table)
        && !is_live
        && let Some(totals) = found.and_then(|found| found.downcast_ref::<Totals>())
    {
        match by {
            By::Flow => table::print(&cascade, &totals.counts)?,
            By::Host => table::print_hosts(&cascade, &totals.hosts)?,
        }
    }
    summary::finished(&finished, arguments.input.quiet)
}

/// Begins to show verdicts as they come.
fn begin(by: By, written: VerdictOutput, inputs: &Inputs) -> (ShownAs, OutletWriter) {
    match by {
        By::Flow => {
            let (outlet, writer) = alone::show(Classify::NAME, written, inputs);
            (ShownAs::Flows(outlet), writer)
        }
        By::Host => {
            let (outlet, writer) = alone::show(Classify::NAME, written, inputs);
            (ShownAs::Hosts(outlet), writer)
        }
    }
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

/// Windows are those of training, hosts those of a model that remembers them; and what cannot show
/// either is not asked to.
fn match_rows(
    cascade: &Cascade,
    arguments: &ClassifyArguments,
    shown: OutputStyle,
) -> Result<(), Failure> {
    let model = arguments.model.display();
    let by_host = arguments.by == By::Host;
    let kind = if by_host { "--by host" } else { "--every" };
    let refused = |what: &str| Err(Failure::usage(format_args!("{what}: not with {kind}; {WAYS}")));
    match (cascade.every(), arguments.every) {
        (_, Some(_)) if by_host => refused("--every"),
        _ if by_host && cascade.memory().is_none() => {
            Err(Failure::usage(format_args!("--by host: {}", no_memory(cascade))))
        }
        (None, None) if !by_host => Ok(()),
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
        _ if matches!(shown, OutputStyle::Lines(_)) => refused("--format"),
        _ => Ok(()),
    }
}

/// What windows and hosts can be reported by.
const WAYS: &str =
    "windows and hosts are reported by one thread, as a table, csv, jsonl, parquet or arrow";

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OutputStyle {
    /// As other commands show things.
    Plain(Show),
    /// As lines of other tools.
    Lines(Style),
}

impl OutputStyle {
    fn of(arguments: &ClassifyArguments) -> Result<Self, Failure> {
        Ok(match arguments.output.style() {
            Some(style) => Self::Lines(style),
            None => Self::Plain(output::show(&arguments.output.plain())?),
        })
    }
}

/// How verdicts are shown as they come.
enum Form {
    /// A line each on the terminal.
    Table(Arc<Cascade>),
    /// As lines of other tools.
    Lines(Box<StyledVerdicts>),
}

/// Where the command writes verdicts that are no rows.
struct VerdictOutput {
    form: Option<Form>,
    kept: Option<VerdictBuffer>,
}

impl Taker<Vec<Verdict>> for VerdictOutput {
    fn take(&mut self, verdicts: &Vec<Verdict>) -> Result<(), RowsError> {
        match &mut self.form {
            None => {}
            Some(Form::Table(cascade)) => {
                verdicts.iter().try_for_each(|verdict| table::verdict(cascade, verdict))?;
            }
            Some(Form::Lines(lines)) => lines.put(verdicts)?,
        }
        if let Some(kept) = &self.kept {
            kept.put(verdicts);
        }
        Ok(())
    }

    fn flush_held(&mut self) -> Result<(), RowsError> {
        match &mut self.form {
            Some(Form::Lines(lines)) => lines.write_out(),
            _ => Ok(()),
        }
    }

    fn reopen(self) -> Result<Self, RowsError> {
        let form = match self.form {
            Some(Form::Lines(lines)) => Some(Form::Lines(Box::new(lines.reopen()?))),
            form => form,
        };
        Ok(Self { form, ..self })
    }

    fn finish(self) -> Result<(), RowsError> {
        match self.form {
            Some(Form::Lines(lines)) => lines.finish(),
            _ => Ok(std::io::stdout().flush()?),
        }
    }
}

impl Taker<Vec<HostVerdict>> for VerdictOutput {
    fn take(&mut self, verdicts: &Vec<HostVerdict>) -> Result<(), RowsError> {
        let Some(Form::Table(cascade)) = &self.form else { return Ok(()) };
        let mut changed = verdicts.iter().filter(|verdict| verdict.has_new_label);
        Ok(changed.try_for_each(|verdict| table::host(cascade, verdict))?)
    }

    fn reopen(self) -> Result<Self, RowsError> {
        Ok(self)
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(std::io::stdout().flush()?)
    }
}
