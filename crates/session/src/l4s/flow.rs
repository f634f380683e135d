//! What is kept of a named flow, and what adds up of it.

use std::collections::VecDeque;

use l4s::{MarkerCounts, OfQueue, Queue};
use latency::{Budget as Buckets, Histogram};
use packet::wire::tcp::SeqNumber;
use packet::{OneWayFlow, Timestamp};

use super::budgets::Budget;

/// Packets of a flow that wait for an acknowledgement at most; the oldest are given up first.
const WAITING_MAX: usize = 1 << 14;

/// A packet that left, until it is acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnackedPacket {
    /// Its stamp.
    pub(super) time: Timestamp,
    /// By the time that never goes back.
    pub(super) at_ns: u64,
    pub(super) seq: SeqNumber,
    /// As the marker numbers it.
    pub(super) number: u64,
    pub(super) queue: Queue,
    /// The latency that was predicted for this queue.
    pub(super) predicted_ns: Option<u64>,
}

/// What adds up, of a flow and period or of all.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    /// Packets that left and are acknowledged in some way: with data, SYN or FIN.
    pub(super) packets: u64,
    /// Verdicts on its L4S packets.
    pub(super) counts: MarkerCounts,
    /// Measured latencies.
    pub(super) latencies: OfQueue<Histogram>,
    /// Packets with both a predicted and a measured latency.
    pub(super) compared: u64,
    /// By how much both differ, of all of them.
    error_ns: f64,
}

impl Sums {
    /// A latency was measured.
    pub(super) fn measure(&mut self, sent: &UnackedPacket, latency_ns: u64, buckets: &mut Buckets) {
        let is_kept = self.latencies.of_mut(sent.queue).add(latency_ns, buckets);
        debug_assert!(is_kept, "there are buckets for all flows that may be followed");
        if let Some(predicted_ns) = sent.predicted_ns {
            self.compared += 1;
            #[allow(clippy::cast_precision_loss)]
            let error_ns = predicted_ns.abs_diff(latency_ns) as f64;
            self.error_ns += error_ns;
        }
    }

    /// The mean absolute error of predictions, in ns.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub(super) fn error_mean_ns(&self) -> Option<u64> {
        let mean = self.error_ns / self.compared as f64;
        (self.compared > 0).then_some(mean.round() as u64)
    }

    /// Begins again.
    pub(super) fn clear(&mut self, buckets: &mut Buckets) {
        for queue in [Queue::L4s, Queue::Classic] {
            self.latencies.of_mut(queue).release(buckets);
        }
        *self = Self::default();
    }
}

/// A named flow.
#[derive(Debug)]
pub(super) struct TrackedFlow {
    pub(super) flow: OneWayFlow,
    pub(super) receiver: u32,
    sent: VecDeque<UnackedPacket>,
    pub(super) budget: Budget,
    pub(super) sums: Sums,
    /// Packets that the kernel had re-marked, or would have, when the last period ended.
    pub(super) remarked_before: u64,
    /// The same in all, once the flow has ended.
    pub(super) remarked_at_end: Option<u64>,
}

impl TrackedFlow {
    pub(super) fn new(flow: OneWayFlow, receiver: u32) -> Self {
        Self {
            flow,
            receiver,
            sent: VecDeque::new(),
            budget: Budget::default(),
            sums: Sums::default(),
            remarked_before: 0,
            remarked_at_end: None,
        }
    }

    /// A packet left; those before it that waited longer than `waited_max_ns` are given up.
    pub(super) fn push(&mut self, sent: UnackedPacket, waited_max_ns: u64) {
        let oldest_ns = sent.at_ns.saturating_sub(waited_max_ns);
        while self.sent.front().is_some_and(|first| first.at_ns < oldest_ns)
            || self.sent.len() >= WAITING_MAX
        {
            self.sent.pop_front();
        }
        self.sent.push_back(sent);
    }

    /// The packet that was stamped so, if it still waits.
    pub(super) fn take(&mut self, time: Timestamp, seq: SeqNumber) -> Option<UnackedPacket> {
        let is_it = |sent: &UnackedPacket| sent.time == time && sent.seq == seq;
        // In the order of stamps, unless the clock was set back.
        let from = self.sent.partition_point(|sent| sent.time < time);
        let near = self.sent.range(from..).take_while(|sent| sent.time == time).position(is_it);
        let place = near.map(|near| from + near).or_else(|| self.sent.iter().position(is_it));
        self.sent.remove(place?)
    }
}
