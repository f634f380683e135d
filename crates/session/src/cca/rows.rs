//! The columns of flows in a queue.

use cca::inputs::MissingReason;
use cca::model::ControlVerdict;
use cca::trained::LOOKED_AT;
use cca::votes::FlowHistory;
use cca::walk::WAIT_MAX;
use cca::{FlowPeriod, FlowWay, Pair, Period, QueueConditions, QueueRows, Rules, UnnamedReason};
use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packet::SlotClock;

use super::naming::{self, Namer};
use super::period::{PeriodReport, way_columns};

const fn real(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::F64, about)
}

/// The columns.
pub const SCHEMA: Schema = &[
    Field::new("start_ns", Kind::TimestampNs, "Start of the period."),
    Field::new("period_ns", Kind::U64, "Its length, in nanoseconds."),
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("src_ip", Kind::Text, "Sender of the data."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Its receiver."),
    Field::new("dst_port", Kind::U16, "Its port."),
    real("cbiq_bytes", "Bytes of its data in the queue (CBIQ): mean over slots.").nullable(),
    real("cbiq_max_bytes", "The highest of them.").nullable(),
    real("queue_share", "Its share of the data of all flows in the queue.").nullable(),
    real("drops", "Packets dropped by the queue, an estimate; empty with --sample.").nullable(),
    Field::new("ingress_bytes", Kind::U64, "Bytes of data that entered the queue."),
    Field::new("egress_bytes", Kind::U64, "Bytes of data that left it."),
    real("delay_max_s", "Longest time from tap to tap, in seconds.").nullable(),
    Field::new(
        "control",
        Kind::Text,
        "Its congestion control; empty without --model, and if `unnamed` gives a reason.",
    )
    .nullable(),
    real(
        "confidence",
        "Probability of the likeliest congestion control; empty outside the range of training, and \
         never above (n + 1) / (n + 2) for n held-out flows, nor above 0.99.",
    )
    .nullable(),
    real("interval_s", "Observation interval used for it, in seconds.").nullable(),
    naming::UNNAMED,
    Field::new(
        "missing",
        Kind::Text,
        "Tap that saw nothing of it, `ingress` or `egress`, or `apart` if each saw other \
         connections; empty if nothing is missing.",
    ),
    Field::new(
        "departures",
        Kind::Text,
        "`xmit` if departures are measured at the router's own driver, which does not see every \
         packet; empty if a downstream tap sees all.",
    )
    .nullable(),
    Field::new(
        "unseen_bytes",
        Kind::U64,
        "With `xmit`: bytes that sequence numbers passed for half a second or more without a \
         packet seen to leave with them, from one second after tracking of the flow began.",
    )
    .nullable(),
];

/// What a flow runs, inferred from as many windows of the model's longest interval as are known of
/// it, one after the other up to the period's end; else from the longest interval for which it is
/// known. Of what is outside of training only that it is.
fn name(
    namer: &mut Namer,
    pair: &mut Pair,
    rows: &mut QueueRows,
    (flow, period): (&FlowPeriod, Period),
    outside: Option<UnnamedReason>,
) -> Option<ControlVerdict> {
    let Namer { model, scratch, votes, .. } = namer;
    let (way, end) = (&flow.way, period.end());
    let (slots, began) = pair.known_slots(way, period);
    if let Some(why) = outside {
        let len = model.longest(slots).filter(|_| flow.queue.is_ok())?;
        return Some(ControlVerdict::outside(len, why));
    }
    let slots_kept = usize::try_from(model.clock().count(WAIT_MAX)).unwrap_or(usize::MAX);
    for window in votes.wanted(model, way, end, FlowHistory { slots, began, slots_kept }) {
        if let Ok(found) = rows.of(model, pair, way, window) {
            votes.add(model, way, window.start, &found, scratch);
        }
    }
    if let Some(told) = votes.told(model, way, end) {
        return Some(told);
    }
    let slots = votes.slots_since(end, slots);
    let len = model.longest(slots)?;
    let windows = model.shorter_windows(len, slots);
    let starts = (1..=windows as u64).map(|back| end.saturating_sub_unsigned(back * len as u64));
    let found: Vec<_> =
        starts.map_while(|start| rows.of(model, pair, way, Period { start, len }).ok()).collect();
    model.tell_together(&found, scratch)
}

/// Why no flow is named, where the queue is none of those that the model was trained on.
fn outside(
    namer: &Namer,
    pair: &mut Pair,
    period: Period,
    flows: &[FlowPeriod],
) -> Option<UnnamedReason> {
    let trained_on = *namer.model.trained_on()?;
    let slots = usize::try_from(namer.model.clock().count(LOOKED_AT)).unwrap_or(period.len);
    let len = period.len.max(slots);
    let start = period.end().saturating_sub_unsigned(len as u64);
    let seen = pair.seen(Period { start, len }, flows);
    trained_on.outside(&QueueConditions {
        is_part: seen.is_part || seen.flows >= namer.followed_max,
        ..seen
    })
}

/// What flows did in a period.
#[derive(Clone)]
pub struct QueueReport {
    /// The period.
    pub period: Period,
    /// The heaviest, those that brought most first.
    pub flows: Vec<FlowPeriod>,
    /// Of each of them its control, where there is a model and it can tell.
    pub named: Vec<Option<ControlVerdict>>,
    /// Flows that are not among them.
    pub other_count: usize,
    /// Bytes in the queue, of all flows.
    pub cbiq_sum: f64,
    /// Of each of them bytes that were not seen to leave, where the tap behind the queue may miss
    /// any.
    pub unseen: Option<Vec<u64>>,
}

impl QueueReport {
    /// Of a period that both taps have seen.
    pub fn of(
        pair: &mut Pair,
        period: Period,
        rules: Rules,
        row_count: usize,
        mut namer: Option<&mut Namer>,
    ) -> Self {
        let all = pair.by_weight(period);
        let mut flows: Vec<_> = all.iter().map(|&(way, _)| pair.flow(way, period, rules)).collect();
        // A flow may hold a part of the queue and bring nothing.
        let waits = |flow: &FlowPeriod| flow.queue.is_ok_and(|queue| queue.cbiq_max > 0.0);
        flows.retain(|flow| flow.ingress_bytes > 0 || waits(flow));
        let cbiq = |flow: &FlowPeriod| flow.queue.map_or(0.0, |queue| queue.cbiq_mean);
        let cbiq_sum = flows.iter().map(cbiq).sum();
        let outside = namer.as_ref().and_then(|namer| outside(namer, pair, period, &flows));
        if let Some(namer) = namer.as_mut().filter(|_| outside.is_some()) {
            namer.votes.forget_up_to(period.end());
        }
        let other_count = flows.len().saturating_sub(row_count);
        flows.truncate(row_count);
        let mut rows = QueueRows::default();
        let named = flows
            .iter()
            .map(|flow| name(namer.as_mut()?, pair, &mut rows, (flow, period), outside))
            .collect();
        if let Some(Namer { model, votes, .. }) = namer {
            votes.forget_before(model, period.end());
        }
        Self { period, flows, named, other_count, cbiq_sum, unseen: None }
    }

    /// The flows that are reported.
    pub fn ways(&self) -> impl Iterator<Item = &FlowWay> {
        self.flows.iter().map(|flow| &flow.way)
    }

    /// The queue's parts by control, the largest first; those of flows without a name are left out.
    pub fn shares(&self, controls: &[String]) -> Vec<(String, f64)> {
        let mut shares: Vec<(String, f64)> =
            controls.iter().map(|control| (control.clone(), 0.0)).collect();
        for (flow, named) in self.flows.iter().zip(&self.named) {
            let control = named.and_then(|named| named.control);
            if let Some((_, sum)) = control.and_then(|control| shares.get_mut(control)) {
                *sum += self.share(flow).unwrap_or_default();
            }
        }
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        shares
    }

    /// A flow's part of the queue.
    pub fn share(&self, flow: &FlowPeriod) -> Option<f64> {
        let queue = flow.queue.ok()?;
        (self.cbiq_sum > 0.0).then(|| queue.cbiq_mean / self.cbiq_sum)
    }
}

impl PeriodReport for QueueReport {
    const SCHEMA: Schema = SCHEMA;

    fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    fn columns(&self, clock: SlotClock, controls: &[String]) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SCHEMA);
        for (at, (flow, &named)) in self.flows.iter().zip(&self.named).enumerate() {
            let unseen = self.unseen.as_ref().and_then(|unseen| unseen.get(at));
            let queue = flow.queue.ok();
            let missing = flow.queue.err().map_or("", MissingReason::name);
            let [control, confidence, interval, unnamed] = naming::values(named, clock, controls);
            let own = [
                queue.map(|queue| Value::F64(queue.cbiq_mean)).into(),
                queue.map(|queue| Value::F64(queue.cbiq_max)).into(),
                self.share(flow).map(Value::F64).into(),
                queue.and_then(|queue| queue.drops).map(Value::F64).into(),
                Value::U64(flow.ingress_bytes),
                Value::U64(flow.egress_bytes),
                flow.delay_max.map(|delay| Value::F64(delay.as_seconds_f64())).into(),
                control,
                confidence,
                interval,
                unnamed,
                Value::Text(&missing),
                unseen.map(|_| Value::Str("xmit")).into(),
                unseen.map(|&bytes| Value::U64(bytes)).into(),
            ];
            way_columns(&mut columns, &flow.way, self.period, clock, &own)?;
        }
        Ok(columns)
    }
}
