//! Names of flows as they are read, for a model that takes them for evidence.

use classify::evidence::NamesSoFar;
use engine::flow::{Ended, FlowPacket, FlowSlot, FromFrames as _, Held, SideSlab, States};
use names::counts::Counts;
use names::reader::{Limits, Named, Reader};
use packet::{Frame, Span};

/// Names of flows that have not ended.
pub(super) struct Naming {
    states: SideSlab<Held<Named>>,
    reader: Reader,
}

impl Naming {
    pub(super) fn new(idle_timeout: Span) -> Self {
        let reader = Reader::new(Limits { idle_timeout, ..Limits::default() });
        Self { states: SideSlab::default(), reader }
    }

    /// What is known of a flow with this packet.
    #[inline]
    pub(super) fn on_frame(
        &mut self,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) -> Option<NamesSoFar<'_>> {
        let Held(named) = self.states.state(slot)?;
        self.reader.on_frame(named, frame, packet, slot);
        Some(NamesSoFar { is_final: named.is_identified(), seen: &named.seen })
    }

    pub(super) fn on_ended(&mut self, ended: &Ended) {
        if let Some(Held(named)) = self.states.state(ended.slot) {
            self.reader.on_end(named, ended);
            *named = Named::default();
        }
    }

    pub(super) fn pause(&mut self) {
        self.reader.on_pause(&mut States::in_slab(&mut self.states));
    }

    pub(super) fn counts(&self) -> Counts {
        self.reader.counts()
    }
}
