//! Counts of verdicts during a run.

use classify::latency::BOUNDS_S;
use classify::{Cascade, Cause, Counts, UNKNOWN};
use names::counts::Counts as NameCounts;
use store::{Count, Spread};

use super::failing;
use crate::names_read;

/// Classes that have a series of their own; those of a model with more are added up as `other`.
const CLASSES_MAX: usize = 256;

/// Verdicts by cause, stage and class, and how long they took. `waiting` are flows that have none.
pub(super) fn counts(
    cascade: &Cascade,
    counts: &Counts,
    waiting: usize,
    names: Option<&NameCounts>,
) -> Vec<Count> {
    let mut made = by_cause(cascade, counts);
    made.extend(by_label(cascade, counts));
    for (name, about, count) in [
        ("begun_flows", "Flows, or windows of flows, that began.", counts.begun),
        ("unknown_verdicts", "Verdicts of unknown.", counts.unknown.total()),
        ("first_packet_verdicts", "Verdicts at the first packet.", counts.at_first_packet),
        ("asked_again_flows", "Flows classified again by a rule.", counts.asked_again),
        ("other_protocol_flows", "Flows of other protocols.", counts.other_protocols),
        ("cut_header_flows", "Flows whose first packet was truncated.", counts.cut_headers),
        ("merged_packet_flows", "Flows with merged packets (offloads).", counts.other_segmentation),
        ("no_room_to_follow_flows", "Flows dropped because the table was full.", counts.unfollowed),
        (
            "no_room_to_wait_flows",
            "Flows decided early because too many waited.",
            counts.of(Cause::Full),
        ),
        (
            "unanswered_flows",
            "Flows decided by an earlier stage as no worker answered in time or the last model failed.",
            counts.of(Cause::Unanswered),
        ),
    ] {
        made.push(Count::total(name, about, count));
    }
    made.push(gauge("waiting_flows", "Flows waiting for packets.", waiting as u64));
    if cascade.memory().is_some() {
        made.push(gauge("hosts", "Hosts in memory.", counts.hosts));
        let about = "Hosts evicted from memory.";
        made.push(Count::total("hosts_forgotten", about, counts.hosts_forgotten));
    }
    made.extend(names.into_iter().flat_map(names_read::shown));
    made.extend(failing::counts(cascade, &counts.failures));
    made.push(latencies(counts));
    made
}

#[allow(clippy::cast_precision_loss)]
const fn gauge(name: &'static str, about: &'static str, value: u64) -> Count {
    Count::gauge(name, about, value as f64)
}

/// Of causes and stages that the cascade has.
fn by_cause(cascade: &Cascade, counts: &Counts) -> Vec<Count> {
    let mut made = Vec::new();
    for cause in Cause::ALL {
        for (stage, count) in counts.by_stage(cause) {
            let of_protocol = cause == Cause::Protocol;
            let is_there = match stage {
                Some(stage) => cascade.stages().iter().any(|known| known.name() == stage),
                None => cascade.names_protocols(),
            };
            if of_protocol != stage.is_none() || !is_there {
                continue;
            }
            let count = Count::total("verdicts", "Verdicts.", count).with("cause", cause.name());
            made.push(count.with("stage", stage.map_or("none", |stage| stage.name())));
        }
    }
    made
}

/// Of each class; words of the model, of which there is a fixed set.
fn by_label(cascade: &Cascade, counts: &Counts) -> Vec<Count> {
    let of = |label: &str, count| {
        Count::total("label_verdicts", "Verdicts by label.", count).with("label", label)
    };
    let classes = cascade.classes().iter().zip(&counts.labels);
    let mut made: Vec<_> =
        classes.clone().take(CLASSES_MAX).map(|(class, label)| of(class, label.total())).collect();
    made.push(of(UNKNOWN, counts.unknown.total()));
    let protocols = counts.protocols.values().sum::<u64>();
    let beyond = classes.skip(CLASSES_MAX).map(|(_, label)| label.total()).sum::<u64>();
    if cascade.names_protocols() {
        made.push(of("protocol", protocols));
    }
    if cascade.classes().len() > CLASSES_MAX {
        made.push(of("other", beyond));
    }
    made
}

/// How long verdicts took that a packet decided.
#[allow(clippy::cast_precision_loss)]
fn latencies(counts: &Counts) -> Count {
    let latencies = &counts.latencies;
    let sum = latencies.sum_ns() as f64 / 1e9;
    let spread = Spread { bounds: BOUNDS_S, counts: latencies.buckets().to_vec(), sum };
    let about = "Latency from the arrival of the deciding packet to the verdict.";
    Count::histogram("decision_latency_seconds", about, spread)
}
