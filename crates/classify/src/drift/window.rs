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
        let counts = [
            self.labels.get_mut(label),
            self.confidences.get_mut(bin),
            self.stages.get_mut(stage as usize),
        ];
        counts.into_iter().flatten().for_each(|count| *count += 1);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_index_is_that_of_the_formula() {
        // With half a flow in each bin: shares 0.5 and 0.5 before, 0.25 and 0.75 now.
        let found = stability_index(&[9, 9], &[4, 13]);
        let by_hand = (0.25 - 0.5) * (0.25_f64 / 0.5).ln() + (0.75 - 0.5) * (0.75_f64 / 0.5).ln();
        assert!((found - by_hand).abs() < 1e-12, "{found} {by_hand}");
    }

    proptest! {
        #[test]
        fn it_is_none_for_the_same_shares_and_more_for_others(
            counts in prop::collection::vec(0_u64..10_000, 1..20),
            others in prop::collection::vec(0_u64..10_000, 1..20),
        ) {
            prop_assert!(stability_index(&counts, &counts).abs() < 1e-9);
            let len = counts.len().min(others.len());
            let (one, other) = (&counts[..len], &others[..len]);
            let there = stability_index(one, other);
            prop_assert!(there >= 0.0 && there.is_finite());
            prop_assert!((there - stability_index(other, one)).abs() < 1e-9);
        }

        #[test]
        fn parts_of_flows_add_up_in_any_order(
            labels in prop::collection::vec(prop::collection::vec(0_u64..100, 4), 1..6),
        ) {
            let windows: Vec<_> = labels
                .into_iter()
                .map(|labels| DriftWindow {
                    flows: labels.iter().sum(),
                    labels,
                    ..DriftWindow::default()
                })
                .collect();
            let sum = |windows: &mut dyn Iterator<Item = &DriftWindow>| {
                let mut sum = DriftWindow::default();
                windows.for_each(|window| sum.fold(window));
                sum
            };
            let there = sum(&mut windows.iter());
            prop_assert_eq!(&there, &sum(&mut windows.iter().rev()));
            prop_assert_eq!(there.flows, there.labels.iter().sum::<u64>());
        }
    }
}
