//! The flows of some partitions.

mod passing;
mod room;

use packet::wire::tcp::TcpFlags;
use packet::{FlowDirection, Timestamp, must};

use super::entry::{Cold, Hot, at_rest, closing, is_settled, record};
use super::extract::FlowPacket;
use super::index::{Index, tag_of};
use super::options::FlowOptions;
use super::record::{EndReason, FlowRecord};
use super::segmented::SegmentedVec;
use super::slab::FlowSlot;
use super::wheel::{Class, Wheel};
use crate::partition::{PARTITION_COUNT, Partition};
use crate::window::LATENESS_ALLOWANCE;
use passing::TakeEnds;

/// Flows of the partitions whose packets it is given. Never more than its
/// part of [`FlowOptions::flow_count_max`]: a full partition lets a flow go
/// for each that begins.
pub struct FlowTable {
    options: FlowOptions,
    idle_ns: u64,
    flow_count_max: u32,
    flow_counts: [u32; PARTITION_COUNT],
    index: Index,
    hot: SegmentedVec<Hot>,
    cold: SegmentedVec<Cold>,
    wheel: Wheel,
    /// Slots for flows that begin.
    free: Vec<u32>,
    /// Slots of flows that ended in this batch: they are still distinguished.
    freed: Vec<u32>,
    ended: Vec<FlowEnd>,
    /// The time of what is being examined, for receivers of flow ends.
    now: Timestamp,
    due: Vec<(usize, u32)>,
    /// Where the packets of a batch are looked for first.
    guesses: Vec<u32>,
    /// Flows with packets before this were written, if there are windows.
    windows_closed_to: Timestamp,
    /// Slots with packets that were not written, if there are windows; each once.
    awake: Vec<u32>,
}

/// A flow that has ended, and how that was found out.
#[derive(Clone, Copy, Debug)]
pub struct FlowEnd {
    /// The flow.
    pub record: FlowRecord,
    /// Where it stood.
    pub slot: FlowSlot,
    /// The time of the packet or the mark that showed its end, which is mostly later than its
    /// last packet. The same input gives the same time, whatever its batches.
    pub seen: Timestamp,
}

/// How a flow begins.
#[derive(Clone, Copy)]
struct Beginning {
    source_is_high: bool,
    vlan_id: u16,
}

impl Beginning {
    const fn of(packet: &FlowPacket) -> Self {
        Self {
            source_is_high: matches!(packet.direction, FlowDirection::HighToLow),
            vlan_id: packet.vlan_id,
        }
    }
}

const FIN: u8 = TcpFlags::FIN.bits() as u8;
const SYN: u8 = TcpFlags::SYN.bits() as u8;
const RST: u8 = TcpFlags::RST.bits() as u8;
const ACK: u8 = TcpFlags::ACK.bits() as u8;

impl FlowTable {
    /// An empty table. Each of the 64 partitions keeps a 64th of the most
    /// flows, rounded up.
    #[must_use]
    pub fn new(options: FlowOptions) -> Self {
        let per_partition = options.flow_count_max.div_ceil(PARTITION_COUNT).max(1);
        Self {
            options,
            idle_ns: options.idle_timeout.as_ns().unsigned_abs().max(1),
            flow_count_max: u32::try_from(per_partition).unwrap_or(u32::MAX),
            flow_counts: [0; PARTITION_COUNT],
            index: Index::new(),
            hot: SegmentedVec::new(),
            cold: SegmentedVec::new(),
            wheel: Wheel::new(options.idle_timeout.max(FlowOptions::LINGER)),
            free: Vec::new(),
            freed: Vec::new(),
            ended: Vec::new(),
            now: Timestamp::MIN,
            due: Vec::new(),
            guesses: Vec::new(),
            windows_closed_to: Timestamp::MIN,
            awake: Vec::new(),
        }
    }

    /// Flows that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flow_counts.iter().map(|&count| count as usize).sum()
    }

    /// Whether there is no flow.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Asks for what is examined first for a packet with this hash.
    #[inline(always)]
    pub fn prefetch(&self, hash: u64) {
        self.index.prefetch(tag_of(hash));
    }

    /// Takes in some packets in order and says for each in which slot its flow
    /// stands. Few at a time, such as 64: what they touch is asked for first.
    #[inline]
    pub fn observe(&mut self, packets: &[FlowPacket], slots: &mut Vec<FlowSlot>) {
        self.free.append(&mut self.freed);
        let mut guesses = std::mem::take(&mut self.guesses);
        guesses.clear();
        guesses.extend(packets.iter().map(|packet| {
            let guess = self.index.first(tag_of(packet.hash));
            self.hot.prefetch(guess);
            if packet.key().is_ipv6() {
                self.cold.prefetch(guess);
            }
            guess
        }));
        slots.clear();
        slots.extend(packets.iter().zip(&guesses).map(|(packet, &guess)| {
            // Mostly the guess is right and nothing has ended.
            let plain = self.add_plain(guess, packet);
            plain.unwrap_or_else(|| {
                let index = self.slot_for(packet);
                FlowSlot { index, generation: self.add(index, packet) }
            })
        }));
        self.guesses = guesses;
    }

    /// Adds a packet to the flow in `slot`, if it belongs there and the flow
    /// continues with it.
    #[inline(always)]
    fn add_plain(&mut self, slot: u32, packet: &FlowPacket) -> Option<FlowSlot> {
        let hot = self.hot.get_mut(slot)?;
        let is_plain = hot.words == packet.key().words()
            && hot.state & (Hot::LIVE | Hot::CLOSED) == Hot::LIVE
            && packet.timestamp.since(hot.last).as_ns().unsigned_abs() < self.idle_ns
            && packet.timestamp.since(hot.first) < self.options.active_timeout
            && hot.packets[packet.direction as usize] < u32::MAX
            && packet.tcp_flags & (FIN | RST) == 0
            && self.options.window.is_none();
        if !is_plain {
            return None;
        }
        if packet.key().is_ipv6() && self.cold.get(slot)?.marked_key.key() != packet.key() {
            return None;
        }
        hot.add(packet);
        Some(FlowSlot { index: slot, generation: hot.generation })
    }

    /// Flows that have ended since they were last taken.
    pub fn take_ended(&mut self) -> std::vec::Drain<'_, FlowEnd> {
        self.ended.drain(..)
    }

    /// The slot of the flow that a packet belongs to, which may begin with it.
    #[inline(never)]
    fn slot_for(&mut self, packet: &FlowPacket) -> u32 {
        self.now = packet.timestamp;
        let words = packet.key().words();
        let found = self.index.find(tag_of(packet.hash), |slot| {
            self.hot.get(slot).is_some_and(|hot| hot.words == words)
                && (!packet.key().is_ipv6()
                    || self
                        .cold
                        .get(slot)
                        .is_some_and(|cold| cold.marked_key.key() == packet.key()))
        });
        match found {
            Some(slot) => self.slot_after_ends(slot, packet),
            None => self.begin(packet, Beginning::of(packet)),
        }
    }

    /// Adds a packet to its flow; the flow's generation.
    #[inline]
    fn add(&mut self, slot: u32, packet: &FlowPacket) -> u32 {
        let Some(hot) = must(self.hot.get_mut(slot), "a packet's flow has a slot") else {
            return 0;
        };
        debug_assert!(hot.has(Hot::LIVE), "a packet is added to a flow that has not ended");
        hot.add(packet);
        let generation = hot.generation;
        if self.options.window.is_some() && !hot.has(Hot::AWAKE) {
            hot.state |= Hot::AWAKE;
            self.awake.push(slot);
        }
        if packet.tcp_flags & (FIN | RST) != 0 {
            self.close(slot, packet);
        }
        generation
    }

    /// Asks what the guide's table asks. A SYN for a closed flow first: it does not belong
    /// to it, so it gives it no stamp either.
    fn slot_after_ends(&mut self, slot: u32, packet: &FlowPacket) -> u32 {
        let Some(&hot) = must(self.hot.get(slot), "a flow that was found has a slot") else {
            return slot;
        };
        if hot.has(Hot::CLOSED) && packet.tcp_flags & (SYN | ACK) == SYN {
            self.end(slot, closing(&hot), true);
            return self.begin(packet, Beginning::of(packet));
        }
        let time = packet.timestamp;
        self.stamp(slot, time);
        let (Some(&hot), Some(&cold)) = (self.hot.get(slot), self.cold.get(slot)) else {
            return slot;
        };
        if time.since(hot.last).as_ns().unsigned_abs() >= self.idle_ns {
            self.end(slot, self.reason(&hot), true);
            return self.begin(packet, Beginning::of(packet));
        }
        let is_full = hot.packets[packet.direction as usize] == u32::MAX;
        if hot.has(Hot::CLOSED) {
            if time.since(cold.since) >= FlowOptions::LINGER || is_full {
                self.end(slot, closing(&hot), true);
                return self.begin(packet, Beginning::of(packet));
            }
        } else {
            let began = if self.options.window.is_some() { cold.since } else { hot.first };
            if time.since(began) >= self.options.active_timeout || is_full {
                // Where the window has ended as well, the row may be written already.
                let is_past_window = self.window_end(&hot).is_some_and(|end| time >= end);
                let reason = if is_past_window { self.reason(&hot) } else { EndReason::Active };
                self.end(slot, reason, true);
                let source_is_high = hot.has(Hot::SOURCE_IS_HIGH);
                return self.begin(packet, Beginning { source_is_high, vlan_id: packet.vlan_id });
            }
        }
        // At the end of time a window has no end; a packet is never past its own.
        if self.window_end(&hot).is_some_and(|end| time >= end && time > hot.last) {
            let slot = if hot.packets_total() > 0 { self.move_on(slot) } else { slot };
            return self.wake(slot, time);
        }
        if hot.packets_total() == 0 { self.wake(slot, time) } else { slot }
    }

    /// A flow without stamps takes the first that comes, for all that has happened.
    fn stamp(&mut self, slot: u32, time: Timestamp) {
        let (Some(hot), Some(cold)) = (self.hot.get_mut(slot), self.cold.get_mut(slot)) else {
            return;
        };
        if hot.is_unstamped() {
            (hot.first, hot.last, cold.since) = (time, time, time);
        }
    }

    /// The first packet of a flow in a window.
    fn wake(&mut self, slot: u32, time: Timestamp) -> u32 {
        if let Some(hot) = self.hot.get_mut(slot) {
            (hot.first, hot.last) = (time, time);
        }
        slot
    }

    /// Writes what a flow has in its window; the flow continues in another slot,
    /// since what applications keep for the window is still examined.
    fn move_on(&mut self, slot: u32) -> u32 {
        let (Some(&hot), Some(&cold)) = (self.hot.get(slot), self.cold.get(slot)) else {
            return slot;
        };
        self.end(slot, self.reason(&hot), true);
        let fresh = self.take_slot();
        if let (Some(new), Some(new_cold)) = (self.hot.get_mut(fresh), self.cold.get_mut(fresh)) {
            let state = hot.state & !Hot::AWAKE | new.state & Hot::AWAKE;
            *new = at_rest(Hot { generation: new.generation, state, ..hot });
            *new_cold = cold;
        }
        let partition = Wheel::partition_of(cold.list);
        self.index.insert(cold.tag, fresh);
        self.flow_counts[partition] += 1;
        let (class, deadline) = self.deadline(&hot, &cold);
        self.wheel.link(&mut self.cold, fresh, partition, class, deadline);
        fresh
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.hot.push(Hot::default());
            self.cold.push(Cold::default())
        })
    }

    #[inline(never)]
    fn begin(&mut self, packet: &FlowPacket, beginning: Beginning) -> u32 {
        let partition = Partition::of_hash(packet.hash).index();
        if self.flow_counts[partition] >= self.flow_count_max {
            self.make_room(partition, packet.timestamp);
        }
        let slot = self.take_slot();
        let tag = tag_of(packet.hash);
        self.index.insert(tag, slot);
        self.flow_counts[partition] += 1;
        let source = if beginning.source_is_high { Hot::SOURCE_IS_HIGH } else { 0 };
        if let Some(hot) = self.hot.get_mut(slot) {
            *hot = Hot {
                words: packet.key().words(),
                first: packet.timestamp,
                last: packet.timestamp,
                state: Hot::LIVE | source | hot.state & Hot::AWAKE,
                generation: hot.next_generation(),
                ..Hot::default()
            };
        }
        if let Some(cold) = self.cold.get_mut(slot) {
            cold.marked_key = packet.marked_key;
            cold.since = packet.timestamp;
            cold.vlan_id = beginning.vlan_id;
            cold.tag = tag;
        }
        let deadline = packet.timestamp.plus(self.options.idle_timeout);
        self.wheel.link(&mut self.cold, slot, partition, Class::Unanswered, deadline);
        slot
    }

    #[inline(never)]
    fn close(&mut self, slot: u32, packet: &FlowPacket) {
        let (Some(hot), Some(cold)) = (self.hot.get_mut(slot), self.cold.get_mut(slot)) else {
            return;
        };
        if packet.tcp_flags & FIN != 0 {
            hot.state |= Hot::FIN << packet.direction as u8;
        }
        if hot.has(Hot::CLOSED) {
            return;
        }
        if hot.state & Hot::FIN_BOTH == Hot::FIN_BOTH {
            hot.state |= Hot::CLOSED_FIN;
        } else if packet.tcp_flags & RST != 0 {
            hot.state |= Hot::CLOSED_RST;
        } else {
            return;
        }
        cold.since = packet.timestamp;
        let partition = Wheel::partition_of(cold.list);
        let deadline = packet.timestamp.plus(FlowOptions::LINGER);
        self.wheel.unlink(&mut self.cold, slot);
        self.wheel.link(&mut self.cold, slot, partition, Class::Closed, deadline);
    }

    /// Ends a flow. `is_linked`: it stands in a list of the wheel.
    #[inline(never)]
    fn end(&mut self, slot: u32, reason: EndReason, is_linked: bool) {
        self.hand_over(slot, reason);
        if is_linked {
            self.wheel.unlink(&mut self.cold, slot);
        }
        if let Some(cold) = self.cold.get(slot) {
            self.index.remove(cold.tag, slot);
            self.flow_counts[Wheel::partition_of(cold.list)] -= 1;
        }
        if let Some(hot) = self.hot.get_mut(slot) {
            hot.state &= Hot::AWAKE;
        }
        self.freed.push(slot);
    }

    /// Puts what a flow has among the ended, if it has packets.
    fn hand_over(&mut self, slot: u32, reason: EndReason) {
        let (Some(hot), Some(cold)) = (self.hot.get(slot), self.cold.get(slot)) else { return };
        debug_assert!(hot.has(Hot::LIVE), "a flow ends once");
        if hot.packets_total() > 0 {
            let place = FlowSlot { index: slot, generation: hot.generation };
            let record = record(hot, cold, reason);
            self.ended.push(FlowEnd { record, slot: place, seen: self.now });
        }
    }

    /// Why a flow ends, or is written, that no packet came for: derived from its
    /// own stamps, so that it does not matter when that is found out.
    fn reason(&self, hot: &Hot) -> EndReason {
        if hot.has(Hot::CLOSED) {
            return closing(hot);
        }
        match self.window_end(hot) {
            Some(end) if hot.last.plus(self.options.idle_timeout) > end => EndReason::Window,
            _ => EndReason::Idle,
        }
    }

    fn window_end(&self, hot: &Hot) -> Option<Timestamp> {
        self.options.window.map(|window| hot.last.window_start(window).plus(window))
    }

    /// Likewise, if the input ends at `end`.
    fn reason_at(&self, hot: &Hot, end: Timestamp) -> EndReason {
        if hot.is_unstamped() && !hot.has(Hot::CLOSED) {
            return EndReason::End;
        }
        let reason = self.reason(hot);
        let is_known = match reason {
            EndReason::Idle => hot.last.plus(self.options.idle_timeout) <= end,
            EndReason::Window => self.window_end(hot).is_some_and(|window_end| window_end <= end),
            _ => true,
        };
        if is_known { reason } else { EndReason::End }
    }

    /// Writes what a flow has in its window, between batches; it continues with nothing.
    fn rest(&mut self, slot: u32) {
        let Some(reason) = self.hot.get(slot).map(|hot| self.reason(hot)) else { return };
        self.hand_over(slot, reason);
        if let Some(hot) = self.hot.get_mut(slot) {
            *hot = at_rest(*hot);
        }
    }

    /// When a flow ends if no packet comes, and its class.
    fn deadline(&self, hot: &Hot, cold: &Cold) -> (Class, Timestamp) {
        let (class, deadline) = if hot.has(Hot::CLOSED) {
            (Class::Closed, cold.since.plus(FlowOptions::LINGER))
        } else {
            let class = if is_settled(hot) { Class::Settled } else { Class::Unanswered };
            (class, hot.last.plus(self.options.idle_timeout))
        };
        let deadline = match (hot.is_unstamped(), cold.since == Timestamp::UNKNOWN) {
            (false, _) => deadline,
            (true, true) => Timestamp::MAX,
            (true, false) => cold.since.plus(self.options.idle_timeout),
        };
        (class, deadline)
    }

    /// A flow without stamps waits for one for an idle time-out of the time that others have, from
    /// the first mark at which there is any. So marks do not look at it again and again.
    fn wait_for_stamp(&mut self, slot: u32, time: Timestamp) {
        let (Some(hot), Some(cold)) = (self.hot.get(slot), self.cold.get_mut(slot)) else { return };
        if hot.is_unstamped() && cold.since == Timestamp::UNKNOWN {
            cold.since = time;
        }
    }

    /// Ends the flows whose deadlines are well before `watermark`, and the
    /// windows.
    pub fn expire(&mut self, watermark: Timestamp) {
        self.expire_to(watermark, None);
    }

    fn expire_to(&mut self, watermark: Timestamp, mut take: TakeEnds<'_>) {
        self.free.append(&mut self.freed);
        self.now = watermark;
        let time = watermark.minus(LATENESS_ALLOWANCE);
        if let Some(window) = self.options.window {
            self.close_windows(time.window_start(window), &mut take);
        }
        let mut due = std::mem::take(&mut self.due);
        self.wheel.advance(time, &mut due);
        for (partition, head) in due.drain(..) {
            let mut next = Some(head);
            while let Some(slot) = next {
                next = Wheel::after(&self.cold, slot);
                self.end_or_link(slot, partition, time);
                self.hand_on_if_many(&mut take);
            }
        }
        self.due = due;
    }

    fn end_or_link(&mut self, slot: u32, partition: usize, time: Timestamp) {
        self.wait_for_stamp(slot, time);
        let (Some(&hot), Some(&cold)) = (self.hot.get(slot), self.cold.get(slot)) else { return };
        let (class, deadline) = self.deadline(&hot, &cold);
        if deadline > time {
            self.wheel.link(&mut self.cold, slot, partition, class, deadline);
        } else {
            self.end(slot, self.reason_at(&hot, time), false);
        }
    }

    fn close_windows(&mut self, closed_to: Timestamp, take: &mut TakeEnds<'_>) {
        if closed_to <= self.windows_closed_to {
            return;
        }
        self.windows_closed_to = closed_to;
        let mut awake = std::mem::take(&mut self.awake);
        awake.retain(|&slot| {
            let Some(&hot) = self.hot.get(slot) else { return false };
            let has_row = hot.has(Hot::LIVE) && hot.packets_total() > 0;
            if has_row && (hot.last >= closed_to || hot.is_unstamped()) {
                return true;
            }
            if has_row {
                self.rest(slot);
                self.hand_on_if_many(take);
            }
            if let Some(hot) = self.hot.get_mut(slot) {
                hot.state &= !Hot::AWAKE;
            }
            false
        });
        self.awake = awake;
    }

    /// The earliest stamp of a flow that has not ended.
    #[must_use]
    pub fn first(&self, slot: FlowSlot) -> Option<Timestamp> {
        self.hot.get(slot.index).filter(|hot| hot.has(Hot::LIVE)).map(|hot| hot.first)
    }

    /// A flow that has not ended, as it would be if the input ended at `end`.
    #[must_use]
    pub fn live(&self, slot: FlowSlot, end: Timestamp) -> Option<FlowRecord> {
        let (hot, cold) = (self.hot.get(slot.index)?, self.cold.get(slot.index)?);
        let is_it = hot.has(Hot::LIVE) && hot.generation == slot.generation;
        is_it.then(|| record(hot, cold, self.reason_at(hot, end)))
    }

    /// Bytes that are reserved for flows, by which it grows: never given back before the end.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        let Self { index, hot, cold, wheel, .. } = self;
        index.byte_count() + hot.byte_count() + cold.byte_count() + wheel.byte_count()
    }

    /// Slots that there are, those included whose flows have ended.
    #[must_use]
    pub const fn slot_count(&self) -> u32 {
        self.hot.len()
    }

    /// The flow in this slot, if there is one that has not ended, as it would be at `end`.
    #[must_use]
    pub fn live_at(&self, index: u32, end: Timestamp) -> Option<(FlowRecord, FlowSlot)> {
        let hot = self.hot.get(index)?;
        let slot = FlowSlot { index, generation: hot.generation };
        let has_packets = hot.packets_total() > 0;
        has_packets.then(|| Some((self.live(slot, end)?, slot))).flatten()
    }

    /// Every flow that has not ended and has packets, with what it would say
    /// if the input ended at `end`: why, packets, bytes, its slot, and the rest on demand.
    pub fn for_each_live(
        &self,
        end: Timestamp,
        mut visit: impl FnMut(EndReason, u64, u64, FlowSlot, &dyn Fn() -> Option<FlowRecord>),
    ) {
        for (index, hot) in self.hot.iter() {
            let (packets, bytes) = (hot.packets_total(), hot.bytes_total());
            if !hot.has(Hot::LIVE) || packets == 0 {
                continue;
            }
            let reason = self.reason_at(hot, end);
            let slot = FlowSlot { index, generation: hot.generation };
            let make = || self.cold.get(index).map(|cold| record(hot, cold, reason));
            visit(reason, packets, bytes, slot, &make);
        }
    }
}

#[cfg(test)]
mod tests;
