//! Two things that are kept for a flow.

use std::marker::PhantomData;

use packet::Frame;

use super::extract::{FlowMark, FlowPacket};
use super::frames::{FromFrames, OfSlot, States};
use super::slab::{FlowSlot, PerFlow};
use super::table::FlowEnd;

/// Keeps of a flow what `K` keeps, and what `P` keeps of its packets.
pub struct With<K, P> {
    /// Who decides what is kept of frames.
    pub keep: K,
    kept: PhantomData<P>,
}

impl<K: FromFrames, P: PerFlow> With<K, P> {
    /// Nothing kept yet.
    pub const fn new(keep: K) -> Self {
        Self { keep, kept: PhantomData }
    }
}

/// The first of both, by slot.
struct First<'a, A, P>(&'a mut dyn OfSlot<(A, P)>);

impl<A, P> OfSlot<A> for First<'_, A, P> {
    fn of(&mut self, slot: FlowSlot) -> Option<&mut A> {
        self.0.of(slot).map(|(first, _)| first)
    }
}

impl<K: FromFrames, P: PerFlow> FromFrames for With<K, P> {
    type State = (K::State, P);

    #[inline]
    fn on_frame(
        &mut self,
        (first, second): &mut (K::State, P),
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        second.on_frame(frame, packet);
        self.keep.on_frame(first, frame, packet, slot);
    }

    fn on_end(&mut self, (first, _): &mut (K::State, P), ended: &FlowEnd) {
        self.keep.on_end(first, ended);
    }

    fn on_pause(&mut self, states: &mut States<'_, (K::State, P)>) {
        self.keep.on_pause(&mut States(&mut First(states.0)));
    }

    fn on_fault(&mut self, (first, second): &mut (K::State, P), slot: FlowSlot) {
        self.keep.on_fault(first, slot);
        *second = P::default();
    }

    fn on_mark(&mut self, states: &mut States<'_, (K::State, P)>, mark: FlowMark) {
        self.keep.on_mark(&mut States(&mut First(states.0)), mark);
    }
}
