//! Where a recorder is steered from: the manager looks at its resources, operators ask, and both
//! change the table in force.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use capture::report::Progress;
use packetlog::calibration::DriftState;
use packetlog::manager::{Cause, Decision, Manager, Shortage, Signals};
use packetlog::pipeline::Tally;
use packetlog::policy::{Granularity, KernelControl};
use serde_json::{Value, json};

use super::LogError;
use super::drift;
use super::events::Events;
use super::settings::Settings;
use crate::clock::Clock;

/// Rates are taken over this time.
const RATE_SPAN: Duration = Duration::from_millis(500);
/// So long it is waited for that the batch in hand ends; only a disk that blocks takes longer.
const FORCE_WAIT: Duration = Duration::from_millis(200);

/// What a log's writer says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gauges {
    /// Free bytes of what the log may fill, as a share.
    pub disk_free: f64,
    /// Blocks that wait for the disk, as a share of all.
    pub queue: f64,
    /// Bytes that the disk has taken.
    pub written_bytes: u64,
    /// Time that it took for them.
    pub write_busy_ns: u64,
    /// Packets that should be stored and are lost.
    pub lost: u64,
    /// Packets that are in the log.
    pub written_packets: u64,
    /// Packets that were taken for it and are lost since.
    pub unwritten_packets: u64,
}

/// A log's writer, as seen from the desk.
pub trait Writer: Send + Sync {
    /// How it is doing.
    fn gauges(&self) -> Gauges;
    /// What else is to be known of it.
    fn status(&self) -> Value;
    /// Packets by class: seen, and kept, as blocks say it that are in the log.
    fn classes(&self) -> Vec<(u16, u64, u64)> {
        Vec::new()
    }
    /// What it lost, by cause, and what went wrong last.
    fn losses(&self) -> Value;
}

/// How much of its time a thread is at work.
#[derive(Debug, Default)]
pub struct Work(AtomicU64);

impl Work {
    /// Adds time that was worked.
    pub fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(ns, Ordering::Relaxed);
    }

    fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What rates are taken from.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    kept_bytes: u64,
    written_bytes: u64,
    write_busy_ns: u64,
    work_ns: u64,
    copy: f64,
    busy: f64,
}

/// The desk of one recorder.
pub struct Desk {
    settings: Settings,
    classes: Vec<String>,
    switch: Arc<dyn KernelControl>,
    tally: Arc<Tally>,
    progress: Arc<Progress>,
    work: Arc<Work>,
    drift: Option<Arc<DriftState>>,
    writer: Box<dyn Writer>,
    clock: Clock,
    started: Instant,
    state: Mutex<State>,
}

struct State {
    manager: Manager,
    mark: Mark,
    events: Events,
    /// From the signal until every further packet is kept by the new mode: longest and latest.
    switch_ns: Option<(u64, u64)>,
}

/// What a desk looks at.
pub struct DeskInputs {
    /// Who keeps packets, by the table in force.
    pub switch: Arc<dyn KernelControl>,
    /// The outcome of packets.
    pub tally: Arc<Tally>,
    /// What the capture lost.
    pub progress: Arc<Progress>,
    /// How busy the packets' thread is.
    pub work: Arc<Work>,
    /// How traffic compares with what was calibrated.
    pub drift: Option<Arc<DriftState>>,
    /// The log.
    pub writer: Box<dyn Writer>,
    /// Time outside of event time.
    pub clock: Clock,
}

/// What a mode keeps of each class of a model.
pub fn table(
    settings: &Settings,
    classes: &[String],
    mode: &str,
) -> Result<Vec<Granularity>, String> {
    settings.mode(mode)?.table(classes).map_err(|error| error.to_string())
}

impl Desk {
    /// Begins in a mode whose table is in the switch already.
    pub fn new(
        settings: Settings,
        classes: &[String],
        mode: &str,
        is_fixed: bool,
        watched: DeskInputs,
        events: Events,
    ) -> Self {
        let levels = settings.modes.iter().map(|mode| (mode.name.clone(), mode.level)).collect();
        let limits = settings.limits.clone();
        let limits = if is_fixed { limits.only_warnings() } else { limits };
        let manager = Manager::new(limits, levels, mode);
        let DeskInputs { switch, tally, progress, work, drift, writer, clock } = watched;
        let started = (clock.now)();
        let mark = Mark {
            at: started,
            kept_bytes: 0,
            written_bytes: 0,
            write_busy_ns: 0,
            work_ns: 0,
            copy: 0.0,
            busy: 0.0,
        };
        let state = Mutex::new(State { manager, mark, events, switch_ns: None });
        let classes = classes.to_vec();
        Self {
            settings,
            classes,
            switch,
            tally,
            progress,
            work,
            drift,
            writer,
            clock,
            started,
            state,
        }
    }

    /// Looks at the resources, and does what is to be done. `at` is when somebody gave a sign.
    pub fn look(&self, at: Instant) {
        // A half in the kernel follows a table once the pipeline does.
        self.switch.in_force();
        let gauges = self.writer.gauges();
        let mut state = self.lock();
        state.mark = self.rates(state.mark, &gauges);
        let signals = Signals {
            now: self.now().saturating_duration_since(self.started),
            disk_free: gauges.disk_free,
            queue: gauges.queue,
            copy: state.mark.copy,
            busy: state.mark.busy,
            ring_lost: self.progress.frames_dropped(),
            log_lost: gauges.lost,
        };
        for decision in state.manager.look(&signals) {
            self.carry_out(&mut state, decision, at);
        }
    }

    /// The operator asks for a mode. Tells what is in force now, and since how long.
    pub fn choose(&self, mode: &str) -> Result<Value, String> {
        let at = self.now();
        // Refused before anything is changed.
        table(&self.settings, &self.classes, mode)?;
        let mut state = self.lock();
        if let Some(decision) = state.manager.choose(mode) {
            self.carry_out(&mut state, decision, at);
        }
        let in_force = state.manager.in_force();
        let mut reply = json!({"mode": in_force, "chosen": mode});
        if in_force != mode {
            let short: Vec<_> = state.manager.shortages().map(Shortage::name).collect();
            reply["waits_for"] = short.into();
        }
        Ok(reply)
    }

    fn carry_out(&self, state: &mut State, decision: Decision, at: Instant) {
        match &decision {
            Decision::Switch { to, .. } => {
                // Modes and classes were joined once already, when the run began.
                let Ok(table) = table(&self.settings, &self.classes, to) else { return };
                let generation = self.switch.ask(to, table);
                self.wait(generation);
                let took = u64::try_from(self.now().saturating_duration_since(at).as_nanos())
                    .unwrap_or(u64::MAX);
                let longest = state.switch_ns.map_or(0, |(longest, _)| longest);
                state.switch_ns = Some((longest.max(took), took));
                let more = json!({"generation": generation, "took_us": took / 1000});
                state.events.decision(&decision, more);
            }
            Decision::Warn { cause: Cause::Shortage(Shortage::LogLoss), .. } => {
                state.events.decision(&decision, self.writer.losses());
            }
            // The recorder overwrites by itself when it has no room; this is for people.
            Decision::Overwrite { .. } | Decision::Warn { .. } => {
                state.events.decision(&decision, Value::Null);
            }
        }
    }

    fn wait(&self, generation: u64) {
        let asked = self.now();
        while !self.switch.holds(generation)
            && self.now().saturating_duration_since(asked) < FORCE_WAIT
        {
            // A batch takes some ten microseconds.
            thread::yield_now();
        }
    }

    fn rates(&self, before: Mark, gauges: &Gauges) -> Mark {
        let at = self.now();
        let span = at.saturating_duration_since(before.at);
        if span < RATE_SPAN {
            return before;
        }
        let kept_bytes = self.tally.now().kept_bytes;
        let work_ns = self.work.ns();
        let share = |part: u64, of: u64| {
            // Of numbers so large no digit matters that is lost.
            if of == 0 { 0.0 } else { part as f64 / of as f64 }
        };
        let span_ns = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        // The disk was busy for this share of the time with what came; from 1 on it cannot follow.
        let written = gauges.written_bytes.saturating_sub(before.written_bytes);
        let busy_ns = gauges.write_busy_ns.saturating_sub(before.write_busy_ns);
        let copied = kept_bytes.saturating_sub(before.kept_bytes);
        let copy = share(copied, written.max(1)).min(1e3) * share(busy_ns, span_ns);
        let copy = if written == 0 { 0.0 } else { copy };
        let busy = share(work_ns.saturating_sub(before.work_ns), span_ns);
        let (written_bytes, write_busy_ns) = (gauges.written_bytes, gauges.write_busy_ns);
        Mark { at, kept_bytes, written_bytes, write_busy_ns, work_ns, copy, busy }
    }

    /// Everything that is to be known, as JSON.
    pub fn status(&self) -> Value {
        // The writer first: it writes nothing that was not kept before, so that no packet is in two
        // of the counts.
        let gauges = self.writer.gauges();
        let tally = self.tally.now();
        let state = self.lock();
        let short: Vec<_> = state.manager.shortages().map(Shortage::name).collect();
        json!({
            "mode": state.manager.in_force(),
            "chosen": state.manager.chosen(),
            "generation": self.switch.in_force(),
            "switches": state.manager.switch_count(),
            "switch_longest_us": state.switch_ns.map(|(longest, _)| longest / 1000),
            "switch_last_us": state.switch_ns.map(|(_, last)| last / 1000),
            "shortages": short,
            "up_s": self.now().saturating_duration_since(self.started).as_secs(),
            "packets": {
                "seen": tally.seen,
                "kept": gauges.written_packets,
                "waiting": tally.kept.saturating_sub(gauges.written_packets)
                    .saturating_sub(gauges.unwritten_packets),
                "passed_over": tally.passed_over,
                "lost": tally.no_room + gauges.unwritten_packets,
                "ring_lost": self.progress.frames_dropped(),
            },
            "bytes": {"seen": tally.seen_bytes, "kept": tally.kept_bytes},
            "hindsight": tally.hindsight.map(|counts| json!({
                "waiting": counts.waiting,
                "bytes": counts.bytes,
                "raised": counts.raised,
                "raised_bytes": counts.raised_bytes,
                "early": counts.early,
                "clock_steps": counts.clock_steps,
            })),
            "calibration": self.drift.as_ref().map(|state| drift::status(&state.counts())),
            "classes": self.classes_json(),
            "disk_free": gauges.disk_free,
            "queue": gauges.queue,
            "copy": state.mark.copy,
            "busy": state.mark.busy,
            "events_lost": state.events.lost(),
            "events_deleted": state.events.deleted(),
            "log": self.writer.status(),
        })
    }

    /// Packets by class; those of numbers that no class has are left out.
    fn classes_json(&self) -> Vec<Value> {
        let rows = self.writer.classes();
        let of = |at: usize| rows.iter().find(|(class, ..)| usize::from(*class) == at);
        let named = self.classes.iter().enumerate().map(|(at, name)| {
            let (seen, kept) = of(at).map_or((0, 0), |&(_, seen, kept)| (seen, kept));
            let judged = self.tally.judged(at);
            json!({"class": name, "judged": judged, "seen": seen, "kept": kept})
        });
        named.collect()
    }

    /// Adds an event.
    pub fn event(&self, kind: &str, fields: Value) {
        self.lock().events.put(kind, fields);
    }

    /// Events that could not be written.
    pub fn events_complete(&self) -> Result<(), LogError> {
        self.lock().events.complete()
    }

    fn now(&self) -> Instant {
        (self.clock.now)()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use packetlog::policy::{Mode, Switch};

    use super::*;

    #[allow(clippy::disallowed_methods)]
    const CLOCK: Clock = Clock {
        now: Instant::now,
        realtime: || packet::Timestamp::UNKNOWN,
        monotonic: || Duration::ZERO,
    };

    struct Fixed(Gauges);

    impl Writer for Fixed {
        fn gauges(&self) -> Gauges {
            self.0
        }
        fn status(&self) -> Value {
            Value::Null
        }
        fn losses(&self) -> Value {
            json!({"lost": {"read_only": self.0.lost}})
        }
    }

    fn desk(folder: &std::path::Path, gauges: Gauges, is_fixed: bool) -> (Desk, Arc<Switch>) {
        let classes = ["benign".to_owned(), "anomalous".to_owned()];
        let settings = Settings::default();
        let first = table(&settings, &classes, "default").unwrap();
        let switch = Arc::new(Switch::new("default", first));
        let watched = DeskInputs {
            switch: Arc::<Switch>::clone(&switch),
            tally: Arc::default(),
            progress: Arc::default(),
            work: Arc::default(),
            drift: None,
            writer: Box::new(Fixed(gauges)),
            clock: CLOCK,
        };
        let events = Events::append(&folder.join("events.jsonl"), None, CLOCK, None).unwrap();
        (Desk::new(settings, &classes, "default", is_fixed, watched, events), switch)
    }

    /// A writer that writes what is kept while it is asked.
    struct Quick(Arc<Tally>);

    impl Writer for Quick {
        fn gauges(&self) -> Gauges {
            for count in [&self.0.seen, &self.0.kept] {
                count.fetch_add(1, Ordering::Relaxed);
            }
            Gauges { written_packets: self.0.now().kept, ..Gauges::default() }
        }
        fn status(&self) -> Value {
            Value::Null
        }
        fn losses(&self) -> Value {
            Value::Null
        }
    }

    #[test]
    fn a_packet_that_is_written_while_the_status_is_made_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let tally = Arc::<Tally>::default();
        let (_, switch) = desk(folder.path(), Gauges::default(), true);
        let watched = DeskInputs {
            switch,
            tally: Arc::clone(&tally),
            progress: Arc::default(),
            work: Arc::default(),
            drift: None,
            writer: Box::new(Quick(tally)),
            clock: CLOCK,
        };
        let events = Events::append(&folder.path().join("more"), None, CLOCK, None).unwrap();
        let desk = Desk::new(Settings::default(), &[], "default", true, watched, events);
        for seen in 1..4 {
            let packets = &desk.status()["packets"];
            let of = |key: &str| packets[key].as_u64().unwrap();
            let sum: u64 = ["kept", "waiting", "passed_over", "lost"].map(of).iter().sum();
            assert_eq!((of("seen"), sum), (seen, seen), "{packets}");
        }
    }

    #[test]
    fn a_full_queue_changes_the_table_and_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let gauges = Gauges { disk_free: 1.0, queue: 1.0, ..Gauges::default() };
        let (desk, switch) = desk(folder.path(), gauges, false);
        desk.look((CLOCK.now)());
        assert_eq!(switch.table().mode, "log-sampled");
        let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert!(text.contains("\"queue\"") && text.contains("log-sampled"), "{text}");
        assert_eq!(desk.status()["shortages"], json!(["queue"]));
        let reply = desk.choose("log-all").unwrap();
        assert_eq!((&reply["mode"], &reply["chosen"]), (&json!("log-sampled"), &json!("log-all")));
        assert_eq!(reply["waits_for"], json!(["queue"]));
    }

    #[test]
    fn losses_are_told_with_what_they_come_from() {
        let folder = tempfile::tempdir().unwrap();
        let gauges = Gauges { disk_free: 1.0, lost: 7, ..Gauges::default() };
        let (desk, _) = desk(folder.path(), gauges, false);
        desk.look((CLOCK.now)());
        let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert!(text.contains(r#""lost":{"read_only":7},"resource":"log_loss""#), "{text}");
    }

    #[test]
    fn a_fixed_mode_is_changed_by_people_only() {
        let folder = tempfile::tempdir().unwrap();
        let gauges = Gauges { disk_free: 0.0, ..Gauges::default() };
        let (desk, switch) = desk(folder.path(), gauges, true);
        desk.look((CLOCK.now)());
        assert_eq!(switch.table().mode, "default");
        assert_eq!(desk.status()["mode"], "default");
        assert_eq!(desk.status()["shortages"], json!(["disk"]));
        let refused = desk.choose("log-some").unwrap_err();
        assert!(refused.contains("log-minimum"), "{refused}");
        assert_eq!(Mode::recommended().len(), 5);
    }
}
