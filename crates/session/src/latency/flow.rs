//! The row of a flow.

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use engine::flow::FlowRecord;
use latency::{Totals, Way};
use packet::Timestamp;
use packet::community_id::CommunityId;

/// Of one end of a flow: what was sent to it, and how soon it answered.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Side {
    /// Round trips from the tap to this end and back.
    pub rtt_count: u64,
    /// The least.
    pub rtt_min_ns: Option<u64>,
    /// The median, within 0.8 %, as the other quantiles.
    pub rtt_p50_ns: Option<u64>,
    /// The 90th percentile.
    pub rtt_p90_ns: Option<u64>,
    /// The 99th percentile.
    pub rtt_p99_ns: Option<u64>,
    /// The largest.
    pub rtt_max_ns: Option<u64>,
    /// RFC 3550's estimate.
    pub jitter_ns: Option<u64>,
    /// What was sent to it.
    pub totals: Totals,
    /// Sharp changes, of all and of those that were not held back.
    pub sharp: [u64; 2],
}

impl Side {
    /// Of what is sent to one end.
    #[must_use]
    pub fn of(way: &Way) -> Self {
        let rtt = &way.rtt;
        Self {
            rtt_count: rtt.count,
            rtt_min_ns: rtt.min(),
            rtt_p50_ns: rtt.quantile(0.5),
            rtt_p90_ns: rtt.quantile(0.9),
            rtt_p99_ns: rtt.quantile(0.99),
            rtt_max_ns: rtt.max(),
            jitter_ns: rtt.jitter(),
            totals: way.totals,
            sharp: [way.series.sharp, way.series.sharp_prompt],
        }
    }

    /// How much longer a quantile takes than the least: waiting in queues, as far as the least was
    /// without.
    fn above_min(&self, quantile: Option<u64>) -> Option<u64> {
        Some(quantile?.saturating_sub(self.rtt_min_ns?))
    }

    /// Packets without a latency.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.totals.missing.iter().sum()
    }
}

/// A flow and its latencies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flow {
    /// The flow, where it has ended.
    pub record: FlowRecord,
    /// Of the destination.
    pub dst: Side,
    /// Of the source.
    pub src: Side,
    /// How long the destination takes from a request to the first packet of its answer, less the
    /// round trip: how many times that was seen, and the median.
    pub think_count: u64,
    /// The median of it.
    pub think_p50_ns: Option<u64>,
    /// How marks are echoed.
    pub ecn_echo: Option<&'static str>,
}

/// What is slow: the part that takes more than half of the whole.
const PARTS: [&str; 3] = ["source", "destination", "server"];

impl Flow {
    /// Of a flow that is measured.
    #[must_use]
    pub fn of(record: &FlowRecord, flow: &latency::Flow) -> Self {
        let (mut dst, mut src) = (Side::of(flow.to_destination()), Side::of(flow.to_source()));
        if flow.has_random_spin() {
            // Bits that are drawn measure nothing.
            for side in [&mut dst, &mut src] {
                *side = Side { totals: side.totals, ..Side::default() };
            }
        }
        let think = &flow.to_source().think;
        Self {
            record: FlowRecord { direction: flow.source, ..*record },
            dst,
            src,
            think_count: think.count,
            think_p50_ns: think.quantile(0.5),
            ecn_echo: flow.echo.name(),
        }
    }

    /// Whether anything was measured.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        self.dst.rtt_count + self.src.rtt_count > 0
    }

    /// What takes more than half of the time from request to answer: the way to the source, the
    /// way to the destination, or the server itself; `none` where nothing does. Medians are
    /// compared; nothing where fewer than two parts are known.
    #[must_use]
    pub fn slow_end(&self) -> Option<&'static str> {
        let parts = [self.src.rtt_p50_ns, self.dst.rtt_p50_ns, self.think_p50_ns];
        let total: u64 = parts.into_iter().flatten().sum();
        if parts.iter().flatten().count() < 2 {
            return None;
        }
        let slow = PARTS.into_iter().zip(parts).find(|(_, part)| part.unwrap_or(0) * 2 > total);
        Some(slow.map_or("none", |(name, _)| name))
    }

    /// Retransmitted packets, of both ends.
    #[must_use]
    pub const fn retransmissions(&self) -> u64 {
        self.dst.totals.retransmissions + self.src.totals.retransmissions
    }
}

const fn ns(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about).nullable()
}

const fn count(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about)
}

/// The columns.
pub(super) const SCHEMA: Schema = &[
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Address of the sender of the first packet."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "The other address."),
    Field::new("dst_port", Kind::U16, "Its port."),
    Field::new("first_ns", Kind::TimestampNs, "Earliest timestamp; empty without one.").nullable(),
    Field::new("last_ns", Kind::TimestampNs, "Latest timestamp; empty without one.").nullable(),
    ns("rtt_min_ns", "Minimum RTT from source to destination: the sum of both halves' minima."),
    Field::new(
        "slow_end",
        Kind::Text,
        "What takes more than half of the time from request to response: the path to the \
         `source`, the path to the `destination`, or the `server`; else `none`.",
    )
    .nullable(),
    count("dst_rtt_count", "RTT samples from the tap to the destination and back."),
    ns("dst_rtt_min_ns", "Their minimum, in nanoseconds."),
    ns("dst_rtt_p50_ns", "Their median, within 0.8 %."),
    ns("dst_rtt_p90_ns", "Their 90th percentile."),
    ns("dst_rtt_p99_ns", "Their 99th percentile."),
    ns("dst_rtt_max_ns", "Their maximum."),
    ns("dst_jitter_ns", "Their jitter as RFC 3550 estimates it."),
    ns("dst_queue_p50_ns", "Queueing delay: the median above the minimum."),
    ns("dst_queue_p99_ns", "Queueing delay: the 99th percentile above the minimum."),
    count("src_rtt_count", "RTT samples from the tap to the source and back."),
    ns("src_rtt_min_ns", "Their minimum, in nanoseconds."),
    ns("src_rtt_p50_ns", "Their median, within 0.8 %."),
    ns("src_rtt_p90_ns", "Their 90th percentile."),
    ns("src_rtt_p99_ns", "Their 99th percentile."),
    ns("src_rtt_max_ns", "Their maximum."),
    ns("src_jitter_ns", "Their jitter as RFC 3550 estimates it."),
    ns("src_queue_p50_ns", "Queueing delay: the median above the minimum."),
    ns("src_queue_p99_ns", "Queueing delay: the 99th percentile above the minimum."),
    count("server_count", "Requests of the source that the destination answered with data."),
    ns("server_p50_ns", "Median time from request to response, less the RTT to the destination."),
    count("src_packets", "Packets with data, SYN or FIN that the source sent."),
    count("src_retransmissions", "Of those, retransmissions: packets with bytes seen before."),
    count("src_late", "Of those, packets that fill a gap: reordered, or lost upstream of the tap."),
    count("src_unmeasured", "Of those, packets without a latency."),
    count("src_held_acks", "Of their latencies, those that include the wait for a delayed ACK."),
    count("src_sharp_changes", "Sharp changes from one of their latencies to the next."),
    count("src_sharp_prompt", "The same without packets whose ACK was delayed."),
    count("src_ce", "Of those, packets with CE at the tap."),
    count("src_ce_echoed", "CE marks that the destination reports."),
    count("dst_packets", "Packets with data, SYN or FIN that the destination sent."),
    count("dst_retransmissions", "Of those, retransmissions: packets with bytes seen before."),
    count("dst_late", "Of those, packets that fill a gap: reordered, or lost upstream of the tap."),
    count("dst_unmeasured", "Of those, packets without a latency."),
    count("dst_held_acks", "Of their latencies, those that include the wait for a delayed ACK."),
    count("dst_sharp_changes", "Sharp changes from one of their latencies to the next."),
    count("dst_sharp_prompt", "The same without packets whose ACK was delayed."),
    count("dst_ce", "Of those, packets with CE at the tap."),
    count("dst_ce_echoed", "CE marks that the source reports."),
    Field::new(
        "ecn_echo",
        Kind::Text,
        "ECN feedback negotiated in the handshake: `none`, `classic` (RFC 3168) or `accurate` (RFC \
         9768); empty if the handshake was not seen.",
    )
    .nullable(),
];

/// The values of one side's RTTs.
fn rtts(side: &Side) -> [Value<'static>; 9] {
    let ns = |value: Option<u64>| value.map(Value::U64).into();
    [
        Value::U64(side.rtt_count),
        ns(side.rtt_min_ns),
        ns(side.rtt_p50_ns),
        ns(side.rtt_p90_ns),
        ns(side.rtt_p99_ns),
        ns(side.rtt_max_ns),
        ns(side.jitter_ns),
        ns(side.above_min(side.rtt_p50_ns)),
        ns(side.above_min(side.rtt_p99_ns)),
    ]
}

/// What was sent to one side.
fn sent(side: &Side) -> [Value<'static>; 9] {
    let Totals { packets, retransmissions, late, held_covered, held_lone, ce, ce_echoed, .. } =
        side.totals;
    let [sharp, sharp_prompt] = side.sharp;
    [
        packets,
        retransmissions,
        late,
        side.missing(),
        held_covered + held_lone,
        sharp,
        sharp_prompt,
        ce,
        ce_echoed,
    ]
    .map(Value::U64)
}

impl Flow {
    /// Appends its row.
    pub(super) fn push(&self, columns: &mut Columns) -> Result<(), RowMismatch> {
        let record = &self.record;
        let (source, destination) = record.endpoints();
        let (id, protocol) = (CommunityId(record.key), record.key.protocol());
        let stamp = |time: Timestamp| {
            let known = Some(time).filter(|&time| time != Timestamp::UNKNOWN);
            known.map(|time| Value::TimestampNs(time.as_ns())).into()
        };
        let ns = |value: Option<u64>| value.map(Value::U64).into();
        let rtt_min = self.src.rtt_min_ns.zip(self.dst.rtt_min_ns).map(|(one, other)| one + other);
        let head = [
            Value::Text(&id),
            Value::Text(&protocol),
            Value::Address(source.address),
            Value::U16(source.port),
            Value::Address(destination.address),
            Value::U16(destination.port),
            stamp(record.first),
            stamp(record.last),
            ns(rtt_min),
            self.slow_end().map(Value::Str).into(),
        ];
        let think = [Value::U64(self.think_count), ns(self.think_p50_ns)];
        let echo = [self.ecn_echo.map(Value::Str).into()];
        let [dst, src] = [rtts(&self.dst), rtts(&self.src)];
        // What is sent to the destination is the source's.
        let [by_src, by_dst] = [sent(&self.dst), sent(&self.src)];
        let parts: [&[Value<'_>]; 7] = [&head, &dst, &src, &think, &by_src, &by_dst, &echo];
        let mut row = [Value::Null; SCHEMA.len()];
        for (held, &value) in row.iter_mut().zip(parts.into_iter().flatten()) {
            *held = value;
        }
        columns.push_row(&row)
    }
}
