//! What is said of a host, from the verdicts on its flows.
//!
//! A host's **confidence** is the smoothed share of its likeliest class among its flows,
//! `(n + prior / classes) / (sum + prior)`: `n` is the decayed sum of that class's probabilities
//! ([`HostMemory::shares`]), `sum` that of all classes. The host has the **label** of that class
//! from [`LABEL_AT_LEAST`] on, unless the class is the one called `unknown`. With a prior of 1, one
//! flow at 0.9 makes 0.48 of 17 classes: a label needs two flows that agree.

use std::net::IpAddr;

use packet::Timestamp;

use crate::cascade::Cascade;
use crate::memory::{HostMemory, MemoryRule};
use crate::verdict::{Label, UNKNOWN};

/// The least confidence at which a host has a label.
pub const LABEL_AT_LEAST: f64 = 0.5;

/// The verdict on a host, so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HostVerdict {
    /// Its address: the source of its flows.
    pub host: IpAddr,
    /// What it is, or the likeliest class where that is not likely enough.
    pub label: Label,
    /// The smoothed share of the likeliest class.
    pub confidence: f64,
    /// Flows that were decided by a model, since the host is remembered.
    pub flow_count: u64,
    /// Stamp of the first packet of the first of them.
    pub first: Timestamp,
    /// Event time of the last verdict.
    pub decided: Timestamp,
    /// Whether the label is another than in the row before; a host begins as unknown.
    pub has_new_label: bool,
}

/// Makes verdicts of what is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    /// The class of flows of no other, where the cascade has one.
    unknown: Option<u16>,
}

impl Judge {
    pub(crate) fn new(cascade: &Cascade) -> Self {
        let mut classes = (0..).zip(cascade.classes());
        Self { unknown: classes.find(|(_, class)| *class == UNKNOWN).map(|(number, _)| number) }
    }

    /// What is said of a host now.
    pub(crate) fn verdict(self, kept: &HostMemory, rule: &MemoryRule) -> HostVerdict {
        let (class, confidence) = kept.smoothed(rule);
        let has_label = confidence >= LABEL_AT_LEAST && self.unknown != Some(class);
        let label = if has_label { Label::Class(class) } else { Label::Unknown(class) };
        HostVerdict {
            host: kept.address,
            label,
            confidence,
            flow_count: kept.verdict_count,
            first: kept.first,
            decided: kept.updated,
            has_new_label: kept.reported.label != label_class(label),
        }
    }
}

/// The class of a label, if it is one.
pub(crate) const fn label_class(label: Label) -> Option<u16> {
    match label {
        Label::Class(class) => Some(class),
        Label::Unknown(_) | Label::Protocol(_) => None,
    }
}
