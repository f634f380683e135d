//! The row of a packet.

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use latency::{AckDelay, Sample, TakeSamples, ecn_name};
use packet::community_id::CommunityId;
use packet::{FlowKey, HashSeed, KeyHash as _};

use crate::application::Refusal;
use crate::outlet::Outlet;

/// Rows that are written together.
const ROWS_PER_PIECE: usize = 1 << 13;

const fn ns(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about).nullable()
}

const fn bytes(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U32, about).nullable()
}

const fn sharp(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::I8, about).nullable()
}

/// The columns.
pub(super) const SCHEMA: Schema = &[
    Field::new("time_ns", Kind::TimestampNs, "When the tap saw the packet."),
    Field::new("community_id", Kind::Text, "Flow: Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Sender."),
    Field::new("src_port", Kind::U16, "Its port."),
    Field::new("dst_ip", Kind::Text, "Receiver, which answers."),
    Field::new("dst_port", Kind::U16, "Its port."),
    Field::new("seq", Kind::U32, "First sequence number; empty if it is not TCP.").nullable(),
    Field::new("wire_len", Kind::U32, "Size: bytes on the wire, link header included."),
    Field::new("len", Kind::U32, "Sequence numbers it takes up; payload bytes of UDP."),
    ns("latency_ns", "Latency: from the tap to the receiver and back; empty with a cause."),
    Field::new(
        "method",
        Kind::Text,
        "How it was measured: `handshake`, `ack`, `ack+timestamp`, `sack`, `spin` or `dns`.",
    )
    .nullable(),
    Field::new(
        "missing",
        Kind::Text,
        "Why there is none: `ambiguous` (Karn's rule), `lost`, `needless`, `blocked`, \
         `no_answer`, `clock_step` or `no_room`.",
    )
    .nullable(),
    Field::new(
        "held",
        Kind::Text,
        "Whether the ACK was delayed: `no`; `covered`, if it answers a later packet; `lone`, if \
         the receiver's timer may have sent it.",
    )
    .nullable(),
    ns("wait_ns", "Of the latency, the wait for the later packet that the ACK answers."),
    Field::new("answered", Kind::U16, "1 if the ACK answers this packet: an RTT sample."),
    Field::new("place", Kind::Text, "`new`, `retransmission`, or `late` if it fills a gap."),
    Field::new("ecn", Kind::Text, "ECN codepoint at the tap: `not-ect`, `ect0`, `ect1` or `ce`."),
    Field::new(
        "queue",
        Kind::Text,
        "Queue of a DualQ router: `l4s` for ECT(1) and CE, else `classic`.",
    ),
    Field::new(
        "ce_echoed",
        Kind::U16,
        "CE packets that the ACK reports: its ECE flag, or the advance of Accurate ECN's counter.",
    )
    .nullable(),
    bytes("ce_bytes_echoed", "CE bytes that the ACK reports by Accurate ECN's option."),
    bytes("ect0_bytes_echoed", "ECT(0) bytes that it reports."),
    bytes("ect1_bytes_echoed", "ECT(1) bytes that it reports."),
    sharp("sharp_flow", "Sharp change from the latency before in this direction: 1 up, -1 down."),
    sharp("sharp_flow_prompt", "The same among packets whose ACK was not delayed."),
    sharp("sharp_queue", "Sharp change from the latency before of this sender and queue."),
    sharp("sharp_queue_prompt", "The same among packets whose ACK was not delayed."),
];

/// Flows whose Community ID is remembered: making one costs as much as the rest of a row.
const NAME_COUNT: usize = 1 << 10;

/// Community IDs of flows that were written last.
struct Names(Vec<(FlowKey, String)>);

impl Names {
    fn of(&mut self, key: FlowKey, seed: HashSeed) -> &str {
        let place = usize::try_from(key.key_hash(seed)).unwrap_or_default() % NAME_COUNT;
        let Some((known, name)) = self.0.get_mut(place) else { return "" };
        if *known != key || name.is_empty() {
            (*known, *name) = (key, CommunityId(key).to_string());
        }
        name
    }
}

/// Packets on their way out.
pub(super) struct Packets {
    outlet: Outlet,
    columns: Columns,
    names: Names,
    seed: HashSeed,
    refused: Option<RowMismatch>,
}

impl Packets {
    pub(super) fn new(outlet: Outlet, seed: HashSeed) -> Self {
        let names = Names(vec![Default::default(); NAME_COUNT]);
        Self { outlet, columns: Columns::new(SCHEMA), names, seed, refused: None }
    }

    /// Hands on what there is.
    pub(super) fn flush(&mut self) {
        if self.columns.row_count() > 0 {
            let full = std::mem::replace(&mut self.columns, Columns::new(SCHEMA));
            self.outlet.put(full);
        }
    }

    /// Why a row could not be made, if so.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.refused.map(Refusal::new)
    }
}

impl TakeSamples for Packets {
    const WANTS_ALL: bool = true;
    const WANTS_QUEUES: bool = true;

    fn take(&mut self, sample: &Sample) {
        let Self { columns, names, seed, .. } = self;
        if let Err(refused) = push(columns, sample, names.of(sample.key, *seed)) {
            self.refused.get_or_insert(refused);
        }
        if self.columns.row_count() >= ROWS_PER_PIECE {
            self.flush();
        }
    }
}

fn push(columns: &mut Columns, sample: &Sample, name: &str) -> Result<(), RowMismatch> {
    let (source, destination) = sample.key.endpoints(sample.direction);
    let protocol = sample.key.protocol().name().unwrap_or_default();
    let is_found = sample.latency_ns.is_some();
    let word = |word: &'static str| Some(Value::Str(word)).filter(|_| is_found).into();
    let sharp = |sharp: Option<i8>| sharp.map(Value::I8).into();
    let bytes = |bytes: Option<u32>| bytes.map(Value::U32).into();
    let (echo, sharps) = (&sample.echo, &sample.sharp);
    // A sample that has a latency may wait for none.
    let held = if is_found { sample.held } else { AckDelay::No };
    columns.push_row(&[
        Value::TimestampNs(sample.time.as_ns()),
        Value::Str(name),
        Value::Str(protocol),
        Value::Address(source.address),
        Value::U16(source.port),
        Value::Address(destination.address),
        Value::U16(destination.port),
        sample.seq.map(|seq| Value::U32(seq.0)).into(),
        Value::U32(sample.wire_len),
        Value::U32(sample.len),
        sample.latency_ns.map(Value::U64).into(),
        word(sample.method.name()),
        sample.missing.map(|missing| Value::Str(missing.name())).into(),
        word(held.name()),
        sample.wait_ns.map(Value::U64).into(),
        Value::U16(u16::from(sample.is_answered)),
        Value::Str(sample.place.name()),
        Value::Str(ecn_name(sample.ecn)),
        Value::Str(if sample.is_low_latency() { "l4s" } else { "classic" }),
        echo.ce.map(|ce| Value::U16(ce.into())).into(),
        bytes(echo.ce_bytes),
        bytes(echo.ect0_bytes),
        bytes(echo.ect1_bytes),
        sharp(sharps.in_flow),
        sharp(sharps.in_flow_prompt),
        sharp(sharps.in_queue),
        sharp(sharps.in_queue_prompt),
    ])
}
