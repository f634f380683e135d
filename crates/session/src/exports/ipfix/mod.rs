//! Flows as IPFIX messages (RFC 7011), to a file (RFC 5655) or a collector.
//!
//! Each direction is a record of its own unless both are asked for in one (RFC 5103). Elements are
//! IANA's alone; with an enterprise number of one's own there are Community ID (1) and, where a
//! model classifies, its label (2) and confidence (3) as well. Time is that of packets, also in the
//! header of messages: the same capture gives the same bytes.

mod template;
mod to;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;

use packet::event_time::EventTime;
use packet::wire::ethernet::MacAddress;
use packet::wire::{icmp, icmpv6};
use packet::{Span, Timestamp};

use super::Records;
use super::row::FlowRow;
use crate::outlet::RowsError;
use template::{Extras, Field, Kind};
use to::To;
pub use to::is_collector;

/// IPFIX (RFC 7011, section 3.1).
const VERSION: u16 = 10;
const HEADER_LEN: usize = 16;
const SET_HEADER_LEN: usize = 4;
const TEMPLATE_SET: u16 = 2;

/// Templates are re-sent after so many messages to where messages may be lost.
const MESSAGES_PER_TEMPLATES: u64 = 20;

/// Or after this time of packets.
const TEMPLATES_EVERY_S: u32 = 60;

/// Flows that ended so long before the latest are after a wrong stamp, as where files rotate.
const FLOWS_BACK: Span = Span::from_seconds(86_400);

/// Whether an enterprise number is no one's own: under 29305, elements are IANA's of the other
/// direction, and a private one would be read as one of those.
pub(super) const fn is_reserved(enterprise: u32) -> bool {
    matches!(enterprise, 0 | template::REVERSE)
}

/// What may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Choices {
    pub(super) is_biflow: bool,
    pub(super) enterprise: Option<u32>,
    pub(super) has_macs: bool,
    pub(super) has_verdict: bool,
}

/// Messages on their way.
pub(super) struct Ipfix {
    to: To,
    is_biflow: bool,
    has_macs: bool,
    extras: Extras,
    protocols: HashMap<String, u8>,
    /// The message that grows, its header left blank.
    message: Vec<u8>,
    /// The template of its last set, and where that begins.
    set: Option<(u16, usize)>,
    records_in_message: u32,
    /// Records sent before this message.
    sequence: u32,
    /// Times at which flows ended.
    time: EventTime,
    /// When templates were last sent, in messages and in time; none before.
    templates: Option<(u64, u32)>,
    flows: u64,
    records: u64,
    messages: u64,
}

/// One direction of a flow, as a record has it.
struct Side {
    source: usize,
    destination: usize,
}

impl Ipfix {
    pub(super) fn create(path: &Path, force: bool, choices: Choices) -> Result<Self, RowsError> {
        let Choices { is_biflow, enterprise, has_macs, has_verdict } = choices;
        let mut ipfix = Self {
            to: To::open(path, force)?,
            is_biflow,
            has_macs,
            extras: Extras { enterprise, has_verdict },
            protocols: super::protocol_numbers(),
            message: vec![0; HEADER_LEN],
            set: None,
            records_in_message: 0,
            sequence: 0,
            time: EventTime::new(FLOWS_BACK),
            templates: None,
            flows: 0,
            records: 0,
            messages: 0,
        };
        if !ipfix.to.is_lossy() {
            ipfix.put_templates()?;
        }
        Ok(ipfix)
    }

    /// Appends all templates, in as many messages as they take.
    fn put_templates(&mut self) -> Result<(), RowsError> {
        for kind in Kind::all(self.is_biflow, self.has_macs) {
            let mut record = Vec::new();
            kind.push(&mut record, self.extras);
            self.append(TEMPLATE_SET, &record)?;
        }
        self.templates = Some((self.messages, self.latest_s()));
        Ok(())
    }

    /// The latest stamp of a flow in seconds, as the header has it: until 2106.
    fn latest_s(&self) -> u32 {
        let ns = self.time.latest().as_ns();
        u32::try_from(ns.div_euclid(1_000_000_000)).unwrap_or_default()
    }

    fn templates_are_due(&self) -> bool {
        let Some((messages, seconds)) = self.templates else { return true };
        let since_s = i64::from(self.latest_s()) - i64::from(seconds);
        self.to.is_lossy()
            && (self.messages >= messages + MESSAGES_PER_TEMPLATES
                || !(0..TEMPLATES_EVERY_S.into()).contains(&since_s))
    }

    /// Appends a record to a set of this number, in the next message where this one is full.
    fn append(&mut self, set: u16, record: &[u8]) -> Result<(), RowsError> {
        let len = self.message.len() + SET_HEADER_LEN + record.len();
        if len > self.to.message_len_max() && self.message.len() > HEADER_LEN {
            self.send()?;
        }
        if self.set.is_none_or(|(open, _)| open != set) {
            self.set = Some((set, self.message.len()));
            self.message.extend(set.to_be_bytes());
            self.message.extend([0, 0]);
        }
        self.message.extend(record);
        if let Some((_, begin)) = self.set {
            let len = (self.message.len() - begin) as u16;
            write_at(&mut self.message, begin + 2, &len.to_be_bytes());
        }
        Ok(())
    }

    /// Sends the message, if there is anything in it.
    fn send(&mut self) -> Result<(), RowsError> {
        /// One observer, one domain.
        const DOMAIN: u32 = 0;
        if self.message.len() <= HEADER_LEN {
            return Ok(());
        }
        let len = self.message.len() as u16;
        let header = [
            &VERSION.to_be_bytes()[..],
            &len.to_be_bytes(),
            &self.latest_s().to_be_bytes(),
            &self.sequence.to_be_bytes(),
            &DOMAIN.to_be_bytes(),
        ];
        write_at(&mut self.message, 0, &header.concat());
        self.to.send(&self.message)?;
        self.message.truncate(HEADER_LEN);
        self.set = None;
        self.sequence = self.sequence.wrapping_add(self.records_in_message);
        self.records_in_message = 0;
        self.messages += 1;
        Ok(())
    }

    fn put_record(&mut self, flow: &FlowRow<'_>, side: &Side, kind: Kind) -> Result<(), RowsError> {
        let mut record = Vec::with_capacity(128);
        for field in kind.fields(self.extras) {
            self.push(&mut record, field, flow, side);
        }
        self.append(kind.id(), &record)?;
        self.records_in_message += 1;
        self.records += 1;
        Ok(())
    }

    fn push(&self, record: &mut Vec<u8>, field: Field, flow: &FlowRow<'_>, side: &Side) {
        let &Side { source, destination } = side;
        let span = |of: usize| flow.spans_ns[of].unwrap_or_default();
        match field {
            Field::SourceAddress => push_address(record, flow, source),
            Field::DestinationAddress => push_address(record, flow, destination),
            Field::SourcePort => record.extend(flow.ports[source].to_be_bytes()),
            Field::DestinationPort => record.extend(flow.ports[destination].to_be_bytes()),
            Field::IcmpTypeCode => record.extend(icmp_type_code(flow, source).to_be_bytes()),
            Field::Protocol => {
                record.push(self.protocols.get(flow.protocol).copied().unwrap_or_default());
            }
            Field::Octets => record.extend(flow.ip_bytes[source].to_be_bytes()),
            Field::Packets => record.extend(flow.packets[source].to_be_bytes()),
            Field::TcpFlags => record.extend(flow.tcp_flags[source].to_be_bytes()),
            Field::Start => record.extend(milliseconds(span(source).0)),
            Field::End => record.extend(milliseconds(span(source).1)),
            Field::EndReason => record.push(end_reason(flow.end_reason)),
            Field::Vlan => record.extend(flow.vlan.unwrap_or_default().to_be_bytes()),
            Field::SourceMac => record.extend(mac(flow, source).0),
            Field::DestinationMac => record.extend(mac(flow, destination).0),
            // The source is who sent the first packet: the initiator, as far as was seen.
            Field::Direction => record.push(1),
            Field::ReverseOctets => record.extend(flow.ip_bytes[destination].to_be_bytes()),
            Field::ReversePackets => record.extend(flow.packets[destination].to_be_bytes()),
            Field::ReverseTcpFlags => record.extend(flow.tcp_flags[destination].to_be_bytes()),
            Field::ReverseStart => record.extend(milliseconds(span(destination).0)),
            Field::ReverseEnd => record.extend(milliseconds(span(destination).1)),
            Field::CommunityId => push_text(record, flow.community_id),
            Field::Label => push_text(record, flow.verdict.map_or("", |verdict| verdict.label)),
            Field::Confidence => {
                let confidence = flow.verdict.and_then(|verdict| verdict.confidence);
                record.extend(confidence.unwrap_or(f64::NAN).to_be_bytes());
            }
        }
    }
}

/// The MAC address of a side; templates with one are of flows that have both.
fn mac(flow: &FlowRow<'_>, side: usize) -> MacAddress {
    flow.macs.get(side).copied().flatten().and_then(MacAddress::parse).unwrap_or_default()
}

impl Records for Ipfix {
    fn put(&mut self, flow: &FlowRow<'_>) -> Result<(), RowsError> {
        self.time.on_packet(flow.last_ns.map_or(Timestamp::UNKNOWN, Timestamp::from_ns));
        if self.templates_are_due() {
            self.send()?;
            self.put_templates()?;
        }
        self.flows += 1;
        let kind = Kind {
            is_ipv6: flow.is_ipv6(),
            is_icmp: flow.is_icmp(),
            has_vlan: flow.vlan.is_some(),
            has_reverse: false,
            has_macs: flow.macs.iter().all(Option::is_some),
        };
        let is_answered = flow.packets[1] > 0;
        let forward = Side { source: 0, destination: 1 };
        if self.is_biflow {
            return self.put_record(flow, &forward, Kind { has_reverse: is_answered, ..kind });
        }
        self.put_record(flow, &forward, kind)?;
        if is_answered {
            self.put_record(flow, &Side { source: 1, destination: 0 }, kind)?;
        }
        Ok(())
    }

    fn size_bytes(&self) -> u64 {
        self.to.size_bytes() + self.message.len() as u64
    }

    fn write_out(&mut self) -> Result<(), RowsError> {
        self.send()
    }

    fn reopen(&mut self) -> Result<(), RowsError> {
        self.send()?;
        if self.to.reopen()? {
            self.sequence = 0;
            self.put_templates()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<String, RowsError> {
        self.send()?;
        let Self { to, flows, records, messages, .. } = *self;
        let is_file = matches!(to, To::File(_));
        let refused = to.finish()?;
        let line = format!(
            "ipfix: {flows} flows in {records} records, {messages} messages, {refused} of them \
             refused"
        );
        if refused > 0 {
            return Err(RowsError::Lost(format!(
                "{line}: what is in these is lost; wanted: a collector that listens there, or \
                 tcp://, over which a run ends where there is none"
            )));
        }
        Ok(if is_file { String::new() } else { line })
    }
}

fn write_at(bytes: &mut [u8], begin: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(begin..begin + value.len()) {
        place.copy_from_slice(value);
    }
}

fn push_address(record: &mut Vec<u8>, flow: &FlowRow<'_>, side: usize) {
    match (flow.ips[side].parse(), flow.is_ipv6()) {
        (Ok(IpAddr::V4(address)), false) => record.extend(address.octets()),
        (Ok(IpAddr::V6(address)), true) => record.extend(address.octets()),
        (Ok(IpAddr::V4(address)), true) => record.extend(address.to_ipv6_mapped().octets()),
        (_, false) => record.extend([0; 4]),
        (_, true) => record.extend([0; 16]),
    }
}

/// A text that says its length, in three bytes where one is not enough (RFC 7011, section 7).
fn push_text(record: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes().get(..usize::from(u16::MAX)).unwrap_or(text.as_bytes());
    match u8::try_from(bytes.len()) {
        Ok(len) if len < u8::MAX => record.push(len),
        _ => {
            record.push(u8::MAX);
            record.extend((bytes.len() as u16).to_be_bytes());
        }
    }
    record.extend(bytes);
}

/// Type and code of what this side sends. Messages that ask, and their answers, have code 0.
fn icmp_type_code(flow: &FlowRow<'_>, source: usize) -> u16 {
    let [kind, other] = flow.ports;
    let counterpart = u8::try_from(kind).ok().and_then(|kind| match flow.is_ipv6() {
        false => icmp::counterpart(kind),
        true => icmpv6::counterpart(kind),
    });
    match counterpart {
        Some(_) => flow.ports[source] << 8,
        None => kind << 8 | other & 0xff,
    }
}

fn milliseconds(ns: i64) -> [u8; 8] {
    u64::try_from(ns.div_euclid(1_000_000)).unwrap_or_default().to_be_bytes()
}

/// The numbers of `flowEndReason`.
fn end_reason(reason: &str) -> u8 {
    match reason {
        "idle" => 1,
        "active" | "window" => 2,
        "fin" | "rst" => 3,
        "emergency" | "evicted" => 5,
        // The input has ended.
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Export, Form, Options, Style};
    use super::*;

    fn flow() -> FlowRow<'static> {
        FlowRow {
            community_id: "1:abc=",
            protocol: "tcp",
            ips: ["192.0.2.1", "198.51.100.2"],
            ports: [40_000, 443],
            first_ns: Some(1_000_000_000_000),
            last_ns: Some(1_002_500_000_000),
            packets: [3, 2],
            ip_bytes: [300, 200],
            spans_ns: [Some((0, 1_000_000)), Some((2_000_000, 3_000_000))],
            end_reason: "fin",
            ..FlowRow::default()
        }
    }

    fn written(choices: Choices, flows: &[FlowRow<'_>]) -> Vec<u8> {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("flows.ipfix");
        let mut ipfix = Box::new(Ipfix::create(&path, false, choices).unwrap());
        flows.iter().for_each(|flow| ipfix.put(flow).unwrap());
        ipfix.finish().unwrap();
        std::fs::read(path).unwrap()
    }

    /// Number and length of each set of each message; every length adds up.
    fn sets(mut bytes: &[u8]) -> Vec<(u16, usize)> {
        let number = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let (message, rest) = bytes.split_at(number(bytes, 2).into());
            assert_eq!(number(message, 0), VERSION);
            let mut sets = &message[HEADER_LEN..];
            while !sets.is_empty() {
                let (set, others) = sets.split_at(number(sets, 2).into());
                found.push((number(set, 0), set.len()));
                sets = others;
            }
            bytes = rest;
        }
        found
    }

    #[test]
    fn each_direction_is_a_record_unless_both_are_asked_for_in_one() {
        let record = 4 + 4 + 2 + 2 + 1 + 8 + 8 + 2 + 8 + 8 + 1;
        let found = sets(&written(Choices::default(), &[flow()]));
        assert_eq!(found.last(), Some(&(256, SET_HEADER_LEN + 2 * record)));
        let biflow = Choices { is_biflow: true, ..Choices::default() };
        let found = sets(&written(biflow, &[flow()]));
        let both = record + 1 + 8 + 8 + 2 + 8 + 8;
        assert_eq!(found.last(), Some(&(264, SET_HEADER_LEN + both)));
        let alone = FlowRow { packets: [3, 0], ..flow() };
        let found = sets(&written(biflow, &[alone]));
        assert_eq!(found.last(), Some(&(256, SET_HEADER_LEN + record)));
    }

    #[test]
    fn messages_are_no_longer_than_their_length_can_tell() {
        let many = vec![flow(); 5000];
        let bytes = written(Choices { enterprise: Some(32_473), ..Choices::default() }, &many);
        let found = sets(&bytes);
        let records: usize =
            found.iter().filter(|(id, _)| *id == 256).map(|(_, len)| (len - 4) / (48 + 7)).sum();
        assert_eq!(records, 10_000);
    }

    #[test]
    fn one_wrong_stamp_is_not_the_time_of_all_that_follows() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("flows.ipfix");
        let mut ipfix = Box::new(Ipfix::create(&path, false, Choices::default()).unwrap());
        for last_s in [1002, 4_000_000_000, 1003] {
            let last_ns = Some(last_s * 1_000_000_000);
            ipfix.put(&FlowRow { last_ns, ..flow() }).unwrap();
            ipfix.write_out().unwrap();
        }
        ipfix.finish().unwrap();
        let (mut bytes, mut times) = (std::fs::read(path).unwrap(), Vec::new());
        while let [_, _, high, low, a, b, c, d, ..] = bytes[..] {
            times.push(u32::from_be_bytes([a, b, c, d]));
            bytes.drain(..usize::from(u16::from_be_bytes([high, low])));
        }
        assert_eq!(times, [1002, 4_000_000_000, 1003]);
    }

    #[test]
    fn every_message_that_nothing_listens_for_is_counted_and_said() {
        for count in [1, 2, 5] {
            // A port that was free a moment ago.
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            let collector = format!("udp://{}", socket.local_addr().unwrap());
            drop(socket);
            let choices = Choices::default();
            let mut ipfix = Box::new(Ipfix::create(Path::new(&collector), false, choices).unwrap());
            for _ in 0..count {
                ipfix.put(&flow()).unwrap();
                ipfix.write_out().unwrap();
            }
            let lost = ipfix.finish().unwrap_err();
            let RowsError::Lost(what) = lost else { panic!("{lost}") };
            let wanted = format!("{count} messages, {count} of them refused");
            assert!(what.contains(&wanted), "{what}");
        }
    }

    #[test]
    fn private_elements_have_no_reserved_number() {
        let is_taken = |number| {
            let options = Options { enterprise: Some(number), ..Options::default() };
            let (path, form) = ("flows.ipfix".into(), Form::Records(Style::Ipfix));
            Export { path, form, force: false, options }.check().is_ok()
        };
        assert_eq!([0, 29_305, 32_473].map(is_taken), [false, false, true]);
    }

    #[test]
    fn long_texts_say_their_length_in_three_bytes() {
        let mut record = Vec::new();
        push_text(&mut record, &"x".repeat(300));
        assert_eq!(record[..3], [255, 1, 44]);
        record.clear();
        push_text(&mut record, "abc");
        assert_eq!(record, b"\x03abc");
    }
}
