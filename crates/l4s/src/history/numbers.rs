//! Tokens and queries as numbers: what stands where, and in which unit.
//!
//! Delays are above the least latency seen, so that a model of one path can read another one.

use dualq::Queue;

const FLOW_CODE_LEN: usize = 8;
const RECEIVER_CODE_LEN: usize = 2;

/// What each number of a token is, in order.
pub const TOKEN_NAMES: [&str; 14] = [
    "queueing delay",
    "queue",
    "size",
    "flow age",
    "since the acknowledgement before",
    "between departures",
    "change within the flow",
    "change within the queue",
    "delivery rate of the queue",
    "in flight: L4S",
    "in flight: classic",
    "in flight: flow",
    "receiver (2)",
    "flow (8)",
];
/// Numbers of a token.
pub const TOKEN_LEN: usize = 12 + RECEIVER_CODE_LEN + FLOW_CODE_LEN;

/// What each number of a query is, in order.
pub const QUERY_NAMES: [&str; 21] = [
    "queue",
    "size",
    "place in the batch",
    "flow age",
    "since the newest acknowledgement",
    "since the flow's newest acknowledgement",
    "since the queue's newest acknowledgement",
    "since the flow's packet before",
    "since the packet before",
    "since nothing was in flight",
    "packets since nothing was in flight",
    "newest delay of the flow (2)",
    "newest delay of the L4S queue (2)",
    "newest delay of the classic queue (2)",
    "delay by Little's law, newest rate (2)",
    "delay by Little's law, fastest rate (2)",
    "in flight: L4S",
    "in flight: classic",
    "in flight: flow",
    "receiver (2)",
    "flow (8)",
];
/// Numbers of a query.
pub const QUERY_LEN: usize = 24 + RECEIVER_CODE_LEN + FLOW_CODE_LEN;

/// What a predictor is asked of a packet and a queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Query {
    /// The numbers.
    pub values: [f32; QUERY_LEN],
    /// To what a prediction is added: the newest latency of this queue, or of any. None before
    /// the first acknowledgement.
    pub base_ns: Option<u64>,
    /// The least latency seen.
    pub floor_ns: Option<u64>,
    /// The flow's newest latency.
    pub flow_last_ns: Option<u64>,
    /// The queue's newest latency.
    pub queue_last_ns: Option<u64>,
    /// The latency by Little's law: bytes in flight, this packet included, by the fastest rate of
    /// the last second at which the queue delivered.
    pub little_ns: Option<u64>,
}

/// Numbers as they are filled in.
pub(super) struct Values<const N: usize> {
    values: [f32; N],
    filled: usize,
}

impl<const N: usize> Values<N> {
    pub(super) const fn new() -> Self {
        Self { values: [0.0; N], filled: 0 }
    }

    fn put(&mut self, value: f32) -> &mut Self {
        if let Some(place) = self.values.get_mut(self.filled) {
            *place = value;
        }
        self.filled += 1;
        self
    }

    /// +1 for the L4S queue, −1 for the classic one.
    pub(super) fn queue(&mut self, queue: Queue) -> &mut Self {
        self.put(if queue == Queue::L4s { 1.0 } else { -1.0 })
    }

    /// In 1,500 bytes.
    pub(super) fn size(&mut self, bytes: u32) -> &mut Self {
        self.share(bytes, 1_500.0)
    }

    pub(super) fn share(&mut self, count: u32, of: f32) -> &mut Self {
        self.put(count as f32 / of)
    }

    /// The logarithm of 1 + milliseconds, in tens, up to 10 s: a flow grows older than any that
    /// trained, and would be unlike all of them.
    pub(super) fn age(&mut self, ns: u64) -> &mut Self {
        self.put((ns as f32 / 1e6).min(10_000.0).ln_1p() / 10.0)
    }

    /// The logarithm of 1 + microseconds, in tens; −1 where it never was.
    pub(super) fn since(&mut self, ns: Option<u64>) -> &mut Self {
        self.put(ns.map_or(-1.0, |ns| (ns as f32 / 1e3).ln_1p() / 10.0))
    }

    /// In 100 ms, up to 2 s.
    pub(super) fn delay(&mut self, ns: u64) -> &mut Self {
        self.put((ns as f32 / 1e8).min(20.0))
    }

    /// As a delay, and whether there is one.
    pub(super) fn maybe_delay(&mut self, ns: Option<u64>) -> &mut Self {
        self.delay(ns.unwrap_or(0)).put(if ns.is_some() { 1.0 } else { 0.0 })
    }

    /// In 100 ms, from −2 to 2 s.
    pub(super) fn change(&mut self, ns: i64) -> &mut Self {
        self.put((ns as f32 / 1e8).clamp(-20.0, 20.0))
    }

    /// The logarithm of 1 + a count, in fives.
    pub(super) fn count(&mut self, count: u32) -> &mut Self {
        self.put((count as f32).ln_1p() / 5.0)
    }

    /// The logarithm of 1 + kilobits per second, in tens; −1 where there is none.
    pub(super) fn rate(&mut self, bps: Option<f64>) -> &mut Self {
        self.put(bps.map_or(-1.0, |bps| (bps as f32 / 1e3).ln_1p() / 10.0))
    }

    pub(super) fn receiver(&mut self, receiver: u32) -> &mut Self {
        // Another hash than that of flows, since both are numbered from 0.
        self.code(!receiver, RECEIVER_CODE_LEN)
    }

    pub(super) fn flow(&mut self, flow: u32) -> &mut Self {
        self.code(flow, FLOW_CODE_LEN)
    }

    /// ±0.5 for each bit of a hash: a model can compare identities, and learns none by its size.
    fn code(&mut self, identity: u32, bits: usize) -> &mut Self {
        let hash = identity.wrapping_add(1).wrapping_mul(0x9E37_79B1) >> 16;
        for bit in 0..bits {
            self.put(if hash >> bit & 1 == 1 { 0.5 } else { -0.5 });
        }
        self
    }

    pub(super) fn done(&self) -> [f32; N] {
        debug_assert_eq!(self.filled, N);
        self.values
    }
}
