//! A plan with its inputs and outputs open, from the first frame to the last row.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use alerts::Lists;
use bus::Escalations;
use capture::Input;
use engine::PartitionShare;
use engine::flow::FlowOptions;
use engine::flow::pass::{Faults, LabelKind};
use packet::{HashSeed, Span};
use store::{Store, Table, TableLimits};

use super::besides::Besides;
use super::closing::close;
use super::counted::{Reading, count_process};
use super::driving::{Driving, Looking};
use super::faults::Supervision;
use super::interfaces::Interfaces;
use super::jailed::{Jail, RunJail};
use super::outlets::{DroppedRows, RowsTo, finish_rows, open_rows, wrong, wrong_rows};
use super::passes::{Making, Seats};
use super::plan::{AppPlan, Plan};
use super::reload::Reload;
use super::seat::{BORDERS, NO_APPLICATION};
use super::shown::{LiveView, Whose};
use crate::application::{
    BesideReport, Closing, CombinedWants, MakeWatcher, Opening, Ready, Refusal,
};
use crate::captures::Captures;
use crate::clock::Clock;
use crate::drills::Drills;
use crate::indicated::IndicatorLabels;
use crate::networks::Enriching;
use crate::outlet::{self, Outlet, OutletWriter, RowsError, RowsWriter, Sharing, WhenBehind};
use crate::outside::Pace;
use crate::reading::{InputError, InputRequest, Inputs, OpenSources, ReceiveOutcome, hash_seed};
use crate::rules::InForce;
use crate::toml_text::Mistake;
use crate::weight::Weight;

/// What a front end passes to a run.
#[derive(Clone, Copy)]
pub struct Doors {
    /// Time outside of event time.
    pub clock: Clock,
    /// A handle on standard output.
    pub stdout: fn() -> io::Result<File>,
    /// Prints messages for users, if they want them; a line each.
    pub tell: Option<fn(&str)>,
    /// Whether a run enters a jail before its first packet.
    pub jail: Jail,
    /// Prints what users have to know, whether they want messages or not; a line each.
    pub warn: fn(&str),
}

/// Why a run does not begin, or does not end well.
#[derive(Debug)]
pub enum RunError {
    /// Something in the file of settings.
    Settings(Vec<Mistake>),
    /// Something that is asked for there cannot be begun, such as an output that exists.
    Begin(Mistake),
    /// The same of what arguments ask for.
    Refused(Refusal),
    /// Inputs cannot be read.
    Input(InputError),
    /// Rows cannot be written.
    Rows(&'static str, RowsError),
    /// An application cannot continue.
    Application(&'static str, Refusal),
    /// Results that were to be kept are not.
    Loss(String),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(mistakes) => {
                let lines: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Begin(mistake) => mistake.fmt(f),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Input(error) => error.fmt(f),
            Self::Rows(_, error) => error.fmt(f),
            Self::Application(name, refusal) => write!(f, "{name}: {refusal}"),
            Self::Loss(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for RunError {}

impl From<InputError> for RunError {
    fn from(error: InputError) -> Self {
        Self::Input(error)
    }
}

/// Who labels flows for rules, as messages name it.
const OF_RULES: &str = "rules";

/// Why not each of several runs has some of the flows.
const NO_SHARES: &str = "these rows depend on several flows at a time, so no run can have a share \
                         of the flows; leave it out";

/// A run that is about to begin.
pub struct Session {
    inputs: Inputs,
    clock: Clock,
    driving: Driving,
    names: Vec<&'static str>,
    /// By the places of their applications.
    writers: Vec<(usize, OutletWriter)>,
    reload: Reload,
    besides: Besides,
    counted: Option<LiveCounts>,
    jail: RunJail,
    supervision: Supervision,
}

/// A run with observers.
struct LiveCounts {
    store: Arc<Store>,
    reading: Arc<Reading>,
    /// Its applications, in the order of the settings.
    all: Vec<Whose>,
}

impl LiveCounts {
    fn begin(
        store: Arc<Store>,
        inputs: &Inputs,
        all: Vec<Whose>,
        supervision: &Supervision,
    ) -> Self {
        if inputs.interface.is_some() {
            store.allow_epochs();
        }
        count_process(&store);
        supervision.count(&store, &all);
        let reading = Reading::count(&store, Arc::clone(&inputs.options.progress));
        all.iter().for_each(|whose| whose.put_first(&store));
        Self { store, reading, all }
    }

    /// What is said in the end.
    fn end(self, closings: &[(usize, Closing)], received: &ReceiveOutcome) {
        let Self { store, reading, all } = self;
        for (place, closing) in closings {
            if let Some(whose) = all.get(*place) {
                whose.put_last(&store, closing);
            }
        }
        reading.end(&received.report);
        store.end();
    }
}

/// What a hangup asks for.
pub enum Again {
    /// New files for rows.
    Outputs,
    /// The same, and settings as they are now.
    Settings(Box<Result<Plan, Vec<Mistake>>>),
}

/// What is left of a run.
pub struct SessionOutcome {
    /// What was read.
    pub inputs: Inputs,
    /// Its outcome before applications.
    pub received: ReceiveOutcome,
    /// What each application says of itself, by name.
    pub closings: Vec<(&'static str, Closing)>,
    /// The closing counts of work alongside the passes, by application.
    pub besides: Vec<(&'static str, BesideReport)>,
    /// Rows that were dropped because writing them was too slow, by application.
    pub dropped: Vec<(&'static str, u64)>,
    /// Rows that were sent and did not arrive, and what was lost because who labels flows for rules
    /// has ended; a line each.
    pub lost: Vec<String>,
}

/// The lists that rules use; opened here if the front end has not.
fn lists(
    opened: Option<Arc<Lists>>,
    settings: &alerts::Settings,
    read_labels: &[LabelKind],
) -> Result<Option<Arc<Lists>>, RunError> {
    if !read_labels.contains(&LabelKind::Indicator) {
        return Ok(None);
    }
    if opened.is_some() {
        return Ok(opened);
    }
    let lists = settings.open_lists();
    lists.map(Some).map_err(|error| RunError::Refused(Refusal::of("[[indicators]]", error)))
}

/// Who labels flows for rules and is no application: before those, which read the labels.
fn labelling(
    rules: &InForce,
    has_sizes: bool,
    lists: Option<Arc<Lists>>,
    idle_timeout: Span,
    supervision: &mut Supervision,
) -> Seats {
    let mut seats = Seats::default();
    let faults = &supervision.other(NO_APPLICATION, OF_RULES);
    if has_sizes {
        seats.add(NO_APPLICATION, true, Weight::new(rules).into(), None, faults);
    }
    if let Some(lists) = lists {
        let labels = IndicatorLabels::new(lists, idle_timeout);
        seats.add(NO_APPLICATION, true, labels.into(), None, faults);
    }
    seats
}

/// Whether frames may be read in any order, and then whether captures are put together.
fn any_order(
    applications: &[AppPlan],
    is_ordered: bool,
    inputs: &Inputs,
    opened: &OpenSources,
) -> Option<bool> {
    match applications {
        // Who looks at it while it goes on wants one order.
        [one] if one.ready.is_in_any_order() && !is_ordered => inputs.can_be_unordered(opened),
        _ => None,
    }
}

/// How flows are cut: as applications want it, and of those the share that a request asks for.
fn flow_options(
    request: &InputRequest,
    applications: &[AppPlan],
    wants: &CombinedWants,
    drills: &Drills,
) -> Result<FlowOptions, RunError> {
    let (share, wanted) = (share(request, applications)?, wants.flow_options());
    let flow_count_max = drills.flow_count_max(wanted.flow_count_max);
    Ok(FlowOptions { share, flow_count_max, ..wanted })
}

fn share(request: &InputRequest, applications: &[AppPlan]) -> Result<PartitionShare, RunError> {
    let has_shares = applications.iter().all(|one| one.ready.has_shares());
    if request.share.is_whole() || has_shares {
        return Ok(request.share);
    }
    Err(RunError::Refused(Refusal::of("share", NO_SHARES)))
}

impl Session {
    /// Opens the outputs of a plan, and begins its applications. `inputs` were found with what the
    /// plan wants, and `opened` from them; `announce` is called once nothing can refuse the run.
    ///
    /// # Errors
    /// [`RunError`]
    pub fn begin(
        plan: Plan,
        inputs: Inputs,
        opened: OpenSources,
        doors: Doors,
        announce: impl FnOnce(&OpenSources, &Inputs),
    ) -> Result<Self, RunError> {
        plan.check_cut().map_err(|why| RunError::Refused(Refusal::new(why)))?;
        let request = plan.request();
        let jail = RunJail::of(&plan, Some(&inputs), doors);
        let Plan { input, run, applications, rules, wants, tables, networks, store, .. } = plan;
        let escalations = plan.escalations;
        let pace = input.pace.map(|factor| Arc::new(Pace::new(factor, doors.clock)));
        inputs.live.begin(opened.interfaces());
        let (interfaces, changing) = Interfaces::new(inputs.live.clone(), plan.opener);
        let (in_force, read_labels) = (InForce::default(), rules.reads(|_| true));
        let has_sizes = !rules.thresholds().is_empty();
        let mut reload = Reload::new(tables, in_force.clone(), read_labels.clone(), networks);
        reload.interfaces = interfaces;
        in_force.change(rules);
        let lists = lists(plan.lists, &plan.alerts, &read_labels)?;
        let wants_frames = |one: &AppPlan| one.ready.wants().has_frames;
        let mut supervision =
            Supervision::new(&run, applications.len(), doors.warn, &inputs.control);
        let has_frames = lists.is_some() || applications.iter().any(wants_frames);
        let making = Making {
            options: flow_options(&request, &applications, &wants, &run.simulate)?,
            seed: hash_seed(run.seed),
            thread_count: threads(&inputs, pace.is_some()),
            socket_count: sockets(&opened),
            is_steered: has_sizes || !read_labels.is_empty(),
            payload_len_max: has_frames.then_some(wants.needs.payload_len_max() as usize),
            faults: supervision.other(BORDERS, "run"),
        };
        let is_watched = store.is_some() || changing.is_some();
        let is_ordered = pace.is_some() || making.is_steered || is_watched;
        let any_order = any_order(&applications, is_ordered, &inputs, &opened);
        let (rules, shown) = (in_force, store.as_ref());
        let drills = &run.simulate;
        let lent =
            Context { inputs: &inputs, doors, request, pace, rules, read_labels, shown, drills };
        // Before the lenses, which hand in rows: writers that are abandoned wait for those to go.
        let mut begun = PendingWriters(Vec::new());
        // Files first: one that exists refuses the run before a log is begun.
        let waiting: Vec<Waiting> = applications
            .into_iter()
            .enumerate()
            .map(|(at, planned)| lent.outlet(at, planned, &mut begun))
            .collect::<Result<_, _>>()?;
        let names = waiting.iter().map(|one| one.ready.name()).collect();
        let idle_timeout = making.options.idle_timeout;
        let mut seats = labelling(&lent.rules, has_sizes, lists, idle_timeout, &mut supervision);
        let opens = Opens { any_order, making: &making, escalations };
        let begun_all =
            lent.begin_all(waiting, &opens, (&mut seats, &mut reload, &mut supervision))?;
        let BegunAll { mut besides, any, all } = begun_all;
        besides.are_alone = seats.are_empty() && any.is_none();
        let looking = Looking::new(any, seats, making);
        let looking = looking.map_err(|refusal| RunError::Application("run", refusal))?;
        announce(&opened, &inputs);
        supervision.announce_drills();
        let pace = lent.pace;
        let driving = Driving::new(looking, opened, &inputs, pace, changing, doors.tell);
        let writers = std::mem::take(&mut begun.0);
        let counted = store.map(|store| LiveCounts::begin(store, &inputs, all, &supervision));
        let clock = doors.clock;
        Ok(Self {
            inputs,
            clock,
            driving,
            names,
            writers,
            reload,
            besides,
            counted,
            jail,
            supervision,
        })
    }

    /// What is read.
    #[must_use]
    pub const fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Ends before anything is read: there is nothing to be kept.
    pub fn abandon(self) {
        let Self { driving, writers, besides, .. } = self;
        // Who hands in rows goes first: writers wait for that.
        drop((driving, besides));
        writers.into_iter().for_each(|(_, writer)| writer.abandon());
    }

    /// Enters the jail and reads to the end. `hangup` says whether new files are to be begun, and
    /// settings to be taken up; `tell` takes what is to be said of that.
    ///
    /// # Errors
    /// [`RunError`]
    pub fn run(
        self,
        mut hangup: impl FnMut() -> Option<Again>,
        mut tell: impl FnMut(&str),
    ) -> Result<SessionOutcome, RunError> {
        let Self { inputs, clock, driving, names, writers, mut reload, besides, .. } = self;
        let Self { counted, jail, supervision, .. } = self;
        // Everything is open, and no packet was read.
        jail.enter(&mut tell);
        let mut after_batch = || {
            reload.interfaces.news().for_each(|line| tell(&line));
            let Some(again) = hangup() else { return };
            let begun = (clock.now)();
            writers.iter().for_each(|(_, writer)| writer.reopen());
            if let Again::Settings(plan) = again {
                let lines = reload.take_up(*plan);
                let waited = (clock.now)().saturating_duration_since(begun);
                lines.iter().for_each(|line| tell(line));
                let waited_ms = waited.as_secs_f64() * 1e3;
                tell(&format!("packets waited {waited_ms:.3} ms for the reload"));
            }
        };
        let (read, besides) = besides.run(&inputs.control, &mut after_batch, |after_batch| {
            driving.run(&inputs, after_batch)
        });
        let (passed, received) = match read {
            Ok(read) => read,
            Err(error) => {
                writers.into_iter().for_each(|(_, writer)| writer.abandon());
                return Err(error.into());
            }
        };
        supervision.end_drills(&received.report);
        let (mut closings, mut failure) = close(passed, &names, &supervision);
        let (dropped, mut lost) = finish_rows(writers, &mut failure);
        for DroppedRows { place, count, .. } in &dropped {
            let mut of_place = closings.iter_mut().filter(|(at, _)| at == place);
            of_place.next().into_iter().for_each(|(_, closing)| closing.dropped_rows += count);
        }
        if let Some(counted) = counted {
            counted.end(&closings, &received);
        }
        let name = |place: usize| names.get(place).copied();
        let closings = closings.into_iter();
        let closings =
            closings.filter_map(|(place, closing)| Some((name(place)?, closing))).collect();
        match failure {
            Some(failure) => Err(failure),
            None => {
                lost.extend(supervision.loss(NO_APPLICATION, OF_RULES));
                let dropped = dropped.into_iter().map(|one| (one.name, one.count)).collect();
                Ok(SessionOutcome { inputs, received, closings, besides, dropped, lost })
            }
        }
    }
}

/// What applications are lent when they begin.
struct Context<'a> {
    inputs: &'a Inputs,
    doors: Doors,
    request: InputRequest,
    pace: Option<Arc<Pace>>,
    rules: InForce,
    read_labels: Vec<LabelKind>,
    shown: Option<&'a Arc<Store>>,
    drills: &'a Drills,
}

/// An application whose outputs are open.
struct Waiting {
    ready: Box<dyn Ready>,
    outlet: Option<Outlet>,
    place: Option<Mistake>,
    /// Where its rows are stored for observers of the run.
    table: Option<Arc<Table>>,
    /// What its rows get besides.
    enriching: Option<Enriching>,
    whose: Whose,
}

/// What applications have in common when they begin.
struct Opens<'a> {
    any_order: Option<bool>,
    making: &'a Making,
    escalations: Option<Arc<Escalations>>,
}

/// Applications that have begun.
#[derive(Default)]
struct BegunAll {
    besides: Besides,
    any: Option<(MakeWatcher, Arc<Faults>)>,
    all: Vec<Whose>,
}

impl Context<'_> {
    const fn is_live(&self) -> bool {
        self.inputs.interface.is_some()
    }

    /// Opens where an application's rows go.
    fn outlet(
        &self,
        at: usize,
        planned: AppPlan,
        begun: &mut PendingWriters,
    ) -> Result<Waiting, RunError> {
        let AppPlan { ready, output, door, shown, place, about, wants_door, enriching } = planned;
        begun.0.extend(shown.map(|writer| (at, writer)));
        let (name, base) = (ready.name(), ready.schema(Captures::of(self.inputs).are_named()));
        let enriching = enriching.map(|enriching| enriching.with(base));
        let schema = enriching.as_ref().map_or(base, Enriching::schema);
        let is_file = output.as_ref().is_some_and(|output| !output.is_stdout());
        let to = RowsTo::of(door, output);
        let has_rows = wants_door || to.is_some();
        let shown = self.shown.filter(|_| has_rows);
        let table = shown.map(|store| store.add(name, about, schema, TableLimits::default()));
        let rows = to.map(|to| open_rows(to, schema, self.doors)).transpose();
        let rows = rows.map_err(|error| wrong_rows(place.as_ref(), name, error))?;
        let slow = self.drills.slow_disk(&self.inputs.control).filter(|_| is_file);
        let rows = match (slow, rows) {
            (Some(slow), Some(rows)) => Some(RowsWriter::Slow(slow, Box::new(rows))),
            (_, rows) => rows,
        };
        let whose = Whose::new(name, at, table.as_deref());
        let rows = match (&table, rows) {
            (None, None) => {
                return Ok(Waiting { ready, outlet: None, place, table, enriching, whose });
            }
            (None, Some(rows)) => rows,
            (Some(table), rows) => RowsWriter::Shown(Arc::clone(table), rows.map(Box::new)),
        };
        let rows = match &enriching {
            Some(enriching) => RowsWriter::Enriched(enriching.clone(), Box::new(rows)),
            None => rows,
        };
        let when = if self.is_live() { WhenBehind::Drop } else { WhenBehind::Wait };
        let (now, control) = (self.doors.clock.now, Arc::clone(&self.inputs.control));
        let (outlet, writer) = outlet::begin(name, rows, when, now, control);
        if let Some(store) = self.shown {
            whose.count_by(store, writer.counting());
        }
        begun.0.push((at, writer));
        Ok(Waiting { ready, outlet: Some(outlet), place, table, enriching, whose })
    }

    /// Whether several passes may share the flows of an application: no other uses its labels.
    fn is_spread(&self, ready: &dyn Ready) -> bool {
        let is_read = |(kind, _): &(LabelKind, _)| self.read_labels.contains(kind);
        ready.is_by_flow() && !ready.gives().iter().any(is_read)
    }

    /// How passes share the flows of an application.
    fn sharing(&self, any_order: Option<bool>, ready: &dyn Ready, making: &Making) -> Sharing {
        match any_order {
            Some(is_merged) => Sharing::AnyOrder { is_merged },
            None if self.is_spread(ready) => making.sharing(),
            None => Sharing::Whole,
        }
    }

    /// Begins applications whose outputs are open, each with its seat in the passes.
    fn begin_all(
        &self,
        waiting: Vec<Waiting>,
        opens: &Opens<'_>,
        (seats, reload, supervision): (&mut Seats, &mut Reload, &mut Supervision),
    ) -> Result<BegunAll, RunError> {
        let Opens { any_order, making, escalations } = opens;
        let mut begun = BegunAll::default();
        for (at, one) in waiting.into_iter().enumerate() {
            let Waiting { ready, outlet, place, table, enriching, whose } = one;
            let (name, has_flows) = (ready.name(), ready.wants().has_flows);
            let sharing = self.sharing(*any_order, &*ready, making);
            let opening = self.opening(outlet, sharing, making.seed);
            let opening = Opening { escalations: escalations.clone(), ..opening };
            let mut watchers =
                ready.open(opening).map_err(|error| wrong(place.as_ref(), name, error))?;
            begun.besides.add(name, watchers.beside.take());
            reload.replaces.push((name, watchers.replace.take()));
            let faults = supervision.begin(at, name);
            begun.any = watchers.any.take().map(|make| (make, Arc::clone(&faults)));
            if let (Some(store), Some(counting)) = (self.shown, watchers.counting.take()) {
                whose.count_by(store, counting);
            }
            begun.all.push(whose.clone());
            let view = |store| LiveView::new(Arc::clone(store), whose, table, enriching);
            let shown = self.shown.map(view);
            seats.add(at, has_flows, watchers, shown.as_ref(), &faults);
        }
        Ok(begun)
    }

    fn opening(&self, outlet: Option<Outlet>, sharing: Sharing, seed: HashSeed) -> Opening {
        Opening {
            outlet,
            sharing,
            request: self.request.clone(),
            captures: Captures::of(self.inputs),
            seed,
            control: Arc::clone(&self.inputs.control),
            interfaces: self.inputs.live.clone(),
            tell: self.doors.tell,
            warn: self.doors.warn,
            progress: Arc::clone(&self.inputs.options.progress),
            clock: self.doors.clock,
            is_live: self.is_live(),
            pace: self.pace.clone(),
            rules: self.rules.clone(),
            read_labels: self.read_labels.clone(),
            escalations: None,
            drills: self.drills.clone(),
        }
    }
}

/// Writers of a run that has not begun yet: where it does not, there is nothing to be kept.
pub(super) struct PendingWriters(pub(super) Vec<(usize, OutletWriter)>);

impl Drop for PendingWriters {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(_, writer)| writer.abandon());
    }
}

/// The number of threads that process frames. They take turns, so frames must be able to wait until
/// there are several: those of a complete capture, and not of a pipe that
/// is filled slowly.
fn threads(inputs: &Inputs, is_paced: bool) -> usize {
    let is_file = |input: &Input| matches!(input, Input::File(_));
    let are_files = inputs.interface.is_none() && inputs.resolved.inputs.iter().all(is_file);
    if are_files && !is_paced { inputs.thread_count } else { 1 }
}

/// Sockets that share an interface.
fn sockets(opened: &OpenSources) -> usize {
    if let OpenSources::Live(sources) = opened { sources.len() } else { 1 }
}
