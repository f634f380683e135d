//! The columns of verdicts.

use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use packet::Timestamp;
use packet::community_id::CommunityIdText;

use crate::cascade::Cascade;
use crate::host::HostVerdict;
use crate::verdict::Verdict;

/// What both kinds of rows tell.
const VERDICT: [Field; 19] = [
    Field::new("community_id", Kind::Text, "Community ID v1, seed 0."),
    Field::new("protocol", Kind::Text, "IP protocol."),
    Field::new("src_ip", Kind::Text, "Address of the source, which sent the first packet."),
    Field::new("src_port", Kind::U16, "Its port; the message type for ICMP."),
    Field::new("dst_ip", Kind::Text, "The other address."),
    Field::new("dst_port", Kind::U16, "Its port; the counterpart's type or the code for ICMP."),
    Field::new(
        "first_ns",
        Kind::TimestampNs,
        "Timestamp of the flow's first packet; empty if the capture has none.",
    )
    .nullable(),
    Field::new(
        "label",
        Kind::Text,
        "Label of the flow: a class of the model; its IP protocol if that has no ports and the \
         model labels such flows by it; or unknown, if the probability is below the threshold.",
    ),
    Field::new(
        "confidence",
        Kind::F64,
        "Probability that the label is right, as calibrated in training; empty for unknown.",
    )
    .nullable(),
    Field::new("guess", Kind::Text, "Likeliest class, also if the label is unknown."),
    Field::new("guess_confidence", Kind::F64, "Probability that the likeliest class is right."),
    Field::new(
        "stage",
        Kind::Text,
        "Model that decided: fastest, fast or slow; none if the IP protocol did.",
    ),
    Field::new("packets_used", Kind::U16, "Packets of the flow that the model used."),
    Field::new(
        "decided_ns",
        Kind::TimestampNs,
        "Event time of the deciding packet, or of what showed that no more would come; empty if \
         the capture has no timestamps.",
    )
    .nullable(),
    Field::new("wait_ns", Kind::U64, "Time from the first packet to that."),
    Field::new(
        "latency_ns",
        Kind::U64,
        "Latency from the deciding frame becoming readable to the verdict, by the clock; empty \
         unless a frame decided on an interface or in a replay with --pace.",
    )
    .nullable(),
    Field::new(
        "cause",
        Kind::Text,
        "Reason for deciding then: confident, last-stage, ended, waited, full, protocol or unanswered.",
    ),
    Field::new("model", Kind::Text, "Name of the cascade, and the start of its SHA-256."),
    Field::new(
        "other_segmentation",
        Kind::I8,
        "1 if a packet was merged by an offload and none was in training, else 0.",
    ),
];

/// What either kind has last where several captures are read.
pub const CAPTURE: [Field; 1] = [Field::new(
    "capture",
    Kind::Text,
    "Capture of the flow's first packet, if a folder or several captures are read; empty for those \
     after the 65,535th.",
)
.nullable()];

/// The columns of a window's row before that.
const WINDOW: [Field; 1] = [Field::new(
    "window_start_ns",
    Kind::TimestampNs,
    "Start of the window; empty if the capture has no timestamps.",
)
.nullable()];

/// A row for each flow; with its capture.
pub const SCHEMAS: [Schema; 2] = [&VERDICT, &joined::<20>(&VERDICT, &CAPTURE)];

/// A row for each window of each flow; what is of a flow's first packet is of its first one, what
/// is of packets of those in the window.
pub const WINDOW_SCHEMAS: [Schema; 2] =
    [&joined::<20>(&WINDOW, &VERDICT), &joined::<21>(&joined::<20>(&WINDOW, &VERDICT), &CAPTURE)];

/// A row for each host, whenever its label changes and at the end.
pub const HOST_SCHEMA: Schema = &[
    Field::new("host", Kind::Text, "Address of the host, the source of its flows."),
    Field::new(
        "label",
        Kind::Text,
        "Label of the host: a class of the model, or unknown, if no class has half of its flows.",
    ),
    Field::new(
        "confidence",
        Kind::F64,
        "Smoothed share of the label among the host's flows, recent ones first; empty for unknown.",
    )
    .nullable(),
    Field::new("guess", Kind::Text, "Likeliest class, also if the label is unknown."),
    Field::new("guess_confidence", Kind::F64, "Smoothed share of the likeliest class."),
    Field::new("flow_count", Kind::U64, "Flows of the host that the model has decided so far."),
    Field::new(
        "first_ns",
        Kind::TimestampNs,
        "Timestamp of the first packet of the first of them; empty if the capture has none.",
    )
    .nullable(),
    Field::new(
        "decided_ns",
        Kind::TimestampNs,
        "Event time of the last verdict on a flow that counts here; empty if the capture has no \
         timestamps.",
    )
    .nullable(),
    Field::new("model", Kind::Text, "Name of the cascade, and the start of its SHA-256."),
];

const fn joined<const N: usize>(first: &[Field], second: &[Field]) -> [Field; N] {
    let mut fields = [WINDOW[0]; N];
    let mut place = 0;
    while place < N {
        let (is_first, after) = (place < first.len(), place.saturating_sub(first.len()));
        fields[place] = if is_first { first[place] } else { second[after] };
        place += 1;
    }
    fields
}

impl Cascade {
    /// The columns of its verdicts, with the capture or without.
    #[must_use]
    pub const fn schema(&self, has_capture: bool) -> Schema {
        let schemas = if self.every.is_some() { WINDOW_SCHEMAS } else { SCHEMAS };
        schemas[has_capture as usize]
    }
}

/// Appends a verdict; `capture` where there is a column for it.
///
/// # Errors
/// [`RowMismatch`] where columns hold over 4 GiB of text.
pub fn push(
    columns: &mut Columns,
    cascade: &Cascade,
    verdict: &Verdict,
    capture: Option<Value<'_>>,
) -> Result<(), RowMismatch> {
    let (source, destination) = verdict.key.endpoints(verdict.direction);
    let protocol = verdict.key.protocol();
    let (label, guess) = (verdict.label.name(cascade), verdict.label.guess(cascade));
    let confidence = Value::F64(verdict.confidence);
    let id = CommunityIdText::new(&verdict.key, 0);
    let row = [
        verdict.window.map_or(Value::Null, known),
        Value::Str(id.as_str()),
        protocol.name().map_or(Value::Text(&protocol), Value::Str),
        Value::Address(source.address),
        Value::U16(source.port),
        Value::Address(destination.address),
        Value::U16(destination.port),
        known(verdict.first),
        Value::Str(&label),
        if verdict.label.is_unknown() { Value::Null } else { confidence },
        Value::Str(&guess),
        confidence,
        Value::Str(verdict.stage_name()),
        Value::U16(verdict.packets_used),
        known(verdict.decided),
        Value::U64(verdict.wait_ns()),
        verdict.latency_ns.map(Value::U64).into(),
        Value::Str(verdict.cause.name()),
        Value::Str(cascade.id()),
        Value::I8(verdict.other_segmentation.into()),
        capture.unwrap_or(Value::Null),
    ];
    let wanted = usize::from(verdict.window.is_none())..row.len() - usize::from(capture.is_none());
    columns.push_row(row.get(wanted).unwrap_or_default())
}

/// Appends a verdict on a host.
///
/// # Errors
/// [`RowMismatch`] where columns hold over 4 GiB of text.
pub fn push_host(
    columns: &mut Columns,
    cascade: &Cascade,
    verdict: &HostVerdict,
) -> Result<(), RowMismatch> {
    let (label, guess) = (verdict.label.name(cascade), verdict.label.guess(cascade));
    let confidence = Value::F64(verdict.confidence);
    columns.push_row(&[
        Value::Address(verdict.host),
        Value::Str(&label),
        if verdict.label.is_unknown() { Value::Null } else { confidence },
        Value::Str(&guess),
        confidence,
        Value::U64(verdict.flow_count),
        known(verdict.first),
        known(verdict.decided),
        Value::Str(cascade.id()),
    ])
}

/// A stamp, where there is one.
fn known<'a>(stamp: Timestamp) -> Value<'a> {
    if stamp == Timestamp::UNKNOWN { Value::Null } else { Value::TimestampNs(stamp.as_ns()) }
}
