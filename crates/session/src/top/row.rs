//! How each grouping's rows look.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use engine::columns::{Field, Kind, Schema, Value};
use engine::group::Grouping;
use engine::grouping::{
    ByDestination, ByFlow, ByPair, ByPort, ByProtocol, BySource, FlowTally, Ipv4Pair, Ipv6Pair,
    NoWideKey, ProtocolKey,
};
use engine::table::Tally;
use packet::community_id::CommunityId;
use packet::{FlowDirection, FlowKey, Protocol};

/// A row on its way out.
pub(super) trait Row: Ord + Clone {
    /// Titles of the key columns in a table.
    const TITLES: &'static [&'static str];
    /// What the row adds up.
    fn tally(&self) -> Tally;
    /// The cells of the key columns in a table.
    fn cells(&self) -> Vec<String>;
    /// The values of the whole row, in the order of the schema.
    fn values(&self) -> Vec<Value<'_>>;
}

/// A grouping that can be shown.
pub(super) trait TopGrouping: Grouping {
    type Row: Row;
    const SCHEMA: Schema;
    const WINDOWED_SCHEMA: Schema;
    /// What packets without a key lack.
    const KEY: &'static str;
    const NEEDS_TRANSPORT: bool;
    fn narrow_row(key: &Self::Narrow, value: &Self::Value) -> Self::Row;
    fn wide_row(key: &Self::Wide, value: &Self::Value) -> Self::Row;
    fn tally(value: &Self::Value) -> Tally;
}

pub(super) const WINDOW_START: Field = Field::new(
    "window_start_ns",
    Kind::TimestampNs,
    "Start of the window, nanoseconds since the epoch.",
);
pub(super) const PACKETS: Field = Field::new("packets", Kind::U64, "Packets.");
pub(super) const BYTES: Field =
    Field::new("bytes", Kind::U64, "Bytes on the wire, link header included.");

const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, about)
}

const fn port(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::U16, about)
}

/// Declares the two schemas of a grouping: key columns, then the measures.
macro_rules! schemas {
    ($($field:expr),* $(,)?) => {
        const SCHEMA: Schema = &[$($field,)* PACKETS, BYTES];
        const WINDOWED_SCHEMA: Schema = &[WINDOW_START, $($field,)* PACKETS, BYTES];
    };
}

/// One address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AddressRow(IpAddr, UnorderedTally);

/// Two addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PairRow(IpAddr, IpAddr, UnorderedTally);

/// A protocol, with or without a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PortRow(String, u16, UnorderedTally);

/// A protocol.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProtocolRow(String, UnorderedTally);

/// A conversation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowRow {
    protocol: Protocol,
    source: (IpAddr, u16),
    destination: (IpAddr, u16),
    community_id: CommunityId,
    tally: UnorderedTally,
}

/// A tally that takes no part in the order of keys.
#[derive(Clone, Copy)]
pub(super) struct UnorderedTally(Tally);

impl PartialEq for UnorderedTally {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for UnorderedTally {}
impl PartialOrd for UnorderedTally {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for UnorderedTally {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

fn measures(tally: Tally) -> [Value<'static>; 2] {
    [Value::U64(tally.packets), Value::U64(tally.bytes)]
}

impl Row for AddressRow {
    const TITLES: &'static [&'static str] = &["address"];
    fn tally(&self) -> Tally {
        self.1.0
    }
    fn cells(&self) -> Vec<String> {
        vec![self.0.to_string()]
    }
    fn values(&self) -> Vec<Value<'_>> {
        [Value::Address(self.0)].into_iter().chain(measures(self.1.0)).collect()
    }
}

impl Row for PairRow {
    const TITLES: &'static [&'static str] = &["source", "destination"];
    fn tally(&self) -> Tally {
        self.2.0
    }
    fn cells(&self) -> Vec<String> {
        vec![self.0.to_string(), self.1.to_string()]
    }
    fn values(&self) -> Vec<Value<'_>> {
        [Value::Address(self.0), Value::Address(self.1)]
            .into_iter()
            .chain(measures(self.2.0))
            .collect()
    }
}

impl Row for PortRow {
    const TITLES: &'static [&'static str] = &["protocol", "port"];
    fn tally(&self) -> Tally {
        self.2.0
    }
    fn cells(&self) -> Vec<String> {
        vec![self.0.clone(), self.1.to_string()]
    }
    fn values(&self) -> Vec<Value<'_>> {
        [Value::Str(&self.0), Value::U16(self.1)].into_iter().chain(measures(self.2.0)).collect()
    }
}

impl Row for ProtocolRow {
    const TITLES: &'static [&'static str] = &["protocol"];
    fn tally(&self) -> Tally {
        self.1.0
    }
    fn cells(&self) -> Vec<String> {
        vec![self.0.clone()]
    }
    fn values(&self) -> Vec<Value<'_>> {
        [Value::Str(&self.0)].into_iter().chain(measures(self.1.0)).collect()
    }
}

impl Row for FlowRow {
    const TITLES: &'static [&'static str] = &["protocol", "source", "port", "destination", "port"];
    fn tally(&self) -> Tally {
        self.tally.0
    }
    fn cells(&self) -> Vec<String> {
        vec![
            self.protocol.to_string(),
            self.source.0.to_string(),
            self.source.1.to_string(),
            self.destination.0.to_string(),
            self.destination.1.to_string(),
        ]
    }
    fn values(&self) -> Vec<Value<'_>> {
        let key = [
            Value::Text(&self.community_id),
            Value::Text(&self.protocol),
            Value::Address(self.source.0),
            Value::U16(self.source.1),
            Value::Address(self.destination.0),
            Value::U16(self.destination.1),
        ];
        key.into_iter().chain(measures(self.tally.0)).collect()
    }
}

fn ipv4(address: u32) -> IpAddr {
    Ipv4Addr::from(address).into()
}

fn ipv6(address: u128) -> IpAddr {
    Ipv6Addr::from(address).into()
}

/// The two groupings by one address.
macro_rules! presented_by_address {
    ($grouping:ty, $name:literal, $about:literal, $key:literal) => {
        impl TopGrouping for $grouping {
            type Row = AddressRow;
            schemas![text($name, $about)];
            const KEY: &'static str = $key;
            const NEEDS_TRANSPORT: bool = false;
            fn narrow_row(key: &u32, value: &Tally) -> AddressRow {
                AddressRow(ipv4(*key), UnorderedTally(*value))
            }
            fn wide_row(key: &u128, value: &Tally) -> AddressRow {
                AddressRow(ipv6(*key), UnorderedTally(*value))
            }
            fn tally(value: &Tally) -> Tally {
                *value
            }
        }
    };
}

presented_by_address!(BySource, "src_ip", "Source address.", "an IP source");
presented_by_address!(ByDestination, "dst_ip", "Destination address.", "an IP destination");

impl TopGrouping for ByPair {
    type Row = PairRow;
    schemas![text("src_ip", "Source address."), text("dst_ip", "Destination address.")];
    const KEY: &'static str = "IP addresses";
    const NEEDS_TRANSPORT: bool = false;
    fn narrow_row(key: &Ipv4Pair, value: &Tally) -> PairRow {
        PairRow(ipv4(key.0), ipv4(key.1), UnorderedTally(*value))
    }
    fn wide_row(key: &Ipv6Pair, value: &Tally) -> PairRow {
        PairRow(ipv6(key.0), ipv6(key.1), UnorderedTally(*value))
    }
    fn tally(value: &Tally) -> Tally {
        *value
    }
}

/// The name of a protocol: IANA's keyword, the number of one not known, or an EtherType.
fn protocol_name(key: &ProtocolKey) -> String {
    match key.protocol {
        Some(protocol) => protocol.to_string(),
        None => engine::census::ether_type_name(key.number),
    }
}

impl TopGrouping for ByPort {
    type Row = PortRow;
    schemas![
        text("protocol", "Transport protocol."),
        port("port", "The lower of the two port numbers."),
    ];
    const KEY: &'static str = "ports";
    const NEEDS_TRANSPORT: bool = true;
    fn narrow_row(key: &ProtocolKey, value: &Tally) -> PortRow {
        PortRow(protocol_name(key), key.number, UnorderedTally(*value))
    }
    fn wide_row(_: &NoWideKey, value: &Tally) -> PortRow {
        PortRow(String::new(), 0, UnorderedTally(*value))
    }
    fn tally(value: &Tally) -> Tally {
        *value
    }
}

impl TopGrouping for ByProtocol {
    type Row = ProtocolRow;
    schemas![text("protocol", "IP protocol, or EtherType if there is no IP.")];
    const KEY: &'static str = "a protocol";
    const NEEDS_TRANSPORT: bool = false;
    fn narrow_row(key: &ProtocolKey, value: &Tally) -> ProtocolRow {
        ProtocolRow(protocol_name(key), UnorderedTally(*value))
    }
    fn wide_row(_: &NoWideKey, value: &Tally) -> ProtocolRow {
        ProtocolRow(String::new(), UnorderedTally(*value))
    }
    fn tally(value: &Tally) -> Tally {
        *value
    }
}

impl TopGrouping for ByFlow {
    type Row = FlowRow;
    schemas![
        text("community_id", "Community ID v1, seed 0."),
        text("protocol", "IP protocol."),
        text("src_ip", "Address of the sender of the first packet."),
        port("src_port", "Its port; the message type for ICMP."),
        text("dst_ip", "The other address."),
        port("dst_port", "Its port; the counterpart's type or the code for ICMP."),
    ];
    const KEY: &'static str = "an IP header";
    const NEEDS_TRANSPORT: bool = true;
    fn narrow_row(key: &FlowKey, value: &FlowTally) -> FlowRow {
        let direction = if value.first_is_high_to_low {
            FlowDirection::HighToLow
        } else {
            FlowDirection::LowToHigh
        };
        let (source, destination) = key.endpoints(direction);
        FlowRow {
            protocol: key.protocol(),
            source: (source.address, source.port),
            destination: (destination.address, destination.port),
            community_id: CommunityId(*key),
            tally: UnorderedTally(value.tally),
        }
    }
    fn wide_row(_: &NoWideKey, value: &FlowTally) -> FlowRow {
        Self::narrow_row(&FlowKey::default(), value)
    }
    fn tally(value: &FlowTally) -> Tally {
        value.tally
    }
}
