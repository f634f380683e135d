//! `wirelens run`: any set of applications on one pass.

mod alerting;
pub mod args;
mod central;
pub(crate) mod page;
mod stored;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;
use std::thread;

use alerts::Alerts;
use bus::{Bus, BusError};
use files::FileMode;
use history::History;
use server::{Facts, Mode, Server};
use session::Host;
use session::application::Site;
use session::host::machine_name;
use session::outlet::RowsError;
use session::page::PageSettings;
use session::published::NatsSettings;
use session::reading::{Inputs, OpenSources};
use session::run::{
    Again, Doors, InputSettings, Jail, NO_FILE, Plan, Readings, RunError, RunSettings, Session,
    SessionOutcome, USUAL, check_user, example, read,
};
use session::stored::HistorySettings;
use session::toml_text::{Mistake, settings_text};
use store::Store;
use store::packets::PacketLog;

use crate::asked;
use crate::clock::{self, CLOCK};
use crate::environment;
use crate::failure::{Failure, Status};
use crate::interrupt::{self, Reopen};
use crate::live;
use crate::service::{self, Notices, Service};
use crate::summary;
use crate::view::{self, View};
use args::RunArguments;

impl From<BusError> for Failure {
    fn from(error: BusError) -> Self {
        Self::error(format_args!("[nats] {error}"))
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Settings(mistakes) => settings(&mistakes),
            RunError::Input(error) => error.into(),
            RunError::Rows(_, error) => error.into(),
            error => Self::error(error),
        }
    }
}

impl From<RowsError> for Failure {
    fn from(error: RowsError) -> Self {
        match error {
            RowsError::Output(error) => error.into(),
            RowsError::Write(error) => error.into(),
            RowsError::Format(error) => error.into(),
            error @ (RowsError::Door(_) | RowsError::Lost(_)) => Self::error(error),
        }
    }
}

/// Every mistake a line.
fn settings(mistakes: &[Mistake]) -> Failure {
    let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
    Failure::usage(lines.join("\nwirelens: "))
}

/// Runs `wirelens run`.
pub(crate) fn run(arguments: &RunArguments, host: &Host) -> Result<Status, Failure> {
    if arguments.init {
        io::stdout().write_all(example().as_bytes())?;
        return Ok(Status::Fine);
    }
    let path = arguments.config.as_deref();
    let mut plan = plan(path, arguments, host)?.map_err(|mistakes| settings(&mistakes))?;
    plan.check_drills().map_err(|message| Failure::usage(format!("--{message}")))?;
    plan.check_cut().map_err(Failure::usage)?;
    FileMode::ask(plan.run.file_mode.or_else(FileMode::explicit));
    if arguments.test_alerts {
        return alerting::test(&plan.alerts);
    }
    if arguments.view {
        view::check(&plan)?;
    }
    if !arguments.check {
        service::find();
    }
    let beside = Beside::of(&mut plan, arguments.view)?;
    if plan.sensors.is_some() {
        if plan.run.user.is_some() {
            return Err(Failure::usage(
                "[run] user: [sensors] needs no rights; start it as that user",
            ));
        }
        return central::run(plan, beside, arguments);
    }
    let (inputs, opened) = open(&plan, arguments)?;
    let refused = |refusal| Failure::usage(format_args!("[run] {refusal}"));
    if arguments.check {
        plan.run.user.as_deref().map_or(Ok(()), check_user).map_err(refused)?;
        plan.history.as_ref().map_or(Ok(()), |history| History::check(&history.folder))?;
        return Ok(checked(&plan, arguments));
    }
    if let Some(path) = path.filter(|_| arguments.interface.is_empty()) {
        plan.keep_opening(path, &inputs);
    }
    plan.change_user(&inputs).map_err(refused)?;
    pass(plan, (inputs, opened), beside, arguments, host)
}

/// Settings and what they name are as they should be.
fn checked(plan: &Plan, arguments: &RunArguments) -> Status {
    if !arguments.quiet {
        let names: Vec<_> = plan.applications.iter().map(|one| one.ready.name()).collect();
        let path = arguments.config.as_deref().unwrap_or(Path::new(NO_FILE)).display();
        eprintln!("{path}: valid: {}", names.join(", "));
    }
    Status::Fine
}

/// Reads to the end, together with the observers of the run.
fn pass(
    mut plan: Plan,
    (inputs, opened): (Inputs, OpenSources),
    beside: Beside,
    arguments: &RunArguments,
    host: &Host,
) -> Result<Status, Failure> {
    let (path, duration) = (arguments.config.as_deref(), plan.input.duration);
    let store = plan.store.clone().filter(|_| arguments.view);
    let reopen = Reopen::on_hangup();
    let tell: fn(&str) = if arguments.view { view::tell } else { tell_line };
    let is_quiet = arguments.quiet || arguments.view;
    let tell_events = (!arguments.quiet).then_some(tell);
    plan.reach_workers(machine_name, clock::realtime(), CLOCK.monotonic, tell)?;
    let jail = Jail::unless(arguments.no_jail);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    capture::sys::allocator::give_back_now_and_then();
    let doors = Doors { clock: CLOCK, stdout, tell: tell_events, jail, warn: tell };
    let session = Session::begin(plan, inputs, opened, doors, |opened, inputs| {
        live::begin_for(duration, opened, &inputs.control, is_quiet);
    })?;
    let view = store.map(|store| View::of("run", session.inputs(), store, None));
    let facts = page::facts(session.inputs(), false);
    let Begun { server, alerts, history, bus } = match beside.begin(facts, tell) {
        Ok(begun) => begun,
        Err(failure) => {
            session.abandon();
            return Err(failure);
        }
    };
    let notices = Notices::of(session.inputs());
    let again = || match plan_again(path, arguments, host) {
        Ok(plan) => plan,
        Err(mistake) => Err(vec![mistake]),
    };
    let finished = thread::scope(|scope| {
        // Models are read again to see that they are there: no packet waits for that.
        let mut readings = Readings::default();
        let hangup = || {
            notices.tick();
            if reopen.take() {
                notices.send(Service::reloading);
                if let Some(alerts) = &alerts {
                    alerts.reopen();
                    alerts.lists().reload();
                }
                let hand_in = readings.begin();
                let server = &server;
                scope.spawn(move || {
                    server.iter().for_each(|server| page::reload(server, tell));
                    hand_in(again());
                });
            }
            // Of several that ended together one is taken up; a manager waits for each.
            let plan = readings.take(|| notices.send(Service::taken_up))?;
            if let Some(plan) = plan.as_ref().ok().filter(|plan| plan.check_cut().is_ok()) {
                let lines = Alerts::take_up(alerts.as_ref(), &plan.alerts.alert);
                lines.iter().for_each(|line| tell(line));
            }
            Some(Again::Settings(Box::new(plan)))
        };
        view::run(session, view, hangup, tell)
    });
    let status =
        finished.as_ref().ok().map(|finished| summary::finished(finished, arguments.quiet));
    announce_end(finished.as_ref().ok(), server.is_some() && !arguments.view);
    // Rows of a run that failed are alerted on and stored, too. Alerts first: they are rows.
    let has_lost = alerting::end(alerts) | stored::end(history.as_deref(), bus);
    let finished = finished?;
    if let Some(server) = server {
        let control = &finished.inputs.control;
        if !arguments.view {
            page::stay_open(&server, control, (&reopen, &notices), (tell, arguments.quiet));
        }
        server.end();
    }
    service::stopping();
    let status = status.unwrap_or(Ok(Status::Fine))?;
    Ok(if has_lost { Status::Error } else { status })
}

/// Unless a page stays: others are waited for from here on, and no packet shows that the run lives.
fn announce_end(finished: Option<&SessionOutcome>, has_page: bool) {
    if finished.is_none_or(|one| !has_page || one.inputs.control.is_stopped()) {
        service::stopping();
    }
}

/// The observers of a run: the page, alerts, the history, and who it is published to.
struct Beside {
    store: Option<Arc<Store>>,
    page: Option<PageSettings>,
    history: Option<HistorySettings>,
    nats: Option<NatsSettings>,
    log: Option<Arc<dyn PacketLog>>,
    alerts: alerts::Settings,
    lists: Option<Arc<alerts::Lists>>,
}

/// The same, begun.
struct Begun {
    server: Option<Server>,
    alerts: Option<Alerts>,
    history: Option<Arc<History>>,
    bus: Option<Bus>,
}

impl Beside {
    /// What a plan asks for; it keeps rows if anyone looks.
    fn of(plan: &mut Plan, has_view: bool) -> Result<Self, Failure> {
        let (page, alerts) = (plan.page.clone(), plan.alerts.clone());
        let nats = plan.nats.clone().filter(|_| plan.sensors.is_none());
        let history = plan.history.clone();
        let log = plan.applications.iter().find_map(|one| one.ready.log_search());
        let is_kept = page.is_some() || history.is_some() || nats.is_some();
        plan.store = (has_view || is_kept || !alerts.is_empty()).then(Store::new);
        let lists = (!alerts.indicators.is_empty()).then(|| alerts.open_lists()).transpose()?;
        plan.lists.clone_from(&lists);
        Ok(Self { store: plan.store.clone(), page, history, nats, log, alerts, lists })
    }

    fn begin(self, facts: Facts, tell: fn(&str)) -> Result<Begun, Failure> {
        let Self { store, page, history, nats, log, alerts, lists } = self;
        // Before the first row, so that none is missed.
        let history = stored::begin(history.as_ref(), store.as_ref())?;
        let is_live = facts.mode == Mode::Live;
        let waits = !is_live && history.is_none();
        let bus = nats.zip(store.clone()).map(|(nats, store)| {
            let realtime_ns = || clock::realtime().as_ns();
            Bus::begin(nats.options(machine_name, CLOCK, realtime_ns, waits, tell), store)
        });
        let bus = bus.transpose()?;
        let server = match (page, &store) {
            (Some(page), Some(store)) => {
                Some(page::begin(&page, store, facts, (log, history.clone()), tell)?)
            }
            _ => None,
        };
        let address = server.as_ref().map(|server| server.url(&machine_name()));
        let alerts = alerting::begin((&alerts, lists), store.as_ref(), is_live, address)?;
        Ok(Begun { server, alerts, history, bus })
    }
}

/// Reads captures to the end for `wirelens report`, and makes a report of what was found.
pub(crate) fn report(arguments: &RunArguments, host: &Host) -> Result<(Status, String), Failure> {
    let path = arguments.config.as_deref();
    let mut plan = plan(path, arguments, host)?.map_err(|mistakes| settings(&mistakes))?;
    FileMode::ask(plan.run.file_mode.or_else(FileMode::explicit));
    plan.check_has_packets()?;
    let store = Store::new();
    plan.store = Some(Arc::clone(&store));
    let (inputs, opened) = open(&plan, arguments)?;
    if inputs.interface.is_some() {
        return Err(Failure::usage("report: no captures; give them with -r"));
    }
    let jail = Jail::unless(arguments.no_jail);
    let doors = Doors { clock: CLOCK, stdout, tell: None, jail, warn: tell_line };
    let session = Session::begin(plan, inputs, opened, doors, |_, _| {})?;
    let facts = page::facts(session.inputs(), true);
    let finished = session.run(|| None, tell_line)?;
    let report = server::report(&store, &facts).unwrap_or_default();
    Ok((summary::finished(&finished, arguments.quiet)?, report))
}

/// Prints messages for users.
pub(crate) fn tell_line(line: &str) {
    eprintln!("wirelens: {line}");
}

/// A handle of our own on standard output: the standard one would flush at each line end.
pub(crate) fn stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

type Read = Result<Plan, Vec<Mistake>>;

/// Reads the settings, and what was typed instead of some of them.
fn plan(path: Option<&Path>, arguments: &RunArguments, host: &Host) -> Result<Read, Failure> {
    plan_again(path, arguments, host).map_err(|mistake| Failure::error(mistake.message))
}

/// The settings of a file as they are, for `wirelens doctor`.
pub(crate) fn read_plan(path: &Path, host: &Host) -> Read {
    let site =
        Site { host, environment, clock: CLOCK, is_live: false, input: None, takes_rows: true };
    read(path, &settings_text(path).map_err(|mistake| vec![mistake])?, &|_| (), &site)
}

fn plan_again(path: Option<&Path>, arguments: &RunArguments, host: &Host) -> Result<Read, Mistake> {
    let (path, text) = match path {
        Some(path) => (path, settings_text(path)?),
        None => (Path::new(NO_FILE), String::from(USUAL)),
    };
    let instead = instead(arguments);
    let takes_rows = arguments.keeps_rows || arguments.view || arguments.page.is_some();
    let site = Site { host, environment, clock: CLOCK, is_live: false, input: None, takes_rows };
    Ok(read(path, &text, &instead, &site).map(|plan| with_page(plan, arguments)))
}

/// The page is where it was typed, or else where the settings have it.
fn with_page(mut plan: Plan, arguments: &RunArguments) -> Plan {
    plan.run.simulate.add(&arguments.simulate);
    if let Some(listen) = arguments.page {
        plan.page = Some(PageSettings { listen, ..plan.page.unwrap_or_default() });
    }
    plan
}

/// What was typed instead of settings.
fn instead(arguments: &RunArguments) -> impl Fn(&mut InputSettings) {
    let RunArguments { read, interface, pace, .. } = arguments;
    move |input| input.take_instead(read, interface, *pace)
}

fn open(plan: &Plan, arguments: &RunArguments) -> Result<(Inputs, OpenSources), Failure> {
    let run = RunSettings { threads: arguments.threads.or(plan.run.threads), ..plan.run.clone() };
    run.check(&plan.input).map_err(|(_, message)| Failure::usage(format!("--{message}")))?;
    let mut request = plan.request();
    request.thread_count = run.threads.map(usize::from);
    let has_bar = !arguments.quiet && !arguments.view;
    request.painter = has_bar.then_some(crate::progress::painter);
    let found = Inputs::find(&request, true, interrupt::control());
    let inputs = found.map_err(|error| asked::explain(error, &request))?;
    let outputs =
        plan.applications.iter().map(|one| one.output.as_ref().map(|output| &output.path));
    asked::spare(&inputs, outputs)?;
    let opened = plan.open(&inputs)?;
    Ok((inputs, opened))
}
