//! `wirelens l4s`: predicted latencies of named flows, and re-marking by them.

pub mod args;

use std::io::{self, Write as _};
use std::sync::Arc;

use capture::live::{Latency, LiveOptions};
use packet::Span;
use session::l4s::{L4s, Marking, MarkingReport, TEXT_COLUMNS, TITLES, read_model};
use session::outlet::{RowsError, Taker};
use session::reading::{InputRequest, Inputs, Interface};
use terminal::First;

use crate::alone::{self, Sources, Ways};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::latency::table;
use crate::output::{self, Show};
use crate::top::grouped;
use crate::{summary, view};
use args::L4sArguments;

/// Budgets of packets end in time also where nothing passes.
const TICK: Span = Span::from_ns(20_000_000);

/// Runs `wirelens l4s`.
pub(crate) fn run(arguments: &L4sArguments) -> Result<Status, Failure> {
    let settings = args::settings(arguments);
    settings.check().map_err(|refusal| Failure::usage(format_args!("--{refusal}")))?;
    let folder = settings.model.as_deref().unwrap_or("".as_ref());
    let model = Arc::new(read_model(folder).map_err(Failure::error)?);
    let show = output::show(&arguments.output)?;
    let mut inputs = inputs(arguments)?;
    asked::spare(&inputs, [arguments.output.output.as_ref()])?;
    let interface = arguments.interface.clone();
    let L4sArguments { input, duration, act, dry_run, .. } = arguments;
    let marking = interface
        .filter(|_| *act || *dry_run)
        .map(|interface| Marking { interface, is_dry_run: *dry_run });
    let application =
        |shown, marking| L4s::shown_by(settings.clone(), Arc::clone(&model), shown, marking);
    let typed = Sources { input, live: None, duration: *duration, pace: None };
    let opened = alone::open(&mut inputs, typed, &application(None, None))?;
    if input.check {
        return Ok(Status::Fine);
    }
    let mut ways = Ways::rows(show, &arguments.output);
    let first = First { table: "l4s", ..First::default() };
    ways.view = view::is_wanted(show, &inputs).then_some(first);
    let shown = (show == Show::Table && ways.view.is_none()).then(|| {
        let (outlet, writer) = alone::show("l4s", Printed, &inputs);
        ways.shown = Some(writer);
        outlet
    });
    if marking.is_some() {
        ways.heeds_hangup = false;
        crate::interrupt::on_hangup(&inputs.control);
    }
    let finished = alone::run(application(shown, marking), ways, typed, inputs, opened)?;
    summary::finished(&finished, input.quiet)
}

/// What is read or listened on; of an interface each packet as it passes.
fn inputs(arguments: &L4sArguments) -> Result<Inputs, Failure> {
    let interface = arguments.interface.as_ref().map(|name| Interface {
        names: vec![name.clone()],
        options: LiveOptions {
            latency: Latency::Low,
            is_promiscuous: false,
            tick: TICK,
            ..LiveOptions::default()
        },
    });
    // Headers inside of tunnels are not those that an interface's packets are re-marked by.
    let request = InputRequest { interface, ..asked::request(&arguments.input, None, false) };
    let found = Inputs::find(&request, true, crate::interrupt::control());
    found.map_err(|error| asked::explain(error, &request))
}

/// Periods as tables.
struct Printed;

impl Taker<Vec<MarkingReport>> for Printed {
    fn take(&mut self, told: &Vec<MarkingReport>) -> Result<(), RowsError> {
        for told in told {
            let lines = table::aligned(TITLES, TEXT_COLUMNS, told.cells(grouped));
            let head = crate::table::broken(&told.head());
            write!(io::stdout().lock(), "{head}\n{lines}")?;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), RowsError> {
        Ok(io::stdout().flush()?)
    }
}
