//! A trace read again as its sender saw it: what a model is trained and judged on.

use dualq::Queue;

use super::{History, HistorySettings, Leaving, QUERY_LEN, TOKEN_LEN};

/// Packets of one sender in the order in which they left, a column each.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a> {
    /// When each left, in ns.
    pub sent_ns: &'a [u64],
    /// When its acknowledgement arrived; `u64::MAX` where none did.
    pub acked_ns: &'a [u64],
    /// The latency that this acknowledgement shows; `u64::MAX` where it shows none.
    pub latency_ns: &'a [u64],
    /// Its flow.
    pub flow: &'a [u32],
    /// Its receiver.
    pub receiver: &'a [u32],
    /// Its bytes on the link.
    pub size: &'a [u32],
    /// 0 where it took the L4S queue.
    pub queue: &'a [u8],
}

/// What a model reads of a trace. A time in ms that is not known is NaN.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Rows {
    /// Tokens in the order of acknowledgements, [`TOKEN_LEN`] numbers each.
    pub tokens: Vec<f32>,
    /// For each packet its query with the queue that it took, [`QUERY_LEN`] numbers each.
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
}

impl Trace<'_> {
    /// Packets, if all columns have as many.
    #[must_use]
    pub fn len(&self) -> Option<usize> {
        let len = self.sent_ns.len();
        let others = [self.acked_ns.len(), self.latency_ns.len(), self.flow.len()];
        let rest = [self.receiver.len(), self.size.len(), self.queue.len()];
        others.into_iter().chain(rest).all(|other| other == len).then_some(len)
    }
}

/// What a model reads of a trace. None if columns differ in length, or packets are not in the
/// order in which they left.
#[must_use]
pub fn rows(trace: &Trace<'_>, settings: HistorySettings) -> Option<Rows> {
    let len = trace.len()?;
    if !trace.sent_ns.is_sorted() {
        return None;
    }
    let mut answered: Vec<usize> =
        (0..len).filter(|&at| trace.acked_ns.get(at).is_some_and(|&ns| ns != u64::MAX)).collect();
    answered.sort_by_key(|&at| trace.acked_ns.get(at));
    let mut answered = answered.into_iter().peekable();
    let mut history = History::new(settings);
    let mut numbers: Vec<u64> = Vec::with_capacity(len);
    let mut rows = Rows::default();
    let mut known = 0_u32;
    for at in 0..len {
        let packet = Leaving {
            at_ns: *trace.sent_ns.get(at)?,
            flow: *trace.flow.get(at)?,
            receiver: *trace.receiver.get(at)?,
            size: *trace.size.get(at)?,
        };
        while let Some(&next) = answered.peek()
            && let (Some(&acked_ns), Some(&latency_ns)) =
                (trace.acked_ns.get(next), trace.latency_ns.get(next))
            && acked_ns < packet.at_ns
            && let Some(&number) = numbers.get(next)
        {
            history.acknowledge(number, acked_ns, Some(latency_ns).filter(|&ns| ns != u64::MAX));
            answered.next();
        }
        if history.advance(packet.at_ns) {
            rows.tokens.extend(history.tokens().iter().flatten());
            known += u32::try_from(history.tokens().len()).unwrap_or(u32::MAX);
        }
        let queue = if *trace.queue.get(at)? == 0 { Queue::L4s } else { Queue::Classic };
        let query = history.query(&packet, queue);
        rows.queries.extend(query.values);
        rows.known.push(known);
        rows.base_ms.push(ms(query.base_ns));
        rows.floor_ms.push(ms(query.floor_ns));
        rows.flow_last_ms.push(ms(query.flow_last_ns));
        rows.queue_last_ms.push(ms(query.queue_last_ns));
        numbers.push(history.leave(&packet, queue));
    }
    debug_assert_eq!(rows.tokens.len(), known as usize * TOKEN_LEN);
    debug_assert_eq!(rows.queries.len(), len * QUERY_LEN);
    Some(rows)
}

fn ms(ns: Option<u64>) -> f32 {
    ns.map_or(f32::NAN, |ns| (ns as f64 / 1e6) as f32)
}
