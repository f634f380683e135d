//! Follows the packets of named flows: each is predicted and judged as it leaves, and measured when
//! it is acknowledged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use engine::flow::{FlowPacket, PerFlow, SideSlab};
use l4s::history::SentPacket;
use l4s::{Marker, OfQueue, Queue, Verdict};
use latency::{
    BUCKET_COUNT_MAX, Budget as Buckets, Histogram, Latency, Limits, MissingReason, Sample,
    Segment, TakeSamples,
};
use packet::{Direction, EcnFlowCounts, FlowKey, FlowSlot, Frame, OneWayFlow, Protocol, Timestamp};

use super::budgets::{Kernel, sum};
use super::flow::{Sums, TrackedFlow, UnackedPacket};
use super::rows::{MarkingReport, Row};
use super::target::Target;
use super::time::Time;

/// Flows that are followed at the same time; the kernel has as many places.
pub(super) const FLOWS_MAX: usize = 4_096;
/// Receivers with a number of their own; the others have one number.
const RECEIVERS_MAX: usize = 1 << 16;
/// Not-ECT, and the codepoint of L4S.
const NOT_ECT: u8 = 0;
const ECT1: u8 = 1;

/// What is known of a conversation, by the direction of its packets.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    was_looked_at: bool,
    /// Whether packets that go this way are of a named flow.
    is_named: [bool; 2],
    /// Its number, once a packet has left.
    number: [Option<u32>; 2],
}

impl PerFlow for Known {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// Latencies that one packet has shown.
#[derive(Default)]
struct Shown(Vec<Sample>);

impl TakeSamples for Shown {
    // A packet without a latency is no longer in flight, either.
    const WANTS_ALL: bool = true;

    fn take(&mut self, sample: &Sample) {
        self.0.push(*sample);
    }
}

/// How far behind decisions are, on an interface.
pub(super) struct Lag {
    /// The clock that stamps are taken from.
    pub(super) realtime: fn() -> Timestamp,
    /// A prediction that comes later is not followed.
    pub(super) max_ns: u64,
    /// From a packet's stamp to its verdict.
    pub(super) seen: Histogram,
}

impl Lag {
    pub(super) fn new(realtime: fn() -> Timestamp, max_ns: u64) -> Self {
        Self { realtime, max_ns, seen: Histogram::default() }
    }

    fn is_late(&mut self, stamp: Timestamp, buckets: &mut Buckets) -> bool {
        let lag_ns = u64::try_from((self.realtime)().since(stamp).as_ns()).unwrap_or(0);
        self.seen.add(lag_ns, buckets);
        lag_ns > self.max_ns
    }
}

/// What was not followed, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UntrackedCounts {
    /// Flows dropped because the table was full.
    pub(super) flows: u64,
    /// Packets without a latency whose acknowledgement came: of retransmitted bytes, for example.
    pub(super) unclear: u64,
    /// Packets of several segments.
    pub(super) segmented: u64,
}

/// L4S packets by whether they left as the verdict on them would have had it, which is not known
/// before they left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Hits {
    /// Re-marked, as they were to be.
    pub(super) remarked: u64,
    /// Not re-marked, though they were to be.
    pub(super) missed: u64,
    /// Re-marked, though they were not to be.
    pub(super) wrong: u64,
}

impl Hits {
    const fn add(&mut self, verdict: Verdict, was_remarked: bool) {
        match (matches!(verdict, Verdict::Remark), was_remarked) {
            (true, true) => self.remarked += 1,
            (true, false) => self.missed += 1,
            (false, true) => self.wrong += 1,
            (false, false) => {}
        }
    }
}

/// Named flows, and the marker that judges their packets.
pub(super) struct Follower {
    targets: Vec<Target>,
    pub(super) marker: Marker,
    latency: Latency,
    known: SideSlab<Known>,
    flows: BTreeMap<u32, TrackedFlow>,
    /// Flows that have ended since the last period.
    ended: BTreeSet<u32>,
    /// Flows whose budget may have to change.
    judged: BTreeSet<u32>,
    next_number: u32,
    receivers: HashMap<IpAddr, u32>,
    pub(super) time: Time,
    pub(super) kernel: Option<Kernel>,
    pub(super) lag: Option<Lag>,
    buckets: Buckets,
    shown: Shown,
    pub(super) total: Sums,
    pub(super) missed: UntrackedCounts,
    pub(super) hits: Hits,
    /// How long the marker waits for an acknowledgement.
    waited_max_ns: u64,
}

impl Follower {
    pub(super) fn new(
        targets: Vec<Target>,
        marker: Marker,
        kernel: Option<Kernel>,
        lag: Option<Lag>,
    ) -> Self {
        let limits = Limits { flow_count_max: 2 * FLOWS_MAX, ..Limits::default() };
        let waited_max_ns = marker.predictor().model().settings().forgotten_after_ns;
        Self {
            targets,
            marker,
            latency: Latency::new(limits),
            known: SideSlab::default(),
            flows: BTreeMap::new(),
            ended: BTreeSet::new(),
            judged: BTreeSet::new(),
            next_number: 0,
            receivers: HashMap::new(),
            time: Time::default(),
            kernel,
            lag,
            // Two queues of each flow, of all of them, and the lag.
            buckets: Buckets::new(BUCKET_COUNT_MAX * (2 * 2 * FLOWS_MAX + 3)),
            shown: Shown::default(),
            total: Sums::default(),
            missed: UntrackedCounts::default(),
            hits: Hits::default(),
            waited_max_ns,
        }
    }

    /// Flows that were followed so far.
    pub(super) const fn flow_count(&self) -> u32 {
        self.next_number
    }

    /// What happened to packets without a place or a stamp.
    pub(super) const fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Takes in one packet.
    pub(super) fn take(&mut self, frame: &Frame<'_>, packet: &FlowPacket, slot: FlowSlot) {
        if frame.record.layers.protocol != Protocol::TCP {
            return;
        }
        let (key, direction) = (packet.marked_key.key(), packet.direction);
        let Some(known) = self.known.state(slot) else { return };
        if !known.was_looked_at {
            *known = look_at(&self.targets, key);
        }
        if known.is_named == [false; 2] {
            return;
        }
        let stamp = frame.record.timestamp;
        if stamp != Timestamp::UNKNOWN {
            self.time.at(stamp);
            // What an interface receives does not leave this host by it.
            let leaves = frame.record.direction != Direction::Inbound;
            if known.is_named[direction as usize]
                && leaves
                && let Some(segment) = Segment::from_frame(frame).filter(|one| one.len > 0)
            {
                match self.number(OneWayFlow { key, direction }, slot) {
                    Some(number) => self.leave(number, &segment),
                    None if self.is_named(slot) => {}
                    None => return self.give_up(slot, key),
                }
            }
        }
        self.latency.take_packet(frame, packet, slot, &mut self.shown);
        self.settle(slot);
    }

    /// Whether packets of a conversation are followed, in some direction.
    fn is_named(&self, slot: FlowSlot) -> bool {
        self.known.kept(slot).is_named != [false; 2]
    }

    /// There is no room for a conversation: what is measured of it would never be given back,
    /// as no more of its packets are taken in, nor its end.
    fn give_up(&mut self, slot: FlowSlot, key: FlowKey) {
        self.latency.end(slot, key, &mut self.shown, |_| ());
        self.shown.0.clear();
    }

    /// All packets of a piece were taken in: budgets are what their verdicts were.
    pub(super) fn renew(&mut self) {
        let Self { kernel: Some(kernel), flows, judged, time, .. } = self else { return };
        judged.retain(|number| {
            let Some(followed) = flows.get_mut(number) else { return false };
            // What has ended was forgotten by the kernel.
            if followed.remarked_at_end.is_none() {
                kernel.renew(followed.flow, &mut followed.budget, time.now());
            }
            followed.remarked_at_end.is_none() && followed.budget.is_open()
        });
    }

    /// Time has come so far without a packet.
    pub(super) fn tick(&mut self, time: Timestamp) {
        if !self.flows.is_empty() {
            self.time.at(time);
        }
        self.renew();
    }

    /// The number of a flow of which a packet leaves; none without room for it.
    fn number(&mut self, flow: OneWayFlow, slot: FlowSlot) -> Option<u32> {
        let known = self.known.state(slot)?;
        let place = flow.direction as usize;
        if let Some(number) = known.number[place] {
            return Some(number);
        }
        if self.flows.len() >= FLOWS_MAX {
            known.is_named[place] = false;
            self.missed.flows += 1;
            return None;
        }
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        known.number[place] = Some(number);
        let (_, destination) = flow.key.endpoints(flow.direction);
        let receiver = self.receiver(destination.address);
        if let Some(kernel) = &mut self.kernel {
            kernel.name(flow);
        }
        self.flows.insert(number, TrackedFlow::new(flow, receiver));
        Some(number)
    }

    fn receiver(&mut self, address: IpAddr) -> u32 {
        let next = u32::try_from(self.receivers.len()).unwrap_or(u32::MAX);
        if self.receivers.len() >= RECEIVERS_MAX {
            return self.receivers.get(&address).copied().unwrap_or(next);
        }
        *self.receivers.entry(address).or_insert(next)
    }

    /// A packet of a named flow has left.
    fn leave(&mut self, number: u32, segment: &Segment) {
        let Self { marker, flows, judged, total, lag, kernel, buckets, time, hits, .. } = self;
        let Some(followed) = flows.get_mut(&number) else { return };
        let at_ns = time.now();
        self.missed.segmented += u64::from(segment.segments > 1);
        let receiver = followed.receiver;
        let leaving = SentPacket { at_ns, flow: number, receiver, size: segment.wire_len };
        let predicted = marker.predict(&leaving);
        let is_dry = kernel.as_ref().is_none_or(|kernel| kernel.is_dry_run);
        let was_remarked = segment.ecn == NOT_ECT && !is_dry && followed.budget.is_spent();
        if segment.ecn == ECT1 || was_remarked {
            let is_late = lag.as_mut().is_some_and(|lag| lag.is_late(segment.time, buckets));
            let verdict = marker.judge(at_ns, predicted, is_late);
            followed.sums.counts.add(verdict);
            followed.budget.judge(verdict);
            hits.add(verdict, was_remarked);
            judged.insert(number);
        }
        let queue = if matches!(segment.ecn, ECT1 | 3) { Queue::L4s } else { Queue::Classic };
        let sent = UnackedPacket {
            time: segment.time,
            at_ns,
            seq: segment.seq,
            number: marker.depart(&leaving, queue),
            queue,
            predicted_ns: predicted.map(|of: OfQueue<u64>| *of.of(queue)),
        };
        followed.push(sent, self.waited_max_ns);
        followed.sums.packets += 1;
        total.packets += 1;
    }

    /// What the newest packet says of those before it.
    fn settle(&mut self, slot: FlowSlot) {
        let Self { marker, flows, known, shown, total, buckets, time, missed, .. } = self;
        let numbers = known.kept(slot).number;
        for sample in shown.0.drain(..) {
            let Some(number) = numbers[sample.direction as usize] else { continue };
            let Some(followed) = flows.get_mut(&number) else { continue };
            // These never get an acknowledgement.
            if matches!(sample.missing, Some(MissingReason::NoAnswer | MissingReason::NoRoom)) {
                continue;
            }
            let Some(seq) = sample.seq else { continue };
            let Some(sent) = followed.take(sample.time, seq) else { continue };
            marker.acknowledge(sent.number, time.now(), sample.latency_ns);
            match sample.latency_ns {
                Some(latency_ns) => {
                    followed.sums.measure(&sent, latency_ns, buckets);
                    total.measure(&sent, latency_ns, buckets);
                }
                None => missed.unclear += 1,
            }
        }
    }

    /// A conversation has ended.
    pub(super) fn end(&mut self, slot: FlowSlot, key: FlowKey) {
        let Self { latency, known, shown, flows, kernel, ended, .. } = self;
        let known = known.kept(slot);
        if known.is_named == [false; 2] {
            return;
        }
        latency.end(slot, key, shown, |_| ());
        shown.0.clear();
        for number in known.number.into_iter().flatten() {
            let Some(followed) = flows.get_mut(&number) else { continue };
            if let Some(kernel) = kernel {
                let counts = kernel.forget(followed.flow);
                followed.remarked_at_end = Some(remarked(counts));
            }
            ended.insert(number);
        }
    }

    /// A flow is followed no further as it was; with its next packet it begins again.
    pub(super) fn forget(&mut self, slot: FlowSlot, key: FlowKey) {
        self.end(slot, key);
        self.known.forget(std::iter::once(slot));
    }

    /// Ends a period: flows that had packets in it.
    pub(super) fn tell(&mut self, start: Timestamp, period_ns: u64) -> MarkingReport {
        let Self { flows, ended, kernel, buckets, .. } = self;
        let mut rows = Vec::new();
        for followed in flows.values_mut() {
            let in_all = kernel.as_ref().map(|kernel| {
                let now = || remarked(kernel.counts(followed.flow));
                followed.remarked_at_end.unwrap_or_else(now)
            });
            let since = in_all.map(|all| all.saturating_sub(followed.remarked_before));
            let is_silent = followed.sums.packets == 0
                && followed.sums.latencies.l4s.count() + followed.sums.latencies.classic.count()
                    == 0;
            if !is_silent {
                rows.push(Row::new(followed.flow, &followed.sums, since));
            }
            followed.remarked_before = in_all.unwrap_or(0);
            followed.sums.clear(buckets);
        }
        for number in std::mem::take(ended) {
            flows.remove(&number);
        }
        MarkingReport { start, period_ns, rows }
    }

    /// What the kernel did with the packets of all named flows, where it is asked to.
    pub(super) fn kernel_counts(&self) -> Option<EcnFlowCounts> {
        let kernel = self.kernel.as_ref()?;
        let open = self.flows.values().filter(|followed| followed.remarked_at_end.is_none());
        let counts = open.map(|followed| kernel.counts(followed.flow));
        Some(counts.fold(kernel.forgotten(), sum))
    }
}

fn look_at(targets: &[Target], key: FlowKey) -> Known {
    let is_named = |destination| targets.iter().any(|target| target.takes(destination));
    // By the direction of packets: to the high endpoint, and to the low one.
    let is_named = [key.high(), key.low()].map(is_named);
    Known { was_looked_at: true, is_named, number: [None; 2] }
}

/// Packets that were re-marked, or would have been.
const fn remarked(counts: EcnFlowCounts) -> u64 {
    counts.remarked + counts.would_remark
}

#[cfg(test)]
mod tests;
