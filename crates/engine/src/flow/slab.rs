//! What an application keeps for each flow, outside the flow table.

pub use packet::FlowSlot;
use packet::Frame;

use super::extract::FlowPacket;
use super::pass::Piece;
use super::segmented::SegmentedVec;

/// What is kept for a flow; the default is that of a flow without packets.
pub trait PerFlow: Clone + Default + Send + Sync {
    /// Whether frames have to be at hand: [`on_frame`](Self::on_frame) reads them.
    const READS_FRAMES: bool = false;

    /// Takes in a packet. Who is the source is not known here: keep directions
    /// apart as the packet's key has them, and turn them when the flow has ended.
    fn on_packet(&mut self, packet: &FlowPacket);

    /// The same where the frame is at hand, for what only its headers say.
    #[inline(always)]
    fn on_frame(&mut self, _frame: &Frame<'_>, packet: &FlowPacket) {
        self.on_packet(packet);
    }
}

/// Nothing is kept: costs nothing.
impl PerFlow for () {
    #[inline(always)]
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// Whether a flow had its slot before the flow of this generation. Generations wrap.
const fn is_before(slot: FlowSlot, generation: u32) -> bool {
    slot.generation.wrapping_sub(generation) >= 1 << 31
}

/// One state for each slot of a flow table, made when its flow is first seen.
pub struct SideSlab<S> {
    states: SegmentedVec<(u32, S)>,
}

impl<S: PerFlow> Default for SideSlab<S> {
    fn default() -> Self {
        Self { states: SegmentedVec::new() }
    }
}

impl<S: PerFlow> SideSlab<S> {
    /// Bytes kept for each flow.
    pub const BYTES_PER_FLOW: usize = if size_of::<S>() == 0 { 0 } else { size_of::<(u32, S)>() };

    /// Asks for the state of a flow ahead of its use.
    #[inline(always)]
    pub fn prefetch(&self, slot: FlowSlot) {
        if Self::BYTES_PER_FLOW > 0 {
            self.states.prefetch(slot.index);
        }
    }

    /// The state of a flow; the default where this is the first look at it.
    #[inline(always)]
    pub fn state(&mut self, slot: FlowSlot) -> Option<&mut S> {
        while self.states.len() <= slot.index {
            self.states.push((0, S::default()));
        }
        let (generation, state) = self.states.get_mut(slot.index)?;
        if *generation != slot.generation {
            debug_assert!(
                !is_before(slot, *generation),
                "a slot's earlier flow does not come back"
            );
            (*generation, *state) = (slot.generation, S::default());
        }
        Some(state)
    }

    /// The state of a flow that may have ended since; nothing where its slot has a later flow.
    #[inline]
    pub fn state_unless_over(&mut self, slot: FlowSlot) -> Option<&mut S> {
        let held = self.states.get(slot.index);
        match held.is_some_and(|(generation, _)| is_before(slot, *generation)) {
            true => None,
            false => self.state(slot),
        }
    }

    /// The state of a flow that was examined before and has not ended.
    #[inline]
    pub fn existing(&mut self, slot: FlowSlot) -> Option<&mut S> {
        let (generation, state) = self.states.get_mut(slot.index)?;
        (*generation == slot.generation).then_some(state)
    }

    /// What is kept for these flows is as before their first packets.
    pub fn forget(&mut self, slots: impl Iterator<Item = FlowSlot>) {
        for slot in slots {
            if let Some(state) = self.existing(slot) {
                *state = S::default();
            }
        }
    }

    /// The same to look at.
    #[must_use]
    pub fn seen(&self, slot: FlowSlot) -> Option<&S> {
        let (generation, state) = self.states.get(slot.index)?;
        (*generation == slot.generation).then_some(state)
    }

    /// What is kept for a flow; the default where no packet of it was taken in.
    #[must_use]
    pub fn kept(&self, slot: FlowSlot) -> S {
        let state = self.states.get(slot.index);
        state
            .filter(|(generation, _)| *generation == slot.generation)
            .cloned()
            .unwrap_or_default()
            .1
    }

    /// Takes in the packets of a piece, with their frames where those are read.
    #[inline]
    pub fn on_piece(&mut self, piece: &Piece<'_>) {
        if !S::READS_FRAMES {
            self.on_packets(piece.packets, piece.slots);
            return;
        }
        for slot in piece.slots {
            self.prefetch(*slot);
        }
        for (_, frame, packet, slot) in piece.flows() {
            if let Some(state) = self.state(slot) {
                state.on_frame(&frame, packet);
            }
        }
    }

    /// Takes in packets whose flows stand in `slots`, place by place.
    #[inline]
    pub fn on_packets(&mut self, packets: &[FlowPacket], slots: &[FlowSlot]) {
        if Self::BYTES_PER_FLOW == 0 {
            return;
        }
        for slot in slots {
            self.prefetch(*slot);
        }
        for (packet, slot) in packets.iter().zip(slots) {
            if let Some(state) = self.state(*slot) {
                state.on_packet(packet);
            }
        }
    }
}
