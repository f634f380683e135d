//! The columns of flows, under our own names.

use std::borrow::Cow;

use engine::columns::{Columns, Field, Filling, Kind, RowMismatch, Value};
use engine::flow::{FlowRecord, FlowStatistics, Spread};
use packet::community_id::CommunityIdText;
use packet::flow_key::Endpoint;
use packet::{Layers, Span, Timestamp};

use crate::captures::Captures;

/// What is kept for a flow beside its record, as columns.
pub(super) trait StateColumns: Sized {
    /// How many columns of its own it has.
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>);
}

/// The values of one row on the stack.
pub(super) struct Row<'a> {
    values: [Value<'a>; VALUES_MAX],
    len: usize,
}

/// Columns of the widest row.
const VALUES_MAX: usize = 96;

pub(super) const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, about)
}

pub(super) const fn stamp(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::TimestampNs, about)
}

pub(super) const fn count(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about)
}

pub(super) const fn small(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U16, about)
}

pub(super) const fn real(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::F64, about)
}

const FLAGS_ABOUT: &str = "TCP flags of all its packets, or-ed: FIN 1, SYN 2, RST 4, PSH 8, \
                           ACK 16, URG 32, ECE 64, CWR 128.";

pub(super) const WINDOW: [Field; 1] =
    [stamp("window_start_ns", "Start of the window; empty if the capture has no timestamps.")
        .nullable()];

pub(super) const FLOW: [Field; 16] = [
    text("community_id", "Community ID v1, seed 0."),
    text("protocol", "IP protocol."),
    text("src_ip", "Address of the source, which sent the first packet."),
    small("src_port", "Its port; the message type for ICMP."),
    text("dst_ip", "The other address."),
    small("dst_port", "Its port; the counterpart's type or the code for ICMP."),
    stamp("first_ns", "Earliest timestamp; empty if the capture has none.").nullable(),
    stamp("last_ns", "Latest timestamp; empty if the capture has none.").nullable(),
    count("src_packets", "Packets from the source."),
    count("src_bytes", "Their bytes on the wire, link header included."),
    count("dst_packets", "Packets from the destination."),
    count("dst_bytes", "Their bytes on the wire, link header included."),
    small("src_tcp_flags", FLAGS_ABOUT),
    small("dst_tcp_flags", FLAGS_ABOUT),
    text(
        "end_reason",
        "How it ended: idle, active, fin, rst, window, emergency, evicted or end (of the input).",
    ),
    small("vlan", "Outermost VLAN of the first packet; empty without a tag.").nullable(),
];

/// Four columns of a spread of sizes, four of a spread of gaps.
macro_rules! spreads {
    ($side:literal, $of:literal) => {
        [
            count(concat!($side, "_size_min"), concat!("Bytes of the smallest packet ", $of, "."))
                .nullable(),
            real(concat!($side, "_size_mean"), concat!("Mean bytes of packets ", $of, "."))
                .nullable(),
            real(
                concat!($side, "_size_std"),
                concat!("Standard deviation (n − 1) of the bytes of packets ", $of, "."),
            )
            .nullable(),
            count(concat!($side, "_size_max"), concat!("Bytes of the largest packet ", $of, "."))
                .nullable(),
            count(
                concat!($side, "_gap_min_ns"),
                concat!("Smallest time between two packets ", $of, "."),
            )
            .nullable(),
            real(
                concat!($side, "_gap_mean_ns"),
                concat!("Mean time between two packets ", $of, "."),
            )
            .nullable(),
            real(
                concat!($side, "_gap_std_ns"),
                concat!("Standard deviation (n − 1) of the times between packets ", $of, "."),
            )
            .nullable(),
            count(
                concat!($side, "_gap_max_ns"),
                concat!("Largest time between two packets ", $of, "."),
            )
            .nullable(),
        ]
    };
}

/// Packets by TCP flag.
macro_rules! flag_counts {
    ($side:literal, $of:literal: $($flag:literal)*) => {
        [$(count(
            concat!($side, "_", $flag, "_packets"),
            concat!("Packets ", $of, " with this TCP flag."),
        )),*]
    };
}

pub(super) const SIDE_TIMES: [Field; 4] = [
    stamp("src_first_ns", "Earliest timestamp from the source.").nullable(),
    stamp("src_last_ns", "Latest timestamp from the source.").nullable(),
    stamp("dst_first_ns", "Earliest timestamp from the destination.").nullable(),
    stamp("dst_last_ns", "Latest timestamp from the destination.").nullable(),
];

const BOTH_SPREADS: [Field; 8] = spreads!("both", "of either side");
const SRC_SPREADS: [Field; 8] = spreads!("src", "from the source");
const DST_SPREADS: [Field; 8] = spreads!("dst", "from the destination");
const BOTH_FLAGS: [Field; 8] =
    flag_counts!("both", "of either side": "fin" "syn" "rst" "psh" "ack" "urg" "ece" "cwr");
const SRC_FLAGS: [Field; 8] =
    flag_counts!("src", "from the source": "fin" "syn" "rst" "psh" "ack" "urg" "ece" "cwr");
const DST_FLAGS: [Field; 8] =
    flag_counts!("dst", "from the destination": "fin" "syn" "rst" "psh" "ack" "urg" "ece" "cwr");

/// Joins lists of columns.
pub(super) const fn joined<const LEN: usize>(parts: &[&[Field]]) -> [Field; LEN] {
    let mut fields = [FLOW[0]; LEN];
    let (mut part, mut at) = (0, 0);
    while part < parts.len() {
        let mut index = 0;
        while index < parts[part].len() {
            fields[at] = parts[part][index];
            (index, at) = (index + 1, at + 1);
        }
        part += 1;
    }
    assert!(at == LEN, "as many columns as were announced");
    fields
}

pub(super) const STATISTICS: [Field; 52] = joined(&[
    &BOTH_SPREADS,
    &SRC_SPREADS,
    &DST_SPREADS,
    &SIDE_TIMES,
    &BOTH_FLAGS,
    &SRC_FLAGS,
    &DST_FLAGS,
]);

/// What a trained cascade says of a flow.
pub(super) const LABEL: [Field; 7] = [
    text("label", "Label of the flow: a class of the model, its IP protocol, or unknown."),
    real("confidence", "Probability that the label is right; empty for unknown.").nullable(),
    text("guess", "Likeliest class, also if the label is unknown."),
    real("guess_confidence", "Probability that the likeliest class is right."),
    text("stage", "Model that decided: fastest, fast or slow; none if the protocol did."),
    small("packets_used", "Packets of the flow that the model used."),
    text("model", "Name of the cascade, and the start of its SHA-256."),
];

/// Names and protocols that the payload shows.
pub(super) const NAMES: [Field; 9] = [
    text(
        "app_protocol",
        "Application protocol found in the payload, such as tls, quic, dns, http or ssh.",
    )
    .nullable(),
    text(
        "server_name",
        "Server name sent by the client: SNI of TLS or QUIC, host of HTTP/1; control characters \
         escaped.",
    )
    .nullable(),
    text(
        "resolved_name",
        "Name that DNS resolved to the server's address for this client, before this flow.",
    )
    .nullable(),
    text("dns_query", "First name queried by a flow of DNS, mDNS or LLMNR.").nullable(),
    text("dns_query_type", "Record type of the query, such as A, AAAA or HTTPS.").nullable(),
    text("tls_version", "Highest TLS version offered by the client.").nullable(),
    text("alpn", "Application protocols offered by the client (ALPN), in its order.").nullable(),
    text("ja4", "JA4 fingerprint of the TLS ClientHello; empty if that was truncated.").nullable(),
    Field::new(
        "ech_offered",
        Kind::I8,
        "1 if the client offers Encrypted Client Hello, so that server_name may be a public one; \
         else 0.",
    )
    .nullable(),
];

impl<'a> Row<'a> {
    pub(super) const fn new() -> Self {
        Self { values: [Value::Null; VALUES_MAX], len: 0 }
    }

    pub(super) fn push(&mut self, value: Value<'a>) {
        if let Some(place) = self.values.get_mut(self.len) {
            *place = value;
            self.len += 1;
        }
    }

    pub(super) fn extend(&mut self, values: impl IntoIterator<Item = Value<'a>>) {
        values.into_iter().for_each(|value| self.push(value));
    }

    pub(super) fn values(&self) -> &[Value<'a>] {
        self.values.get(..self.len).unwrap_or_default()
    }
}

impl StateColumns for () {
    fn push<'a>(&'a self, _: &FlowRecord, _: &mut Row<'a>) {}
}

impl StateColumns for FlowStatistics {
    fn push<'a>(&'a self, record: &FlowRecord, row: &mut Row<'a>) {
        let [source, destination] = self.sides(record.direction);
        for (sizes, gaps) in [
            (self.sizes(), *self.gaps()),
            (source.sizes, source.gaps),
            (destination.sizes, destination.gaps),
        ] {
            row.extend(spread(&sizes));
            row.extend(spread(&gaps));
        }
        for side in [source, destination] {
            let (first, last) = side.span.unzip();
            row.extend(
                [first, last].map(|time| time.and_then(known).map(Value::TimestampNs).into()),
            );
        }
        let flags =
            |bit: usize| [source, destination].map(|side| u64::from(side.flag_packets[bit]));
        row.extend((0..8).map(|bit| Value::U64(flags(bit).iter().sum())));
        row.extend((0..8).map(|bit| Value::U64(flags(bit)[0])));
        row.extend((0..8).map(|bit| Value::U64(flags(bit)[1])));
    }
}

fn spread<'a>(spread: &Spread) -> [Value<'a>; 4] {
    [
        spread.smallest().map(Value::U64).into(),
        spread.mean().map(Value::F64).into(),
        spread.deviation().map(Value::F64).into(),
        spread.largest().map(Value::U64).into(),
    ]
}

/// Appends a flow.
pub(super) fn push<S: StateColumns>(
    columns: &mut Columns,
    window: Option<Span>,
    record: &FlowRecord,
    kept: &S,
    captures: &Captures,
) -> Result<(), RowMismatch> {
    let mut filling = columns.fill(1);
    fill(&mut filling, window, [record].into_iter());
    let mut row = Row::new();
    kept.push(record, &mut row);
    row.extend(captures.value(record.input));
    filling.rest(row.values());
    filling.finish()
}

/// Appends flows of which nothing else is kept.
pub(super) fn push_plain<'a>(
    columns: &mut Columns,
    window: Option<Span>,
    records: impl ExactSizeIterator<Item = &'a FlowRecord> + Clone,
    captures: &Captures,
) -> Result<(), RowMismatch> {
    let mut filling = columns.fill(records.len());
    fill(&mut filling, window, records.clone());
    if captures.are_named() {
        filling.if_any(records.map(|record| captures.value(record.input)));
    }
    filling.finish()
}

/// The columns that every flow has.
fn fill<'a>(
    filling: &mut Filling<'_>,
    window: Option<Span>,
    records: impl Iterator<Item = &'a FlowRecord> + Clone,
) {
    if let Some(window) = window {
        // Where a stamp is unknown so is its window: both are the earliest time there is.
        let start = |record: &FlowRecord| known(record.last.window_start(window));
        filling.timestamp_ns_if_any(records.clone().map(start));
    }
    let of =
        |side: usize| move |record: &FlowRecord| <[Endpoint; 2]>::from(record.endpoints())[side];
    let address = |side| records.clone().map(of(side)).map(|endpoint| endpoint.address);
    let port = |side| records.clone().map(of(side)).map(|endpoint| endpoint.port);
    filling.texts(records.clone().map(|record| CommunityIdText::new(&record.key, 0)));
    filling.texts(records.clone().map(|record| {
        let protocol = record.key.protocol();
        protocol.name().map_or_else(|| Cow::Owned(protocol.to_string()), Cow::Borrowed)
    }));
    filling.addresses(address(0));
    filling.u16(port(0));
    filling.addresses(address(1));
    filling.u16(port(1));
    filling.timestamp_ns_if_any(records.clone().map(|record| known(record.first)));
    filling.timestamp_ns_if_any(records.clone().map(|record| known(record.last)));
    for side in [0, 1] {
        filling.u64(records.clone().map(|record| record.packets[side].into()));
        filling.u64(records.clone().map(|record| record.bytes[side]));
    }
    for side in [0, 1] {
        filling.u16(records.clone().map(|record| record.tcp_flags[side].into()));
    }
    filling.texts(records.clone().map(|record| record.reason.name()));
    filling.u16_if_any(records.map(vlan));
}

/// A stamp, where there is one.
pub(super) fn known(stamp: Timestamp) -> Option<i64> {
    (stamp != Timestamp::UNKNOWN).then_some(stamp.as_ns())
}

pub(super) fn vlan(record: &FlowRecord) -> Option<u16> {
    (record.vlan_id != Layers::NO_VLAN).then_some(record.vlan_id)
}
