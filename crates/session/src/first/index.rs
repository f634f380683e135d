//! What stands before the bits: what names a packet's row, or a flow's.

use std::io::Write as _;
use std::net::IpAddr;

use engine::columns::{Field, Kind, Schema, Value};
use engine::flow::FlowRecord;
use packet::community_id::CommunityId;
use packet::{Frame, Layers, Protocol, Timestamp};

use crate::choice::{Choice as _, choice};

choice! {
    /// What names a packet's row, as nPrint has it.
    IndexBy: "index" {
        SrcIp = "src_ip" | "0", "Source address";
        DstIp = "dst_ip" | "1", "Destination address";
        SrcPrt = "src_prt" | "2", "Source port of TCP or UDP, else NULL";
        DstPrt = "dst_prt" | "3", "Destination port of TCP or UDP, else NULL";
        Flow = "flow" | "4", "Addresses, ports and TCP, UDP or NULL, joined by _";
        TxMac = "tx_mac" | "5", "Transmitter of a wireless frame; not read here, always NULL";
    }
}

const fn text(name: &'static str, about: &'static str) -> Field {
    Field::new(name, Kind::Text, about)
}

/// The columns before a flow's bits.
pub const FLOW: Schema = &[
    text("community_id", "Community ID v1, seed 0."),
    text("protocol", "IP protocol."),
    text("src_ip", "Address of the source, which sent the first packet."),
    Field::new("src_port", Kind::U16, "Its port; the message type for ICMP."),
    text("dst_ip", "The other address."),
    Field::new("dst_port", Kind::U16, "Its port; the counterpart's type or the code for ICMP."),
    Field::new("first_ns", Kind::TimestampNs, "Earliest timestamp; empty if the capture has none.")
        .nullable(),
    Field::new(
        "packets",
        Kind::U64,
        "Packets of both directions, including those after the last \
                                      one shown.",
    ),
];

/// Hands the values of [`FLOW`] to `put`.
pub fn of_flow<R>(record: &FlowRecord, put: impl FnOnce(&[Value<'_>]) -> R) -> R {
    let (source, destination) = record.endpoints();
    let (community_id, protocol) = (CommunityId(record.key), record.key.protocol());
    let first = Value::TimestampNs(record.first.as_ns());
    put(&[
        Value::Text(&community_id),
        Value::Text(&protocol),
        Value::Address(source.address),
        Value::U16(source.port),
        Value::Address(destination.address),
        Value::U16(destination.port),
        if record.first == Timestamp::UNKNOWN { Value::Null } else { first },
        Value::U64(record.packets_total()),
    ])
}

/// The columns before a packet's bits.
#[must_use]
pub fn packet_fields(index: IndexBy, relative: bool, absolute: bool) -> Vec<Field> {
    let mut fields = vec![text(index.name(), "Index of the row.")];
    if relative {
        fields.push(Field::new("rts", Kind::F64, "Microseconds since the previous row."));
    }
    if absolute {
        fields.push(Field::new("tv_sec", Kind::U64, "Seconds of the timestamp."));
        fields.push(Field::new("tv_usec", Kind::U32, "Microseconds of the timestamp."));
    }
    fields
}

/// What names packets, one after the other.
pub struct PacketIndex {
    by: IndexBy,
    text: Vec<u8>,
}

/// Source and destination port of TCP or UDP, where the packet has them, and which it is.
type Ports = Option<(u16, u16, &'static str)>;

fn ports(frame: &Frame<'_>) -> Ports {
    let layers = &frame.record.layers;
    let name = match layers.protocol {
        Protocol::TCP => "TCP",
        Protocol::UDP => "UDP",
        _ => return None,
    };
    if layers.has(Layers::LATER_FRAGMENT) {
        return None;
    }
    let end = usize::from(layers.payload_offset).saturating_add(layers.payload_len as usize);
    let bytes = frame.bytes.get(..end).unwrap_or(frame.bytes);
    let &[a, b, c, d] = bytes.get(usize::from(layers.transport_offset)..)?.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), name))
}

impl PacketIndex {
    /// With nothing named yet.
    #[must_use]
    pub const fn new(by: IndexBy) -> Self {
        Self { by, text: Vec::new() }
    }

    /// The text of a packet's index. Where there is nothing, as nPrint has it, `NULL`.
    pub fn of(&mut self, frame: &Frame<'_>) -> &str {
        self.text.clear();
        match self.by {
            IndexBy::SrcIp => self.address(frame.ip_addresses().map(|(source, _)| source)),
            IndexBy::DstIp => self.address(frame.ip_addresses().map(|(_, other)| other)),
            IndexBy::SrcPrt => self.port(ports(frame).map(|(source, ..)| source)),
            IndexBy::DstPrt => self.port(ports(frame).map(|(_, other, _)| other)),
            IndexBy::Flow => {
                let (addresses, ports) = (frame.ip_addresses(), ports(frame));
                self.address(addresses.map(|(source, _)| source));
                self.text.push(b'_');
                self.address(addresses.map(|(_, other)| other));
                self.text.push(b'_');
                self.port(ports.map(|(source, ..)| source));
                self.text.push(b'_');
                self.port(ports.map(|(_, other, _)| other));
                self.text.push(b'_');
                self.text.extend_from_slice(ports.map_or("NULL", |(.., name)| name).as_bytes());
            }
            IndexBy::TxMac => self.text.extend_from_slice(b"NULL"),
        }
        str::from_utf8(&self.text).unwrap_or_default()
    }

    fn address(&mut self, address: Option<IpAddr>) {
        match address {
            Some(IpAddr::V4(address)) => {
                for (place, octet) in address.octets().into_iter().enumerate() {
                    if place > 0 {
                        self.text.push(b'.');
                    }
                    self.number(octet.into());
                }
            }
            // Writing to a vector cannot fail.
            Some(IpAddr::V6(address)) => {
                let _ = write!(self.text, "{address}");
            }
            None => self.text.extend_from_slice(b"NULL"),
        }
    }

    fn port(&mut self, port: Option<u16>) {
        match port {
            Some(port) => self.number(port),
            None => self.text.extend_from_slice(b"NULL"),
        }
    }

    /// Decimal digits, without the formatting machinery.
    fn number(&mut self, number: u16) {
        let mut place = 10_000;
        while place > 1 && number < place {
            place /= 10;
        }
        while place > 0 {
            self.text.push(b'0' + (number / place % 10) as u8);
            place /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_digits() {
        let mut index = PacketIndex::new(IndexBy::SrcPrt);
        for number in [0, 7, 10, 99, 100, 909, 1000, 9999, 10_000, 65_535] {
            index.text.clear();
            index.number(number);
            assert_eq!(str::from_utf8(&index.text).unwrap(), number.to_string());
        }
    }
}
