//! What all flows share while packets are taken in.

use std::collections::HashMap;
use std::net::IpAddr;

use packet::{FlowDirection, FlowKey, Protocol, Span};

use crate::budget::Budget;
use crate::outstanding::Waiting;
use crate::rtt::{Series, SharpRule};
use crate::sample::{AckDelay, Echo, Method, MissingReason, Sample, Sharp, TakeSamples};

/// What may be kept, and what counts as what.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// Flows that are measured at the same time.
    pub flow_count_max: usize,
    /// Packets that wait for their acknowledgement, of all flows.
    pub waiting_max: usize,
    /// The same of one direction of a flow.
    pub waiting_per_flow: usize,
    /// Senders whose queues are compared with themselves.
    pub sender_count_max: usize,
    /// The shortest time for which a receiver holds an acknowledgement back.
    pub delayed_ack: Span,
    /// What a sharp change is.
    pub sharp: SharpRule,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flow_count_max: 1 << 18,
            waiting_max: 1 << 20,
            waiting_per_flow: 1 << 14,
            sender_count_max: 1 << 16,
            delayed_ack: Span::from_ns(35_000_000),
            sharp: SharpRule::default(),
        }
    }
}

/// Buckets of histograms for each flow that may be measured, on average: a doubling of the RTT in
/// both directions.
pub(crate) const BUCKETS_PER_FLOW: usize = 128;

/// Latencies of the packets of a sender that are sent to the same queue, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    series: HashMap<(IpAddr, bool), Series>,
    /// Latencies that were compared with none before, as there was no room for their sender.
    pub(crate) left_out: u64,
}

impl Queues {
    fn add(
        &mut self,
        sender: IpAddr,
        is_low_latency: bool,
        latency_ns: u64,
        is_prompt: bool,
        limits: &Limits,
    ) -> (Option<i8>, Option<i8>) {
        let key = (sender, is_low_latency);
        let has_room = self.series.len() < limits.sender_count_max.saturating_mul(2);
        if !has_room && !self.series.contains_key(&key) {
            self.left_out += 1;
            return (None, None);
        }
        self.series.entry(key).or_default().add(latency_ns, is_prompt, &limits.sharp)
    }

    /// Sharp changes of all, and of those of packets whose acknowledgement was not held back.
    pub(crate) fn sharp(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), of: &Series| (sum.0 + of.sharp, sum.1 + of.sharp_prompt);
        self.series.values().fold((0, 0), add)
    }
}

/// What is found of a packet, besides its latency.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketContext {
    pub(crate) method: Method,
    pub(crate) held: AckDelay,
    pub(crate) wait_ns: Option<u64>,
    pub(crate) is_answered: bool,
    pub(crate) echo: Echo,
}

impl PacketContext {
    pub(crate) const fn new(method: Method, echo: Echo) -> Self {
        Self { method, held: AckDelay::No, wait_ns: None, is_answered: false, echo }
    }
}

/// What a flow is lent while it takes in a packet.
pub(crate) struct Context<'a, T> {
    pub(crate) key: FlowKey,
    /// Which way the data goes of which something is found.
    pub(crate) direction: FlowDirection,
    pub(crate) limits: &'a Limits,
    pub(crate) packets: &'a mut Budget,
    pub(crate) buckets: &'a mut Budget,
    pub(crate) queues: &'a mut Queues,
    pub(crate) out: &'a mut T,
}

impl<T: TakeSamples> Context<'_, T> {
    fn sample(&self, packet: &Waiting) -> Sample {
        Sample {
            key: self.key,
            direction: self.direction,
            time: packet.time,
            seq: (self.key.protocol() == Protocol::TCP).then_some(packet.seq),
            wire_len: packet.wire_len,
            len: u32::try_from(packet.end.since(packet.seq)).unwrap_or(0),
            latency_ns: None,
            method: Method::Ack,
            missing: None,
            held: AckDelay::No,
            wait_ns: None,
            is_answered: false,
            place: packet.place(),
            ecn: packet.ecn,
            echo: Echo::default(),
            sharp: Sharp::default(),
        }
    }

    /// Hands on a packet with its latency.
    #[inline]
    pub(crate) fn found(
        &mut self,
        packet: &Waiting,
        latency_ns: u64,
        found: &PacketContext,
        (in_flow, in_flow_prompt): (Option<i8>, Option<i8>),
    ) {
        let PacketContext { method, held, wait_ns, is_answered, echo } = *found;
        let mut sample = Sample {
            latency_ns: Some(latency_ns),
            method,
            held,
            wait_ns,
            is_answered,
            echo,
            sharp: Sharp { in_flow, in_flow_prompt, ..Sharp::default() },
            ..self.sample(packet)
        };
        if T::WANTS_QUEUES {
            let (sender, _) = self.key.endpoints(self.direction);
            let Self { queues, limits, .. } = self;
            let is_low = sample.is_low_latency();
            let is_prompt = held == AckDelay::No;
            let sharp = queues.add(sender.address, is_low, latency_ns, is_prompt, limits);
            (sample.sharp.in_queue, sample.sharp.in_queue_prompt) = sharp;
        }
        self.out.take(&sample);
    }

    /// Hands on a packet without one.
    pub(crate) fn missed(&mut self, packet: &Waiting, missing: MissingReason) {
        let sample = Sample { missing: Some(missing), ..self.sample(packet) };
        self.out.take(&sample);
    }
}
