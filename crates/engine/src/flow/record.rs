//! A flow that has ended.

use packet::flow_key::Endpoint;
use packet::{FlowDirection, FlowKey, Timestamp};

/// Why a flow ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum EndReason {
    /// No packet for the idle time-out.
    Idle,
    /// Older than the active time-out: cut, its next packet continues it.
    Active,
    /// FIN from both sides.
    Fin,
    /// RST from either side.
    Rst,
    /// Its window has ended; the flow may continue.
    Window,
    /// Its partition was full, and it was past the emergency time-out.
    Emergency,
    /// Its partition was full, and it was the one longest without a packet.
    Evicted,
    /// The input has ended, or reading was interrupted.
    End,
    /// It has not ended: of what is shown during a run.
    Open,
}

impl EndReason {
    /// Every reason for an end, in the order of the numbers.
    pub const ALL: [Self; 8] = [
        Self::Idle,
        Self::Active,
        Self::Fin,
        Self::Rst,
        Self::Window,
        Self::Emergency,
        Self::Evicted,
        Self::End,
    ];

    /// The word in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Active => "active",
            Self::Fin => "fin",
            Self::Rst => "rst",
            Self::Window => "window",
            Self::Emergency => "emergency",
            Self::Evicted => "evicted",
            Self::End => "end",
            Self::Open => "open",
        }
    }
}

/// A flow, as it was when it ended. Pairs stand for the source's packets and the destination's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowRecord {
    /// The conversation.
    pub key: FlowKey,
    /// The way of the first packet: its sender is the source.
    pub direction: FlowDirection,
    /// Why it ended.
    pub reason: EndReason,
    /// Outermost VLAN of the first packet, or [`packet::Layers::NO_VLAN`].
    pub vlan_id: u16,
    /// Input of the first packet, as [`packet::Record::input`] has it.
    pub input: u16,
    /// TCP flags of all packets, or-ed: the header's low byte.
    pub tcp_flags: [u8; 2],
    /// Packets.
    pub packets: [u32; 2],
    /// Bytes on the wire, link header included.
    pub bytes: [u64; 2],
    /// Earliest stamp.
    pub first: Timestamp,
    /// Latest stamp.
    pub last: Timestamp,
}

impl FlowRecord {
    /// Source and destination.
    #[must_use]
    pub fn endpoints(&self) -> (Endpoint, Endpoint) {
        self.key.endpoints(self.direction)
    }

    /// Packets of both sides.
    #[must_use]
    pub const fn packets_total(&self) -> u64 {
        self.packets[0] as u64 + self.packets[1] as u64
    }

    /// Bytes of both sides.
    #[must_use]
    pub const fn bytes_total(&self) -> u64 {
        self.bytes[0].saturating_add(self.bytes[1])
    }

    /// What makes the order of rows the same in every run. Flows of one key may
    /// be equal in all of this where stamps are: they keep the order in which they ended.
    #[must_use]
    pub fn order(&self) -> impl Ord + use<> {
        let rest = (self.direction as u8, self.tcp_flags, self.vlan_id, self.input);
        (self.first, self.key, self.last, self.reason, self.packets, self.bytes, rest)
    }

    /// Puts what has records into their [`order`](Self::order); what is equal in it stays as it is.
    ///
    /// In a flood tens of thousands of flows end by one mark, and few begin with the same stamp. So
    /// stamps are sorted, and each flow is moved once; a sort of flows would compare and move
    /// all of each again and again.
    pub fn sort<T>(flows: &mut [T], record: impl Fn(&T) -> &Self) {
        if !flows.is_sorted_by_key(|flow| record(flow).first) {
            flows.sort_by_cached_key(|flow| record(flow).first);
        }
        for same in flows.chunk_by_mut(|one, other| record(one).first == record(other).first) {
            if same.len() > 1 {
                same.sort_by_key(|flow| record(flow).order());
            }
        }
    }
}

/// How many flows there were, and how they ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowCounts {
    /// Ended flows by [`EndReason`].
    pub ended: [u64; EndReason::ALL.len() + 1],
    /// Packets of ended flows.
    pub packets: u64,
    /// Bytes of ended flows.
    pub bytes: u64,
}

impl FlowCounts {
    /// Counts a flow.
    pub fn add(&mut self, record: &FlowRecord) {
        self.add_parts(record.reason, record.packets_total(), record.bytes_total());
    }

    /// Counts a flow of which only this is known.
    #[inline]
    pub(super) fn add_parts(&mut self, reason: EndReason, packets: u64, bytes: u64) {
        self.ended[reason as usize] += 1;
        self.packets += packets;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Flows that ended for one reason.
    #[must_use]
    pub const fn of(&self, reason: EndReason) -> u64 {
        self.ended[reason as usize]
    }

    /// All flows.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        for (mine, theirs) in self.ended.iter_mut().zip(other.ended) {
            *mine += theirs;
        }
        self.packets += other.packets;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}
