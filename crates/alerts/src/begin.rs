//! Beginning and ending.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use engine::columns::Schema;
use packet::Timestamp;
use store::{Store, TableLimits};

use crate::alert::{Alert, SCHEMA, State, next_id};
use crate::check::{COUNTS_TABLE, Mistake, Part, TABLE, schema_of};
use crate::counts::{Tally, counts};
use crate::indicators::{ListState, ListStates, Lists, RowLook};
use crate::notify::{self, Batch, Feed, NotifyState, Origin};
use crate::rules::{COUNTS, Rule};
use crate::settings::{AlertSettings, NotifyKind, NotifySettings, Settings};
use crate::tables::Source;
use crate::watch::{Counters, NewRules, Timing, Watch};

/// Alerts that the table keeps.
const LIMITS: TableLimits =
    TableLimits { row_count: 50_000, byte_count: 32 << 20, open_row_count: 0 };

/// Clocks of a front end, which alone reads them. They decide when something is delivered.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Time since some moment of this process, which only goes forward.
    pub monotonic: fn() -> Duration,
    /// The time of day: by it Alertmanager learns until when an alert is active.
    pub realtime: fn() -> Timestamp,
}

/// What alerts need besides their settings.
pub struct Options {
    /// Whether packets come from an interface: event time then advances without rows, and open
    /// flows are examined. On captures only final rows are, so that the answer is the same each
    /// time.
    pub is_live: bool,
    /// The name of this machine, for syslog.
    pub host_name: String,
    /// The address of the page, which alerts link to.
    pub page: Option<String>,
    /// The lists of the settings, where they were opened before.
    pub lists: Option<Arc<Lists>>,
    /// Clocks.
    pub clocks: Clocks,
    /// Writes alerts as Suricata's events.
    pub eve: EveLine,
}

/// An alert as an event of Suricata's EVE, a line without its end; nothing for one that is none.
pub type EveLine = fn(&Alert) -> Option<String>;

/// Why alerts do not begin.
#[derive(Debug)]
pub enum BeginError {
    /// Settings are wrong, or a file that they name cannot be opened.
    Settings(Vec<Mistake>),
    /// A thread does not start.
    Start(io::Error),
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(mistakes) => {
                let told: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
                f.write_str(&told.join("\n"))
            }
            Self::Start(error) => write!(f, "alerts: {error}"),
        }
    }
}

impl std::error::Error for BeginError {}

/// Alerts of a run.
pub struct Alerts {
    feeds: Vec<Arc<Feed>>,
    lists: Arc<Lists>,
    store: Arc<Store>,
    new_rules: NewRules,
    tally: Arc<Tally>,
    over: Arc<(Mutex<bool>, Condvar)>,
    watching: Option<JoinHandle<()>>,
    delivering: Vec<JoinHandle<()>>,
    listing: Option<JoinHandle<()>>,
}

/// Outcome of the alert that [`Alerts::test`] sends to a destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestReport {
    /// The destination's name, else its kind.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// Why it was not delivered.
    pub failure: Option<String>,
}

impl Alerts {
    /// Begins to look at the tables that the store has, to deliver, and to watch lists. Adds the
    /// table `alerts` and the counters `alerts`.
    ///
    /// # Errors
    /// [`BeginError`]; nothing has begun then.
    pub fn begin(
        settings: &Settings,
        options: Options,
        store: Arc<Store>,
    ) -> Result<Self, BeginError> {
        let tables = store.tables();
        let schemas: Vec<(&str, Schema)> =
            tables.iter().map(|table| (table.name(), table.schema())).collect();
        let mut mistakes = settings.mistakes(&schemas);
        if !mistakes.is_empty() {
            return Err(BeginError::Settings(mistakes));
        }
        let Options { is_live, host_name, page, lists, clocks, eve } = options;
        let origin = Origin { host: host_name, page, clocks, eve };
        let lists = lists.or_else(|| open_lists(settings, &mut mistakes));
        let destinations = open_destinations(&settings.notify, &origin, &mut mistakes);
        let mut sources: Vec<_> =
            tables.iter().filter(|table| table.name() != TABLE).cloned().map(Source::new).collect();
        let counters = bind(settings, &mut sources, &mut mistakes);
        let Some(lists) = lists.filter(|_| mistakes.is_empty()) else {
            return Err(BeginError::Settings(mistakes));
        };
        let about = "What rules and lists of indicators found.";
        let alerts = store.add(TABLE, about, SCHEMA, LIMITS);
        let named = settings.notify.iter().zip(notify::names(&settings.notify));
        // A capture is read faster than any file is written, and has time to wait for it.
        let waits = |one: &NotifySettings| {
            !is_live && matches!(one.kind, NotifyKind::Jsonl | NotifyKind::Eve)
        };
        let feed = |(one, name)| Feed::new(one, name, clocks).waiting_for_room(waits(one));
        let feeds: Vec<_> = named.map(|named| Arc::new(feed(named))).collect();
        let tally = Arc::new(Tally::default());
        let counted = (Arc::clone(&tally), feeds.clone(), Arc::clone(&lists));
        store.count_by(TABLE, Box::new(move || counts(&counted.0, &counted.1, &counted.2)));
        let new_rules = NewRules::default();
        let watch = Watch {
            new_rules: Arc::clone(&new_rules),
            store: Arc::clone(&store),
            list_states: settings.indicators.iter().map(ListStates::new).collect(),
            lists: Arc::clone(&lists),
            feeds: feeds.clone(),
            timing: Timing::default(),
            alerts,
            sources,
            counters,
            is_live,
            clocks,
            tally: Arc::clone(&tally),
        };
        let over = Arc::default();
        let (watching, delivering, listing) = (None, Vec::new(), None);
        let mut begun =
            Self { feeds, lists, store, new_rules, tally, over, watching, delivering, listing };
        // Where one thread does not start, those before end with `begun`.
        begun.start(settings, destinations, watch).map_err(BeginError::Start)?;
        Ok(begun)
    }

    fn start(
        &mut self,
        settings: &Settings,
        destinations: Vec<Box<dyn notify::Destination>>,
        mut watch: Watch,
    ) -> io::Result<()> {
        let notified = settings.notify.iter().zip(destinations).zip(&self.feeds);
        for ((settings, destination), feed) in notified {
            let (feed, attempts) = (Arc::clone(feed), settings.attempts);
            let work = move || notify::work(&feed, destination, attempts);
            self.delivering.push(thread::Builder::new().name("notify".into()).spawn(work)?);
        }
        if !settings.indicators.is_empty() {
            let lists = Arc::clone(&self.lists);
            let listing = thread::Builder::new().name("indicators".into());
            self.listing = Some(listing.spawn(move || lists.watch())?);
        }
        let over = Arc::clone(&self.over);
        let watching = move || {
            let (is_over, changed) = &*over;
            let mut is_over = is_over.lock().unwrap_or_else(PoisonError::into_inner);
            while !*is_over {
                drop(is_over);
                let wait = watch.look(false);
                is_over = over.0.lock().unwrap_or_else(PoisonError::into_inner);
                if !*is_over {
                    let waited = changed.wait_timeout(is_over, wait);
                    is_over = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
            drop(is_over);
            // What came since the last look.
            watch.look(true);
        };
        self.watching = Some(thread::Builder::new().name("alerts".into()).spawn(watching)?);
        Ok(())
    }

    /// Sends an alert named `wirelens-test` to each destination, whatever its labels, one try each.
    /// Alertmanager ends it by itself after four times `resend`.
    #[must_use]
    pub fn test(
        notify: &[NotifySettings],
        host_name: &str,
        page: Option<&str>,
        clocks: Clocks,
        eve: EveLine,
    ) -> Vec<TestReport> {
        let page = page.map(str::to_owned);
        let origin = Origin { host: host_name.to_owned(), page, clocks, eve };
        let alert = Arc::new(test_alert(host_name, (clocks.realtime)()));
        let one = |(settings, name): (&NotifySettings, String)| {
            let began = (clocks.monotonic)();
            let alerts = [Arc::clone(&alert)];
            let delivered = match notify::open(settings, &origin) {
                Ok(mut destination) => destination
                    .deliver(&Batch { alerts: &alerts, held_back: 0 })
                    .map_err(|failure| failure.why().to_owned()),
                Err(wrong) => {
                    let told = wrong.iter().map(|(key, why)| format!("{key}: {why}"));
                    Err(told.collect::<Vec<_>>().join("; "))
                }
            };
            let took = (clocks.monotonic)().saturating_sub(began);
            TestReport { name, took, failure: delivered.err() }
        };
        notify.iter().zip(notify::names(notify)).map(one).collect()
    }

    /// Puts the rules of settings that were read again in the place of those in force, where there
    /// were any at the start: what there is to report of that.
    #[must_use]
    pub fn take_up(alerts: Option<&Self>, rules: &[AlertSettings]) -> Vec<String> {
        let count = rules.len();
        match alerts.map(|alerts| alerts.replace_rules(rules)) {
            None if count == 0 => Vec::new(),
            None => vec![String::from("[[alert]] the first one: takes effect at the next start")],
            Some(Ok(())) => vec![format!("alerts: {count} rules in force")],
            Some(Err(mistakes)) => {
                let lines = mistakes.iter().map(ToString::to_string);
                lines.chain([String::from("alerts: the previous rules stay in force")]).collect()
            }
        }
    }

    /// Puts these rules in the place of those in force, from the next look on. A rule whose
    /// settings did not change keeps its alerts and what it has learned; alerts of one that is gone
    /// are resolved.
    ///
    /// # Errors
    /// All that is wrong with them; nothing changes then.
    pub fn replace_rules(&self, rules: &[AlertSettings]) -> Result<(), Vec<Mistake>> {
        let tables = self.store.tables();
        let schemas: Vec<(&str, Schema)> =
            tables.iter().map(|table| (table.name(), table.schema())).collect();
        let (mut bound, mut mistakes) = (Vec::new(), Vec::new());
        for (index, settings) in rules.iter().enumerate() {
            let rule = schema_of(&settings.table, &schemas).map_err(|wrong| vec![wrong]);
            match rule.and_then(|schema| Rule::bind(settings, schema)) {
                Ok(rule) => bound.push(rule),
                Err(wrong) => mistakes.extend(Mistake::all(Part::Alert, index, wrong)),
            }
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        *self.new_rules.lock().unwrap_or_else(PoisonError::into_inner) = Some(bound);
        Ok(())
    }

    /// Opens the files of JSON lines again, which were moved away.
    pub fn reopen(&self) {
        self.feeds.iter().for_each(|feed| feed.reopen());
    }

    /// The lists, for components that decide at a flow's first packet; they are reloaded meanwhile.
    #[must_use]
    pub fn lists(&self) -> Arc<Lists> {
        Arc::clone(&self.lists)
    }

    /// How each list is.
    #[must_use]
    pub fn list_states(&self) -> Vec<ListState> {
        self.lists.states()
    }

    /// How each destination is.
    #[must_use]
    pub fn notify_states(&self) -> Vec<NotifyState> {
        self.feeds.iter().map(|feed| feed.state()).collect()
    }

    /// Ends: looks at the rows that are left, and delivers what waits; what is not delivered within
    /// this time is given up, and counted as failed. A delivery that has begun takes its timeout.
    /// A line for each loss.
    pub fn end(&mut self, within: Duration) -> Vec<String> {
        let (is_over, changed) = &*self.over;
        *is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        self.lists.end();
        // A thread that panicked has nothing to hand over.
        let _ = self.watching.take().map(JoinHandle::join);
        self.feeds.iter().for_each(|feed| feed.end(within));
        self.delivering.drain(..).for_each(|thread| drop(thread.join()));
        let _ = self.listing.take().map(JoinHandle::join);
        self.losses()
    }

    fn losses(&self) -> Vec<String> {
        let missed = self.tally.rows_missed.load(Relaxed);
        let of_rules = || {
            format!(
                "[[alert]] {missed} rows were evicted before rules checked them; try fewer rows, \
                 as by a filter"
            )
        };
        let of_rules = (missed > 0).then(of_rules);
        let states = self.notify_states();
        of_rules.into_iter().chain(states.iter().filter_map(NotifyState::loss)).collect()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        // No one is left to hear of losses.
        let _ = self.end(Duration::ZERO);
    }
}

impl Settings {
    /// Opens the lists of indicators, for components that look them up before alerts begin.
    ///
    /// # Errors
    /// [`BeginError::Settings`]
    pub fn open_lists(&self) -> Result<Arc<Lists>, BeginError> {
        let mut mistakes = Vec::new();
        let opened = open_lists(self, &mut mistakes);
        opened.ok_or(BeginError::Settings(mistakes))
    }
}

fn open_lists(settings: &Settings, mistakes: &mut Vec<Mistake>) -> Option<Arc<Lists>> {
    let told = |(index, error): (usize, io::Error)| {
        let file = settings.indicators.get(index).map(|one| one.file.display().to_string());
        let message = format!("{}: {error}", file.unwrap_or_default());
        Mistake { part: Part::Indicators, index, key: "file", message }
    };
    let opened = Lists::open(&settings.indicators);
    opened.map_err(|errors| mistakes.extend(errors.into_iter().map(told))).ok()
}

fn open_destinations(
    settings: &[NotifySettings],
    origin: &Origin,
    mistakes: &mut Vec<Mistake>,
) -> Vec<Box<dyn notify::Destination>> {
    let mut opened = Vec::new();
    for (index, settings) in settings.iter().enumerate() {
        match notify::open(settings, origin) {
            Ok(destination) => opened.push(destination),
            Err(wrong) => mistakes.extend(Mistake::all(Part::Notify, index, wrong)),
        }
    }
    opened
}

/// Gives each table its rules and lists; what is left are the rules over counters.
fn bind(settings: &Settings, sources: &mut [Source], mistakes: &mut Vec<Mistake>) -> Counters {
    let mut counters = Counters::default();
    let mut rule = |index, settings, schema| match Rule::bind(settings, schema) {
        Ok(rule) => Some(rule),
        Err(wrong) => {
            mistakes.extend(Mistake::all(Part::Alert, index, wrong));
            None
        }
    };
    for (index, one) in settings.alert.iter().enumerate() {
        if one.table == COUNTS_TABLE {
            counters.rules.extend(rule(index, one, COUNTS));
        } else if let Some(source) = sources.iter_mut().find(|source| source.name() == one.table) {
            let schema = source.schema();
            source.rules.extend(rule(index, one, schema));
        }
    }
    for (index, one) in settings.indicators.iter().enumerate() {
        for source in sources.iter_mut() {
            let look = RowLook::bind(index, one, source.name(), source.schema());
            source.looks.extend(look);
        }
    }
    counters
}

fn test_alert(host_name: &str, now: Timestamp) -> Alert {
    let name = "wirelens-test";
    let labels = [("alertname", name), ("severity", "info")];
    Alert {
        id: next_id(),
        name: name.into(),
        state: State::Firing,
        time: now,
        first: now,
        fired: now,
        severity: "info".into(),
        table: "test".into(),
        community_id: None,
        host: (!host_name.is_empty()).then(|| host_name.to_owned()),
        flow: None,
        value: None,
        text: "Test: alerts of Wirelens arrive here.".into(),
        labels: labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        annotations: Default::default(),
        rows: 1,
    }
}
