//! The columns of flows at one tap.

use cca::flight::{FlightMissingReason, FlightPeriod, FlightTap, Heaviest};
use cca::model::{ControlVerdict, Reads};
use cca::{FlowWay, Period, trained};
use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packet::SlotClock;

use super::super::naming::{self, Namer};
use super::super::period::{PeriodReport, way_columns};

const fn real(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::F64, about).nullable()
}

const fn count(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about)
}

/// A count in a column that holds estimates in another table. Exact below 2^53.
#[allow(clippy::cast_precision_loss)]
const fn real_count(count: u64) -> f64 {
    count as f64
}

/// The columns.
pub const SCHEMA: Schema = &[
    Field::new("start_ns", Kind::TimestampNs, "Start of the period."),
    count("period_ns", "Its length, in nanoseconds."),
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("src_ip", Kind::Text, "Sender of the data."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Its receiver."),
    Field::new("dst_port", Kind::U16, "Its port."),
    real(
        "flight_bytes",
        "Bytes in flight beyond the tap: sent and not acknowledged; mean over the ends of slots.",
    ),
    count("flight_max_bytes", "Their maximum at any time.").nullable(),
    count("sacked_max_bytes", "Maximum of them that the receiver had out of order (SACK).")
        .nullable(),
    count("sent_bytes", "Bytes of data that passed, including retransmissions."),
    real("sent_share", "Its share of all bytes of data that passed in the period."),
    count("acked_bytes", "Bytes of data that were acknowledged for the first time."),
    count("resent_packets", "Retransmitted packets: their data had passed before."),
    Field::new(
        "drops",
        Kind::F64,
        "Packets lost beyond the tap, an estimate: retransmitted packets that the receiver was not \
         known to have in full.",
    ),
    real("rtt_s", "Mean time from data to its acknowledgement, in seconds."),
    real("rtt_min_s", "Their minimum."),
    real(
        "rtt_inflation_s",
        "`rtt_s` minus its minimum since the connection was first seen, in seconds: how long \
         packets and acknowledgements wait beyond the tap.",
    ),
    real(
        "upstream_rtt_s",
        "Mean time from an acknowledgement to the data sent in response to it, by TCP timestamps, \
         in seconds: the part of the round trip upstream of the tap.",
    ),
    Field::new(
        "control",
        Kind::Text,
        "Its congestion control; empty without --model, and if `unnamed` gives a reason.",
    )
    .nullable(),
    real("confidence", "Probability of the likeliest congestion control."),
    naming::LIKELIEST,
    real("interval_s", "Observation interval used for it, in seconds."),
    naming::UNNAMED,
    Field::new(
        "missing",
        Kind::Text,
        "`acks` if no acknowledgement has arrived so far, so that bytes in flight are unknown; \
         empty if nothing is missing.",
    ),
];

/// What a flow runs, inferred from the longest interval that ends with the period, for which what
/// it has in flight is known, and which holds nothing of its connection's beginning: that was in no
/// training, where a network answers all the same.
fn name(
    namer: &mut Namer,
    tap: &mut FlightTap,
    way: &FlowWay,
    period: Period,
) -> Option<ControlVerdict> {
    let Reads::Flight(inputs) = namer.model.reads() else { return None };
    let row_slots = match namer.model.rows_per_rtt() {
        Some(rows) => tap.row_slots(way, period.end(), rows)?,
        None => 1,
    };
    let (known, began) = tap.known_slots(way, period);
    let settled = trained::settled(namer.model.clock(), known, began);
    let len = namer.model.longest(settled / row_slots)?;
    let slots = len.saturating_mul(row_slots);
    let start = period.end().saturating_sub_unsigned(slots as u64);
    let rows = tap.fill(way, Period { start, len }, row_slots, inputs).ok()?;
    namer.model.tell(rows, row_slots, &mut namer.scratch)
}

/// What flows did in a period.
#[derive(Clone)]
pub struct FlightReport {
    /// The period.
    pub period: Period,
    /// The heaviest, those that sent most first.
    pub flows: Vec<FlightPeriod>,
    /// Of each of them its control, where there is a model and it can tell.
    pub named: Vec<Option<ControlVerdict>>,
    /// Flows that are not among them.
    pub other_count: usize,
    /// Bytes of data of all flows.
    pub sent_bytes: u64,
}

impl FlightReport {
    /// Of a period that is past.
    pub fn of(
        tap: &mut FlightTap,
        period: Period,
        row_count: usize,
        mut namer: Option<&mut Namer>,
    ) -> Self {
        let Heaviest { flows, other_count, sent_bytes } = tap.heaviest(period, row_count);
        let named = flows
            .iter()
            .map(|flow| namer.as_mut().and_then(|namer| name(namer, tap, &flow.way, period)))
            .collect();
        Self { period, flows, named, other_count, sent_bytes }
    }

    /// A flow's share of all bytes of data; `None` where none passed.
    #[allow(clippy::cast_precision_loss)]
    #[must_use]
    pub fn share(&self, flow: &FlightPeriod) -> Option<f64> {
        (self.sent_bytes > 0).then(|| flow.sent_bytes as f64 / self.sent_bytes as f64)
    }
}

impl PeriodReport for FlightReport {
    const SCHEMA: Schema = SCHEMA;

    fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    fn columns(&self, clock: SlotClock, controls: &[String]) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SCHEMA);
        for (flow, &named) in self.flows.iter().zip(&self.named) {
            let flight = flow.flight.ok();
            let max = flight.map(|flight| flight.max_bytes.into());
            let sacked = flight.map(|flight| flight.sacked_max_bytes.into());
            let missing = flow.flight.err().map_or("", FlightMissingReason::name);
            let likeliest = named.and_then(|named| naming::likeliest(&named, controls));
            let [control, confidence, interval, unnamed] = naming::values(named, clock, controls);
            let own = [
                flight.map(|flight| Value::F64(flight.mean_bytes)).into(),
                max.map(Value::U64).into(),
                sacked.map(Value::U64).into(),
                Value::U64(flow.sent_bytes),
                self.share(flow).map(Value::F64).into(),
                Value::U64(flow.acked_bytes),
                Value::U64(flow.resent),
                Value::F64(real_count(flow.lost)),
                flow.rtt_s.map(Value::F64).into(),
                flow.rtt_min.map(|rtt| Value::F64(rtt.as_seconds_f64())).into(),
                flow.rtt_inflation_s.map(Value::F64).into(),
                flow.upstream_rtt_s.map(Value::F64).into(),
                control,
                confidence,
                likeliest.as_deref().map(Value::Str).into(),
                interval,
                unnamed,
                Value::Text(&missing),
            ];
            way_columns(&mut columns, &flow.way, self.period, clock, &own)?;
        }
        Ok(columns)
    }
}
