//! Packets whose acknowledgement is waited for.

use std::collections::VecDeque;

use packet::Timestamp;
use packet::wire::tcp::SeqNumber;

use crate::budget::Budget;
use crate::sample::Place;
use crate::segment::Segment;

/// Copies of retransmitted packets that one direction of a flow keeps at most.
const COPIES_MAX: usize = 256;

/// Packets that wait while the other direction has not been seen: more than an initial window
/// (RFC 6928), so that a flow of which one direction is captured costs little.
pub(crate) const ONE_WAY_MAX: usize = 16;

/// A packet that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Waiting {
    pub(crate) time: Timestamp,
    pub(crate) seq: SeqNumber,
    pub(crate) end: SeqNumber,
    pub(crate) wire_len: u32,
    /// The sender's timestamp; 0 without.
    pub(crate) ticks: u32,
    pub(crate) ecn: u8,
    pub(crate) flags: u8,
}

const _: () = assert!(size_of::<Waiting>() <= 32, "two to a cache line");

impl Waiting {
    /// Its latency is known already.
    pub(crate) const DONE: u8 = 1;
    /// It was retransmitted.
    pub(crate) const RESENT: u8 = 1 << 1;
    /// It is from the handshake.
    pub(crate) const OPENS: u8 = 1 << 2;
    /// It ends the data.
    pub(crate) const ENDS: u8 = 1 << 3;
    /// It has a timestamp.
    pub(crate) const HAS_TICKS: u8 = 1 << 4;
    /// It came late.
    pub(crate) const LATE: u8 = 1 << 5;
    /// It is a copy of bytes that were seen.
    pub(crate) const COPY: u8 = 1 << 6;

    pub(crate) fn of(segment: &Segment) -> Self {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let fin = segment.flags.contains(packet::wire::tcp::TcpFlags::FIN);
        Self {
            time: segment.time,
            seq: segment.seq,
            end: segment.end(),
            wire_len: segment.wire_len,
            ticks: segment.ticks.map_or(0, |(value, _)| value),
            ecn: segment.ecn,
            flags: flag(segment.opens(), Self::OPENS)
                | flag(fin, Self::ENDS)
                | flag(segment.ticks.is_some(), Self::HAS_TICKS),
        }
    }

    #[inline]
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) const fn ticks(&self) -> Option<u32> {
        if self.has(Self::HAS_TICKS) { Some(self.ticks) } else { None }
    }

    pub(crate) const fn place(&self) -> Place {
        if self.has(Self::COPY) {
            Place::Retransmission
        } else if self.has(Self::LATE) {
            Place::Late
        } else {
            Place::New
        }
    }

    fn overlaps(&self, start: SeqNumber, end: SeqNumber) -> bool {
        self.seq.is_before(end) && self.end.is_after(start)
    }
}

/// Packets that wait, in the order of their numbers, and copies of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outstanding {
    waiting: VecDeque<Waiting>,
    copies: Vec<Waiting>,
    /// Capacity that was taken from the budget.
    taken: usize,
    /// Up to here packets may be missing, for which there was no room.
    missing_until: Option<SeqNumber>,
}

impl Outstanding {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&Waiting> {
        self.waiting.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Waiting> {
        self.waiting.get_mut(index)
    }

    /// Makes room for one more, within `count_max` and the budget.
    #[inline]
    fn has_room(&mut self, count_max: usize, budget: &mut Budget) -> bool {
        let len = self.waiting.len();
        if len >= count_max {
            return false;
        }
        if len < self.taken {
            return true;
        }
        let more = self.taken.clamp(4, 1024);
        if !budget.take(more) {
            return false;
        }
        self.waiting.reserve_exact(self.taken + more - len);
        self.taken += more;
        true
    }

    /// Adds a packet of new data; `false` without room.
    #[inline]
    pub(crate) fn push(&mut self, packet: Waiting, count_max: usize, budget: &mut Budget) -> bool {
        let has_room = self.has_room(count_max, budget);
        if has_room {
            self.waiting.push_back(packet);
        } else {
            self.missing_until = Some(packet.end);
        }
        has_room
    }

    /// Adds a packet whose bytes were not seen, among those that were.
    pub(crate) fn insert(
        &mut self,
        packet: Waiting,
        count_max: usize,
        budget: &mut Budget,
    ) -> bool {
        if !self.has_room(count_max, budget) {
            return false;
        }
        let place = self.waiting.partition_point(|other| other.seq.is_before(packet.seq));
        self.waiting.insert(place, packet);
        true
    }

    /// Notes that some bytes were retransmitted; whether any of them was seen before. Where packets
    /// are missing because there was no room, that is assumed.
    pub(crate) fn resend(&mut self, start: SeqNumber, end: SeqNumber) -> bool {
        let mut was_seen = self.missing_until.is_some_and(|until| start.is_before(until));
        for other in self.overlapping(start, end) {
            other.flags |= Waiting::RESENT;
            was_seen = true;
        }
        was_seen
    }

    /// Packets that wait with any of these bytes.
    fn overlapping(
        &mut self,
        start: SeqNumber,
        end: SeqNumber,
    ) -> impl Iterator<Item = &mut Waiting> {
        let from = self.waiting.partition_point(|other| !other.end.is_after(start));
        self.waiting.range_mut(from..).take_while(move |other| other.overlaps(start, end))
    }

    /// Whether the last packet that waits is this byte alone.
    pub(crate) fn ends_with_byte(&self, seq: SeqNumber) -> bool {
        let last = self.waiting.back().filter(|last| !last.has(Waiting::DONE));
        last.is_some_and(|last| last.seq == seq && last.end == seq.plus(1))
    }

    /// Adds a copy; `false` without room. Of packets with a copy that is not kept no timestamp says
    /// which copy is answered.
    pub(crate) fn push_copy(&mut self, copy: Waiting, budget: &mut Budget) -> bool {
        let has_room = self.copies.len() < COPIES_MAX && budget.take(1);
        if has_room {
            self.copies.push(copy);
            return true;
        }
        for other in self.overlapping(copy.seq, copy.end) {
            other.flags &= !Waiting::HAS_TICKS;
        }
        false
    }

    /// The first copy of some bytes.
    pub(crate) fn copy_of(&self, packet: &Waiting) -> Option<&Waiting> {
        self.copies.iter().find(|copy| copy.overlaps(packet.seq, packet.end))
    }

    /// How many packets end at or before a number.
    #[inline]
    pub(crate) fn count_up_to(&self, ack: SeqNumber) -> usize {
        // Nearly always one or two.
        self.waiting.iter().take_while(|packet| !packet.end.is_after(ack)).count()
    }

    /// Where a range begins that lies in what waits.
    pub(crate) fn first_from(&self, start: SeqNumber) -> usize {
        self.waiting.partition_point(|packet| packet.seq.is_before(start))
    }

    /// Takes out the first packets, after those were examined.
    #[inline]
    pub(crate) fn drop_first(&mut self, count: usize, ack: SeqNumber, budget: &mut Budget) {
        self.waiting.drain(..count);
        self.missing_until = self.missing_until.filter(|until| until.is_after(ack));
        if self.waiting.is_empty() && self.taken > 64 {
            self.free(budget);
        }
    }

    /// Takes out the copies that end at or before a number.
    pub(crate) fn take_copies(&mut self, ack: SeqNumber, budget: &mut Budget) -> Vec<Waiting> {
        if self.copies.is_empty() {
            return Vec::new();
        }
        let (done, kept): (Vec<_>, _) =
            self.copies.drain(..).partition(|copy| !copy.end.is_after(ack));
        self.copies = kept;
        budget.give(done.len());
        done
    }

    /// Takes out what begins before a number, further behind than any window reaches.
    pub(crate) fn take_behind(&mut self, floor: SeqNumber, budget: &mut Budget) -> Vec<Waiting> {
        let is_behind = |packet: &Waiting| packet.seq.is_before(floor);
        let count = self.waiting.iter().take_while(|packet| is_behind(packet)).count();
        let mut behind: Vec<_> = self.waiting.drain(..count).collect();
        self.missing_until = self.missing_until.filter(|until| until.is_after(floor));
        let before = self.copies.len();
        behind.extend(self.copies.extract_if(.., |copy| is_behind(copy)));
        budget.give(before - self.copies.len());
        behind
    }

    fn free(&mut self, budget: &mut Budget) {
        budget.give(self.taken);
        self.taken = 0;
        self.waiting = VecDeque::new();
    }

    /// Takes out all that waits.
    pub(crate) fn take_all(&mut self, budget: &mut Budget) -> (VecDeque<Waiting>, Vec<Waiting>) {
        let all = (std::mem::take(&mut self.waiting), std::mem::take(&mut self.copies));
        budget.give(all.1.len());
        self.free(budget);
        self.missing_until = None;
        all
    }
}
