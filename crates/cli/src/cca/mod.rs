//! `wirelens cca`: per-flow queue occupancy, measured at a tap upstream and one downstream.

mod act;
pub mod args;
mod flight;
mod printed;
mod refused;
mod table;

use std::path::Path;
use std::sync::mpsc;

use capture::live::LiveOptions;
use cca::Model;
use packet::{SlotClock, Span};
use session::application::Application as _;
use session::cca::live::{Device, DeviceError, WatchError, WatchOptions};
use session::cca::naming::{Namer, OtherTaps};
use session::cca::taps::{self, Downstream};
use session::cca::{Cca, CcaSettings, Devices, PeriodView, ReadError, read_model};
use session::outlet::Outlet;
use session::reading::{InputRequest, Inputs, Interface, OpenSources};
use terminal::First;

use crate::alone::{self, Sources, Ways};
use crate::asked;
use crate::failure::{Failure, Status};
use crate::output::{self, Show};
use crate::{summary, view};
use args::{CcaArguments, ViewWhen};
use printed::{PeriodOutputs, Tables};

/// What a view begins with; flows of a period are those that were asked for.
const FIRST: First = First { table: Cca::NAME, sort: &[], rows: None, window_ns: None };

/// What was typed, and how time is cut by it.
struct CcaRequest<'a> {
    arguments: &'a CcaArguments,
    settings: CcaSettings,
    clock: SlotClock,
    show: Show,
}

/// Runs `wirelens cca`.
pub(crate) fn run(arguments: &CcaArguments) -> Result<Status, Failure> {
    if let Some(device) = &arguments.act.act_undo {
        return act::undo(device, arguments.input.quiet);
    }
    let settings = args::settings(arguments);
    let clock = settings.clock()?;
    let folder = settings.model.as_deref();
    let model = folder.map(|folder| model(folder, clock)).transpose()?;
    let show = output::show(&arguments.output)?;
    let taps = settings.taps(arguments.interface.is_some());
    settings.check(taps, &refused::given(arguments))?;
    let asked = CcaRequest { arguments, settings, clock, show };
    if !taps.are_two {
        return flight::run(&asked, model);
    }
    let namer = model.map(|model| namer(&asked, model)).transpose()?;
    match &arguments.interface {
        Some(interface) => run_live(&asked, interface, namer),
        None => run_captures(&asked, namer),
    }
}

/// Reads a model, which has to cut time as it is cut here.
fn model(folder: &Path, clock: SlotClock) -> Result<Model, Failure> {
    read_model(folder, clock).map_err(|error| match error {
        ReadError::Model(error) => error.into(),
        ReadError::Slots { .. } => {
            Failure::usage(format_args!("--slot: {error}; leave --slot out or give its"))
        }
        ReadError::File(..) => Failure::error(error),
    })
}

/// A model of two taps.
fn namer(asked: &CcaRequest<'_>, model: Model) -> Result<Namer, Failure> {
    let is_sampled = asked.settings.is_sampled();
    let is_surprised = is_sampled && !model.knows_samples();
    let namer = Namer::of_queue(model, is_sampled).map_err(|other| asked.refuse_model(other))?;
    if is_surprised && !asked.arguments.input.quiet {
        eprintln!(
            "wirelens: --sample: the model was trained on all packets, and is less accurate on a \
             sample; wanted: a model of `train cca --shares`"
        );
    }
    Ok(namer)
}

impl CcaRequest<'_> {
    /// Where periods go: rows to an output, or tables.
    fn ways<T: printed::PrintablePeriod>(
        &self,
        namer: Option<&Namer>,
        inputs: &Inputs,
        has_view: bool,
    ) -> (Ways, Option<Outlet<Vec<T>>>) {
        let mut ways = Ways::rows(self.show, &self.arguments.output);
        ways.view = has_view.then_some(FIRST);
        let outlet = (self.show == Show::Table && !has_view).then(|| {
            let tables = Tables { clock: self.clock, controls: Namer::controls(namer) };
            let (outlet, writer) = alone::show(Cca::NAME, tables, inputs);
            ways.shown = Some(writer);
            outlet
        });
        (ways, outlet)
    }

    /// Whether periods are shown in this terminal.
    fn has_view(&self) -> Result<bool, Failure> {
        match (self.arguments.view.unwrap_or(ViewWhen::Auto), self.show) {
            (ViewWhen::Always, Show::Rows(_)) => Err(Failure::usage(
                "--view always: rows are written instead; leave --format and -o out, or --view",
            )),
            (ViewWhen::Always, Show::Table) if !view::is_watched() => Err(Failure::usage(
                "--view always: standard input and output are not a terminal; leave --view out",
            )),
            (ViewWhen::Never, _) | (_, Show::Rows(_)) => Ok(false),
            (_, Show::Table) => Ok(self.arguments.interface.is_some() && view::is_watched()),
        }
    }

    /// Finds what is listened on, where there is an interface, and else what is read.
    fn inputs(&self, interface: Option<&str>) -> Result<Inputs, Failure> {
        let options = LiveOptions::default();
        let interface = interface.map(|name| Interface { names: vec![name.to_owned()], options });
        let input = &self.arguments.input;
        let request = InputRequest { interface, ..asked::request(input, None, !input.no_decap) };
        let found = Inputs::find(&request, true, crate::interrupt::control());
        found.map_err(|error| asked::explain(error, &request))
    }

    fn typed(&self) -> Sources<'_> {
        let CcaArguments { input, duration, .. } = self.arguments;
        Sources { input, live: None, duration: *duration, pace: None }
    }

    fn refuse_model(&self, other: OtherTaps) -> Failure {
        let folder = self.settings.model.as_deref().unwrap_or(Path::new("")).display();
        let try_this = match other {
            OtherTaps::One => "leave --egress out, or try --model cca, which reads two taps",
            OtherTaps::Two => {
                "give the downstream tap with --egress, or try --model cca-onetap, which reads one"
            }
        };
        Failure::usage(format_args!("{folder}: {other}; {try_this}"))
    }
}

fn run_captures(asked: &CcaRequest<'_>, namer: Option<Namer>) -> Result<Status, Failure> {
    let CcaRequest { arguments, settings, clock, .. } = asked;
    let before = asked.inputs(None)?;
    let request = asked::request(&arguments.input, None, !arguments.input.no_decap);
    let behind = taps::behind(&request, &arguments.egress);
    let behind_inputs = Inputs::find(&behind, true, crate::interrupt::control())
        .map_err(|error| asked::explain(error, &behind))?;
    let outputs = || [arguments.output.output.as_ref()];
    asked::spare(&before, outputs())?;
    asked::spare(&behind_inputs, outputs())?;
    let offset = match settings.egress_offset {
        Some(offset) => offset,
        None => offset(asked, &request, &behind)?,
    };
    let egress = Downstream::open(behind_inputs, offset)?;
    let opened = OpenSources::Files(before.open()?);
    if arguments.input.check {
        return Ok(Status::Fine);
    }
    let (ways, outlet) = asked.ways(namer.as_ref(), &before, false);
    let shown = outlet.map_or(PeriodView::Nothing, PeriodView::Queue);
    let cca = Cca::shown_by(settings.clone(), (*clock, namer), Some(egress), shown);
    let finished = alone::run(cca, ways, asked.typed(), before, opened)?;
    summary::finished(&finished, arguments.input.quiet)
}

/// A device that was named.
fn device(name: &str) -> Result<Device, Failure> {
    Ok(name.parse::<Device>()?)
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Self {
        Self::usage(error)
    }
}

impl From<WatchError> for Failure {
    fn from(error: WatchError) -> Self {
        Self::error(error)
    }
}

fn run_live(
    asked: &CcaRequest<'_>,
    interface: &str,
    namer: Option<Namer>,
) -> Result<Status, Failure> {
    let CcaRequest { arguments, settings, clock, show } = asked;
    let [egress] = arguments.egress.as_slice() else {
        return Err(Failure::usage("--egress: only one interface is possible"));
    };
    let egress = egress.to_string_lossy();
    let devices = Devices::alone(interface, &egress, arguments.duration)?;
    let by = act::names(&arguments.act, namer.is_some())?;
    let has_view = asked.has_view()?;
    if arguments.input.check {
        let model = namer.as_ref().map(|namer| &namer.model);
        devices.check(WatchOptions::new(settings, *clock, model))?;
        return Ok(Status::Fine);
    }
    let controls = Namer::controls(namer.as_ref());
    let mut ways = Ways::rows(*show, &arguments.output);
    ways.view = has_view.then_some(FIRST);
    let has_tables = *show == Show::Table && !has_view;
    // Nothing is read: packets stay in the kernel.
    let inputs = asked.inputs(Some(interface))?;
    let (to, acting) = mpsc::channel();
    let shown = if has_tables || arguments.act.act.is_some() {
        let tables = Tables { clock: *clock, controls: controls.clone() };
        let watched = PeriodOutputs { tables, has_tables, has_view, act: None, acting };
        let (outlet, writer) = alone::show(Cca::NAME, watched, &inputs);
        ways.shown = Some(writer);
        PeriodView::Queue(outlet)
    } else {
        PeriodView::Nothing
    };
    // A queue that is acted on is put back as the process ends.
    ways.heeds_hangup &= arguments.act.act.is_none();
    let cca = Cca::of_devices(settings.clone(), (*clock, namer), devices, shown)
        .reads_again(arguments.act.act_by.as_deref());
    // The watch itself knows for how long.
    let typed = Sources { duration: None, ..asked.typed() };
    let opened = OpenSources::Live(Vec::new());
    let finished = alone::run_after(cca, ways, typed, inputs, opened, |_| {
        // The queue is changed when nothing else can refuse the run; who takes it is there until
        // all periods were handed in.
        if let Some(act) = act::begin(&arguments.act, by, &controls, has_view)? {
            let _ = to.send(act);
        }
        if !arguments.input.quiet && !has_view {
            eprintln!(
                "listening on {interface}, and downstream of the queue on {egress}; Ctrl-C ends it"
            );
        }
        Ok(())
    })?;
    summary::finished(&finished, arguments.input.quiet)
}

fn offset(
    asked: &CcaRequest<'_>,
    before: &InputRequest,
    behind: &InputRequest,
) -> Result<Span, Failure> {
    let options = asked.settings.tap_options(asked.clock, None);
    let found = taps::offset(before, behind, options, &crate::interrupt::control());
    let offset = found.map_err(|error| asked::explain(error, behind))?;
    if let Some(said) = offset.said.filter(|_| !asked.arguments.input.quiet) {
        eprintln!("wirelens: {said} (--egress-offset sets another)");
    }
    Ok(offset.add)
}
