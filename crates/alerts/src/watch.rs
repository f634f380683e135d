//! The thread that looks at rows and hands on what fires.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::columns::Columns;
use packet::Timestamp;
use store::{Store, Table};

use crate::alert::{Alert, SCHEMA, State};
use crate::begin::Clocks;
use crate::check::COUNTS_TABLE;
use crate::counts::Tally;
use crate::indicators::{ListStates, Lists};
use crate::notify::Feed;
use crate::rules::{At, CounterSamples, Rule};
use crate::tables::{RowCounts, ScanContext, Source, is_epoch};

/// How often new rows are examined.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The same, while so many rows come that some may be evicted before the next look.
const LOOK_SOON: Duration = Duration::from_millis(10);

/// Rows in one look from which on there may be more than are kept.
const ROWS_MANY: u64 = 10_000;

/// How often rows that are not final are asked for, and examined with the next look.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// Looking at them takes a twentieth of a core at most: with many, it is done less often.
const OPEN_SHARE: u32 = 20;

/// How often counters are sampled.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Rules over counters.
#[derive(Default)]
pub(crate) struct Counters {
    pub sampled: CounterSamples,
    pub rules: Vec<Rule>,
    pub clock: Option<Timestamp>,
}

/// All that is evaluated.
pub(crate) struct Watch {
    pub store: Arc<Store>,
    pub alerts: Arc<Table>,
    pub sources: Vec<Source>,
    pub counters: Counters,
    pub lists: Arc<Lists>,
    pub list_states: Vec<ListStates>,
    pub feeds: Vec<Arc<Feed>>,
    /// Whether event time advances without rows.
    pub is_live: bool,
    pub clocks: Clocks,
    pub tally: Arc<Tally>,
    /// Rules that take the place of those in force at the next look.
    pub new_rules: NewRules,
    pub timing: Timing,
}

/// Rules on their way to the thread that evaluates them.
pub(crate) type NewRules = Arc<Mutex<Option<Vec<Rule>>>>;

/// When what is done next, in monotonic time.
#[derive(Default)]
pub(crate) struct Timing {
    ask: Duration,
    sample: Duration,
    /// Open rows were asked for at the look before.
    is_asked: bool,
}

impl Watch {
    /// Looks once, for the last time at the end; returns how long to wait for the next time.
    pub(crate) fn look(&mut self, is_last: bool) -> Duration {
        let mut out = Vec::new();
        let mut looked = RowCounts::default();
        let now = (self.clocks.monotonic)();
        let is_asked = std::mem::take(&mut self.timing.is_asked);
        self.pass_time();
        self.take_rules(&mut out);
        let live = Some(&*self.store).filter(|_| self.is_live);
        let (lists, list_states) = (&*self.lists, &mut *self.list_states);
        let mut looking = ScanContext { live, lists, list_states, out: &mut out };
        for source in &mut self.sources {
            let RowCounts { rows, missed } = source.look(&mut looking);
            looked.rows += rows;
            looked.missed += missed;
            // Flows that go on in captures are looked at when they end: how far they are at a
            // moment of the clock is no answer about packets.
            if is_asked {
                source.look_open(&mut looking);
            }
            source.expire(looking.out);
        }
        // Of the tables that a list looks at, the one that is furthest behind.
        let clocks = self.sources.iter().filter(|source| !source.looks.is_empty());
        let clocks = clocks.map(|source| source.clock).filter(|&at| at != Timestamp::UNKNOWN);
        let clock = clocks.min().unwrap_or(Timestamp::UNKNOWN);
        for state in &mut self.list_states {
            state.states.expire(clock, &mut out);
        }
        if is_last || now >= self.timing.sample {
            self.look_at_counters(now, &mut out);
        }
        self.emit(&out);
        self.count(looked);
        self.ask(now, is_asked);
        if looked.rows >= ROWS_MANY { LOOK_SOON } else { LOOK_EVERY }
    }

    fn take_rules(&mut self, out: &mut Vec<Arc<Alert>>) {
        let taken = self.new_rules.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut new) = taken else { return };
        let mut of = |table: &str| {
            let (these, others) =
                std::mem::take(&mut new).into_iter().partition(|rule: &Rule| rule.table() == table);
            new = others;
            let these: Vec<Rule> = these;
            these.into_iter()
        };
        for source in &mut self.sources {
            let rules = of(source.name());
            Rule::replace(&mut source.rules, rules, source.clock, out);
        }
        let Counters { rules, clock, .. } = &mut self.counters;
        Rule::replace(rules, of(COUNTS_TABLE), clock.unwrap_or(Timestamp::UNKNOWN), out);
    }

    /// In a live run event time advances where a table has no rows, and steps back where it was
    /// ahead: what is active then would not end for as long as that was.
    fn pass_time(&mut self) {
        let Some(ns) = self.store.time_ns().filter(|_| self.is_live) else { return };
        let time = Timestamp::from_ns(ns);
        let mut has_stepped = false;
        for source in &mut self.sources {
            has_stepped |= source.pass_time(time);
        }
        if has_stepped {
            self.list_states.iter_mut().for_each(|list| list.states.step_back(time));
        }
    }

    fn look_at_counters(&mut self, now: Duration, out: &mut Vec<Arc<Alert>>) {
        let Counters { sampled, rules, clock } = &mut self.counters;
        if rules.is_empty() {
            return;
        }
        self.timing.sample = now + SAMPLE_EVERY;
        let rows = sampled.sample(&self.store);
        let time = self.store.time_ns().map_or(Timestamp::UNKNOWN, Timestamp::from_ns);
        let before = clock.unwrap_or(Timestamp::UNKNOWN);
        let has_stepped = self.is_live && is_epoch(before, time);
        let time = *clock.insert(if has_stepped { time } else { time.max(before) });
        for rule in rules {
            if has_stepped {
                rule.step_back(time);
            }
            for row in 0..rows.row_count() {
                rule.look(&rows, row, At { now: time, row: time, is_open: false }, out);
            }
            rule.states.expire(time, out);
        }
    }

    /// Asks for rows that are not final, and for how far event time has come, where something
    /// depends on it. Answering costs those who compute a little.
    fn ask(&mut self, now: Duration, was_asked: bool) {
        if was_asked {
            let took = (self.clocks.monotonic)().saturating_sub(now);
            self.timing.ask = now + ASK_EVERY.max(took * OPEN_SHARE);
        }
        if now < self.timing.ask {
            return;
        }
        let has_counter_rules = !self.counters.rules.is_empty();
        let wants_rows = self.is_live
            && (self.tally.active.load(Relaxed) > 0
                || has_counter_rules
                || self.sources.iter().any(Source::is_open));
        // With counts comes the time, which rows of a live run are compared with. Of captures
        // counts alone are of interest while they are read.
        let wants_counts =
            if self.is_live { self.sources.iter().any(Source::is_used) } else { has_counter_rules };
        if wants_rows {
            self.store.ask();
            self.timing.is_asked = true;
        } else if wants_counts {
            self.store.ask_for_counts();
        } else {
            return;
        }
        self.timing.ask = now + ASK_EVERY;
    }

    fn emit(&self, out: &[Arc<Alert>]) {
        if out.is_empty() {
            return;
        }
        let mut rows = Columns::new(SCHEMA);
        for alert in out {
            alert.push(&mut rows);
            let counter = match alert.state {
                State::Firing => &self.tally.fired,
                State::Resolved => &self.tally.resolved,
            };
            counter.fetch_add(1, Relaxed);
            self.feeds.iter().for_each(|feed| feed.push(alert));
        }
        self.alerts.push(&rows);
    }

    fn count(&self, looked: RowCounts) {
        let Self { tally, sources, counters, list_states, .. } = self;
        tally.rows_read.fetch_add(looked.rows, Relaxed);
        tally.rows_missed.fetch_add(looked.missed, Relaxed);
        let rules = || sources.iter().flat_map(|source| &source.rules).chain(&counters.rules);
        let lists = || list_states.iter();
        let active = rules().map(|rule| rule.states.active_count()).sum::<usize>()
            + lists().map(|list| list.states.active_count()).sum::<usize>();
        tally.active.store(active as u64, Relaxed);
        let left_out = rules().map(Rule::refused).sum::<u64>()
            + lists().map(|list| list.states.refused).sum::<u64>();
        tally.left_out.store(left_out, Relaxed);
        tally.hits.store(lists().map(|list| list.hits).sum(), Relaxed);
    }
}
