//! The paper's input: packets that somebody has read into fixed records.
//!
//! On disk a record is 40 bytes, little-endian: `u64` time in ns; `u32` source,
//! destination; `u16` source port, destination port; `u8` protocol, flags;
//! `u16` length on the wire; `u32` sequence number, acknowledgment number and
//! two words without meaning.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use packet::wire::ipv4::Ipv4;
use packet::wire::tcp::Tcp;
use packet::wire::udp::Udp;
use packet::{Frame, Layers, Network, Protocol};

use crate::Failure;

/// Bytes of a record on disk.
pub(crate) const RECORD_LEN: usize = 40;

/// One packet, the size of its record on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PacketRecord {
    pub(crate) timestamp_ns: u64,
    pub(crate) source: u32,
    pub(crate) destination: u32,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    pub(crate) protocol: u8,
    pub(crate) flags: u8,
    pub(crate) wire_len: u16,
    pub(crate) sequence_number: u32,
    pub(crate) acknowledgment_number: u32,
    pub(crate) unused: [u32; 2],
}

const _: () = assert!(size_of::<PacketRecord>() == RECORD_LEN, "as large in memory as on disk");

impl PacketRecord {
    /// The record of an IPv4 frame; other frames have none.
    pub(crate) fn of_frame(frame: &Frame<'_>) -> Option<Self> {
        let layers = &frame.record.layers;
        if layers.network != Network::Ipv4 {
            return None;
        }
        let header = Ipv4::new(frame.from_offset(layers.network_offset)).ok()?;
        let mut record = Self {
            timestamp_ns: u64::try_from(frame.record.timestamp.as_ns()).unwrap_or_default(),
            source: header.source().to_bits(),
            destination: header.destination().to_bits(),
            protocol: header.protocol().0,
            wire_len: u16::try_from(frame.record.wire_len).unwrap_or(u16::MAX),
            ..Self::default()
        };
        if layers.has(Layers::TRANSPORT) {
            record.add_transport(layers.protocol, frame.from_offset(layers.transport_offset));
        }
        Some(record)
    }

    fn add_transport(&mut self, protocol: Protocol, bytes: &[u8]) {
        if protocol == Protocol::TCP {
            let Ok(tcp) = Tcp::new(bytes) else { return };
            (self.source_port, self.destination_port) = (tcp.source_port(), tcp.destination_port());
            [self.flags, _] = tcp.flags().bits().to_le_bytes();
            self.sequence_number = tcp.sequence_number().0;
            self.acknowledgment_number = tcp.acknowledgment_number().0;
        } else if protocol == Protocol::UDP {
            let Ok(udp) = Udp::new(bytes) else { return };
            (self.source_port, self.destination_port) = (udp.source_port(), udp.destination_port());
        }
    }

    /// Appends the record as it lies on disk.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.timestamp_ns.to_le_bytes());
        out.extend_from_slice(&self.source.to_le_bytes());
        out.extend_from_slice(&self.destination.to_le_bytes());
        out.extend_from_slice(&self.source_port.to_le_bytes());
        out.extend_from_slice(&self.destination_port.to_le_bytes());
        out.extend_from_slice(&[self.protocol, self.flags]);
        out.extend_from_slice(&self.wire_len.to_le_bytes());
        out.extend_from_slice(&self.sequence_number.to_le_bytes());
        out.extend_from_slice(&self.acknowledgment_number.to_le_bytes());
        for word in self.unused {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    fn decode(bytes: &[u8; RECORD_LEN]) -> Self {
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        Self {
            timestamp_ns: u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32,
            source: u32_at(8),
            destination: u32_at(12),
            source_port: u16_at(16),
            destination_port: u16_at(18),
            protocol: bytes[20],
            flags: bytes[21],
            wire_len: u16_at(22),
            sequence_number: u32_at(24),
            acknowledgment_number: u32_at(28),
            unused: [u32_at(32), u32_at(36)],
        }
    }
}

/// Reads a file of records into memory.
pub(crate) fn load(path: &Path) -> Result<Vec<PacketRecord>, Failure> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(unreadable)?;
    let file_len = file.metadata().map_err(unreadable)?.len();
    let mut records = Vec::with_capacity(usize::try_from(file_len).unwrap_or(0) / RECORD_LEN);
    let mut input = BufReader::with_capacity(1 << 20, file);
    let mut bytes = [0_u8; RECORD_LEN];
    for _ in 0..file_len / RECORD_LEN as u64 {
        input.read_exact(&mut bytes).map_err(unreadable)?;
        records.push(PacketRecord::decode(&bytes));
    }
    if records.is_empty() {
        return Err(format!(
            "{}: no record in {file_len} bytes; wanted a file of 40-byte records, as \
             `wirelens-bench gen --records` writes it",
            path.display()
        ));
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = PacketRecord {
            timestamp_ns: 0x0102_0304_0506_0708,
            source: 0x0a00_0001,
            destination: 0xc0a8_0002,
            source_port: 443,
            destination_port: 50_001,
            protocol: 6,
            flags: 0x18,
            wire_len: 1_514,
            sequence_number: 0xdead_beef,
            acknowledgment_number: 7,
            unused: [1, 2],
        };
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        assert_eq!(PacketRecord::decode(bytes.first_chunk().unwrap()), record);
        assert_eq!(bytes.len(), RECORD_LEN);
    }
}
