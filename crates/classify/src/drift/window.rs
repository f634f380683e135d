//! Flows of a window, by what is compared of them.

use crate::cascade::{Cascade, StageName};
use crate::verdict::{Label, Verdict};

/// Where bins of confidence begin after the first; the card of a model has the same.
const EDGES: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95];

/// Flows that a model was asked about, by label, confidence of the guess, and stage that decided.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DriftWindow {
    pub(super) flows: u64,
    /// By class; last, those that are unknown.
    pub(super) labels: Vec<u64>,
    pub(super) confidences: [u64; EDGES.len() + 1],
    pub(super) stages: [u64; StageName::ALL.len()],
}

impl DriftWindow {
    /// No flows yet.
    #[must_use]
    pub fn new(cascade: &Cascade) -> Self {
        Self { labels: vec![0; cascade.classes().len() + 1], ..Self::default() }
    }

    /// Counts a verdict; one by the flow's protocol says nothing of the model.
    #[inline]
    pub fn add(&mut self, verdict: &Verdict) {
        let Some(stage) = verdict.stage else { return };
        let unknown = self.labels.len().saturating_sub(1);
        let label = match verdict.label {
            Label::Class(class) => usize::from(class),
            Label::Unknown(_) => unknown,
            Label::Protocol(_) => return,
        };
        let bin = EDGES.iter().filter(|&&edge| verdict.confidence >= edge).count();
        self.flows += 1;
        for count in [
            self.labels.get_mut(label),
            self.confidences.get_mut(bin),
            self.stages.get_mut(stage as usize),
        ] {
            if let Some(count) = count {
                *count += 1;
            }
        }
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        if self.labels.len() < other.labels.len() {
            self.labels.resize(other.labels.len(), 0);
        }
        self.flows += other.flows;
        let labels = self.labels.iter_mut().zip(&other.labels);
        let confidences = self.confidences.iter_mut().zip(&other.confidences);
        let stages = self.stages.iter_mut().zip(&other.stages);
        labels.chain(confidences).chain(stages).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// The share of flows that are unknown.
    pub(super) fn unknown_share(&self) -> f64 {
        share(self.labels.last().copied().unwrap_or(0), self.flows)
    }
}

/// Of numbers so large no digit matters that is lost.
#[allow(clippy::cast_precision_loss)]
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The population stability index of counts in bins: the sum over bins of
/// (share - share before) · ln(share / share before). Half a flow is added to each bin, so that
/// none is empty.
pub(super) fn stability_index(before: &[u64], now: &[u64]) -> f64 {
    let (then, seen) = (shares(before), shares(now));
    then.zip(seen).map(|(then, seen)| (seen - then) * (seen / then).ln()).sum()
}

#[allow(clippy::cast_precision_loss)]
fn shares(counts: &[u64]) -> impl Iterator<Item = f64> + '_ {
    let whole = counts.iter().sum::<u64>() as f64 + counts.len() as f64 / 2.0;
    counts.iter().map(move |&count| (count as f64 + 0.5) / whole)
}
