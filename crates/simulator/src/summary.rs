//! The outcome of a run.

use std::fmt::Write as _;

use dualq::{Counts, OfQueue, Queue};
use l4s::{MarkerCounts, TuningCounts};

use crate::scenario::{Group, Scenario};
use crate::steered::OfSteering;

/// Delays of packets, each kept, so that quantiles are exact.
#[derive(Clone, Debug, Default)]
pub struct Delays(Vec<u32>);

impl Delays {
    pub(crate) fn add(&mut self, ns: u64) {
        self.0.push(u32::try_from(ns).unwrap_or(u32::MAX));
    }

    pub(crate) fn sort(&mut self) {
        self.0.sort_unstable();
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest delay that at least this share of packets did not exceed, in ms; `None` of
    /// no packets.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = (share * self.0.len() as f64).ceil().max(1.0) as usize;
        self.0.get(rank - 1).map(|&ns| f64::from(ns) / 1e6)
    }
}

/// The outcome of the flows of a group.
#[derive(Clone, Debug)]
pub struct OfGroup {
    /// The group.
    pub group: Group,
    /// Queueing delays of its packets that left the router.
    pub delays: Delays,
    /// Bytes on the link of these.
    pub bytes: u64,
    /// Its packets that the router dropped.
    pub dropped: u64,
    /// Its packets that were retransmitted.
    pub retransmissions: u64,
    /// Its packets that a later one overtook.
    pub reordered: u64,
    /// Its packets that steering re-marked.
    pub remarked: u64,
}

/// The outcome of a run. Delays, bytes and drops are those of packets that arrived at the
/// router after the warm-up.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Seconds that they are of.
    pub seconds: f64,
    /// Queueing delays of packets that left, by queue.
    pub delays: OfQueue<Delays>,
    /// The outcome of all packets, by queue, the warm-up included.
    pub counts: OfQueue<Counts>,
    /// By group.
    pub groups: Vec<OfGroup>,
    /// What steering did, the warm-up included.
    pub steering: OfSteering,
}

impl Summary {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let of_group = |&group: &Group| OfGroup {
            group,
            delays: Delays::default(),
            bytes: 0,
            dropped: 0,
            retransmissions: 0,
            reordered: 0,
            remarked: 0,
        };
        Self {
            seconds: scenario.duration_ns.saturating_sub(scenario.warmup_ns) as f64 / 1e9,
            delays: OfQueue::default(),
            counts: OfQueue::default(),
            groups: scenario.groups.iter().map(of_group).collect(),
            steering: OfSteering::default(),
        }
    }

    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut json = String::from("{\"world\":\"simulator\"");
        // Writing to a string cannot fail.
        let _ = write!(json, ",\"seconds\":{},\"queues\":{{", self.seconds);
        for (name, queue) in [("l4s", Queue::L4s), ("classic", Queue::Classic)] {
            let separator = if name == "l4s" { "" } else { "," };
            let counts = self.counts.of(queue);
            let _ = write!(json, "{separator}\"{name}\":{{");
            write_delays(&mut json, self.delays.of(queue));
            let _ = write!(
                json,
                ",\"received\":{},\"sent\":{},\"dropped_full\":{},\"dropped_early\":{},\
                 \"dropped_late\":{},\"marked_pi\":{},\"marked_threshold\":{},\"waiting\":{}}}",
                counts.received,
                counts.sent,
                counts.dropped_full,
                counts.dropped_early,
                counts.dropped_late,
                counts.marked_pi,
                counts.marked_threshold,
                counts.waiting,
            );
        }
        json.push_str("},\"groups\":[");
        for (index, of_group) in self.groups.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let OfGroup { group, bytes, dropped, retransmissions, reordered, remarked, .. } =
                of_group;
            let _ = write!(
                json,
                "{separator}{{\"congestion\":\"{}\",\"count\":{},\"sender\":{},\"receiver\":{},",
                group.congestion.name(),
                group.count,
                group.sender,
                group.receiver,
            );
            write_delays(&mut json, &of_group.delays);
            let _ = write!(
                json,
                ",\"throughput_bps\":{:.0},\"dropped\":{dropped},\
                 \"retransmissions\":{retransmissions},\"reordered\":{reordered},\
                 \"remarked\":{remarked}}}",
                *bytes as f64 * 8.0 / self.seconds.max(1e-9),
            );
        }
        json.push(']');
        self.write_steering(&mut json);
        json.push('}');
        json
    }

    fn write_steering(&self, json: &mut String) {
        let OfSteering { asked, remarked, marker, tuning } = self.steering;
        let _ = write!(json, ",\"steered\":{{\"asked\":{asked},\"remarked\":{remarked}");
        if let Some(MarkerCounts { kept, silent, unknown, limited, rare, .. }) = marker {
            let _ = write!(
                json,
                ",\"kept\":{kept},\"silent\":{silent},\"unknown\":{unknown},\
                 \"limited\":{limited},\"rare\":{rare}"
            );
        }
        json.push('}');
        if let Some(counts) = tuning {
            let TuningCounts { done, worse, failed, skipped, examples, .. } = counts;
            let _ = write!(
                json,
                ",\"tunings\":{{\"done\":{done},\"worse\":{worse},\"failed\":{failed},\
                 \"skipped\":{skipped},\"examples\":{examples}}}"
            );
        }
    }
}

fn write_delays(json: &mut String, delays: &Delays) {
    let _ = write!(json, "\"packets\":{}", delays.count());
    for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        match delays.quantile_ms(share) {
            Some(ms) => {
                let _ = write!(json, ",\"{name}_ms\":{ms:.6}");
            }
            None => {
                let _ = write!(json, ",\"{name}_ms\":null");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_values() {
        let mut delays = Delays::default();
        assert_eq!(delays.quantile_ms(0.5), None);
        (1..=200_u64).rev().for_each(|ms| delays.add(ms * 1_000_000));
        delays.sort();
        let read = [0.5, 0.99, 1.0].map(|share| delays.quantile_ms(share));
        assert_eq!(read, [Some(100.0), Some(198.0), Some(200.0)]);
    }
}
