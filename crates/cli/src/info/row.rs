//! A capture as one row, for tables of many captures.

use engine::census::{Census, Feature, NetworkName};
use engine::columns::{Columns, Field, Kind, RowMismatch, Schema, Value};
use engine::table::Tally;
use packet::Protocol;

use super::Capture;
use super::report::format_name;

const fn count(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U64, about)
}

const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, about)
}

const fn time(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::TimestampNs, about)
}

/// The columns of `info`.
pub(crate) const SCHEMA: Schema = &[
    text("capture", "Name of the capture, as given."),
    text("format", "pcap or pcapng, with byte order and time resolution."),
    text("link_types", "Link types of its frames, joined by spaces."),
    count("interfaces", "Interfaces it describes."),
    time("first_ns", "Earliest timestamp; empty if the capture has none.").nullable(),
    time("last_ns", "Latest timestamp; empty if the capture has none.").nullable(),
    count("packets", "Frames."),
    count("bytes", "Bytes on the wire."),
    count("captured_bytes", "Captured bytes."),
    count("shortened_packets", "Truncated frames."),
    count("cut_packets", "Frames truncated within their headers."),
    count("backwards_packets", "Frames with a timestamp before that of the previous frame."),
    count("ipv4_packets", "Frames whose innermost network layer is IPv4."),
    count("ipv6_packets", "Frames whose innermost network layer is IPv6."),
    count("arp_packets", "Frames that carry ARP."),
    count("other_packets", "Frames of other network layers, or of none that can be decoded."),
    count("tcp_packets", "IP packets that carry TCP."),
    count("udp_packets", "IP packets that carry UDP."),
    count("icmp_packets", "IP packets that carry ICMP or ICMPv6."),
    count("vlan_packets", "Frames with an 802.1Q or 802.1ad tag."),
    count("fragment_packets", "Fragments of IP packets."),
    count("tunnelled_packets", "Frames in which a tunnel was decapsulated."),
    count("malformed_packets", "Frames with a malformed header."),
    text("malformed_causes", "Causes with their counts, as cause=count, joined by spaces."),
    count("undecoded_packets", "Frames of link types that are not decoded."),
    count(
        "clamped_packets",
        "Frames with a timestamp outside 1677 to 2262, clamped to this range.",
    ),
    text("damage", "Why it could not be read to its end; empty if it could."),
];

/// Appends a capture's row.
pub(super) fn push(rows: &mut Columns, capture: &Capture) -> Result<(), RowMismatch> {
    let Capture { name, source, census, .. } = capture;
    let decoder = source.decoder();
    let links = joined(census.links.keys().map(ToString::to_string));
    let causes = joined(census.malformed.iter().map(|(cause, count)| format!("{cause}={count}")));
    let damage = source.report().damage.as_ref().map(ToString::to_string).unwrap_or_default();
    let stamp = |stamp: packet::Timestamp| {
        if census.has_time() { Value::TimestampNs(stamp.as_ns()) } else { Value::Null }
    };
    let counts = counts(census).map(Value::U64);
    let format = format_name(decoder.format());
    let mut values = vec![
        Value::Text(name),
        Value::Text(&format),
        Value::Text(&links),
        Value::U64(decoder.interfaces().len() as u64),
        stamp(census.first),
        stamp(census.last),
    ];
    values.extend(counts);
    let undecoded = census.links.iter().filter(|(link, _)| !link.is_decoded());
    values.extend([
        Value::Text(&causes),
        Value::U64(undecoded.map(|(_, tally)| tally.packets).sum()),
        Value::U64(source.report().clamped_stamps),
        Value::Text(&damage),
    ]);
    rows.push_row(&values)
}

/// The counts from `packets` to `malformed_packets`.
fn counts(census: &Census) -> [u64; 17] {
    let packets = |tally: Option<&Tally>| tally.map_or(0, |tally| tally.packets);
    let network = |name| packets(census.networks.get(&name));
    let protocol = |protocol| packets(census.protocols.get(&protocol));
    let [ipv4, ipv6, arp] = [NetworkName::Ipv4, NetworkName::Ipv6, NetworkName::Arp].map(network);
    let is_tunnel = |(feature, _): &(&Feature, &Tally)| matches!(feature, Feature::Tunnel(_));
    [
        census.total.packets,
        census.total.bytes,
        census.captured_bytes,
        census.shortened,
        census.cut,
        census.backwards,
        ipv4,
        ipv6,
        arp,
        census.total.packets - ipv4 - ipv6 - arp,
        protocol(Protocol::TCP),
        protocol(Protocol::UDP),
        protocol(Protocol::ICMP) + protocol(Protocol::ICMPV6),
        packets(census.features.get(&Feature::Vlan)),
        packets(census.features.get(&Feature::Fragment)),
        census.features.iter().filter(is_tunnel).map(|(_, tally)| tally.packets).sum(),
        census.malformed.total(),
    ]
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(" ")
}
