//! What is found of one packet.

use packet::wire::tcp::SeqNumber;
use packet::{FlowDirection, FlowKey, Timestamp};

macro_rules! named {
    ($(#[$doc:meta])* $kind:ident { $($(#[$about:meta])* $name:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $kind { $($(#[$about])* $name,)* }

        impl $kind {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The word in the output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

named! {
    /// How a latency was measured.
    Method {
        /// A SYN, or a SYN/ACK, and the acknowledgement of it.
        Handshake = "handshake",
        /// Data and the cumulative acknowledgement of it.
        Ack = "ack",
        /// The same of data that was sent more than once: the timestamp in the acknowledgement
        /// says which copy it answers (RFC 7323).
        AckTimestamp = "ack+timestamp",
        /// Data and the first SACK block that covers it (RFC 2018).
        Sack = "sack",
        /// The spin bit of QUIC, from one side of the tap and back (RFC 9000 §17.4).
        Spin = "spin",
        /// A DNS query and its response.
        Dns = "dns",
        /// The same packet at two taps.
        OneWay = "one-way",
    }
}

named! {
    /// Whether the receiver held the acknowledgement back.
    AckDelay {
        /// It did not, as far as can be seen.
        No = "no",
        /// The acknowledgement answers a later packet that it covers as well; the time between the
        /// two packets is part of the latency.
        Covered = "covered",
        /// The packet was alone, and its acknowledgement came so late that the receiver's timer
        /// may have sent it.
        Lone = "lone",
    }
}

named! {
    /// Why a packet has no latency.
    MissingReason {
        /// It was sent more than once, and which copy was acknowledged is not known (Karn).
        Ambiguous = "ambiguous",
        /// It was lost: the acknowledgement answers a later copy.
        Lost = "lost",
        /// A copy that was not needed: the acknowledgement answers an earlier one.
        Needless = "needless",
        /// The acknowledgement waited for an earlier packet that came late.
        Blocked = "blocked",
        /// Its acknowledgement, or its response, was not seen before the flow ended.
        NoAnswer = "no_answer",
        /// The acknowledgement is earlier than the packet: the clock was set back.
        ClockStep = "clock_step",
        /// No room for one more packet that waits.
        NoRoom = "no_room",
    }
}

named! {
    /// What a packet of data is to those before it.
    Place {
        /// New data.
        New = "new",
        /// Bytes that the tap has seen already.
        Retransmission = "retransmission",
        /// Bytes that the tap has not seen, before others that it has: reordered, or retransmitted
        /// after a loss upstream of the tap.
        Late = "late",
    }
}

/// What a flow's receiver says about marks, in the acknowledgement of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Echo {
    /// Packets with CE since the acknowledgement before: 0 or 1 with classic ECN, whose echo
    /// repeats until the sender has reacted; 0 to 7 with Accurate ECN.
    pub ce: Option<u8>,
    /// Bytes with CE since the option before (RFC 9768).
    pub ce_bytes: Option<u32>,
    /// The same with ECT(0).
    pub ect0_bytes: Option<u32>,
    /// The same with ECT(1).
    pub ect1_bytes: Option<u32>,
}

/// Whether latencies changed sharply: −1 down, 1 up, 0 not; none where there is none before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sharp {
    /// From the latency of the packet before in this direction of the flow.
    pub in_flow: Option<i8>,
    /// The same of packets whose acknowledgement was not held back.
    pub in_flow_prompt: Option<i8>,
    /// From the packet before of this sender in the same queue, whatever its flow.
    pub in_queue: Option<i8>,
    /// The same of packets whose acknowledgement was not held back.
    pub in_queue_prompt: Option<i8>,
}

/// A packet, and what is known of its latency.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// The conversation.
    pub key: FlowKey,
    /// Which way the packet went.
    pub direction: FlowDirection,
    /// When the tap saw it.
    pub time: Timestamp,
    /// Its first sequence number, of TCP.
    pub seq: Option<SeqNumber>,
    /// Bytes of the frame.
    pub wire_len: u32,
    /// Sequence numbers that it takes up; bytes of data of what is not TCP.
    pub len: u32,
    /// From the tap to the receiver and back.
    pub latency_ns: Option<u64>,
    /// How that was measured.
    pub method: Method,
    /// Why there is none.
    pub missing: Option<MissingReason>,
    /// Whether the acknowledgement was held back.
    pub held: AckDelay,
    /// How much of the latency was waiting for a later packet, where that is known.
    pub wait_ns: Option<u64>,
    /// Whether it is the packet that the acknowledgement answers, so that it counts as an RTT.
    pub is_answered: bool,
    /// What it is to packets before it.
    pub place: Place,
    /// ECN codepoint that it has at the tap.
    pub ecn: u8,
    /// What the acknowledgement says of marks.
    pub echo: Echo,
    /// Whether latencies changed sharply.
    pub sharp: Sharp,
}

impl Sample {
    /// Whether a DualQ Coupled AQM puts it into the low-latency queue (RFC 9332 §2.5.1.1).
    #[must_use]
    pub const fn is_low_latency(&self) -> bool {
        matches!(self.ecn, 1 | 3)
    }
}

/// The word of an ECN codepoint.
#[must_use]
pub const fn ecn_name(ecn: u8) -> &'static str {
    match ecn & 3 {
        0 => "not-ect",
        1 => "ect1",
        2 => "ect0",
        _ => "ce",
    }
}

/// Who takes samples.
pub trait TakeSamples {
    /// Whether packets without a latency are asked for as well.
    const WANTS_ALL: bool;
    /// Whether sharp changes within a queue are asked for.
    const WANTS_QUEUES: bool = false;

    /// A packet has this stamp: samples that follow are found with it or later.
    #[inline(always)]
    fn at(&mut self, _time: Timestamp) {}

    /// Takes one.
    fn take(&mut self, sample: &Sample);
}

/// No one: what flows add up is enough.
impl TakeSamples for () {
    const WANTS_ALL: bool = false;

    #[inline(always)]
    fn take(&mut self, _: &Sample) {}
}
