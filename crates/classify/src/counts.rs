//! The outcome of the flows of a run.

use std::collections::BTreeMap;

use packet::Protocol;

use crate::cascade::{Cascade, StageName};
use crate::failures::Failures;
use crate::latency::Latencies;
use crate::verdict::{Cause, Label, Verdict};

/// Flows of one label.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct LabelCounts {
    /// By stage that decided, in the order of [`StageName::ALL`].
    pub flows: [u64; StageName::ALL.len()],
    /// Sum of the confidences, in the order of the verdicts.
    pub confidence_sum: f64,
}

/// Flows by what was said of them, and why then.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Counts {
    /// Flows that began, or windows of flows.
    pub begun: u64,
    /// Of flows, or windows of flows, what is kept was dropped after a fault, before they were
    /// decided; at most so many have no verdict.
    pub given_up: u64,
    /// By [`Cause`], and by stage that decided in the order of [`StageName::ALL`]; last, those that
    /// no stage was asked about.
    pub causes: [[u64; StageName::ALL.len() + 1]; Cause::ALL.len()],
    /// By class of the cascade.
    pub labels: Vec<LabelCounts>,
    /// Of flows whose class cannot be determined; confidences are those of the best guess.
    pub unknown: LabelCounts,
    /// Flows that their protocol names; there are 256 at most.
    pub protocols: BTreeMap<Protocol, u64>,
    /// Rows that each stage was asked about, in the order of [`StageName::ALL`].
    pub asked: [u64; StageName::ALL.len()],
    /// Of these rows, those that have no answer, as the stage's model failed.
    pub failures: Failures,
    /// Flows decided by their first packet alone.
    pub at_first_packet: u64,
    /// Flows that a later stage was asked about although one before it was sure.
    pub asked_again: u64,
    /// Flows that are neither TCP nor UDP.
    pub other_protocols: u64,
    /// Flows whose first packet the capture cut before the headers that models look at.
    pub cut_headers: u64,
    /// Flows marked, since a packet was several merged ones and none was in training.
    pub other_segmentation: u64,
    /// Flows that found no room to be followed from window to window.
    pub unfollowed: u64,
    /// Most flows that waited, or were followed from window to window, at the same time.
    pub waiting_most: u64,
    /// Hosts that are remembered in the end.
    pub hosts: u64,
    /// Hosts that were forgotten to make room for others.
    pub hosts_forgotten: u64,
    /// How long verdicts took, where the door keeps time.
    pub latencies: Latencies,
}

impl LabelCounts {
    /// Flows of all stages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.flows.iter().sum()
    }

    fn fold(&mut self, other: &Self) {
        self.flows.iter_mut().zip(other.flows).for_each(|(mine, theirs)| *mine += theirs);
        self.confidence_sum += other.confidence_sum;
    }
}

impl Counts {
    /// Nothing yet.
    #[must_use]
    pub fn new(cascade: &Cascade) -> Self {
        Self { labels: vec![LabelCounts::default(); cascade.classes.len()], ..Self::default() }
    }

    /// Counts a verdict.
    pub fn add(&mut self, verdict: &Verdict) {
        let stage = verdict.stage.map_or(StageName::ALL.len(), |stage| stage as usize);
        let of_cause = self.causes.get_mut(verdict.cause as usize);
        if let Some(count) = of_cause.and_then(|of_cause| of_cause.get_mut(stage)) {
            *count += 1;
        }
        let label = match verdict.label {
            Label::Class(class) => self.labels.get_mut(usize::from(class)),
            Label::Unknown(_) => Some(&mut self.unknown),
            Label::Protocol(protocol) => {
                *self.protocols.entry(protocol).or_default() += 1;
                None
            }
        };
        if let (Some(label), Some(stage)) = (label, verdict.stage) {
            if let Some(count) = label.flows.get_mut(stage as usize) {
                *count += 1;
            }
            label.confidence_sum += verdict.confidence;
        }
        let is_first = verdict.packets_used <= 1;
        let is_at_once = !matches!(verdict.cause, Cause::Ended | Cause::Waited);
        self.at_first_packet += u64::from(is_first && is_at_once);
        self.other_segmentation += u64::from(verdict.other_segmentation);
        if let Some(ns) = verdict.latency_ns {
            self.latencies.add(ns);
        }
    }

    /// Verdicts; each flow has one, so in the end as many as began.
    #[must_use]
    pub fn decided(&self) -> u64 {
        self.causes.iter().flatten().sum()
    }

    /// Flows decided for one cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        self.causes.get(cause as usize).map_or(0, |of_cause| of_cause.iter().sum())
    }

    /// The same by stage that decided; last, those that no stage was asked about.
    pub fn by_stage(&self, cause: Cause) -> impl Iterator<Item = (Option<StageName>, u64)> {
        let stages = StageName::ALL.into_iter().map(Some).chain([None]);
        let of_cause = self.causes.get(cause as usize).copied().unwrap_or_default();
        stages.zip(of_cause)
    }

    /// Flows decided by one stage.
    #[must_use]
    pub fn by(&self, stage: StageName) -> u64 {
        let of_label = |label: &LabelCounts| label.flows.get(stage as usize).copied().unwrap_or(0);
        self.labels.iter().chain([&self.unknown]).map(of_label).sum()
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        if self.labels.len() < other.labels.len() {
            self.labels.resize(other.labels.len(), LabelCounts::default());
        }
        self.labels.iter_mut().zip(&other.labels).for_each(|(mine, theirs)| mine.fold(theirs));
        self.unknown.fold(&other.unknown);
        for (&protocol, count) in &other.protocols {
            *self.protocols.entry(protocol).or_default() += count;
        }
        let theirs = other.causes.iter().flatten();
        self.causes.iter_mut().flatten().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        self.asked.iter_mut().zip(other.asked).for_each(|(mine, theirs)| *mine += theirs);
        self.failures.fold(&other.failures);
        self.begun += other.begun;
        self.given_up += other.given_up;
        self.at_first_packet += other.at_first_packet;
        self.asked_again += other.asked_again;
        self.other_protocols += other.other_protocols;
        self.cut_headers += other.cut_headers;
        self.other_segmentation += other.other_segmentation;
        self.unfollowed += other.unfollowed;
        self.waiting_most += other.waiting_most;
        self.hosts += other.hosts;
        self.hosts_forgotten += other.hosts_forgotten;
        self.latencies.fold(&other.latencies);
    }
}
