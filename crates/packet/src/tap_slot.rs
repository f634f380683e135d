//! What one tap saw of one way of a flow in one slot of time. Programs in the kernel and readers of
//! captures both make them, so that whoever reads them need not know where they come from.

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
    /// Packets, as whoever saw them handles them: with offloads, one may hold many segments.
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
