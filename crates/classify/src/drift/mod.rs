//! Whether the traffic of a run stays as it began, and how it compares with the model's card.
//!
//! Flows are compared in windows. The first [`REFERENCE_WINDOWS`] windows are the site's own
//! reference: the mix of classes differs from that of the training in nearly every network, so the
//! distance from the card is shown and no reason to warn. A window is drift where the population
//! stability index of its labels, or of its confidences, against the reference exceeds a limit:
//! [`PSI_MIN`], or up to [`PSI_MAX`] where the windows of the reference differ among themselves.
//!
//! **Bounds.** A window takes 8 bytes for each class, and five are held.

mod window;

use std::sync::Arc;

pub use window::DriftWindow;
use window::{share, stability_index};

use crate::cascade::Cascade;

/// Windows that are the reference.
pub const REFERENCE_WINDOWS: usize = 4;
/// Flows of a window by default.
pub const FLOWS_DEFAULT: u64 = 2000;
/// A population stability index above this is drift: the usual limit of credit scoring, where the
/// index is from.
pub const PSI_MIN: f64 = 0.25;
/// How much more than the windows of the reference a window may differ.
const PSI_EXCESS: f64 = 1.5;
/// No limit is higher: a run that began in an attack would else find nothing.
pub const PSI_MAX: f64 = 0.5;
/// Labels of fewer of the flows of the reference are one bin: each by itself they differ by chance.
const PER_MILLE_MIN: u64 = 10;

/// An index by what it is of.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DriftIndex {
    /// The labels of flows.
    pub labels: f64,
    /// How sure the model was.
    pub confidence: f64,
}

impl DriftIndex {
    fn largest(self, other: Self) -> Self {
        let labels = self.labels.max(other.labels);
        Self { labels, confidence: self.confidence.max(other.confidence) }
    }

    /// The limits that follow from how the windows of the reference differ.
    fn limits(self) -> Self {
        let limit = |own: f64| (PSI_EXCESS * own).clamp(PSI_MIN, PSI_MAX);
        Self { labels: limit(self.labels), confidence: limit(self.confidence) }
    }

    fn exceeds(self, limits: Self) -> bool {
        self.labels > limits.labels || self.confidence > limits.confidence
    }
}

/// What windows are compared with.
#[derive(Clone, Debug)]
struct Reference {
    flows: DriftWindow,
    limits: DriftIndex,
}

impl Reference {
    fn of(windows: &[DriftWindow]) -> Self {
        let mut flows = DriftWindow::default();
        windows.iter().for_each(|window| flows.fold(window));
        let mut found = Self { flows, limits: DriftIndex::default() };
        let own = windows.iter().map(|window| found.index(window));
        found.limits = own.fold(DriftIndex::default(), DriftIndex::largest).limits();
        found
    }

    fn index(&self, window: &DriftWindow) -> DriftIndex {
        let confidence = stability_index(&self.flows.confidences, &window.confidences);
        let (before, now) = (self.binned(&self.flows.labels), self.binned(&window.labels));
        DriftIndex { labels: stability_index(&before, &now), confidence }
    }

    /// Labels that are frequent in the reference by themselves, the rest as one.
    fn binned(&self, labels: &[u64]) -> Vec<u64> {
        let is_frequent = |count: u64| count * 1000 >= self.flows.flows * PER_MILLE_MIN;
        let (mut bins, mut rest) = (Vec::new(), 0);
        for (&count, &before) in labels.iter().zip(&self.flows.labels) {
            if before > 0 && is_frequent(before) {
                bins.push(count);
            } else {
                rest += count;
            }
        }
        bins.push(rest);
        bins
    }

    /// The label whose share changed most: its place, its share before, and now.
    fn most_changed(&self, window: &DriftWindow) -> (usize, f64, f64) {
        let pairs = self.flows.labels.iter().zip(&window.labels).enumerate();
        let shares = pairs.map(|(label, (&before, &now))| {
            (label, share(before, self.flows.flows), share(now, window.flows))
        });
        shares.fold((0, 0.0, 0.0), |most, one| {
            if (one.2 - one.1).abs() > (most.2 - most.1).abs() { one } else { most }
        })
    }
}

/// How the flows of a model compare, so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DriftCounts {
    /// Windows that are complete.
    pub windows: u64,
    /// Of these, those that were compared with the reference.
    pub compared: u64,
    /// Of these, those that differed.
    pub drifted: u64,
    /// Whether the latest one did.
    pub is_drifted: bool,
    /// Flows of the reference; none until it is complete.
    pub reference_flows: u64,
    /// Of the latest window.
    pub latest: DriftIndex,
    /// The largest of each so far.
    pub largest: DriftIndex,
    /// Above which a window is drift.
    pub limits: DriftIndex,
    /// The index of the latest window's labels against the flows of the training, where the card
    /// says how many there were of each class.
    pub card_labels: Option<f64>,
    /// The same of the stages that decided, against the flows on which the model was judged.
    pub card_stages: Option<f64>,
    /// The share of the latest window that is unknown.
    pub unknown_share: f64,
}

/// Something that a user should know.
#[derive(Clone, PartialEq, Debug)]
pub enum DriftChange {
    /// A window differs from the reference, and the one before did not.
    Begun {
        /// By how much.
        seen: DriftIndex,
        /// How much it may be.
        limits: DriftIndex,
        /// The label whose share changed most.
        label: String,
        /// Its share in the reference.
        before: f64,
        /// Its share in the window.
        now: f64,
    },
    /// A window is as the reference again.
    Over,
}

/// Compares the flows of one model, window by window.
#[derive(Clone, Debug)]
pub struct DriftMonitor {
    cascade: Arc<Cascade>,
    flows_min: u64,
    window: DriftWindow,
    /// Windows until the reference is complete.
    first: Vec<DriftWindow>,
    reference: Option<Reference>,
    counts: DriftCounts,
}

impl DriftMonitor {
    /// Before the first flow; a window has so many flows, or more where more come at the same time.
    #[must_use]
    pub fn new(cascade: Arc<Cascade>, flows_min: u64) -> Self {
        let (window, first) = (DriftWindow::new(&cascade), Vec::new());
        let counts = DriftCounts::default();
        Self { cascade, flows_min: flows_min.max(1), window, first, reference: None, counts }
    }

    /// The model's name and version.
    #[must_use]
    pub fn model(&self) -> &str {
        self.cascade.id()
    }

    /// What was found so far.
    #[must_use]
    pub const fn counts(&self) -> &DriftCounts {
        &self.counts
    }

    /// Takes in the flows between two marks of event time, of all threads; a window ends only
    /// here, so it is the same on any number of them.
    pub fn take(&mut self, flows: &DriftWindow) -> Option<DriftChange> {
        self.window.fold(flows);
        if self.window.flows < self.flows_min {
            return None;
        }
        let next = DriftWindow::new(&self.cascade);
        let window = std::mem::replace(&mut self.window, next);
        let card = self.cascade.card();
        self.counts.windows += 1;
        self.counts.card_labels = card.labels().map(|card| against(card, &window.labels));
        self.counts.card_stages = card.stages().map(|card| against(card, &window.stages));
        self.counts.unknown_share = window.unknown_share();
        if let Some(reference) = &self.reference {
            return compare(reference, &window, &self.cascade, &mut self.counts);
        }
        self.first.push(window);
        if self.first.len() == REFERENCE_WINDOWS {
            let reference = Reference::of(&std::mem::take(&mut self.first));
            self.counts.reference_flows = reference.flows.flows;
            self.counts.limits = reference.limits;
            self.reference = Some(reference);
        }
        None
    }
}

fn compare(
    reference: &Reference,
    window: &DriftWindow,
    cascade: &Cascade,
    counts: &mut DriftCounts,
) -> Option<DriftChange> {
    let (seen, limits) = (reference.index(window), reference.limits);
    let (was_drifted, is_drifted) = (counts.is_drifted, seen.exceeds(limits));
    counts.compared += 1;
    counts.drifted += u64::from(is_drifted);
    counts.is_drifted = is_drifted;
    counts.latest = seen;
    counts.largest = counts.largest.largest(seen);
    match (was_drifted, is_drifted) {
        (false, true) => {
            let (label, before, now) = reference.most_changed(window);
            let label = cascade.classes().get(label).map_or(crate::UNKNOWN, String::as_str);
            Some(DriftChange::Begun { seen, limits, label: label.to_owned(), before, now })
        }
        (true, false) => Some(DriftChange::Over),
        _ => None,
    }
}

/// The index against the card, of the bins that it has.
fn against(card: &[Option<u64>], now: &[u64]) -> f64 {
    let both = card.iter().zip(now).filter_map(|(card, &now)| Some(((*card)?, now)));
    let (card, now): (Vec<_>, Vec<_>) = both.unzip();
    stability_index(&card, &now)
}
