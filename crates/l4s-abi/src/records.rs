//! Records of traces, from numbers to bytes.

#![allow(unsafe_code)]

use dualq::{DropCause, Ecn, MarkCause, Queue};
use l4s::trace::{MAGIC, Outcome, RECORD_LEN, Record};

use crate::boundary::put;

/// A record with the numbers of `docs/specs/l4s-trace.md`. A time of 2⁶⁴ − 1 is none.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct WlRecord {
    pub sent_ns: u64,
    pub entered_ns: u64,
    pub left_ns: u64,
    pub received_ns: u64,
    pub acked_ns: u64,
    pub sequence: u64,
    pub flow: u32,
    pub size: u32,
    pub found_l4s: u32,
    pub found_classic: u32,
    pub sender: u16,
    pub receiver: u16,
    pub ecn_sent: u8,
    pub ecn_left: u8,
    pub queue: u8,
    pub outcome: u8,
    pub mark: u8,
    pub flags: u8,
}

impl From<WlRecord> for Record {
    fn from(record: WlRecord) -> Self {
        let time = |at_ns: u64| (at_ns != u64::MAX).then_some(at_ns);
        Self {
            sent_ns: time(record.sent_ns),
            entered_ns: time(record.entered_ns),
            left_ns: time(record.left_ns),
            received_ns: time(record.received_ns),
            acked_ns: time(record.acked_ns),
            sequence: record.sequence,
            flow: record.flow,
            size: record.size,
            found_l4s: record.found_l4s,
            found_classic: record.found_classic,
            sender: record.sender,
            receiver: record.receiver,
            ecn_sent: Ecn::from_bits(record.ecn_sent),
            ecn_left: Ecn::from_bits(record.ecn_left),
            queue: if record.queue == 0 { Queue::L4s } else { Queue::Classic },
            outcome: match record.outcome {
                1 => Outcome::Dropped(DropCause::Full),
                2 => Outcome::Dropped(DropCause::Early),
                3 => Outcome::Dropped(DropCause::Late),
                4 => Outcome::Waiting,
                _ => Outcome::Sent,
            },
            mark: match record.mark {
                1 => Some(MarkCause::Pi),
                2 => Some(MarkCause::Threshold),
                _ => None,
            },
            is_retransmission: record.flags & 1 != 0,
            is_remarked: record.flags & 2 != 0,
        }
    }
}

/// Writes what stands before the records of a file.
///
/// # Safety
/// `to` is null or at 8 bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_trace_magic(to: *mut [u8; MAGIC.len()]) {
    // SAFETY: as the caller promises.
    unsafe { put(to, MAGIC) };
}

/// Writes a record's bytes.
///
/// # Safety
/// `record` is null or at one; `to` is null or at 80 bytes that may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wl_trace_encode(record: *const WlRecord, to: *mut [u8; RECORD_LEN]) {
    // SAFETY: as the caller promises.
    let Some(record) = (unsafe { record.as_ref() }) else { return };
    let bytes = Record::from(*record).to_bytes();
    // SAFETY: as the caller promises.
    unsafe { put(to, bytes) };
}
