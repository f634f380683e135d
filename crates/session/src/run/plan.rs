//! A file of settings, read and checked: every mistake with its line.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use alerts::Lists;
use bus::{BusError, Escalations};
use engine::flow::pass::LabelKind;
use packet::Timestamp;
use store::Store;
use toml::de::{DeArray, DeTable, DeValue};
use toml::{Spanned, Table};

use super::alerting;
pub use super::app_plan::AppPlan;
use super::central;
use super::drilling::drills_at;
use super::interfaces::NOT_NAMED;
use super::opener::Opener;
use super::outputs::{OutputSettings, OutputTarget, take_output};
use super::session::RunError;
pub use super::settings::RunSettings;
use crate::application::{Clash, CombinedWants, Entry, Reading, Ready, Refusal, Site, Wants};
use crate::applications::APPLICATIONS;
use crate::input::InputSettings;
use crate::names_read;
use crate::networks::{self, Networks};
use crate::outlet::TakeRows;
use crate::page::PageSettings;
use crate::published::NatsSettings;
use crate::reading::{InputError, InputRequest, Inputs, OpenSources, is_same_file};
use crate::rules::{RuleContext, Rules, Words};
use crate::sensors::SensorsSettings;
use crate::stored::HistorySettings;
use crate::toml_text::{Mistake, Mistakes, read_table, suggestion};

/// What is wrong where workers are to be reached over nothing.
const NO_BROKER: &str = "workers = true needs [nats], over which they are reached";

/// The name of settings that are in no file.
pub const NO_FILE: &str = "<settings>";

/// What a file of settings asks for.
pub struct Plan {
    /// Which frames.
    pub input: InputSettings,
    /// Settings of the run as a whole.
    pub run: RunSettings,
    /// The applications, in the order of [`APPLICATIONS`].
    pub applications: Vec<AppPlan>,
    /// What rules make of labels.
    pub rules: Rules,
    /// Whether rules are about lists of names, which are looked for in payload.
    pub(super) rules_read_names: bool,
    /// What all applications want.
    pub wants: CombinedWants,
    /// Where the run is shown, if the settings say so.
    pub page: Option<PageSettings>,
    /// Where rows are stored, if the settings say so.
    pub history: Option<HistorySettings>,
    /// Where rows are published, if the settings say so.
    pub nats: Option<NatsSettings>,
    /// The sensors whose rows are read in place of packets, if the settings say so.
    pub sensors: Option<SensorsSettings>,
    /// How workers are reached, for applications that [escalate](Ready::escalates); without it they
    /// compute everything themselves.
    pub escalations: Option<Arc<Escalations>>,
    /// What is known of addresses besides packets.
    pub(super) networks: Option<Networks>,
    /// Rules over rows, lists of indicators, and where alerts go.
    pub alerts: alerts::Settings,
    /// The lists of indicators, opened, where rules are about them.
    pub lists: Option<Arc<Lists>>,
    /// Where rows are stored for observers of the run, if there are any.
    pub store: Option<Arc<Store>>,
    /// How interfaces are opened that later settings add, or why they are not.
    pub(super) opener: Result<Opener, String>,
    /// Which frames, where arguments asked for them.
    asked: Option<InputRequest>,
    /// All tables as they are written, to see at a reload what was changed: made here, as whoever
    /// compares them has packets to read.
    pub(super) tables: Table,
}

impl Plan {
    /// One application that was asked for by arguments, as were the frames that it looks at.
    #[must_use]
    pub fn alone(planned: AppPlan, asked: InputRequest, seed: Option<u64>) -> Self {
        let mut wants = CombinedWants::default();
        // Nobody is there whom it could clash with.
        let _ = wants.add(planned.ready.name(), &planned.ready.wants());
        Self {
            input: InputSettings::default(),
            run: RunSettings { seed, ..RunSettings::default() },
            applications: vec![planned],
            rules: Rules::default(),
            rules_read_names: false,
            wants,
            page: None,
            history: None,
            nats: None,
            sensors: None,
            escalations: None,
            networks: None,
            alerts: alerts::Settings::default(),
            lists: None,
            store: None,
            opener: Err(String::from(NOT_NAMED)),
            asked: Some(asked),
            tables: Table::new(),
        }
    }

    /// Which frames are read, and how.
    #[must_use]
    pub fn request(&self) -> InputRequest {
        let of_settings = || {
            let mut request =
                InputRequest { decapsulate: self.wants.inner(), ..self.input.request() };
            if let Some(interface) = &mut request.interface {
                interface.options.stall_until_dropped = self.run.simulate.dropped();
                interface.options.cut = self.cut_frames();
            }
            request
        };
        self.asked.clone().unwrap_or_else(of_settings)
    }

    /// Whether it reads packets, as front ends want it that show no results of others.
    ///
    /// # Errors
    /// [`RunError::Refused`]
    pub fn check_has_packets(&self) -> Result<(), RunError> {
        let why = "results of other machines are shown by `wirelens run` alone";
        let refusal = || RunError::Refused(Refusal::of("[sensors]", why));
        self.sensors.as_ref().map_or(Ok(()), |_| Err(refusal()))
    }

    /// Adds an application of the front end, and the consumer of its rows.
    ///
    /// # Errors
    /// [`Clash`] where it wants flows cut otherwise than another does.
    pub fn add(&mut self, ready: Box<dyn Ready>, door: Box<dyn TakeRows>) -> Result<(), Clash> {
        self.wants.add(ready.name(), &ready.wants())?;
        let place = Mistake { line: 1, path: PathBuf::from(NO_FILE), message: String::new() };
        let (door, place) = (Some(door), Some(place));
        self.applications.push(AppPlan { door, place, ..AppPlan::asked(ready) });
        Ok(())
    }
}

/// Opens what an application reads that runs alone: several sockets of an interface where any of
/// them will do. Flows of captures are shared by several threads only where threads were asked for:
/// one is enough for most captures, and others cost more than they bring where packets are of few
/// flows.
///
/// # Errors
/// [`InputError`]
pub fn open_alone(
    inputs: &mut Inputs,
    ready: &dyn Ready,
    asks_for_threads: bool,
) -> Result<OpenSources, InputError> {
    if ready.is_by_flow() && !asks_for_threads {
        inputs.thread_count = 1;
    }
    if let Some(interface) = &mut inputs.interface {
        interface.options.cut = ready.cut_frames();
    }
    let is_spread = ready.is_by_flow() || ready.is_in_any_order();
    inputs.open_any(ready.wants().needs, if is_spread { inputs.thread_count } else { 1 })
}

impl Plan {
    /// Opens what is read, where any application looks at packets in user space.
    ///
    /// # Errors
    /// [`InputError`]
    pub fn open(&self, inputs: &Inputs) -> Result<OpenSources, InputError> {
        if inputs.interface.is_some() && !self.takes_packets() {
            return Ok(OpenSources::Live(Vec::new()));
        }
        inputs.open_any(self.wants.needs, 1)
    }
}

/// Reads a settings file. `instead` changes its `[input]`, if a front end was given other inputs.
///
/// # Errors
/// Every mistake in it.
pub fn read(
    path: &Path,
    text: &str,
    instead: &impl Fn(&mut InputSettings),
    site: &Site<'_>,
) -> Result<Plan, Vec<Mistake>> {
    let (root, mut mistakes) = Mistakes::parse(path, text);
    if !mistakes.is_empty() {
        return Err(mistakes.into_found());
    }
    let plan = plan(text, root, instead, site, &mut mistakes);
    match plan {
        Some(plan) if mistakes.is_empty() => Ok(plan),
        _ => Err(mistakes.into_found()),
    }
}

/// The applications of a file, what they want together, and the words that they give for rules.
#[derive(Default)]
struct AppPlans {
    planned: Vec<AppPlan>,
    wants: CombinedWants,
    words: Vec<Words>,
}

fn applications(
    root: &mut DeTable<'_>,
    site: Site<'_>,
    has_broker: bool,
    mistakes: &mut Mistakes,
) -> AppPlans {
    let mut found = AppPlans::default();
    for entry in APPLICATIONS {
        for table in tables_of(entry.name, root.remove(entry.name), mistakes) {
            let at = table.span();
            let Some((written, ready)) = application(entry, table, site, mistakes) else {
                continue;
            };
            if let Err(clash) = found.wants.add(entry.name, &ready.wants()) {
                mistakes.add(at.clone(), clash);
            }
            if ready.escalates() && !has_broker {
                mistakes.add(at.clone(), format_args!("[{}] {NO_BROKER}", entry.name));
            }
            take_words(&*ready, entry.name, &at, &mut found.words, mistakes);
            let place = mistakes.place(at);
            found.planned.push(AppPlan::written(entry, ready, written, place));
        }
    }
    found
}

fn plan(
    text: &str,
    root: Spanned<DeTable<'_>>,
    instead: &impl Fn(&mut InputSettings),
    site: &Site<'_>,
    mistakes: &mut Mistakes,
) -> Option<Plan> {
    let mut root = root.into_inner();
    refuse_unknown(&root, mistakes);
    let sensors_at = root.get_key_value(central::NAME).map(|(key, _)| key.span());
    let sensors = central::take(&mut root, mistakes);
    let is_central = sensors_at.is_some();
    let input = input(root.remove("input"), instead, mistakes);
    let is_live = is_central || input.as_ref().is_some_and(InputSettings::is_live);
    let site = Site { is_live, input: input.as_ref(), ..*site };
    let drills_at = drills_at(&root);
    let run = run(root.remove("run"), input.as_ref(), mistakes);
    let page = page(root.remove("page"), mistakes);
    let history = history(root.remove("history"), mistakes);
    let nats = nats(root.remove("nats"), mistakes);
    let networks = root.remove("networks");
    let networks_at = networks.as_ref().map(Spanned::span);
    let networks = self::networks(networks, mistakes);
    let alerting = alerting::take(&mut root, mistakes);
    let is_published = nats.is_some() && !is_central;
    let is_observed = page.is_some() || history.is_some() || is_published;
    let is_seen = site.takes_rows || is_observed || !alerting.is_empty();
    let site = Site { takes_rows: is_seen || is_central, ..site };
    let rules = tables_of("rule", root.remove("rule"), mistakes);
    let has_broker = nats.is_some() || is_central;
    let AppPlans { mut planned, mut wants, words } =
        applications(&mut root, site, has_broker, mistakes);
    if let Some((networks, at)) = networks.as_ref().zip(networks_at) {
        enrich(networks, &mut planned, at, mistakes);
    }
    refuse_shared(&planned, mistakes);
    refuse_taking_place(&planned, mistakes);
    if planned.is_empty() && !site.takes_rows && mistakes.is_empty() {
        refuse_nothing(mistakes);
    }
    let rules = steering(&rules, &words, &planned, &alerting.lists(), mistakes);
    let rules_read_names =
        alerting.has_names() && rules.reads(|_| true).contains(&LabelKind::Indicator);
    if rules_read_names {
        // It opens no flows of its own, so nothing can clash.
        let _ = wants.add("rule", &Wants::frames(names_read::needs("rule")));
    }
    central::check(sensors_at, &planned, (input.as_ref(), is_seen), mistakes);
    let alerts = alerting.check(&central::tables(&planned, is_central), mistakes);
    let (input, run) = (input?, run?);
    // It was read as TOML before.
    let tables = text.parse().unwrap_or_default();
    let plan = Plan {
        input,
        run,
        applications: planned,
        rules,
        rules_read_names,
        wants,
        page,
        history,
        nats,
        sensors,
        escalations: None,
        networks,
        alerts,
        lists: None,
        store: None,
        opener: Err(String::from(NOT_NAMED)),
        asked: None,
        tables,
    };
    plan.refuse_idle_drills(drills_at, mistakes);
    Some(plan)
}

impl Plan {
    /// Connects to workers where an application [escalates](Ready::escalates) to them, on a machine
    /// of this name and at this time, with monotonic time and what prints messages for users.
    ///
    /// # Errors
    /// [`BusError`], where trying again would not help.
    pub fn reach_workers(
        &mut self,
        machine: impl FnOnce() -> String,
        began: Timestamp,
        monotonic: fn() -> Duration,
        tell: fn(&str),
    ) -> Result<(), BusError> {
        let escalates = self.applications.iter().any(|one| one.ready.escalates());
        let Some(nats) = self.nats.as_ref().filter(|_| escalates) else { return Ok(()) };
        let options = nats.escalations(machine, began, monotonic, tell);
        let escalations = Escalations::begin(options)?;
        self.store.iter().for_each(|store| escalations.count_in(store));
        self.escalations = Some(escalations);
        Ok(())
    }
}

fn refuse_nothing(mistakes: &mut Mistakes) {
    let known: Vec<_> = APPLICATIONS.iter().map(|entry| entry.name).collect();
    mistakes.add(0..0, format_args!("no application; wanted: a table of {}", known.join(", ")));
}

/// The rules by which verdicts steer verdicts.
fn steering(
    tables: &[Spanned<DeTable<'_>>],
    words: &[Words],
    planned: &[AppPlan],
    indicators: &[String],
    mistakes: &mut Mistakes,
) -> Rules {
    // Of an application that is not there because of a mistake its rules are none.
    if !mistakes.is_empty() {
        return Rules::default();
    }
    let names: Vec<_> = planned.iter().map(|one| one.ready.name()).collect();
    let unsteered =
        planned.iter().filter_map(|one| Some((one.ready.name(), one.ready.unsteered()?)));
    let unsteered: Vec<_> = unsteered.collect();
    let known = RuleContext { words, indicators, applications: &names, unsteered: &unsteered };
    Rules::read(tables, &known, mistakes)
}

/// The words that an application gives for rules; two that give labels of one kind clash.
fn take_words(
    ready: &dyn Ready,
    giver: &'static str,
    at: &Range<usize>,
    words: &mut Vec<Words>,
    mistakes: &mut Mistakes,
) {
    for (kind, names) in ready.gives() {
        if words.iter().any(|given| given.kind == kind) {
            let kind = kind.name();
            let told = "another application gives";
            mistakes.add(at.clone(), format_args!("[{giver}] {told} {kind} labels as well"));
        }
        let can_be_again = ready.classifies_again();
        words.push(Words { kind, giver, words: names, can_be_again });
    }
}

fn page(value: Option<Spanned<DeValue<'_>>>, mistakes: &mut Mistakes) -> Option<PageSettings> {
    let table = table_of("page", value, mistakes)?;
    let mut page = read_table::<PageSettings>("page", &table, mistakes)?;
    if let Some(mistake) = page.mistake() {
        mistakes.add(table.span(), format_args!("[page] {mistake}"));
    }
    if let Err(mistake) = page.read_token() {
        let place = table.get_ref().get_key_value("token-file");
        let at = place.map_or_else(|| table.span(), |(key, _)| key.span());
        mistakes.add(at, format_args!("[page] {mistake}"));
    }
    Some(page)
}

fn history(
    value: Option<Spanned<DeValue<'_>>>,
    mistakes: &mut Mistakes,
) -> Option<HistorySettings> {
    let table = table_of("history", value, mistakes)?;
    read_table("history", &table, mistakes)
}

fn nats(value: Option<Spanned<DeValue<'_>>>, mistakes: &mut Mistakes) -> Option<NatsSettings> {
    let table = table_of("nats", value, mistakes)?;
    let nats = read_table::<NatsSettings>("nats", &table, mistakes)?;
    if let Some(mistake) = nats.mistake() {
        mistakes.add(table.span(), format_args!("[nats] {mistake}"));
    }
    Some(nats)
}

fn refuse_unknown(root: &DeTable<'_>, mistakes: &mut Mistakes) {
    let mut names = vec!["input", "sensors", "run", "page", "history", "nats", "networks", "rule"];
    names.extend(alerting::NAMES);
    names.extend(APPLICATIONS.iter().map(|entry| entry.name));
    for key in root.keys() {
        let name = key.get_ref().as_ref();
        if !names.contains(&name) {
            let told = suggestion(name, &names);
            mistakes.add(key.span(), format_args!("there is no table [{name}]; {told}"));
        }
    }
}

fn input(
    value: Option<Spanned<DeValue<'_>>>,
    instead: &impl Fn(&mut InputSettings),
    mistakes: &mut Mistakes,
) -> Option<InputSettings> {
    let Some(table) = table_of("input", value, mistakes) else {
        let mut input = InputSettings::default();
        instead(&mut input);
        return Some(input);
    };
    let mut input: InputSettings = read_table("input", &table, mistakes)?;
    instead(&mut input);
    match input.check() {
        Ok(()) => Some(input),
        Err((key, message)) => {
            let place = table.get_ref().get_key_value(key);
            let at = place.map_or_else(|| table.span(), |(key, _)| key.span());
            mistakes.add(at, format_args!("[input] {message}"));
            None
        }
    }
}

fn networks(value: Option<Spanned<DeValue<'_>>>, mistakes: &mut Mistakes) -> Option<Networks> {
    let table = table_of("networks", value, mistakes)?;
    let settings: networks::Settings = read_table("networks", &table, mistakes)?;
    let read = settings.read().map_err(|(key, message)| {
        let place = table.get_ref().get_key_value(key);
        let at = place.map_or_else(|| table.span(), |(key, _)| key.span());
        mistakes.add(at, format_args!("[networks] {key}: {message}"));
    });
    read.ok()
}

/// Adds what is known of addresses to tables with a row for each flow.
fn enrich(networks: &Networks, planned: &mut [AppPlan], at: Range<usize>, mistakes: &mut Mistakes) {
    for one in planned.iter_mut() {
        one.enriching = networks.of(one.ready.name(), one.ready.schema(false));
    }
    let has_macs =
        |one: &AppPlan| one.ready.schema(false).iter().any(|field| field.name == "src_mac");
    if networks.has_vendors() && !planned.iter().any(has_macs) {
        mistakes.add(
            at,
            "[networks] mac-vendors: no table has MAC addresses; add `macs = true` to [flows]",
        );
        return;
    }
    if planned.iter().all(|one| one.enriching.is_none()) {
        let wanted = "wanted: [flows], or [classify] of flows, with Wirelens' own columns";
        mistakes.add(at, format_args!("[networks] no table has columns for it; {wanted}"));
    }
}

fn run(
    value: Option<Spanned<DeValue<'_>>>,
    input: Option<&InputSettings>,
    mistakes: &mut Mistakes,
) -> Option<RunSettings> {
    let Some(table) = table_of("run", value, mistakes) else { return Some(RunSettings::default()) };
    let mut run: RunSettings = read_table("run", &table, mistakes)?;
    if let Some(Err((key, message))) = input.map(|input| run.check(input)) {
        let place = table.get_ref().get_key_value(key);
        let at = place.map_or_else(|| table.span(), |(key, _)| key.span());
        mistakes.add(at, format_args!("[run] {message}"));
        return None;
    }
    // Captures in place of the interface of a service are read as the user who asks for it.
    run.user = run.user.filter(|_| input.is_none_or(InputSettings::is_live));
    Some(run)
}

/// A value that has to be a table.
pub(super) fn table_of<'t>(
    name: &str,
    value: Option<Spanned<DeValue<'t>>>,
    mistakes: &mut Mistakes,
) -> Option<Spanned<DeTable<'t>>> {
    let value = value?;
    let at = value.span();
    match value.into_inner() {
        DeValue::Table(table) => Some(Spanned::new(at, table)),
        other => {
            let seen = other.type_str();
            mistakes.add(at, format_args!("{name} is of type {seen}; wanted: a table, [{name}]"));
            None
        }
    }
}

/// A value that may be a table, or several of them.
pub(super) fn tables_of<'t>(
    name: &str,
    value: Option<Spanned<DeValue<'t>>>,
    mistakes: &mut Mistakes,
) -> Vec<Spanned<DeTable<'t>>> {
    let Some(value) = value else { return Vec::new() };
    let at = value.span();
    match value.into_inner() {
        DeValue::Array(array) => {
            let array: DeArray<'t> = array;
            let tables = array.into_iter().filter_map(|one| table_of(name, Some(one), mistakes));
            tables.collect()
        }
        other => table_of(name, Some(Spanned::new(at, other)), mistakes).into_iter().collect(),
    }
}

/// Captures that an application reads in addition to the pass are never replaced by rows.
fn refuse_taking_place(planned: &[AppPlan], mistakes: &mut Mistakes) {
    for reader in planned {
        for read in reader.ready.reads() {
            let takes_place = |one: &&AppPlan| {
                one.output.as_ref().is_some_and(|output| is_same_file(&output.path, read))
            };
            if let Some(one) = planned.iter().find(takes_place) {
                let (name, reader) = (one.ready.name(), reader.ready.name());
                let path = read.display();
                mistakes.add_at(
                    one.place.as_ref(),
                    format_args!(
                        "[{name}] output: would overwrite {path}, which [{reader}] reads; give \
                         another name"
                    ),
                );
            }
        }
    }
}

type ReadyWithOutput = (Option<OutputTarget>, Box<dyn Ready>);

fn application(
    entry: &Entry,
    table: Spanned<DeTable<'_>>,
    site: Site<'_>,
    mistakes: &mut Mistakes,
) -> Option<ReadyWithOutput> {
    let at = table.span();
    let mut own = table.into_inner();
    let output = take_output(entry, &at, &mut own, site, mistakes);
    let ready = (entry.read)(Reading { table: Spanned::new(at, own), site, mistakes });
    Some((output?, ready?))
}

/// A file that may not be there yet, whatever way its path goes.
fn place_of(path: &Path) -> PathBuf {
    let path = if path.as_os_str() == "-" { Path::new("/dev/stdout") } else { path };
    let folder = files::folder_of(path).canonicalize();
    folder.ok().zip(path.file_name()).map_or_else(|| path.to_owned(), |(at, name)| at.join(name))
}

/// Two tables in one file, or on standard output, would be neither.
fn refuse_shared(planned: &[AppPlan], mistakes: &mut Mistakes) {
    for (at, one) in planned.iter().enumerate() {
        let Some(output) = &one.output else { continue };
        let before = planned.get(..at).unwrap_or_default().iter();
        let is_same = |other: &OutputSettings| place_of(&other.path) == place_of(&output.path);
        let mut same = before.filter(|other| other.output.as_ref().is_some_and(is_same));
        if let Some(other) = same.next() {
            let (name, other) = (one.ready.name(), other.ready.name());
            let path = output.path.display();
            mistakes.add_at(
                one.place.as_ref(),
                format_args!("[{name}] output: {path} is that of [{other}]; give another"),
            );
        }
    }
}
