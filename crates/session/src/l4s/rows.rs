//! The row of a named flow in a period.

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use l4s::{MarkerCounts, OfQueue};
use latency::Histogram;
use packet::community_id::CommunityId;
use packet::{OneWayFlow, Timestamp};

use super::flow::Sums;

const fn count(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about)
}

/// The columns.
pub(super) const SCHEMA: Schema = &[
    Field::new("start_ns", Kind::TimestampNs, "Start of the period."),
    count("period_ns", "Its length, in nanoseconds."),
    Field::new("community_id", Kind::Text, "Flow: Community ID v1, seed 0."),
    Field::new("src_ip", Kind::Text, "Sender."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Receiver."),
    Field::new("dst_port", Kind::U16, "Its port."),
    count("packets", "Packets with data, SYN or FIN that left."),
    count("l4s_packets", "Of these, L4S packets: ECT(1), or re-marked from it."),
    count(
        "decided",
        "L4S packets decided to be re-marked; each decision applies to a next packet.",
    ),
    count("kept", "L4S packets that the L4S queue was predicted to serve well enough."),
    count(
        "rare",
        "L4S packets that were not decided to be re-marked, as the classic queue was predicted to \
         be faster for too few of the last 4,096.",
    ),
    count("limited", "The same, as the share was at its limit."),
    count("silent", "The same, as ACKs had stopped."),
    count("unknown", "The same: no ACK yet, or a path unlike those that trained the model."),
    count("late", "The same, as the prediction was too late."),
    count(
        "remarked",
        "Packets that the kernel re-marked, or with --dry-run would have; empty without either.",
    )
    .nullable(),
    Field::new(
        "remark_share",
        Kind::F64,
        "Share of L4S packets that were re-marked; without --act or --dry-run of `decided`.",
    ),
    count("l4s_measured", "Packets of the L4S queue with a measured latency."),
    count("l4s_p50_ns", "Their median latency, up to the ACK, in nanoseconds.").nullable(),
    count("l4s_p99_ns", "Their 99th percentile.").nullable(),
    count("classic_measured", "Packets of the classic queue with a measured latency."),
    count("classic_p50_ns", "Their median latency, up to the ACK, in nanoseconds.").nullable(),
    count("classic_p99_ns", "Their 99th percentile.").nullable(),
    count("compared", "Packets with both a predicted and a measured latency."),
    count("error_mean_ns", "Mean absolute error of the prediction, in nanoseconds.").nullable(),
];

/// Measured latencies of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueLatency {
    /// Packets.
    pub count: u64,
    /// The median, in ns.
    pub p50_ns: Option<u64>,
    /// The 99th percentile.
    pub p99_ns: Option<u64>,
}

impl QueueLatency {
    pub(super) fn of(latencies: &Histogram) -> Self {
        let (p50_ns, p99_ns) = (latencies.quantile(0.5), latencies.quantile(0.99));
        Self { count: latencies.count(), p50_ns, p99_ns }
    }
}

/// A flow in a period.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Row {
    /// Which.
    pub flow: OneWayFlow,
    /// Packets that left.
    pub packets: u64,
    /// Verdicts on L4S packets.
    pub counts: MarkerCounts,
    /// Packets that the kernel re-marked or would have, where it is asked to.
    pub remarked: Option<u64>,
    /// Measured latencies.
    pub measured: OfQueue<QueueLatency>,
    /// Packets with both a predicted and a measured latency.
    pub compared: u64,
    /// The mean absolute error of predictions.
    pub error_mean_ns: Option<u64>,
}

impl Row {
    pub(super) fn new(flow: OneWayFlow, sums: &Sums, remarked: Option<u64>) -> Self {
        let Sums { packets, counts, ref latencies, compared, .. } = *sums;
        Self {
            flow,
            packets,
            counts,
            remarked,
            measured: OfQueue {
                l4s: QueueLatency::of(&latencies.l4s),
                classic: QueueLatency::of(&latencies.classic),
            },
            compared,
            error_mean_ns: sums.error_mean_ns(),
        }
    }

    /// The share of L4S packets that were re-marked, or would have been.
    #[must_use]
    pub fn remark_share(&self) -> f64 {
        crate::share(self.remarked.unwrap_or(self.counts.remarked), self.counts.asked)
    }
}

/// Flows in a period.
#[derive(Clone, PartialEq, Debug)]
pub struct MarkingReport {
    /// When it begins.
    pub start: Timestamp,
    /// How long it is, in ns.
    pub period_ns: u64,
    /// Flows with packets, in the order in which they were named.
    pub rows: Vec<Row>,
}

impl MarkingReport {
    /// As rows.
    pub(super) fn columns(&self) -> Result<Columns, RowMismatch> {
        let mut columns = Columns::new(SCHEMA);
        for row in &self.rows {
            self.push(&mut columns, row)?;
        }
        Ok(columns)
    }

    fn push(&self, columns: &mut Columns, row: &Row) -> Result<(), RowMismatch> {
        let (source, destination) = row.flow.key.endpoints(row.flow.direction);
        let counts = row.counts;
        let maybe = |value: Option<u64>| value.map(Value::U64).into();
        let community_id = CommunityId(row.flow.key);
        let OfQueue { l4s, classic } = row.measured;
        columns.push_row(&[
            Value::TimestampNs(self.start.as_ns()),
            Value::U64(self.period_ns),
            Value::Text(&community_id),
            Value::Address(source.address),
            Value::U16(source.port),
            Value::Address(destination.address),
            Value::U16(destination.port),
            Value::U64(row.packets),
            Value::U64(counts.asked),
            Value::U64(counts.remarked),
            Value::U64(counts.kept),
            Value::U64(counts.rare),
            Value::U64(counts.limited),
            Value::U64(counts.silent),
            Value::U64(counts.unknown),
            Value::U64(counts.late),
            maybe(row.remarked),
            Value::F64(row.remark_share()),
            Value::U64(l4s.count),
            maybe(l4s.p50_ns),
            maybe(l4s.p99_ns),
            Value::U64(classic.count),
            maybe(classic.p50_ns),
            maybe(classic.p99_ns),
            Value::U64(row.compared),
            maybe(row.error_mean_ns),
        ])
    }
}
