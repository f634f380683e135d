//! Traffic that somebody made up to harm whoever watches it: frames of TCP with any numbers, blocks
//! and stamps.
//!
//! Input: packets of 13 bytes: what it is (tap, direction, flow, flags, blocks), how time goes on,
//! a length, and two numbers of four bytes, the sequence number and what is acknowledged, each
//! absolute or from the last of the same way; then two bytes that make blocks.

use packet::dissect::{DissectOptions, dissect};
use packet::{LinkType, Record, Timestamp};

use crate::input::Input;

const PACKETS_MAX: usize = 200;

/// How time goes on: within a slot, a period, a minute, a year; backwards; to both ends of time.
const STEPS_NS: [i64; 8] = [
    1_000,
    1_000_000,
    1_000_000_000,
    61_000_000_000,
    31_536_000_000_000_000,
    -3_600_000_000_000,
    i64::MAX,
    i64::MIN,
];

/// Frames of both taps, and when each came.
pub struct TapFrames {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Their records, of each tap.
    pub taps: [Vec<Record>; 2],
}

/// Frames that the input asks for.
#[must_use]
pub fn made(input: &mut Input<'_>) -> TapFrames {
    let mut made = TapFrames { bytes: Vec::new(), taps: [Vec::new(), Vec::new()] };
    let (mut numbers, mut now_ns) = ([[0_u32; 2]; 8], 1_700_000_000_000_000_000_i64);
    let mut count = 0;
    while !input.is_empty() && count < PACKETS_MAX {
        count += 1;
        let (what, step, len) = (input.u8(), input.u8(), input.u8());
        let (seq, ack, blocks) = (input.u32(), input.u32(), input.u16());
        let way = usize::from(what >> 1 & 7);
        let [last_seq, last_ack] = &mut numbers[way];
        let is_absolute = what & 0x80 != 0;
        *last_seq = if is_absolute { seq } else { last_seq.wrapping_add(seq) };
        *last_ack = if is_absolute { ack } else { last_ack.wrapping_add(ack) };
        let flags = u8::from(what & 0x10 == 0) << 4 | u8::from(what & 0x60 == 0x60) << 1;
        now_ns = match STEPS_NS[usize::from(step & 7)] {
            extreme @ (i64::MAX | i64::MIN) => extreme,
            step_ns => now_ns.saturating_add(step_ns.saturating_mul(i64::from(step >> 3) + 1)),
        };
        let payload_len = u16::from(len) * 250;
        let frame = frame(way, (*last_seq, *last_ack), flags, payload_len, blocks);
        let captured_len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        let wire_len = captured_len + u32::from(payload_len);
        made.taps[usize::from(what & 1)].push(Record {
            timestamp: Timestamp::from_ns(now_ns),
            offset: u32::try_from(made.bytes.len()).unwrap_or(u32::MAX),
            captured_len,
            wire_len,
            segments: if len == 255 { u16::MAX } else { 1 },
            layers: dissect(LinkType::ETHERNET, &frame, wire_len, DissectOptions::default()),
            ..Record::default()
        });
        made.bytes.extend_from_slice(&frame);
        if matches!(now_ns, i64::MAX | i64::MIN) {
            now_ns = 1_700_000_000_000_000_000;
        }
    }
    made
}

/// Headers of Ethernet, IPv4 and TCP with two blocks of SACK; the payload was cut off.
fn frame(way: usize, (seq, ack): (u32, u32), flags: u8, len: u16, blocks: u16) -> Vec<u8> {
    let [there, back] = [[192, 0, 2, 1], [192, 0, 2, 2]];
    let (from, to) = if way & 1 == 0 { (there, back) } else { (back, there) };
    let client = 1_000 + u16::try_from(way >> 1).unwrap_or(0);
    let ports = if way & 1 == 0 { [client, 80] } else { [80, client] };
    let mut options = vec![1, 1, 5, 18];
    for part in blocks.to_be_bytes() {
        // Offsets from what is acknowledged, up to around the whole space of numbers.
        let start = ack.wrapping_add(u32::from(part >> 4) << 28 | u32::from(part & 3));
        let end = start.wrapping_add(1 << u32::from(part & 31));
        options.extend(start.to_be_bytes());
        options.extend(end.to_be_bytes());
    }
    let total_len = (40 + options.len() + usize::from(len)).min(65_535);
    let mut frame = vec![0; 12];
    frame.extend([8, 0, 0x45, 0]);
    frame.extend(u16::try_from(total_len).unwrap_or(u16::MAX).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
    frame.extend(from.into_iter().chain(to));
    frame.extend(ports.into_iter().flat_map(u16::to_be_bytes));
    frame.extend(seq.to_be_bytes());
    frame.extend(ack.to_be_bytes());
    frame.extend([0xa0, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(options);
    frame
}
