//! What one tap saw of one way of a flow in one slot of time. Programs in the kernel and readers of
//! captures both make them, so that readers need not know where they come from.

use crate::time::{Span, Timestamp};
use crate::wire::tcp::SeqNumber;

/// One way of a TCP flow, in one slot, at one tap: of packets that carry data.
///
/// A cache line; the kernel's half writes the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct TapSlot {
    /// Slots since 1970, so that taps agree on numbers without knowing of each other.
    pub slot: i64,
    /// When the first packet came, in nanoseconds since 1970.
    pub first_ns: i64,
    /// Bytes of data.
    pub data_bytes: u64,
    /// Bytes of the frames, link header included; of segments that travel as one packet, of that.
    pub frame_bytes: u64,
    /// Packets, as the observer handles them: with offloads, one may hold many segments.
    pub packets: u32,
    /// Packets as they are on the wire.
    pub segments: u32,
    /// First byte of data of the first packet.
    pub first_seq: u32,
    /// One past the highest byte of data that was seen up to the end of the slot.
    pub high_seq: u32,
    /// Bytes that sequence numbers went past without their having been seen.
    pub skipped_bytes: u32,
    /// The largest step of the sender's time stamps (RFC 7323) from one packet to the next.
    pub source_gap_max_ticks: u32,
    /// The longest time since the packet before, in nanoseconds.
    pub arrival_gap_max_ns: u32,
    /// [`TapSlot::BEGAN`].
    pub flags: u32,
}

const _: () = assert!(size_of::<TapSlot>() == 64, "the kernel's half writes 64 bytes");

impl TapSlot {
    /// A connection began in this slot: what was seen of the ports before is another's.
    pub const BEGAN: u32 = 1;

    /// Of a packet that is reported alone: its time stamp stands in
    /// [`source_gap_max_ticks`](Self::source_gap_max_ticks).
    pub const TICKS: u32 = 2;

    /// First byte of data of the first packet.
    #[inline]
    #[must_use]
    pub const fn first(&self) -> SeqNumber {
        SeqNumber(self.first_seq)
    }

    /// One past the highest byte of data that was seen.
    #[inline]
    #[must_use]
    pub const fn high(&self) -> SeqNumber {
        SeqNumber(self.high_seq)
    }

    /// As the kernel's half writes it, and as it lies in memory.
    #[must_use]
    pub fn to_ne_bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        let (wide, narrow) = bytes.split_at_mut(32);
        let words = [
            self.slot.cast_unsigned(),
            self.first_ns.cast_unsigned(),
            self.data_bytes,
            self.frame_bytes,
        ];
        for (place, word) in wide.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        let words = [
            self.packets,
            self.segments,
            self.first_seq,
            self.high_seq,
            self.skipped_bytes,
            self.source_gap_max_ticks,
            self.arrival_gap_max_ns,
            self.flags,
        ];
        for (place, word) in narrow.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }

    /// From bytes that the kernel's half wrote.
    #[must_use]
    pub fn from_ne_bytes(bytes: &[u8; size_of::<Self>()]) -> Self {
        let (wide, narrow) = bytes.split_at(32);
        let wide =
            |at: usize| wide.as_chunks().0.get(at).map_or(0, |&word| u64::from_ne_bytes(word));
        let narrow =
            |at: usize| narrow.as_chunks().0.get(at).map_or(0, |&word| u32::from_ne_bytes(word));
        Self {
            slot: wide(0).cast_signed(),
            first_ns: wide(1).cast_signed(),
            data_bytes: wide(2),
            frame_bytes: wide(3),
            packets: narrow(0),
            segments: narrow(1),
            first_seq: narrow(2),
            high_seq: narrow(3),
            skipped_bytes: narrow(4),
            source_gap_max_ticks: narrow(5),
            arrival_gap_max_ns: narrow(6),
            flags: narrow(7),
        }
    }

    /// Whether a connection began in it.
    #[inline]
    #[must_use]
    pub const fn began(&self) -> bool {
        self.flags & Self::BEGAN != 0
    }
}

/// Time in slots of one length, counted from 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotClock {
    length: Span,
}

impl SlotClock {
    /// The shortest slot: below it the stamps of most captures mean nothing.
    pub const SHORTEST: Span = Span::from_ns(1_000);

    /// Slots of this length; at least [`SHORTEST`](Self::SHORTEST).
    #[must_use]
    pub fn new(length: Span) -> Self {
        Self { length: length.max(Self::SHORTEST) }
    }

    /// How long a slot is.
    #[inline]
    #[must_use]
    pub const fn length(self) -> Span {
        self.length
    }

    /// The slot in which a moment lies.
    #[inline]
    #[must_use]
    pub const fn slot(self, time: Timestamp) -> i64 {
        time.as_ns().div_euclid(self.length.as_ns())
    }

    /// When a slot begins.
    #[inline]
    #[must_use]
    pub const fn start(self, slot: i64) -> Timestamp {
        Timestamp::from_ns(slot.saturating_mul(self.length.as_ns()))
    }

    /// Whole slots in a span.
    #[must_use]
    pub const fn count(self, span: Span) -> i64 {
        span.as_ns().div_euclid(self.length.as_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_the_same_slot() {
        let slot = TapSlot {
            slot: -1,
            first_ns: 2,
            data_bytes: 3,
            frame_bytes: 4,
            packets: 5,
            segments: 6,
            first_seq: 7,
            high_seq: 8,
            skipped_bytes: 9,
            source_gap_max_ticks: 10,
            arrival_gap_max_ns: 11,
            flags: TapSlot::BEGAN,
        };
        let bytes = slot.to_ne_bytes();
        assert_eq!(TapSlot::from_ne_bytes(&bytes), slot);
        // Where the kernel's half puts them.
        assert_eq!(bytes[32..36], 5_u32.to_ne_bytes());
        assert_eq!(bytes[60..], TapSlot::BEGAN.to_ne_bytes());
    }

    #[test]
    fn slots_are_counted_from_1970_also_before_it() {
        let clock = SlotClock::new(Span::from_ns(1_000_000));
        assert_eq!(clock.slot(Timestamp::from_ns(1_999_999)), 1);
        assert_eq!(clock.slot(Timestamp::from_ns(2_000_000)), 2);
        assert_eq!(clock.slot(Timestamp::from_ns(-1)), -1);
        assert_eq!(clock.start(-1), Timestamp::from_ns(-1_000_000));
        assert_eq!(clock.count(Span::from_ns(100_000_000)), 100);
        assert_eq!(SlotClock::new(Span::from_ns(0)).length(), SlotClock::SHORTEST);
    }
}
