//! A receiver: what it has, and when it acknowledges.

use std::collections::BTreeSet;

/// How long an acknowledgement waits for another packet (Linux: 40 ms).
pub(crate) const DELAY_MAX_NS: u64 = 40_000_000;

/// An acknowledgement: the segments that it is the first to cover. None is lost on the way, so
/// that this says all that cumulative acknowledgement and SACK blocks would.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ack {
    pub(crate) flow: u32,
    /// First of the segments.
    pub(crate) from: u64,
    /// How many.
    pub(crate) count: u32,
    /// How many of them were marked CE.
    pub(crate) marked: u32,
    /// When the newest of them was sent.
    pub(crate) sent_ns: u64,
}

/// A packet of a flow that has arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrivedPacket {
    pub(crate) segment: u64,
    pub(crate) is_marked: bool,
    pub(crate) is_retransmission: bool,
    pub(crate) sent_ns: u64,
}

/// What a packet causes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Answer {
    /// Acknowledgements that leave now: of what waited, and of this packet.
    pub(crate) acks: [Option<Ack>; 2],
    /// An acknowledgement begins to wait, with this number.
    pub(crate) waits: Option<u32>,
}

/// The receiving end of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    flow: u32,
    delayed_acks: u32,
    next: u64,
    /// Segments beyond the next one. Bounded by what its sender has in flight.
    ahead: BTreeSet<u64>,
    pending: Ack,
    was_marked: bool,
    number: u32,
    newest: u64,
    /// Packets that came after a later one although they were sent once.
    pub(crate) reordered: u64,
}

impl Receiver {
    pub(crate) fn new(flow: u32, delayed_acks: u32) -> Self {
        Self { flow, delayed_acks, ..Self::default() }
    }

    pub(crate) fn receive(&mut self, received: ArrivedPacket) -> Answer {
        let ArrivedPacket { segment, is_marked, is_retransmission, sent_ns } = received;
        let is_late = segment < self.newest && !is_retransmission;
        self.reordered += u64::from(is_late);
        self.newest = self.newest.max(segment);
        let is_next = segment == self.next;
        let mut answer = Answer::default();
        // A change of marks is acknowledged immediately (RFC 8257, section 3.2), and so is a gap.
        if !is_next || is_marked != self.was_marked {
            answer.acks = [self.flush(), None];
        }
        self.was_marked = is_marked;
        let had_gap = !self.ahead.is_empty();
        self.take(segment);
        let marked = u32::from(is_marked);
        if self.pending.count == 0 {
            let first = Ack { flow: self.flow, from: segment, count: 0, marked: 0, sent_ns };
            self.pending = first;
        }
        self.pending.count += 1;
        self.pending.marked += marked;
        self.pending.sent_ns = sent_ns;
        if !is_next || had_gap || self.pending.count >= self.delayed_acks {
            answer.acks = [answer.acks[0], self.flush()];
        } else if self.pending.count == 1 {
            self.number += 1;
            answer.waits = Some(self.number);
        }
        answer
    }

    /// The wait of an acknowledgement is over, unless it has left.
    pub(crate) fn wait_over(&mut self, number: u32) -> Option<Ack> {
        if number == self.number { self.flush() } else { None }
    }

    fn flush(&mut self) -> Option<Ack> {
        let pending = std::mem::take(&mut self.pending);
        (pending.count > 0).then_some(pending)
    }

    fn take(&mut self, segment: u64) {
        if segment > self.next {
            self.ahead.insert(segment);
        } else if segment == self.next {
            self.next += 1;
            while self.ahead.remove(&self.next) {
                self.next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(segment: u64, is_marked: bool) -> ArrivedPacket {
        ArrivedPacket { segment, is_marked, is_retransmission: false, sent_ns: segment }
    }

    fn ack(from: u64, count: u32, marked: u32) -> Option<Ack> {
        Some(Ack { flow: 3, from, count, marked, sent_ns: from + u64::from(count) - 1 })
    }

    #[test]
    fn every_other_packet_is_acknowledged_and_a_lone_one_after_a_wait() {
        let mut receiver = Receiver::new(3, 2);
        let first = receiver.receive(packet(0, false));
        assert_eq!(first, Answer { acks: [None, None], waits: Some(1) });
        assert_eq!(receiver.receive(packet(1, false)).acks, [None, ack(0, 2, 0)]);
        assert_eq!(receiver.receive(packet(2, false)).waits, Some(2));
        assert_eq!(receiver.wait_over(1), None);
        assert_eq!(receiver.wait_over(2), ack(2, 1, 0));
        assert_eq!(receiver.wait_over(2), None);
    }

    #[test]
    fn a_gap_and_a_change_of_marks_are_acknowledged_immediately() {
        let mut receiver = Receiver::new(3, 2);
        receiver.receive(packet(0, false));
        assert_eq!(receiver.receive(packet(1, true)).acks, [ack(0, 1, 0), None]);
        assert_eq!(receiver.receive(packet(3, true)).acks, [ack(1, 1, 1), ack(3, 1, 1)]);
        // The gap is closed late, by a packet that was sent once.
        assert_eq!(receiver.receive(packet(2, true)).acks, [None, ack(2, 1, 1)]);
        assert_eq!(receiver.reordered, 1);
        assert_eq!(receiver.next, 4);
    }
}
