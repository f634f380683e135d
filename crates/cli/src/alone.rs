//! A command of one application: a session of it alone, in the words of arguments.

use std::sync::Arc;

use engine::run::Control;
use packet::Span;
use session::application::Ready;
use session::exports::Export;
use session::outlet::{self, Outlet, OutletWriter, Rows, Taker, WhenBehind};
use session::reading::{InputError, Inputs, OpenSources};
use session::run::{
    Again, AppPlan, Doors, Jail, OutputSettings, Plan, RunError, Session, SessionOutcome,
    change_user, open_alone,
};
use store::Store;
use terminal::First;

use crate::args::{InputArguments, LiveArguments, OutputArguments};
use crate::asked;
use crate::clock::CLOCK;
use crate::failure::Failure;
use crate::interrupt::Reopen;
use crate::live;
use crate::output::Show;
use crate::run::{stdout, tell_line};
use crate::view::{self, View};

/// What was typed, besides the settings of the application.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    /// Which frames.
    pub input: &'a InputArguments,
    /// How an interface is listened on, where one may be.
    pub live: Option<&'a LiveArguments>,
    /// How long an interface is listened on.
    pub duration: Option<Span>,
    /// Replays captures at so many times their own speed.
    pub pace: Option<f64>,
}

impl<'a> Sources<'a> {
    /// Of a command that reads captures or listens on an interface.
    pub(crate) const fn new(input: &'a InputArguments, live: &'a LiveArguments) -> Self {
        Self { input, live: Some(live), duration: live.duration, pace: None }
    }
}

/// Where results go.
#[derive(Default)]
pub(crate) struct Ways {
    /// A file or standard output, for rows.
    pub output: Option<OutputSettings>,
    /// The same as records of another tool, or in many files.
    pub export: Option<Export>,
    /// Who shows them otherwise.
    pub shown: Option<OutletWriter>,
    /// A view of them in this terminal, and what it begins with.
    pub view: Option<First>,
    /// Whether a hangup begins new files; else it ends the process.
    pub heeds_hangup: bool,
}

impl Ways {
    /// Rows, where those are wanted.
    pub(crate) fn rows(show: Show, arguments: &OutputArguments) -> Self {
        let Show::Rows(format) = show else { return Self::default() };
        let path = arguments.output.clone().unwrap_or_else(|| "-".into());
        let output = OutputSettings { path, format, force: arguments.force };
        Self { output: Some(output), heeds_hangup: true, ..Self::default() }
    }
}

/// Begins to show results otherwise than as rows: an application hands them in at the outlet.
pub(crate) fn show<P: Rows, T: Taker<P>>(
    name: &'static str,
    taker: T,
    inputs: &Inputs,
) -> (Outlet<P>, OutletWriter) {
    let when = if inputs.interface.is_some() { WhenBehind::Drop } else { WhenBehind::Wait };
    let control: Arc<Control> = Arc::clone(&inputs.control);
    outlet::begin(name, taker, when, CLOCK.now, control)
}

/// Opens what an application reads.
pub(crate) fn open(
    inputs: &mut Inputs,
    typed: Sources<'_>,
    application: &dyn Ready,
) -> Result<OpenSources, InputError> {
    open_alone(inputs, application, typed.input.threads.is_some())
}

/// Runs an application to the end of what is read.
pub(crate) fn run(
    application: impl Ready + 'static,
    ways: Ways,
    typed: Sources<'_>,
    inputs: Inputs,
    opened: OpenSources,
) -> Result<SessionOutcome, Failure> {
    run_after(application, ways, typed, inputs, opened, |_| Ok(()))
}

/// The same with something to say or do before frames come, when nothing else can refuse the run.
pub(crate) fn run_after(
    application: impl Ready + 'static,
    ways: Ways,
    typed: Sources<'_>,
    inputs: Inputs,
    opened: OpenSources,
    last: impl FnOnce(&OpenSources) -> Result<(), Failure>,
) -> Result<SessionOutcome, Failure> {
    let Sources { input, live, duration, pace } = typed;
    let request = asked::request(input, live, inputs.options.dissect.decapsulate);
    let Ways { output, export, shown, view, heeds_hangup } = ways;
    let (is_live, attaches) = (inputs.interface.is_some(), application.attaches());
    let mut planned = AppPlan::asked(Box::new(application));
    (planned.output, planned.shown, planned.wants_door) = (output, shown, view.is_some());
    let name = planned.ready.name();
    if let Some(export) = export {
        planned = planned.exported(export);
    }
    let mut plan = Plan::alone(planned, request, input.seed);
    plan.input.pace = pace;
    let store = view.is_some().then(Store::new);
    plan.store.clone_from(&store);
    let tell: fn(&str) = if view.is_some() { view::tell } else { tell_line };
    let (tell_more, jail) = ((!input.quiet).then_some(tell), Jail::unless(input.no_jail));
    let doors = Doors { clock: CLOCK, stdout, tell: tell_more, jail, warn: tell };
    if let Some(user) = live.and_then(|live| live.user.as_deref()) {
        let changed = change_user(user, &inputs, attaches);
        changed.map_err(|refusal| Failure::usage(format_args!("--{refusal}")))?;
    }
    // Before it is reported that it listens.
    let reopen = (is_live && heeds_hangup).then(Reopen::on_hangup);
    let mut done = Ok(());
    let session = Session::begin(plan, inputs, opened, doors, |opened, inputs| {
        live::begin_for(duration, opened, &inputs.control, input.quiet || view.is_some());
        done = last(opened);
    })?;
    if let Err(failure) = done {
        session.abandon();
        return Err(failure);
    }
    let hangup = || reopen.as_ref().filter(|reopen| reopen.take()).map(|_| Again::Outputs);
    let view = store.map(|store| View::of(name, session.inputs(), store, view));
    view::run(session, view, hangup, tell).map_err(|error| match error {
        // There is no other whose fault it could be.
        RunError::Application(_, refusal) => Failure::error(refusal),
        error => error.into(),
    })
}
