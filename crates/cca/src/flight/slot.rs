//! What one tap measures of a flow in one slot.

/// One way of a TCP flow, in one slot of time, at a tap that sees both ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlightSlot {
    /// Slots since 1970.
    pub slot: i64,
    /// Bytes of data that passed.
    pub sent_bytes: u64,
    /// Bytes of data that were acknowledged for the first time.
    pub acked_bytes: u64,
    /// Bytes of data that had passed before.
    pub resent_bytes: u64,
    /// Times from data to its acknowledgement, added up, in nanoseconds.
    pub rtt_sum_ns: u64,
    /// Times from an acknowledgement to the data that it let go, on the sender's side of the tap,
    /// added up, in nanoseconds.
    pub upstream_rtt_sum_ns: u64,
    /// How many.
    pub rtt_count: u32,
    /// Their minimum.
    pub rtt_min_ns: u32,
    /// Packets with data, as they are on the wire.
    pub segments: u32,
    /// Those of them that had passed before.
    pub resent_segments: u32,
    /// Those of them that the receiver was not known to have.
    pub lost_segments: u32,
    /// Bytes in flight at the end of the slot; see [`FlightSlot::KNOWN`].
    pub flight_bytes: u32,
    /// The most of them in the slot.
    pub flight_max_bytes: u32,
    /// Those at the end that the receiver has, out of order (SACK).
    pub sacked_bytes: u32,
    /// [`FlightSlot::BEGAN`], [`FlightSlot::KNOWN`].
    pub flags: u32,
    /// How many times there are in `upstream_rtt_sum_ns`.
    pub upstream_rtt_count: u32,
    /// The least time from data to its acknowledgement since the connection was first seen; 0
    /// before any.
    pub rtt_least_ns: u32,
}

impl FlightSlot {
    /// A connection began in this slot: what was seen of the ports before is another's.
    pub const BEGAN: u32 = 1;

    /// Data and acknowledgements have been seen, so that what is in flight is known.
    pub const KNOWN: u32 = 2;

    /// Bytes of one, as [`to_ne_bytes`](Self::to_ne_bytes) writes it: whole words of 64 bits, of
    /// which the last is half empty.
    pub const SIZE_BYTES: usize = 96;

    /// Whether a connection began in it.
    #[must_use]
    pub const fn began(&self) -> bool {
        self.flags & Self::BEGAN != 0
    }

    /// Whether what is in flight is known.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.flags & Self::KNOWN != 0
    }

    /// For storage of slots as bytes.
    #[must_use]
    pub fn to_ne_bytes(&self) -> [u8; Self::SIZE_BYTES] {
        let mut bytes = [0; Self::SIZE_BYTES];
        let (wide, narrow) = bytes.split_at_mut(48);
        let words = [
            self.slot.cast_unsigned(),
            self.sent_bytes,
            self.acked_bytes,
            self.resent_bytes,
            self.rtt_sum_ns,
            self.upstream_rtt_sum_ns,
        ];
        for (place, word) in wide.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        let words = [
            self.rtt_count,
            self.rtt_min_ns,
            self.segments,
            self.resent_segments,
            self.lost_segments,
            self.flight_bytes,
            self.flight_max_bytes,
            self.sacked_bytes,
            self.flags,
            self.upstream_rtt_count,
            self.rtt_least_ns,
        ];
        for (place, word) in narrow.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
        bytes
    }

    /// Back from bytes.
    #[must_use]
    pub fn from_ne_bytes(bytes: &[u8; Self::SIZE_BYTES]) -> Self {
        let (wide, narrow) = bytes.split_at(48);
        let wide =
            |at: usize| wide.as_chunks().0.get(at).map_or(0, |&word| u64::from_ne_bytes(word));
        let narrow =
            |at: usize| narrow.as_chunks().0.get(at).map_or(0, |&word| u32::from_ne_bytes(word));
        Self {
            slot: wide(0).cast_signed(),
            sent_bytes: wide(1),
            acked_bytes: wide(2),
            resent_bytes: wide(3),
            rtt_sum_ns: wide(4),
            upstream_rtt_sum_ns: wide(5),
            rtt_count: narrow(0),
            rtt_min_ns: narrow(1),
            segments: narrow(2),
            resent_segments: narrow(3),
            lost_segments: narrow(4),
            flight_bytes: narrow(5),
            flight_max_bytes: narrow(6),
            sacked_bytes: narrow(7),
            flags: narrow(8),
            upstream_rtt_count: narrow(9),
            rtt_least_ns: narrow(10),
        }
    }
}
