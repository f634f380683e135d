//! The row of a destination, and what is found as a whole.

use std::net::IpAddr;

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use latency::{Destination, Rtt};
use packet::Timestamp;

use super::flow::Flow;
use super::one_way::Between;

/// A destination in a period.
#[derive(Clone, Debug)]
pub struct Line {
    /// When the period begins, where there are periods.
    pub start: Option<Timestamp>,
    /// The address.
    pub address: IpAddr,
    /// What is known of it.
    pub destination: Destination,
}

/// What a front end shows of a whole run.
#[derive(Clone, Debug)]
pub enum LatencyRows {
    /// Flows, the first in order, and how many were measured.
    Flows(Vec<Flow>, u64),
    /// Destinations, the first in order, and how many there are.
    Destinations(Vec<Line>, u64),
    /// Directions of flows between two taps, the first in order, and how many there are.
    OneWay(Vec<Between>, u64),
}

macro_rules! columns {
    ($($first:expr)?) => {
        &[
            $($first,)?
            Field::new("dst_ip", Kind::Text, "Address that answers."),
            Field::new("rtt_count", Kind::U64, "RTT samples from the tap to it and back."),
            Field::new("rtt_min_ns", Kind::U64, "Their minimum, in nanoseconds.").nullable(),
            Field::new("rtt_p50_ns", Kind::U64, "Their median, within 0.8 %.").nullable(),
            Field::new("rtt_p90_ns", Kind::U64, "Their 90th percentile.").nullable(),
            Field::new("rtt_p99_ns", Kind::U64, "Their 99th percentile.").nullable(),
            Field::new("rtt_max_ns", Kind::U64, "Their maximum.").nullable(),
            Field::new("jitter_ns", Kind::U64, "Their jitter as RFC 3550 estimates it.").nullable(),
            Field::new("queue_p50_ns", Kind::U64, "Queueing delay: the median above the minimum.")
                .nullable(),
            Field::new(
                "queue_p99_ns",
                Kind::U64,
                "Queueing delay: the 99th percentile above the minimum.",
            )
            .nullable(),
            Field::new("packets", Kind::U64, "Packets that it has to answer."),
            Field::new(
                "retransmissions",
                Kind::U64,
                "Of those, retransmissions: packets with bytes seen before.",
            ),
            Field::new("unmeasured", Kind::U64, "Of those, packets without a latency."),
            Field::new("held_acks", Kind::U64, "Latencies including the wait for a delayed ACK."),
            Field::new(
                "sharp_changes",
                Kind::U64,
                "Sharp changes from one latency of a flow to the next.",
            ),
            Field::new(
                "sharp_prompt",
                Kind::U64,
                "The same without packets whose ACK was delayed.",
            ),
        ]
    };
}

/// The columns of a whole run.
pub(super) const SCHEMA: Schema = columns!();
/// The same of each period.
pub(super) const PERIOD_SCHEMA: Schema =
    columns!(Field::new("start_ns", Kind::TimestampNs, "Start of the period."));

impl Line {
    fn above_min(rtt: &Rtt, share: f64) -> Option<u64> {
        Some(rtt.quantile(share)?.saturating_sub(rtt.min()?))
    }

    /// Appends its row.
    pub(super) fn push(&self, columns: &mut Columns) -> Result<(), RowMismatch> {
        let Self { start, address, destination } = self;
        let rtt = &destination.rtt;
        let ns = |value: Option<u64>| value.map(Value::U64).into();
        let mut row: Vec<Value<'_>> = Vec::with_capacity(PERIOD_SCHEMA.len());
        row.extend(start.map(|start| Value::TimestampNs(start.as_ns())));
        row.extend([Value::Address(*address), Value::U64(rtt.count), ns(rtt.min())]);
        row.extend([0.5, 0.9, 0.99].map(|share| -> Value<'_> { ns(rtt.quantile(share)) }));
        row.extend([
            ns(rtt.max()),
            ns(rtt.jitter()),
            ns(Self::above_min(rtt, 0.5)),
            ns(Self::above_min(rtt, 0.99)),
        ]);
        let Destination { packets, retransmissions, missing, held, sharp, sharp_prompt, .. } =
            *destination;
        let counts = [packets, retransmissions, missing, held, sharp, sharp_prompt];
        row.extend(counts.map(Value::U64));
        columns.push_row(&row)
    }
}
