//! Applications that panic: what one costs, what is said of it, and when it ends its application.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use capture::Report;
use engine::flow::pass::{Drill, Fault, Faults, Panic, Piece, TakeFaults, watched};
use engine::group::Outcome;
use engine::run::Control;
use store::Store;

use super::quarantine::Quarantine;
use super::settings::RunSettings;
use super::shown::{DRILLS, RUN, Whose};
use crate::application::{Closing, Count, Refusal, Watcher};
use crate::done::RunTotals;

/// Faults after which an application ends, where settings say nothing else: so many of a few
/// packets each are an error of the application, and not of a packet.
pub(super) const FAULTS_MAX: u64 = 10;

/// Supervision of a run.
pub(super) struct Supervision {
    settings: RunSettings,
    quarantine: Arc<Quarantine>,
    warn: fn(&str),
    /// Applications that have not ended; the run ends with the last.
    running: Arc<AtomicUsize>,
    control: Arc<Control>,
    of: BTreeMap<usize, AppFaults>,
}

/// The faults of an application.
struct AppFaults {
    faults: Arc<Faults>,
    last: Arc<Mutex<Option<Last>>>,
}

/// The last fault.
struct Last {
    panic: Panic,
    /// Why the application has ended, if it has.
    ending: Option<String>,
}

/// Says what happened, and keeps the packets.
struct Reporter {
    name: &'static str,
    quarantine: Arc<Quarantine>,
    warn: fn(&str),
    running: Option<Arc<AtomicUsize>>,
    control: Arc<Control>,
    last: Arc<Mutex<Option<Last>>>,
}

impl TakeFaults for Reporter {
    fn take(&self, fault: &Fault, piece: Option<&Piece<'_>>) {
        let Fault { call, panic, packet_count, ending } = fault;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // One that other threads ended has ended once.
        let was_over = last.as_ref().is_some_and(|last| last.ending.is_some());
        let ending = ending.filter(|_| !was_over).map(|ending| ending.to_string());
        let over = last.take().and_then(|last| last.ending);
        *last = Some(Last { panic: panic.clone(), ending: over.or_else(|| ending.clone()) });
        drop(last);
        let (name, at) = (self.name, call.name());
        let cost = match piece {
            Some(piece) => {
                let kept = self.quarantine.keep(name, fault, piece);
                format!("{packet_count} packets are lost to it (faulted); {kept}")
            }
            None => format!("it was at {at}, and no packet is lost to it"),
        };
        let next = match &ending {
            None => String::from("the run continues"),
            Some(why) => format!("{name} ends here, as {why}; other applications continue"),
        };
        (self.warn)(&format!("{name} {panic}; {cost}; {next}"));
        if ending.is_some()
            && let Some(running) = &self.running
            && running.fetch_sub(1, Ordering::Relaxed) == 1
        {
            // Nobody looks any more.
            self.control.fail();
        }
    }
}

impl Supervision {
    /// No fault yet.
    pub(super) fn new(
        settings: &RunSettings,
        application_count: usize,
        warn: fn(&str),
        control: &Arc<Control>,
    ) -> Self {
        let quarantine = Arc::new(Quarantine::new(settings.quarantine.as_deref()));
        let running = Arc::new(AtomicUsize::new(application_count));
        let (settings, control) = (settings.clone(), Arc::clone(control));
        Self { settings, quarantine, warn, running, control, of: BTreeMap::new() }
    }

    /// Begins for the lenses of the application at a place.
    pub(super) fn begin(&mut self, place: usize, name: &'static str) -> Arc<Faults> {
        let drill = self.settings.simulate.fault(name);
        self.add(place, name, drill, true)
    }

    /// The same for lenses that are of no application.
    pub(super) fn other(&mut self, place: usize, name: &'static str) -> Arc<Faults> {
        self.add(place, name, None, false)
    }

    fn add(
        &mut self,
        place: usize,
        name: &'static str,
        drill: Option<Drill>,
        is_application: bool,
    ) -> Arc<Faults> {
        let last = Arc::<Mutex<Option<Last>>>::default();
        let Self { settings, quarantine, warn, running, control, .. } = self;
        let reporter = Reporter {
            name,
            quarantine: Arc::clone(quarantine),
            warn: *warn,
            running: is_application.then(|| Arc::clone(running)),
            control: Arc::clone(control),
            last: Arc::clone(&last),
        };
        let count_max = settings.faults_max.map_or(FAULTS_MAX, u64::from);
        let faults = Arc::new(Faults::new(count_max, drill, Box::new(reporter)));
        self.of.insert(place, AppFaults { faults: Arc::clone(&faults), last });
        faults
    }

    /// Says which faults are on purpose, before the first packet.
    pub(super) fn announce_drills(&self) {
        self.settings.simulate.announce(self.warn);
    }

    /// The same at the end.
    pub(super) fn end_drills(&self, report: &Report) {
        self.settings.simulate.end(report, self.warn);
    }

    /// Has faults counted for observers of the run.
    pub(super) fn count(&self, store: &Store, all: &[Whose]) {
        store.put_counts(RUN, DRILLS, self.settings.simulate.counts());
        store.count_by(RUN, self.quarantine.counting());
        for (place, of) in &self.of {
            let Some(whose) = all.get(*place) else { continue };
            let faults = Arc::clone(&of.faults);
            let counting = move || {
                let about = "Panics that were caught.";
                let has_ended = f64::from(u8::from(faults.has_ended()));
                let stopped = "1 after a panic has ended the application.";
                let stopped = Count::gauge("stopped", stopped, has_ended);
                vec![Count::total("faults", about, faults.count()), stopped]
            };
            whose.count_by(store, Box::new(counting));
        }
    }

    /// Has an application close: a panic is one more fault of it, and what it cannot close after a
    /// fault is lost, not the run.
    ///
    /// # Errors
    /// [`Refusal`] of an application that had no fault.
    pub(super) fn close(
        &self,
        (place, name): (usize, &str),
        (watcher, lost): (Box<dyn Watcher>, Outcome),
        flows: &RunTotals,
    ) -> Result<Closing, Refusal> {
        let own = watcher.outcome();
        let closed = watched(|| watcher.close(flows));
        let of = self.of.get(&place);
        let had_faults = of.is_some_and(|of| of.faults.count() > 0);
        let unclosed = |why: String| Closing {
            outcome: own.unwrap_or_else(|| flows.outcome.clone()),
            key: RunTotals::KEY,
            loss: Some(format!("{name}: its results are incomplete, as {why}")),
            ..Closing::default()
        };
        let mut closing = match closed {
            Ok(Ok(closing)) => closing,
            Ok(Err(refusal)) if !had_faults => return Err(refusal),
            Ok(Err(refusal)) => unclosed(format!("{refusal}")),
            Err(panic) => unclosed(format!("it {panic} at its end")),
        };
        closing.outcome.lose(&lost);
        if let Some(of) = of {
            of.note(name, &mut closing);
        }
        Ok(closing)
    }

    /// What there is to say of lenses that are of no application.
    pub(super) fn loss(&self, place: usize, name: &str) -> Option<String> {
        let mut closing = Closing::default();
        self.of.get(&place)?.note(name, &mut closing);
        closing.loss
    }
}

impl AppFaults {
    /// Adds what was lost to what an application says at its end.
    fn note(&self, name: &str, closing: &mut Closing) {
        let (count, packets) = (self.faults.count(), self.faults.packets());
        if count == 0 {
            return;
        }
        let times = if count == 1 { "fault" } else { "faults" };
        closing.lines.push_str(&format!(
            "{name}: {count} {times}, by which {packets} packets are lost (faulted)\n"
        ));
        closing.counts.push(("faults", count));
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Last { panic, ending: Some(why) }) = &*last else { return };
        closing.loss = Some(format!(
            "{name} ended early after {count} {times}, as {why}: {packets} packets are in none of \
             its rows. The last fault: {panic}. Send the files of the quarantine to the developers \
             only as docs/guide/faults.md says"
        ));
    }
}
