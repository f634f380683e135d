//! What is kept for a flow: one cache line that every packet touches, and one
//! that only beginnings, ends and IPv6 do.

use packet::flow_key::MarkedKey;
use packet::{FlowDirection, Timestamp};

use super::options::FlowOptions;
use super::record::{EndReason, FlowRecord};

use super::extract::FlowPacket;

/// The line every packet touches. Pairs are by direction: low to high, high to low.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Hot {
    /// [`FlowKey::words`]: the whole key where it is IPv4.
    pub(super) words: [u64; 2],
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) bytes: [u64; 2],
    pub(super) packets: [u32; 2],
    pub(super) tcp_flags: [u8; 2],
    /// Bits of [`Hot`]'s constants.
    pub(super) state: u8,
    /// How often the slot was given to another flow.
    pub(super) generation: u32,
}

const _: () = assert!(size_of::<Hot>() == 64, "one cache line");

/// The line that beginnings and ends touch.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(super) struct Cold {
    /// The key, marked with the input of the first packet.
    pub(super) marked_key: MarkedKey,
    /// When it was closed; while it is open, when it began (windows move `first`).
    pub(super) since: Timestamp,
    /// Neighbours in its list of the wheel.
    pub(super) previous: u32,
    pub(super) next: u32,
    /// Which list that is.
    pub(super) list: u16,
    pub(super) vlan_id: u16,
    /// What the index knows it by.
    pub(super) tag: u32,
}

const _: () = assert!(size_of::<Cold>() == 64, "one cache line");

impl Hot {
    /// The slot holds a flow.
    pub(super) const LIVE: u8 = 1;
    /// The source is the high endpoint.
    pub(super) const SOURCE_IS_HIGH: u8 = 1 << 1;
    /// FIN was seen from the low endpoint; one bit further, from the high one.
    pub(super) const FIN: u8 = 1 << 2;
    /// FIN was seen from both.
    pub(super) const FIN_BOTH: u8 = Self::FIN | Self::FIN << 1;
    /// Closed by FIN.
    pub(super) const CLOSED_FIN: u8 = 1 << 4;
    /// Closed by RST.
    pub(super) const CLOSED_RST: u8 = 1 << 5;
    /// Closed.
    pub(super) const CLOSED: u8 = Self::CLOSED_FIN | Self::CLOSED_RST;

    /// It was worth keeping before a window's end set its counts to zero.
    pub(super) const SETTLED: u8 = 1 << 6;
    /// The slot, not its flow, stands among those with packets in open windows.
    pub(super) const AWAKE: u8 = 1 << 7;

    #[inline(always)]
    pub(super) const fn has(&self, bits: u8) -> bool {
        self.state & bits != 0
    }

    /// Adds a packet of this flow.
    #[inline(always)]
    pub(super) fn add(&mut self, packet: &FlowPacket) {
        let side = packet.direction as usize;
        self.packets[side] += 1;
        self.bytes[side] += u64::from(packet.wire_len);
        self.tcp_flags[side] |= packet.tcp_flags;
        self.first = self.first.min(packet.timestamp);
        self.last = self.last.max(packet.timestamp);
    }

    /// The generation of what the slot holds next. Zero is never used, so that an unused
    /// state can be distinguished.
    pub(super) const fn next_generation(&self) -> u32 {
        match self.generation.wrapping_add(1) {
            0 => 1,
            next => next,
        }
    }

    /// None of its packets had a stamp, nor any packet before them.
    pub(super) fn is_unstamped(&self) -> bool {
        self.last == Timestamp::UNKNOWN
    }

    /// Packets of both sides.
    #[inline]
    pub(super) const fn packets_total(&self) -> u64 {
        self.packets[0] as u64 + self.packets[1] as u64
    }

    /// Bytes of both sides.
    #[inline]
    pub(super) const fn bytes_total(&self) -> u64 {
        self.bytes[0].saturating_add(self.bytes[1])
    }
}

/// A flow without packets in its present window; its state continues.
pub(super) fn at_rest(hot: Hot) -> Hot {
    Hot {
        packets: [0; 2],
        bytes: [0; 2],
        tcp_flags: [0; 2],
        state: hot.state | if is_settled(&hot) { Hot::SETTLED } else { 0 },
        generation: hot.next_generation(),
        ..hot
    }
}

pub(super) fn is_settled(hot: &Hot) -> bool {
    hot.has(Hot::SETTLED)
        || (hot.packets[0] > 0 && hot.packets[1] > 0)
        || hot.packets_total() >= u64::from(FlowOptions::SETTLED_PACKETS)
}

pub(super) const fn closing(hot: &Hot) -> EndReason {
    if hot.has(Hot::CLOSED_FIN) { EndReason::Fin } else { EndReason::Rst }
}

pub(super) fn record(hot: &Hot, cold: &Cold, reason: EndReason) -> FlowRecord {
    let source_is_high = hot.has(Hot::SOURCE_IS_HIGH);
    let direction =
        if source_is_high { FlowDirection::HighToLow } else { FlowDirection::LowToHigh };
    let [low, high] = [0, 1];
    let (source, destination) = if source_is_high { (high, low) } else { (low, high) };
    FlowRecord {
        key: cold.marked_key.key(),
        direction,
        reason,
        vlan_id: cold.vlan_id,
        input: cold.marked_key.mark(),
        tcp_flags: [hot.tcp_flags[source], hot.tcp_flags[destination]],
        packets: [hot.packets[source], hot.packets[destination]],
        bytes: [hot.bytes[source], hot.bytes[destination]],
        first: hot.first,
        last: hot.last,
    }
}
