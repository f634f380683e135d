//! A trace read again as its sender saw it: what a model is trained and judged on.

use std::fmt;

use dualq::Queue;

use super::{History, HistorySettings, Query, SentPacket};

/// A packet of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The packet, and when it left.
    pub leaving: SentPacket,
    /// Which queue it took.
    pub queue: Queue,
    /// When its acknowledgement arrived, if one did.
    pub acked_ns: Option<u64>,
    /// The latency that this acknowledgement shows, if any.
    pub latency_ns: Option<u64>,
}

/// What a model reads of a trace. A time in ms that is not known is NaN.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    /// Tokens in the order of acknowledgements, [`super::TOKEN_LEN`] numbers each.
    pub tokens: Vec<f32>,
    /// For each packet its query with the queue that it took, [`super::QUERY_LEN`] numbers each.
    pub queries: Vec<f32>,
    /// For each packet: how many tokens there were when its batch began.
    pub known: Vec<u32>,
    /// For each packet, in ms: to what a prediction is added.
    pub base_ms: Vec<f32>,
    /// The least latency seen.
    pub floor_ms: Vec<f32>,
    /// The newest latency of its flow.
    pub flow_last_ms: Vec<f32>,
    /// The newest latency of its queue.
    pub queue_last_ms: Vec<f32>,
    /// The latency by Little's law, [`Query::little_ns`].
    pub little_ms: Vec<f32>,
}

/// What follows the packets of a sender.
pub trait Follow {
    /// A packet was acknowledged, as [`History::acknowledge`] has it.
    fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>);
    /// A packet leaves; its number.
    fn leave(&mut self, packet: &SentPacket, queue: Queue) -> u64;
}

/// Lets a follower see packets and acknowledgements of one sender as it did.
///
/// # Errors
/// [`OrderError`]: a packet that left before the one before it.
pub fn replay(packets: &[Packet], follower: &mut impl Follow) -> Result<(), OrderError> {
    let before =
        |pair: &[Packet]| matches!(pair, [one, next] if next.leaving.at_ns < one.leaving.at_ns);
    if let Some(at) = packets.windows(2).position(before) {
        return Err(OrderError(at + 1));
    }
    let mut answered: Vec<(usize, u64, Option<u64>)> = packets
        .iter()
        .enumerate()
        .filter_map(|(at, packet)| Some((at, packet.acked_ns?, packet.latency_ns)))
        .collect();
    answered.sort_by_key(|&(_, acked_ns, _)| acked_ns);
    let mut answered = answered.into_iter().peekable();
    let mut numbers: Vec<u64> = Vec::with_capacity(packets.len());
    for Packet { leaving, queue, .. } in packets {
        while let Some(&(at, acked_ns, latency_ns)) = answered.peek()
            && acked_ns < leaving.at_ns
            && let Some(&number) = numbers.get(at)
        {
            follower.acknowledge(number, acked_ns, latency_ns);
            answered.next();
        }
        numbers.push(follower.leave(leaving, *queue));
    }
    Ok(())
}

/// What a model reads of the packets of one sender, in the order in which they left.
///
/// # Errors
/// [`OrderError`]: a packet that left before the one before it.
pub fn rows(packets: &[Packet], settings: HistorySettings) -> Result<Rows, OrderError> {
    let mut reader = Reader { history: History::new(settings), rows: Rows::default(), known: 0 };
    replay(packets, &mut reader)?;
    Ok(reader.rows)
}

struct Reader {
    history: History,
    rows: Rows,
    known: u32,
}

impl Follow for Reader {
    fn acknowledge(&mut self, number: u64, at_ns: u64, latency_ns: Option<u64>) {
        self.history.acknowledge(number, at_ns, latency_ns);
    }

    fn leave(&mut self, packet: &SentPacket, queue: Queue) -> u64 {
        if self.history.advance(packet.at_ns) {
            let tokens = self.history.tokens();
            self.rows.tokens.extend(tokens.iter().flatten());
            self.known += u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        }
        self.rows.add(&self.history.query(packet, queue), self.known);
        self.history.leave(packet, queue)
    }
}

impl Rows {
    fn add(&mut self, query: &Query, known: u32) {
        self.queries.extend(query.values);
        self.known.push(known);
        self.base_ms.push(ms(query.base_ns));
        self.floor_ms.push(ms(query.floor_ns));
        self.flow_last_ms.push(ms(query.flow_last_ns));
        self.queue_last_ms.push(ms(query.queue_last_ns));
        self.little_ms.push(ms(query.little_ns));
    }
}

fn ms(ns: Option<u64>) -> f32 {
    ns.map_or(f32::NAN, |ns| (ns as f64 / 1e6) as f32)
}

/// A packet that is not in the order in which packets left: its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderError(pub usize);

impl fmt::Display for OrderError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "packet {} left before the one before it; wanted: packets in the order in which they \
             left",
            self.0
        )
    }
}

impl std::error::Error for OrderError {}
