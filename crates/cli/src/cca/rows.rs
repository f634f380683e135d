//! The columns of flows in a queue.

use cca::inputs::Missing;
use cca::{FlowPeriod, Pair, Period, Rules};
use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::SlotClock;
use packet::community_id::CommunityId;

use crate::failure::Failure;

const fn real(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::F64, about)
}

/// The columns.
pub(super) const SCHEMA: Schema = &[
    Field::new("start_ns", Kind::TimestampNs, "When the period begins."),
    Field::new("period_ns", Kind::U64, "How long it is, in nanoseconds."),
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("src_ip", Kind::Text, "Who sends the data."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Who receives it."),
    Field::new("dst_port", Kind::U16, "Its port."),
    real("cbiq_bytes", "Bytes of its data in the queue (CBIQ): the mean of the slots.").nullable(),
    real("cbiq_max_bytes", "The highest of them.").nullable(),
    real("queue_share", "Its part of the data of all flows in the queue.").nullable(),
    real("drops", "Packets that the queue lost, an estimate.").nullable(),
    Field::new("ingress_bytes", Kind::U64, "Bytes of data that came to the queue."),
    Field::new("egress_bytes", Kind::U64, "Bytes of data that left it."),
    real("delay_max_s", "The longest time from tap to tap that was seen, in seconds.").nullable(),
    Field::new(
        "missing",
        Kind::Text,
        "The tap that saw nothing of it, `ingress` or `egress`, or \
         `apart` where both saw other connections; empty where nothing is missing.",
    ),
];

/// What flows did in a period.
pub(super) struct Told {
    pub(super) period: Period,
    /// The heaviest, those that brought most first.
    pub(super) flows: Vec<FlowPeriod>,
    /// Flows that are not among them.
    pub(super) other_count: usize,
    /// Bytes in the queue, of all flows.
    pub(super) cbiq_sum: f64,
}

impl Told {
    /// Of a period that both taps have seen.
    pub(super) fn of(pair: &mut Pair, period: Period, rules: Rules, row_count: usize) -> Self {
        let all = pair.by_weight(period);
        let mut flows: Vec<_> = all.iter().map(|&(way, _)| pair.flow(way, period, rules)).collect();
        // A flow may hold a part of the queue and bring nothing.
        let waits = |flow: &FlowPeriod| flow.queue.is_ok_and(|queue| queue.cbiq_max > 0.0);
        flows.retain(|flow| flow.ingress_bytes > 0 || waits(flow));
        let cbiq = |flow: &FlowPeriod| flow.queue.map_or(0.0, |queue| queue.cbiq_mean);
        let cbiq_sum = flows.iter().map(cbiq).sum();
        let other_count = flows.len().saturating_sub(row_count);
        flows.truncate(row_count);
        Self { period, flows, other_count, cbiq_sum }
    }

    /// A flow's part of the queue.
    pub(super) fn share(&self, flow: &FlowPeriod) -> Option<f64> {
        let queue = flow.queue.ok()?;
        (self.cbiq_sum > 0.0).then(|| queue.cbiq_mean / self.cbiq_sum)
    }

    /// As rows.
    pub(super) fn columns(&self, clock: SlotClock) -> Result<Columns, Failure> {
        let mut columns = Columns::new(SCHEMA);
        let length_ns = clock.length().as_ns().unsigned_abs();
        for flow in &self.flows {
            let (source, destination) = flow.way.key.endpoints(flow.way.direction);
            let queue = flow.queue.ok();
            let missing = flow.queue.err().map_or("", Missing::name);
            columns
                .push_row(&[
                    Value::TimestampNs(clock.start(self.period.start).as_ns()),
                    Value::U64(length_ns.saturating_mul(self.period.len as u64)),
                    Value::Text(&CommunityId(flow.way.key).to_string()),
                    Value::Text(&source.address.to_string()),
                    Value::U16(source.port),
                    Value::Text(&destination.address.to_string()),
                    Value::U16(destination.port),
                    queue.map(|queue| Value::F64(queue.cbiq_mean)).into(),
                    queue.map(|queue| Value::F64(queue.cbiq_max)).into(),
                    self.share(flow).map(Value::F64).into(),
                    queue.map(|queue| Value::F64(queue.drops)).into(),
                    Value::U64(flow.ingress_bytes),
                    Value::U64(flow.egress_bytes),
                    flow.delay_max.map(|delay| Value::F64(delay.as_seconds_f64())).into(),
                    Value::Text(&missing),
                ])
                .map_err(Failure::error)?;
        }
        Ok(columns)
    }
}

/// A flow as people read it, data going to the right.
pub(super) fn name(flow: &FlowPeriod) -> String {
    let (source, destination) = flow.way.key.endpoints(flow.way.direction);
    format!("{source} → {destination}")
}
