//! What happened to each packet: one record, in one layout from the simulator, ns-3 and the
//! router in front of real TCP (`docs/specs/l4s-trace.md`).

use dualq::{DropCause, Ecn, MarkCause, Queue};

/// Bytes of a record.
pub const RECORD_LEN: usize = 80;

/// What stands before the records of a file: the format's name and its version.
pub const MAGIC: [u8; 8] = *b"WLL4S\0\0\x01";

/// No instant: it did not happen, or this world does not see it.
const NEVER: u64 = u64::MAX;

/// The outcome of a packet at the router.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// It was sent on.
    #[default]
    Sent,
    /// It was dropped.
    Dropped(DropCause),
    /// It still waited at the end.
    Waiting,
}

/// One packet, from its sender to its acknowledgement. Times are ns of the world's own clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When it left its sender.
    pub sent_ns: Option<u64>,
    /// When it arrived at the router.
    pub entered_ns: Option<u64>,
    /// When it left the router's queue, or was dropped from it.
    pub left_ns: Option<u64>,
    /// When it arrived at its receiver.
    pub received_ns: Option<u64>,
    /// When the first acknowledgement that covers it, SACK included, arrived at the sender.
    pub acked_ns: Option<u64>,
    /// First byte of its flow that it carries.
    pub sequence: u64,
    /// Which flow, from 0.
    pub flow: u32,
    /// Bytes on the link.
    pub size: u32,
    /// Packets that it found in the L4S queue.
    pub found_l4s: u32,
    /// Packets that it found in the classic queue.
    pub found_classic: u32,
    /// Which sender, as the scenario numbers them.
    pub sender: u16,
    /// Which receiver.
    pub receiver: u16,
    /// Its ECN field as it left the sender, after steering.
    pub ecn_sent: Ecn,
    /// Its ECN field as it left the router.
    pub ecn_left: Ecn,
    /// Which queue it was for.
    pub queue: Queue,
    /// The outcome of it at the router.
    pub outcome: Outcome,
    /// Why it was marked, where it was.
    pub mark: Option<MarkCause>,
    /// Whether its bytes had been sent before.
    pub is_retransmission: bool,
    /// Whether steering changed its ECN field.
    pub is_remarked: bool,
}

const RETRANSMISSION: u8 = 1;
const REMARKED: u8 = 2;

impl Record {
    /// The record as it is written, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; RECORD_LEN] {
        let mut bytes = [0; RECORD_LEN];
        let times = [self.sent_ns, self.entered_ns, self.left_ns, self.received_ns, self.acked_ns];
        let longs = times.map(|at_ns| at_ns.unwrap_or(NEVER)).into_iter().chain([self.sequence]);
        let words = [self.flow, self.size, self.found_l4s, self.found_classic];
        let shorts = [self.sender, self.receiver];
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.is_retransmission, RETRANSMISSION) | flag(self.is_remarked, REMARKED);
        let small = [
            self.ecn_sent.bits(),
            self.ecn_left.bits(),
            self.queue as u8,
            self.outcome.number(),
            mark_number(self.mark),
            flags,
        ];
        let all = longs
            .flat_map(u64::to_le_bytes)
            .chain(words.into_iter().flat_map(u32::to_le_bytes))
            .chain(shorts.into_iter().flat_map(u16::to_le_bytes))
            .chain(small);
        bytes.iter_mut().zip(all).for_each(|(to, from)| *to = from);
        bytes
    }
}

impl Outcome {
    const fn number(self) -> u8 {
        match self {
            Self::Sent => 0,
            Self::Dropped(DropCause::Full) => 1,
            Self::Dropped(DropCause::Early) => 2,
            Self::Dropped(DropCause::Late) => 3,
            Self::Waiting => 4,
        }
    }
}

const fn mark_number(mark: Option<MarkCause>) -> u8 {
    match mark {
        None => 0,
        Some(MarkCause::Pi) => 1,
        Some(MarkCause::Threshold) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_written_as_the_specification_says() {
        let record = Record {
            sent_ns: Some(1),
            entered_ns: Some(2),
            left_ns: Some(3),
            received_ns: Some(4),
            acked_ns: None,
            sequence: 6,
            flow: 7,
            size: 8,
            found_l4s: 9,
            found_classic: 10,
            sender: 11,
            receiver: 12,
            ecn_sent: Ecn::Ect1,
            ecn_left: Ecn::Ce,
            queue: Queue::Classic,
            outcome: Outcome::Dropped(DropCause::Late),
            mark: Some(MarkCause::Threshold),
            is_retransmission: true,
            is_remarked: true,
        };
        let bytes = record.to_bytes();
        assert_eq!(bytes[24..32], 4_u64.to_le_bytes());
        assert_eq!(bytes[32..40], [0xff; 8]);
        assert_eq!(bytes[48..52], 7_u32.to_le_bytes());
        assert_eq!(bytes[64..], [11, 0, 12, 0, 1, 3, 1, 3, 2, 3, 0, 0, 0, 0, 0, 0]);
    }
}
