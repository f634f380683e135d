//! Names of flows as they are read, for a model that takes them for evidence.

use std::sync::Arc;

use classify::evidence::NamesSoFar;
use classify::{Cascade, Classifier, Clock, Options, Standing, TakeVerdicts};
use engine::flow::{
    FlowEnd, FlowMark, FlowPacket, FlowSlot, FlowState, FromFrames, SideSlab, States,
};
use names::counts::Counts;
use names::reader::{Limits, NameState, Reader};
use packet::{Frame, Span};

/// Names of flows that have not ended.
pub(crate) struct Naming {
    states: SideSlab<FlowState<NameState>>,
    reader: Reader,
}

impl Naming {
    pub(crate) fn new(idle_timeout: Span) -> Self {
        let reader = Reader::new(Limits { idle_timeout, ..Limits::default() });
        Self { states: SideSlab::default(), reader }
    }

    /// What is known of a flow with this packet.
    #[inline]
    pub(crate) fn on_frame(
        &mut self,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) -> Option<NamesSoFar<'_>> {
        let FlowState(named) = self.states.state(slot)?;
        self.reader.on_frame(named, frame, packet, slot);
        Some(NamesSoFar { is_final: named.is_identified(), seen: &named.seen })
    }

    pub(crate) fn on_ended(&mut self, ended: &FlowEnd) {
        if let Some(FlowState(named)) = self.states.state(ended.slot) {
            self.reader.on_end(named, ended);
            *named = NameState::default();
        }
    }

    pub(crate) fn on_fault(&mut self, slot: FlowSlot) {
        if let Some(FlowState(named)) = self.states.existing(slot) {
            self.reader.on_fault(named, slot);
        }
    }

    pub(crate) fn pause(&mut self) {
        self.reader.on_pause(&mut States::in_slab(&mut self.states));
    }
}

/// A classifier, and the names of flows where its cascade takes them for evidence.
pub(crate) struct NamedClassifier<C, O> {
    /// Who decides.
    pub(crate) by_packets: Classifier<C, O>,
    naming: Option<Naming>,
}

/// What is left in the end.
pub(crate) struct NamingOutcome {
    /// How flows were decided.
    pub(crate) counts: classify::Counts,
    /// What was read of names, if they were.
    pub(crate) names: Option<Counts>,
}

impl<C: Clock, O: TakeVerdicts> NamedClassifier<C, O> {
    pub(crate) fn new(cascade: Arc<Cascade>, options: Options, clock: C, output: O) -> Self {
        let naming = cascade.names().map(|_| Naming::new(cascade.flows().idle));
        Self { by_packets: Classifier::new(cascade, options, clock, output), naming }
    }

    /// Takes over what DNS has answered: hosts do not ask again because a model is replaced.
    pub(super) fn continue_from(&mut self, other: &Self) {
        if let (Some(naming), Some(other)) = (&mut self.naming, &other.naming) {
            naming.reader.learn_from(&other.reader);
        }
    }

    /// How flows were decided so far, how many wait, and what was read of names.
    pub(super) fn counts(&self) -> (classify::Counts, usize, Option<Counts>) {
        let Self { by_packets, naming } = self;
        let names = naming.as_ref().map(|naming| naming.reader.counts());
        (by_packets.counts(), by_packets.waiting_count(), names)
    }

    pub(crate) fn finish(self) -> NamingOutcome {
        let (counts, _) = self.by_packets.finish();
        NamingOutcome { counts, names: self.naming.map(|naming| naming.reader.counts()) }
    }
}

impl<C: Clock, O: TakeVerdicts> FromFrames for NamedClassifier<C, O> {
    type State = Standing;

    #[inline]
    fn on_frame(
        &mut self,
        standing: &mut Standing,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        let naming = self.naming.as_mut();
        let names = naming.and_then(|naming| naming.on_frame(frame, packet, slot));
        self.by_packets.on_named_frame(standing, frame, packet, slot, names);
    }

    fn on_end(&mut self, standing: &mut Standing, ended: &FlowEnd) {
        if let Some(naming) = &mut self.naming {
            naming.on_ended(ended);
        }
        self.by_packets.on_end(standing, ended);
    }

    fn on_fault(&mut self, standing: &mut Standing, slot: FlowSlot) {
        if let Some(naming) = &mut self.naming {
            naming.on_fault(slot);
        }
        self.by_packets.on_fault(standing, slot);
    }

    fn on_pause(&mut self, states: &mut States<'_, Standing>) {
        if let Some(naming) = &mut self.naming {
            naming.pause();
        }
        self.by_packets.on_pause(states);
    }

    fn on_mark(&mut self, states: &mut States<'_, Standing>, mark: FlowMark) {
        self.by_packets.on_mark(states, mark);
    }
}
