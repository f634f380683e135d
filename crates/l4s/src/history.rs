//! What a sender knows of its packets, as the numbers that a predictor reads.
//!
//! An acknowledged packet becomes a token, which never changes afterwards; a packet that is about
//! to leave becomes a query, one for each queue that it might take. Packets leave in batches, and
//! acknowledgements wait until the next batch begins: so no prediction of a batch can depend on
//! one that arrived after the batch's first packet had left.

use std::collections::{HashMap, VecDeque};

use dualq::{OfQueue, Queue};

mod numbers;
mod pipe;
mod replay;

pub use numbers::{QUERY_LEN, QUERY_NAMES, Query, TOKEN_LEN, TOKEN_NAMES};
pub use replay::{Follow, OrderError, Packet, Rows, replay, rows};

use numbers::Values;
use pipe::{Pipe, Start};

/// Limits, and when a batch ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistorySettings {
    /// Packets of a batch at most.
    pub batch_packets: u32,
    /// How long after its first packet a batch takes more, in ns.
    pub batch_span_ns: u64,
    /// A packet without an acknowledgement counts as lost after this, in ns.
    pub forgotten_after_ns: u64,
    /// Packets in flight that are followed; of more, the oldest are forgotten and counted.
    pub in_flight_max: usize,
    /// Flows that are followed; more of them are counted and have no latency of their own.
    pub flows_max: usize,
}

impl Default for HistorySettings {
    fn default() -> Self {
        Self {
            batch_packets: 8,
            batch_span_ns: 2_000_000,
            forgotten_after_ns: 3_000_000_000,
            in_flight_max: 65_536,
            flows_max: 4_096,
        }
    }
}

/// The least latency of the last one to two periods of this length stands for an empty queue.
const FLOOR_PERIOD_NS: u64 = 30_000_000_000;
/// A flow without packets in flight makes room for others after this.
const FLOW_IDLE_NS: u64 = 60_000_000_000;

/// A packet that leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentPacket {
    /// When, in ns. Time never goes back: an earlier instant counts as the latest one.
    pub at_ns: u64,
    /// Which flow.
    pub flow: u32,
    /// To which receiver.
    pub receiver: u32,
    /// Bytes on the link.
    pub size: u32,
}

/// What was not followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EvictionCounts {
    /// Packets without an acknowledgement in time.
    pub unanswered: u64,
    /// Packets that made room for others.
    pub no_room: u64,
    /// Packets of flows that did not fit into the table.
    pub flow_no_room: u64,
}

/// An acknowledged latency, and when its acknowledgement arrived.
#[derive(Clone, Copy, Debug)]
struct Seen {
    latency_ns: u64,
    at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    packet: SentPacket,
    queue: Queue,
    start: Start,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    first_ns: u64,
    left_ns: Option<u64>,
    last: Option<Seen>,
    in_flight: u32,
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    number: u64,
    at_ns: u64,
    latency_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Floor {
    period: u64,
    current_ns: Option<u64>,
    before_ns: Option<u64>,
}

impl Floor {
    fn see(&mut self, at_ns: u64, latency_ns: u64) {
        let period = at_ns / FLOOR_PERIOD_NS;
        if period != self.period {
            let is_next = period == self.period + 1;
            self.before_ns = if is_next { self.current_ns } else { None };
            (self.period, self.current_ns) = (period, None);
        }
        self.current_ns = Some(self.current_ns.map_or(latency_ns, |least| least.min(latency_ns)));
    }

    fn get(&self) -> Option<u64> {
        self.current_ns.into_iter().chain(self.before_ns).min()
    }
}

/// Packets that left since nothing was in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    began_ns: u64,
    packets: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    began_ns: u64,
    packets: u32,
}

/// The packets of one sender, from leaving to acknowledgement.
#[derive(Clone, Debug)]
pub struct History {
    settings: HistorySettings,
    now_ns: u64,
    batch: Option<Batch>,
    /// Acknowledgements that wait for the next batch.
    answers: VecDeque<Answer>,
    /// By number, from `first` on; none where it was acknowledged or forgotten.
    in_flight: VecDeque<Option<InFlight>>,
    first: u64,
    pipes: OfQueue<Pipe>,
    burst: Burst,
    flows: HashMap<u32, Flow>,
    last: OfQueue<Option<Seen>>,
    left_ns: Option<u64>,
    floor: Floor,
    /// Of the newest token: when its packet left, and when it was acknowledged.
    newest_token: Option<(u64, u64)>,
    tokens: Vec<[f32; TOKEN_LEN]>,
    forgotten: EvictionCounts,
}

impl History {
    /// Begins without packets.
    #[must_use]
    pub fn new(settings: HistorySettings) -> Self {
        Self {
            settings,
            now_ns: 0,
            batch: None,
            answers: VecDeque::new(),
            in_flight: VecDeque::new(),
            first: 0,
            pipes: OfQueue::default(),
            burst: Burst::default(),
            flows: HashMap::new(),
            last: OfQueue::default(),
            left_ns: None,
            floor: Floor::default(),
            newest_token: None,
            tokens: Vec::new(),
            forgotten: EvictionCounts::default(),
        }
    }

    /// A packet is about to leave: begins a batch where the last one is over. `true` if so;
    /// [`Self::tokens`] are then the new ones.
    pub fn advance(&mut self, at_ns: u64) -> bool {
        self.now_ns = self.now_ns.max(at_ns);
        let settings = &self.settings;
        let is_open = self.batch.is_some_and(|batch| {
            batch.packets < settings.batch_packets
                && self.now_ns - batch.began_ns <= settings.batch_span_ns
        });
        if is_open {
            return false;
        }
        self.batch = Some(Batch { began_ns: self.now_ns, packets: 0 });
        self.tokens.clear();
        self.take_answers();
        self.forget();
        true
    }

    /// Tokens of the acknowledgements that the current batch was the first to see, oldest first.
    #[must_use]
    pub fn tokens(&self) -> &[[f32; TOKEN_LEN]] {
        &self.tokens
    }

    /// What a predictor is asked of a packet, if it takes this queue.
    #[must_use]
    pub fn query(&self, packet: &SentPacket, queue: Queue) -> Query {
        let batch = self.batch.unwrap_or_default();
        let flow = self.flows.get(&packet.flow).copied().unwrap_or_default();
        let floor_ns = self.floor.get();
        let since =
            |at_ns: Option<u64>, from_ns: u64| at_ns.map(|at_ns| from_ns.saturating_sub(at_ns));
        let pipe = self.pipes.of(queue);
        let excess =
            |ns: Option<u64>| ns.zip(floor_ns).map(|(ns, floor_ns)| ns.saturating_sub(floor_ns));
        let latency_ns = |seen: Option<Seen>| seen.map(|seen| seen.latency_ns);
        let burst = self.burst_at(packet.at_ns);
        let mut values = Values::<QUERY_LEN>::new();
        values
            .queue(queue)
            .size(packet.size)
            .share(batch.packets, 8.0)
            .age(packet.at_ns.saturating_sub(if flow.left_ns.is_some() {
                flow.first_ns
            } else {
                packet.at_ns
            }))
            .since(since(self.newest_token.map(|(_, at_ns)| at_ns), batch.began_ns))
            .since(since(flow.last.map(|seen| seen.at_ns), batch.began_ns))
            .since(since(self.last.of(queue).map(|seen| seen.at_ns), batch.began_ns))
            .since(since(flow.left_ns, packet.at_ns))
            .since(since(self.left_ns, packet.at_ns))
            .since(Some(packet.at_ns.saturating_sub(burst.began_ns)))
            .count(burst.packets)
            .maybe_delay(excess(latency_ns(flow.last)))
            .maybe_delay(excess(latency_ns(self.last.l4s)))
            .maybe_delay(excess(latency_ns(self.last.classic)))
            .maybe_delay(excess(pipe.newest_ns(packet.size)))
            .maybe_delay(excess(pipe.fastest_ns(packet.size)))
            .count(self.pipes.l4s.packets())
            .count(self.pipes.classic.packets())
            .count(flow.in_flight)
            .receiver(packet.receiver)
            .flow(packet.flow);
        let of_queue = *self.last.of(queue);
        Query {
            values: values.done(),
            base_ns: latency_ns(of_queue.or(self.last.l4s).or(self.last.classic)),
            floor_ns,
            flow_last_ns: latency_ns(flow.last),
            queue_last_ns: latency_ns(of_queue),
            little_ns: pipe.fastest_ns(packet.size),
        }
    }

    /// The burst to which a packet that leaves now belongs.
    fn burst_at(&self, at_ns: u64) -> Burst {
        if self.pipes.l4s.packets() + self.pipes.classic.packets() == 0 {
            Burst { began_ns: at_ns, packets: 0 }
        } else {
            self.burst
        }
    }

    /// The lowest latency of the current period of 30 s and the one before it, in ns.
    #[must_use]
    pub fn floor_ns(&self) -> Option<u64> {
        self.floor.get()
    }

    /// The packet leaves by this queue; its number.
    pub fn leave(&mut self, packet: &SentPacket, queue: Queue) -> u64 {
        if let Some(batch) = &mut self.batch {
            batch.packets += 1;
        }
        let at_ns = packet.at_ns;
        let burst = self.burst_at(at_ns);
        self.burst = Burst { packets: burst.packets.saturating_add(1), ..burst };
        self.left_ns = Some(at_ns);
        let has_room = self.flows.len() < self.settings.flows_max;
        match self.flows.get_mut(&packet.flow) {
            Some(flow) => {
                flow.left_ns = Some(at_ns);
                flow.in_flight += 1;
            }
            None if has_room => {
                let flow = Flow { first_ns: at_ns, left_ns: Some(at_ns), last: None, in_flight: 1 };
                self.flows.insert(packet.flow, flow);
            }
            None => self.forgotten.flow_no_room += 1,
        }
        if self.in_flight.len() >= self.settings.in_flight_max.max(1) && self.drop_first() {
            self.forgotten.no_room += 1;
        }
        let start = self.pipes.of_mut(queue).leave(at_ns, packet.size);
        self.in_flight.push_back(Some(InFlight { packet: *packet, queue, start }));
        self.first + self.in_flight.len() as u64 - 1
    }

    /// A packet was acknowledged. Without a latency, as of a retransmission whose acknowledgement
    /// may be that of the original (Karn's rule), it is merely no longer in flight.
    pub fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        // Each packet is acknowledged once, so that there are never more answers than packets.
        if self.at(number).is_some() && self.answers.len() < self.in_flight.len() {
            self.answers.push_back(Answer { number, at_ns, latency_ns });
        }
    }

    /// What was not followed to an acknowledgement.
    #[must_use]
    pub const fn forgotten(&self) -> EvictionCounts {
        self.forgotten
    }

    fn at(&mut self, number: u64) -> Option<&mut Option<InFlight>> {
        let place = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.in_flight.get_mut(place)
    }

    fn take_answers(&mut self) {
        // One that arrives with the batch's first packet does not precede it.
        let is_before = |answer: &&Answer| answer.at_ns < self.now_ns;
        let count = self.answers.iter().take_while(is_before).count();
        for _ in 0..count {
            let Some(answer) = self.answers.pop_front() else { break };
            let Some(in_flight) = self.at(answer.number).and_then(Option::take) else { continue };
            self.no_longer(&in_flight);
            let pipe = self.pipes.of_mut(in_flight.queue);
            pipe.deliver(answer.at_ns, in_flight.packet.size, in_flight.start);
            if let Some(latency_ns) = answer.latency_ns {
                self.see(&in_flight, answer.at_ns, latency_ns);
            }
        }
        while self.in_flight.front().is_some_and(Option::is_none) {
            self.drop_first();
        }
    }

    /// A latency is known: it becomes a token.
    fn see(&mut self, in_flight: &InFlight, at_ns: u64, latency_ns: u64) {
        let InFlight { packet, queue, .. } = *in_flight;
        self.floor.see(at_ns, latency_ns);
        let floor_ns = self.floor.get().unwrap_or(latency_ns);
        let seen = Seen { latency_ns, at_ns };
        let of_queue = self.last.of_mut(queue).replace(seen);
        let mut flow = self.flows.get(&packet.flow).copied().unwrap_or_default();
        let of_flow = flow.last.replace(seen);
        let change = |before: Option<Seen>| {
            before.map_or(0, |seen| latency_ns.cast_signed() - seen.latency_ns.cast_signed())
        };
        let (sent_before_ns, acked_before_ns) = self.newest_token.unwrap_or((packet.at_ns, at_ns));
        let mut values = Values::<TOKEN_LEN>::new();
        values
            .delay(latency_ns.saturating_sub(floor_ns))
            .queue(queue)
            .size(packet.size)
            .age(packet.at_ns.saturating_sub(flow.first_ns))
            .since(Some(at_ns.saturating_sub(acked_before_ns)))
            .since(Some(packet.at_ns.abs_diff(sent_before_ns)))
            .change(change(of_flow))
            .change(change(of_queue))
            .rate(self.pipes.of(queue).newest_bps())
            .count(self.pipes.l4s.packets())
            .count(self.pipes.classic.packets())
            .count(flow.in_flight)
            .receiver(packet.receiver)
            .flow(packet.flow);
        self.tokens.push(values.done());
        self.newest_token = Some((packet.at_ns, at_ns));
        if let Some(kept) = self.flows.get_mut(&packet.flow) {
            *kept = flow;
        }
    }

    fn no_longer(&mut self, in_flight: &InFlight) {
        self.pipes.of_mut(in_flight.queue).no_longer(in_flight.packet.size);
        if let Some(flow) = self.flows.get_mut(&in_flight.packet.flow) {
            flow.in_flight = flow.in_flight.saturating_sub(1);
        }
    }

    /// Lets go of the oldest packet; whether it was still in flight.
    fn drop_first(&mut self) -> bool {
        let Some(dropped) = self.in_flight.pop_front() else { return false };
        self.first += 1;
        if let Some(in_flight) = &dropped {
            self.no_longer(in_flight);
        }
        dropped.is_some()
    }

    /// Lets go of what will not be acknowledged any more, and of idle flows where there is no room.
    fn forget(&mut self) {
        let oldest_ns = self.now_ns.saturating_sub(self.settings.forgotten_after_ns);
        while self
            .in_flight
            .front()
            .is_some_and(|one| one.is_none_or(|one| one.packet.at_ns < oldest_ns))
        {
            if self.drop_first() {
                self.forgotten.unanswered += 1;
            }
        }
        if self.flows.len() >= self.settings.flows_max {
            let idle_ns = self.now_ns.saturating_sub(FLOW_IDLE_NS);
            self.flows.retain(|_, flow| flow.in_flight > 0 || flow.left_ns >= Some(idle_ns));
        }
    }
}

#[cfg(test)]
mod tests;
