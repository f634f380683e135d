//! Frames of a few conversations, numbered.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]

use packet::dissect::{DissectOptions, dissect};
use packet::{Batch, LinkType, Record, Source, Timestamp};
use proptest::prelude::*;

/// Frames in memory, a few at a time.
pub(crate) struct Frames {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: Vec<Record>,
    pub(crate) batch_len: usize,
    pub(crate) next: usize,
}

impl Source for Frames {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let end = self.records.len().min(self.next + self.batch_len);
        let records = &self.records[self.next..end];
        self.next = end;
        (!records.is_empty()).then_some(Batch { bytes: &self.bytes, records, tick: None })
    }
}

/// A frame of a conversation; its last four bytes are its number.
pub(crate) fn frame(
    conversation: u8,
    is_back: bool,
    tcp_flags: Option<u8>,
    number: u32,
) -> Vec<u8> {
    let (mut a, mut b) = ([10, 0, 0, conversation], [10, 0, 0, 255]);
    let (mut source_port, mut destination_port) = ([200, 1], [0, 80]);
    if is_back {
        (a, b) = (b, a);
        (source_port, destination_port) = (destination_port, source_port);
    }
    let transport = match tcp_flags {
        Some(flags) => {
            let rest = [0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 2, 0, 0, 0, 0, 0];
            [&source_port[..], &destination_port, &rest].concat()
        }
        None => [&source_port[..], &destination_port, &[0, 12, 0, 0]].concat(),
    };
    let total_len = u8::try_from(24 + transport.len()).unwrap();
    let protocol = if tcp_flags.is_some() { 6 } else { 17 };
    let ip = [0x45, 0, 0, total_len, 0, 0, 0, 0, 64, protocol, 0, 0];
    [&[2; 12][..], &[8, 0], &ip, &a, &b, &transport, &number.to_be_bytes()].concat()
}

pub(crate) fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame.last_chunk().unwrap())
}

/// Conversation, direction, TCP flags (none: UDP), and the time since the packet before.
pub(crate) fn any_packet() -> impl Strategy<Value = (u8, bool, Option<u8>, i64)> {
    let flags = vec![None, Some(2), Some(16), Some(17), Some(4)];
    let steps = vec![1_000_000, 700_000_000, 3_000_000_000, -9_000_000_000];
    (0..4u8, any::<bool>(), prop::sample::select(flags), prop::sample::select(steps))
}

/// Frames of such packets, numbered.
pub(crate) fn frames(packets: Vec<(u8, bool, Option<u8>, i64)>, batch_len: usize) -> Frames {
    let (mut bytes, mut records, mut ns) = (Vec::new(), Vec::new(), 1_700_000_000_000_000_000);
    for (number, (conversation, is_back, flags, step)) in packets.into_iter().enumerate() {
        ns += step;
        let number = number as u32;
        let frame = frame(conversation, is_back, flags, number);
        let len = frame.len() as u32;
        records.push(Record {
            timestamp: Timestamp::from_ns(ns),
            offset: bytes.len() as u32,
            captured_len: len,
            wire_len: number,
            layers: dissect(LinkType::ETHERNET, &frame, len, DissectOptions::default()),
            ..Record::default()
        });
        bytes.extend(frame);
    }
    Frames { bytes, records, batch_len, next: 0 }
}
