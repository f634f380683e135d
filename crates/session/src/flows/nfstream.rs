//! The columns of flows under NFStream's names, in its units and order.
//!
//! Those of `NFStreamer(statistical_analysis=True)`, version 6, without what nDPI detects. Where
//! there is nothing to measure, such as the gaps of a single packet, both have 0.

use classify::columns::CAPTURE;
use engine::columns::{Columns, Field, RowMismatch, Schema, Value};
use engine::flow::{EndReason, FlowRecord, FlowStatistics, Spread};
use packet::Timestamp;
use packet::wire::ethernet::MacAddress;

use super::row::{Row, count, joined, real, small, text, vlan};
use crate::captures::Captures;

const NS_PER_MS: i64 = 1_000_000;

const FLOW: [Field; 16] = [
    count("id", "Number of the flow, from 0 in the order of the rows."),
    small("expiration_id", "0 if it ended by itself or with the input, 1 if it was split."),
    text("src_ip", "Address of the source, which sent the first packet."),
    text("src_mac", "MAC address of the source in the first frame.").nullable(),
    text("src_oui", "Its first three bytes, which name the vendor.").nullable(),
    small("src_port", "Its port."),
    text("dst_ip", "The other address."),
    text("dst_mac", "MAC address of the destination in the first frame.").nullable(),
    text("dst_oui", "Its first three bytes, which name the vendor.").nullable(),
    small("dst_port", "Its port."),
    small("protocol", "Number of the IP protocol."),
    small("ip_version", "4 or 6."),
    small("vlan_id", "Outermost VLAN of the first packet, or 0."),
    count("bidirectional_first_seen_ms", "Earliest timestamp, milliseconds since the epoch."),
    count("bidirectional_last_seen_ms", "Latest timestamp, milliseconds since the epoch."),
    count("bidirectional_duration_ms", "Time between the two."),
];

/// Columns of one side's packets, sizes, gaps or flags.
macro_rules! side {
    (totals $side:literal) => {
        [
            count(concat!($side, "_packets"), "Packets."),
            count(concat!($side, "_bytes"), "Bytes on the wire, link header included."),
        ]
    };
    (times $side:literal) => {
        [
            count(concat!($side, "_first_seen_ms"), "Earliest timestamp of this direction, or 0."),
            count(concat!($side, "_last_seen_ms"), "Latest timestamp of this direction, or 0."),
            count(concat!($side, "_duration_ms"), "Time between the two."),
        ]
    };
    (sizes $side:literal) => {
        [
            count(concat!($side, "_min_ps"), "Bytes of the smallest packet."),
            real(concat!($side, "_mean_ps"), "Mean bytes of a packet."),
            real(concat!($side, "_stddev_ps"), "Standard deviation of the bytes (n − 1)."),
            count(concat!($side, "_max_ps"), "Bytes of the largest packet."),
        ]
    };
    (gaps $side:literal) => {
        [
            count(concat!($side, "_min_piat_ms"), "Smallest time between two packets."),
            real(concat!($side, "_mean_piat_ms"), "Mean time between two packets."),
            real(concat!($side, "_stddev_piat_ms"), "Standard deviation of the times (n − 1)."),
            count(concat!($side, "_max_piat_ms"), "Largest time between two packets."),
        ]
    };
    (flags $side:literal) => {
        side!(@ $side: "syn" "cwr" "ece" "urg" "ack" "psh" "rst" "fin")
    };
    (@ $side:literal: $($flag:literal)*) => {
        [$(count(concat!($side, "_", $flag, "_packets"), "Packets with this TCP flag.")),*]
    };
}

const COLUMNS: [Field; 76] = joined(&[
    &FLOW,
    &side!(totals "bidirectional"),
    &side!(times "src2dst"),
    &side!(totals "src2dst"),
    &side!(times "dst2src"),
    &side!(totals "dst2src"),
    &side!(sizes "bidirectional"),
    &side!(sizes "src2dst"),
    &side!(sizes "dst2src"),
    &side!(gaps "bidirectional"),
    &side!(gaps "src2dst"),
    &side!(gaps "dst2src"),
    &side!(flags "bidirectional"),
    &side!(flags "src2dst"),
    &side!(flags "dst2src"),
]);

/// Without the capture, and with it.
pub(super) const SCHEMAS: [Schema; 2] = [&COLUMNS, &joined::<77>(&[&COLUMNS, &CAPTURE])];

/// Characters of an OUI, `00:00:5e`.
const OUI_LEN: usize = 8;

/// Bits of the flags in NFStream's order.
const FLAG_BITS: [usize; 8] = [1, 7, 6, 5, 4, 3, 2, 0];

/// Appends a flow with its number.
pub(super) fn push(
    columns: &mut Columns,
    number: u64,
    record: &FlowRecord,
    (kept, macs): (&FlowStatistics, [Option<MacAddress>; 2]),
    captures: &Captures,
) -> Result<(), RowMismatch> {
    let (source, destination) = record.endpoints();
    let is_cut = matches!(record.reason, EndReason::Active | EndReason::Window);
    let sides = kept.sides(record.direction);
    let macs = macs.map(|mac| mac.map(|mac| mac.to_string()));
    let mac = |side: usize| {
        let text = macs.get(side).and_then(Option::as_deref);
        let oui = text.and_then(|text| text.get(..OUI_LEN));
        [text, oui].map(|text| text.map(Value::Str).into())
    };
    let mut row = Row::new();
    row.extend([Value::U64(number), Value::U16(u16::from(is_cut)), Value::Address(source.address)]);
    row.extend(mac(0));
    row.extend([Value::U16(source.port), Value::Address(destination.address)]);
    row.extend(mac(1));
    row.extend([
        Value::U16(destination.port),
        Value::U16(record.key.protocol().0.into()),
        Value::U16(if record.key.is_ipv6() { 6 } else { 4 }),
        Value::U16(vlan(record).unwrap_or(0)),
    ]);
    row.extend(times(Some((record.first, record.last))));
    row.extend([Value::U64(record.packets_total()), Value::U64(record.bytes_total())]);
    for (side, statistics) in sides.iter().enumerate() {
        row.extend(times(statistics.span));
        row.extend([Value::U64(record.packets[side].into()), Value::U64(record.bytes[side])]);
    }
    for sizes in [kept.sizes(), sides[0].sizes, sides[1].sizes] {
        row.extend(spread(&sizes, 1.0));
    }
    #[allow(clippy::cast_precision_loss)]
    for gaps in [kept.gaps(), &sides[0].gaps, &sides[1].gaps] {
        row.extend(spread(gaps, NS_PER_MS as f64));
    }
    let flags = |bit: usize| sides.map(|side| u64::from(side.flag_packets[bit]));
    row.extend(FLAG_BITS.iter().map(|&bit| Value::U64(flags(bit).iter().sum())));
    row.extend(FLAG_BITS.iter().map(|&bit| Value::U64(flags(bit)[0])));
    row.extend(FLAG_BITS.iter().map(|&bit| Value::U64(flags(bit)[1])));
    row.extend(captures.value(record.input));
    columns.push_row(row.values())
}

fn times<'a>(span: Option<(Timestamp, Timestamp)>) -> [Value<'a>; 3] {
    let ms = |time: Timestamp| u64::try_from(time.as_ns().div_euclid(NS_PER_MS)).unwrap_or(0);
    let (first, last) = span.map_or((0, 0), |(first, last)| (ms(first), ms(last)));
    [first, last, last.saturating_sub(first)].map(Value::U64)
}

/// Smallest, mean, deviation and largest in a larger unit; whole numbers are cut.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn spread<'a>(spread: &Spread, unit: f64) -> [Value<'a>; 4] {
    let whole = |number: Option<u64>| Value::U64(number.unwrap_or(0) / unit as u64);
    let real = |number: Option<f64>| Value::F64(number.unwrap_or(0.0) / unit);
    [
        whole(spread.smallest()),
        real(spread.mean()),
        real(spread.deviation()),
        whole(spread.largest()),
    ]
}
