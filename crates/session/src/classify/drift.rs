//! Whether traffic stays as a run began: the flows of all threads, and what is said of them.
//!
//! Threads that share the flows of captures, or of one socket, stand alike at each mark of event
//! time. What they found between two marks is added up when the last of them is there, so that
//! windows are the same on any number of threads. On several sockets each has marks of its own,
//! and what it found counts as it comes.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use classify::Verdict;
use classify::drift::{DriftChange, DriftCounts, DriftMonitor, DriftWindow, REFERENCE_WINDOWS};
use store::Count;

use super::versions::ModelVersions;
use crate::outlet::Sharing;

/// Flows by the number of their model.
type Section = BTreeMap<u16, DriftWindow>;

/// The flows of all threads.
#[derive(Clone)]
pub(super) struct DriftWatch(Arc<Shared>);

struct Shared {
    models: ModelVersions,
    flows_min: u64,
    /// How many threads have a part of each section.
    part_count: usize,
    tell: Option<fn(&str)>,
    found: Mutex<Found>,
}

#[derive(Default)]
struct Found {
    /// Sections that some threads have not ended, by the number of those that have. A thread is
    /// ahead of another by no more than frames are read ahead.
    waiting: VecDeque<(usize, Section)>,
    /// The number of the first of them.
    first: u64,
    monitors: BTreeMap<u16, DriftMonitor>,
}

/// What one thread adds.
pub(super) struct DriftPart {
    watch: DriftWatch,
    /// The number of the section that it is in.
    section: u64,
}

impl DriftWatch {
    pub(super) fn new(
        models: ModelVersions,
        flows_min: u64,
        sharing: Sharing,
        tell: Option<fn(&str)>,
    ) -> Self {
        let part_count = match sharing {
            Sharing::Parts(count) => count.max(1),
            Sharing::Whole | Sharing::Sockets(_) | Sharing::AnyOrder { .. } => 1,
        };
        let found = Mutex::default();
        Self(Arc::new(Shared { models, flows_min, part_count, tell, found }))
    }

    /// For a thread.
    pub(super) fn part(&self) -> DriftPart {
        DriftPart { watch: self.clone(), section: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Found> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a thread found in the section of this number.
    fn take(&self, section: u64, flows: Section) {
        let shared = &self.0;
        let mut found = self.lock();
        if shared.part_count == 1 {
            return shared.compare(&mut found.monitors, flows);
        }
        let at = usize::try_from(section.saturating_sub(found.first)).unwrap_or(usize::MAX);
        if at >= found.waiting.len() {
            found.waiting.resize_with(at + 1, Default::default);
        }
        if let Some((ended, sum)) = found.waiting.get_mut(at) {
            *ended += 1;
            for (version, flows) in flows {
                sum.entry(version).or_default().fold(&flows);
            }
        }
        let is_complete = |(ended, _): &(usize, Section)| *ended == shared.part_count;
        while found.waiting.front().is_some_and(is_complete) {
            found.first += 1;
            if let Some((_, flows)) = found.waiting.pop_front() {
                shared.compare(&mut found.monitors, flows);
            }
        }
    }

    /// For observers of the run.
    pub(super) fn counts(&self) -> Vec<Count> {
        let found = self.lock();
        let of = |count: fn(&DriftCounts) -> u64| {
            found.monitors.values().map(|monitor| count(monitor.counts())).sum::<u64>()
        };
        let mut made = vec![
            Count::total("drift_windows", "Windows of flows.", of(|counts| counts.windows)),
            Count::total(
                "drifted_windows",
                "Windows that differ from the start of the run.",
                of(|counts| counts.drifted),
            ),
        ];
        // Of the model that has most of the new flows: what is shown has no history of models.
        let latest = found.monitors.values().rfind(|monitor| monitor.counts().windows > 0);
        let counts = latest.map(|monitor| monitor.counts().clone()).unwrap_or_default();
        made.extend(gauges(&counts));
        made
    }

    /// The closing lines; none where no window was complete.
    pub(super) fn lines(&self) -> String {
        let found = self.lock();
        let is_one = found.monitors.len() == 1;
        let mut text = String::new();
        for monitor in found.monitors.values().filter(|monitor| monitor.counts().windows > 0) {
            let of = if is_one { String::new() } else { format!(" of {}", monitor.model()) };
            let _ = writeln!(text, "classify: drift{of}: {}", line(monitor.counts()));
        }
        text
    }
}

impl Shared {
    fn compare(&self, monitors: &mut BTreeMap<u16, DriftMonitor>, flows: Section) {
        for (version, flows) in flows {
            let monitor = match monitors.entry(version) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(place) => {
                    let models = self.models.all();
                    let Some(model) = models.get(usize::from(version)) else { continue };
                    place.insert(DriftMonitor::new(Arc::clone(model), self.flows_min))
                }
            };
            if let (Some(change), Some(tell)) = (monitor.take(&flows), self.tell) {
                tell(&warning(&change, monitor.counts().reference_flows));
            }
        }
    }
}

impl DriftPart {
    /// The verdicts between two marks of event time.
    pub(super) fn on_mark(&mut self, verdicts: &[Verdict]) {
        let models = &self.watch.0.models;
        let mut flows = Section::new();
        for verdict in verdicts {
            let window = flows.entry(verdict.version).or_insert_with(|| {
                let model = models.all().get(usize::from(verdict.version)).map(Arc::clone);
                model.map_or_else(DriftWindow::default, |model| DriftWindow::new(&model))
            });
            window.add(verdict);
        }
        self.watch.take(self.section, flows);
        self.section += 1;
    }

    /// The closing lines.
    pub(super) fn lines(&self) -> String {
        self.watch.lines()
    }
}

fn gauges(counts: &DriftCounts) -> impl Iterator<Item = Count> {
    let about = "Population stability index of the latest window, by what is compared.";
    let index = move |value, of, reference| {
        Count::gauge("drift_psi", about, value).with("of", of).with("reference", reference)
    };
    let limit = |value, of| {
        let about = "Population stability index above which a window is drift.";
        Count::gauge("drift_psi_limit", about, value).with("of", of)
    };
    let is_drifted = if counts.is_drifted { 1.0 } else { 0.0 };
    let (latest, limits) = (counts.latest, counts.limits);
    [
        Some(Count::gauge("drifted", "1 if the latest window is drift.", is_drifted)),
        Some(index(latest.labels, "labels", "start")),
        Some(index(latest.confidence, "confidence", "start")),
        counts.card_labels.map(|value| index(value, "labels", "card")),
        counts.card_stages.map(|value| index(value, "stages", "card")),
        Some(limit(limits.labels, "labels")),
        Some(limit(limits.confidence, "confidence")),
        Some(Count::gauge(
            "drift_unknown_ratio",
            "Share of the latest window that is unknown.",
            counts.unknown_share,
        )),
    ]
    .into_iter()
    .flatten()
}

/// A change as a line for users.
fn warning(change: &DriftChange, reference_flows: u64) -> String {
    match change {
        DriftChange::Begun { seen, limits, label, before, now } => format!(
            "classify: traffic differs from the first {reference_flows} flows of this run \
             (population stability index of labels {:.2}, wanted at most {:.2}; of confidence \
             {:.2}, wanted at most {:.2}; most changed: {label}, {:.1} % to {:.1} %): verdicts \
             may be less accurate than the model's card says; collect such flows with `wirelens \
             feedback`, and train with their labels",
            seen.labels,
            limits.labels,
            seen.confidence,
            limits.confidence,
            before * 100.0,
            now * 100.0,
        ),
        DriftChange::Over => {
            format!("classify: traffic is again like the first {reference_flows} flows of this run")
        }
    }
}

/// The closing line of a model.
fn line(counts: &DriftCounts) -> String {
    let DriftCounts { windows, compared, drifted, reference_flows, largest, .. } = counts;
    let mut text = if *compared == 0 {
        format!(
            "{windows} windows; the first {REFERENCE_WINDOWS} are what others are compared with"
        )
    } else {
        format!(
            "{drifted} of {compared} windows differ from the first {reference_flows} flows \
             (population stability index of labels up to {:.2}, of confidence up to {:.2})",
            largest.labels, largest.confidence
        )
    };
    if let Some(card) = counts.card_labels {
        let _ = write!(text, "; labels of the latest one against the model's card: {card:.2}");
    }
    text
}

#[cfg(test)]
mod tests {
    use classify::{Cascade, Cause, Label, StageName};
    use packet::{FlowDirection, FlowKey, Timestamp};

    use super::*;

    fn models() -> ModelVersions {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/services/");
        let file = |name: &str, _| std::fs::read(format!("{folder}{name}"));
        ModelVersions::new(Arc::new(Cascade::read(file).unwrap()))
    }

    /// A verdict on a flow of a class.
    fn verdict(class: u16) -> Verdict {
        let time = Timestamp::from_ns(0);
        Verdict {
            key: FlowKey::default(),
            direction: FlowDirection::LowToHigh,
            input: 0,
            first: time,
            window: None,
            label: Label::Class(class),
            confidence: 0.9,
            stage: Some(StageName::Fast),
            packets_used: 1,
            deciding: time,
            decided: time,
            cause: Cause::Confident,
            latency_ns: None,
            version: 0,
            other_segmentation: false,
        }
    }

    /// Flows between marks: of the first class, then of another one, then of the first.
    fn sections() -> Vec<Vec<Verdict>> {
        let class = |at: usize| u16::from((24..36).contains(&at));
        (0..60).map(|at| vec![verdict(class(at)); at % 7 * 30]).collect()
    }

    #[test]
    fn threads_that_share_flows_find_what_one_finds() {
        let alone = DriftWatch::new(models(), 200, Sharing::Whole, None);
        let mut part = alone.part();
        sections().iter().for_each(|section| part.on_mark(section));
        assert!(alone.lines().contains("windows differ from the first"), "{}", alone.lines());
        assert!(!alone.lines().contains("drift: 0 of"), "{}", alone.lines());
        // The second thread is far behind, and the third one has no flow at all.
        let shared = DriftWatch::new(models(), 200, Sharing::Parts(3), None);
        let mut parts = [shared.part(), shared.part(), shared.part()];
        for at in [0, 2, 1] {
            for section in sections() {
                let (mine, theirs) = section.split_at(section.len() / 3);
                let flows = match at {
                    0 => mine,
                    1 => theirs,
                    _ => &[],
                };
                parts[at].on_mark(flows);
            }
            let is_last = at == 1;
            assert_eq!(shared.lock().waiting.is_empty(), is_last);
        }
        assert_eq!(shared.lines(), alone.lines());
        assert_eq!(shared.counts(), alone.counts());
    }

    #[test]
    fn a_change_says_what_was_seen_and_what_to_try() {
        let indexes = |labels, confidence| classify::drift::DriftIndex { labels, confidence };
        let begun = DriftChange::Begun {
            seen: indexes(1.234, 0.1),
            limits: indexes(0.25, 0.25),
            label: String::from("dns"),
            before: 0.5,
            now: 0.031,
        };
        let text = warning(&begun, 8000);
        for part in ["first 8000 flows", "labels 1.23, wanted at most 0.25", "dns, 50.0 % to 3.1 %"]
        {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("wirelens feedback"));
        assert!(warning(&DriftChange::Over, 8000).contains("again like the first 8000 flows"));
    }
}
