//! What is known of a packet that waits, in the 40 bytes before its frame; 48 where hosts are
//! marked.
//!
//! Nearly every packet has one network header, no fault and no tunnel, and arrives in order: of
//! these nothing else has to be known. What else there is of the others is in
//! [`rare`](super::rare).

use packet::{Direction, Layers, LinkType, Network, Protocol, Record, Timestamp};

use crate::judged::Basis;

/// Bytes of the form.
pub(super) const LEN: usize = 40;
/// Bytes of the link to the packet of the same host before it.
pub(super) const HOST_LINK_LEN: usize = 8;

/// Bits of what was found of a packet.
pub(super) mod bits {
    /// Its flow is known.
    pub(in super::super) const FLOW: u8 = 1;
    /// Marks of its flow leave it alone: a rule has said how it is stored.
    pub(in super::super) const FINAL: u8 = 1 << 1;
    /// More of it is stored because of a mark.
    pub(in super::super) const RAISED: u8 = 1 << 2;
    /// Some of it is stored; otherwise it is only counted.
    pub(in super::super) const STORED: u8 = 1 << 3;
    /// The verdict is that of the packet alone.
    pub(in super::super) const PACKET_BASIS: u8 = 1 << 4;
    /// The rest of what is known is elsewhere.
    pub(in super::super) const RARE: u8 = 1 << 5;
}

/// EtherTypes that go without saying.
const ETHER_TYPES: [(Network, u16); 3] =
    [(Network::Ipv4, 0x0800), (Network::Ipv6, 0x86dd), (Network::Arp, 0x0806)];

/// What is known of a packet besides its record, in the form.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Verdict {
    pub(super) class: u16,
    pub(super) confidence: f32,
    pub(super) bits: u8,
}

impl Verdict {
    pub(super) const fn has(self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    pub(super) const fn basis(self) -> Basis {
        if self.has(bits::PACKET_BASIS) { Basis::Packet } else { Basis::Flow }
    }
}

/// The form, at the front of some bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry(pub(super) [u8; LEN]);

impl Entry {
    /// The short form of a record whose packet arrived at `time`, if that says all of it.
    #[allow(clippy::cast_possible_truncation)] // Each is compared below.
    #[inline]
    pub(super) fn short(record: &Record, time: Timestamp, frame_len: usize) -> Option<Self> {
        let layers = &record.layers;
        let short = Record {
            timestamp: time,
            offset: 0,
            captured_len: u32::from(frame_len as u16),
            wire_len: u32::from(record.wire_len as u16),
            interface: u16::from(record.interface as u8),
            input: 0,
            link: LinkType(u16::from(record.link.0 as u8)),
            segments: record.segments,
            direction: record.direction,
            layers: Layers {
                network_offset: u16::from(layers.network_offset as u8),
                outer_network_offset: u16::from(layers.network_offset as u8),
                transport_offset: u16::from(layers.transport_offset as u8),
                payload_offset: u16::from(layers.payload_offset as u8),
                payload_len: u32::from(layers.payload_len as u16),
                ether_type: ether_type(layers.network)?,
                vlan_id: layers.vlan_id,
                network: layers.network,
                outer_network: layers.network,
                protocol: layers.protocol,
                flags: layers.flags,
                ..Layers::default()
            },
        };
        let is_all = short == Record { offset: 0, ..*record } && frame_len <= usize::from(u16::MAX);
        is_all.then(|| Self::of(&short))
    }

    #[allow(clippy::cast_possible_truncation)] // It was made of them.
    #[inline]
    fn of(record: &Record) -> Self {
        let layers = &record.layers;
        let mut form = [0; LEN];
        form[0..8].copy_from_slice(&record.timestamp.as_ns().to_le_bytes());
        form[8..10].copy_from_slice(&(record.captured_len as u16).to_le_bytes());
        form[10..12].copy_from_slice(&(record.wire_len as u16).to_le_bytes());
        form[14..16].copy_from_slice(&(layers.payload_len as u16).to_le_bytes());
        form[18..20].copy_from_slice(&layers.vlan_id.to_le_bytes());
        form[20] = layers.network_offset as u8;
        form[21] = layers.transport_offset as u8;
        form[22] = layers.payload_offset as u8;
        form[23] = layers.protocol.0;
        form[24] = layers.flags;
        form[26] = layers.network as u8 | (record.direction as u8) << 4;
        form[27] = record.interface as u8;
        form[36] = record.link.0 as u8;
        form[38..40].copy_from_slice(&record.segments.to_le_bytes());
        Self(form)
    }

    /// The form of a packet that is described elsewhere, under this number.
    pub(super) fn rare(number: u32) -> Self {
        let mut form = [0; LEN];
        form[8..12].copy_from_slice(&number.to_le_bytes());
        Self(form)
    }

    /// The front of some bytes.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(|form| Self(*form))
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    /// The number under which it is described elsewhere, if it is.
    #[inline]
    pub(super) fn rare_number(&self) -> Option<u32> {
        self.verdict().has(bits::RARE).then(|| self.u32(8))
    }

    /// Bytes of the frame, of the short form.
    #[inline]
    pub(super) fn frame_len(&self) -> u32 {
        u32::from(self.u16(8))
    }

    /// Bytes that are stored, of the short form.
    #[inline]
    pub(super) fn kept_len(&self) -> u32 {
        u32::from(self.u16(12))
    }

    /// Arrival, of the short form.
    #[inline]
    pub(super) fn time(&self) -> Timestamp {
        let mut ns = [0; 8];
        ns.copy_from_slice(&self.0[..8]);
        Timestamp::from_ns(i64::from_le_bytes(ns))
    }

    /// The record, of the short form.
    #[inline]
    pub(super) fn record(&self) -> Record {
        let form = &self.0;
        let network = match form[26] & 15 {
            1 => Network::Arp,
            2 => Network::Ipv4,
            3 => Network::Ipv6,
            _ => Network::None,
        };
        let direction = match form[26] >> 4 {
            1 => Direction::Inbound,
            2 => Direction::Outbound,
            _ => Direction::Unknown,
        };
        Record {
            timestamp: self.time(),
            offset: 0,
            captured_len: self.frame_len(),
            wire_len: u32::from(self.u16(10)),
            interface: u16::from(form[27]),
            input: 0,
            link: LinkType(u16::from(form[36])),
            segments: self.u16(38),
            direction,
            layers: Layers {
                network_offset: u16::from(form[20]),
                outer_network_offset: u16::from(form[20]),
                transport_offset: u16::from(form[21]),
                payload_offset: u16::from(form[22]),
                payload_len: u32::from(self.u16(14)),
                ether_type: ether_type(network).unwrap_or(0),
                vlan_id: self.u16(18),
                network,
                outer_network: network,
                protocol: Protocol(form[23]),
                flags: form[24],
                ..Layers::default()
            },
        }
    }

    #[inline]
    pub(super) fn verdict(&self) -> Verdict {
        let confidence = f32::from_bits(self.u32(28));
        Verdict { class: self.u16(16), confidence, bits: self.0[25] }
    }

    #[inline]
    pub(super) fn set_verdict(&mut self, verdict: Verdict) {
        self.0[16..18].copy_from_slice(&verdict.class.to_le_bytes());
        self.0[28..32].copy_from_slice(&verdict.confidence.to_bits().to_le_bytes());
        self.0[25] = verdict.bits;
    }

    /// Bytes that are stored, of the short form; no more than its frame has.
    #[allow(clippy::cast_possible_truncation)]
    #[inline]
    pub(super) fn set_kept_len(&mut self, kept_len: u32) {
        self.0[12..14].copy_from_slice(&(kept_len as u16).to_le_bytes());
    }

    /// Units of [`ALIGNMENT`](super::blocks::ALIGNMENT) back to the packet of the flow before; 0
    /// without.
    #[inline]
    pub(super) fn flow_link(&self) -> u32 {
        self.u32(32)
    }

    #[inline]
    pub(super) fn set_flow_link(&mut self, back: u32) {
        self.0[32..36].copy_from_slice(&back.to_le_bytes());
    }
}

fn ether_type(network: Network) -> Option<u16> {
    ETHER_TYPES.iter().find(|(known, _)| *known == network).map(|(_, ether_type)| *ether_type)
}

#[cfg(test)]
mod tests {
    use packet::Malformed;

    use super::*;

    fn plain() -> Record {
        Record {
            timestamp: Timestamp::from_ns(1_700_000_000_123_456_789),
            captured_len: 1514,
            wire_len: 1518,
            interface: 3,
            link: LinkType::ETHERNET,
            segments: 7,
            direction: Direction::Outbound,
            layers: Layers {
                network_offset: 18,
                outer_network_offset: 18,
                transport_offset: 38,
                payload_offset: 70,
                payload_len: 1448,
                ether_type: 0x0800,
                vlan_id: 42,
                network: Network::Ipv4,
                outer_network: Network::Ipv4,
                protocol: Protocol::TCP,
                flags: Layers::TRANSPORT,
                ..Layers::default()
            },
            ..Record::default()
        }
    }

    #[test]
    fn the_short_form_has_all_of_a_plain_record() {
        for network in [Network::Ipv4, Network::Ipv6, Network::Arp] {
            for direction in [Direction::Unknown, Direction::Inbound, Direction::Outbound] {
                let mut record = Record { direction, ..plain() };
                record.layers.network = network;
                record.layers.outer_network = network;
                record.layers.ether_type = ether_type(network).unwrap();
                let mut entry = Entry::short(&record, record.timestamp, 1514).unwrap();
                let verdict = Verdict { class: 9, confidence: 0.75, bits: bits::FLOW };
                entry.set_verdict(verdict);
                entry.set_kept_len(70);
                entry.set_flow_link(123_456);
                assert_eq!(entry.record(), record);
                assert_eq!((entry.kept_len(), entry.flow_link()), (70, 123_456));
                assert_eq!((entry.verdict().class, entry.verdict().confidence), (9, 0.75));
                assert_eq!(entry.rare_number(), None);
            }
        }
    }

    #[test]
    fn what_the_short_form_cannot_say_is_rare() {
        let changes: [fn(&mut Record); 12] = [
            |record| record.wire_len = 70_000,
            |record| record.captured_len = 1000,
            |record| record.interface = 256,
            |record| record.input = 1,
            |record| record.link = LinkType(276),
            |record| record.timestamp = Timestamp::UNKNOWN,
            |record| record.layers.network = Network::None,
            |record| record.layers.outer_network = Network::Ipv6,
            |record| record.layers.outer_network_offset = 14,
            |record| record.layers.payload_offset = 300,
            |record| record.layers.tunnel = packet::Tunnel::Gre,
            |record| record.layers.fault = Some(Malformed::ALL[0]),
        ];
        let time = plain().timestamp;
        for change in changes {
            let mut record = plain();
            change(&mut record);
            assert!(Entry::short(&record, time, 1514).is_none(), "{record:?}");
        }
        let late = Timestamp::from_ns(time.as_ns() + 1);
        assert!(Entry::short(&plain(), late, 1514).is_none());
    }
}
