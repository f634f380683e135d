//! Flows with what is kept of their packets' own bytes.
//!
//! What crosses cores is a [`FlowPacket`], which has no bytes. So where frames themselves are
//! examined, one thread reads them and keeps the table as well: it touches each packet once, while
//! its headers are still in the cache.

use std::ops::Range;

use packet::{Batch, Frame, HashSeed};

use super::extract::{FlowClock, FlowMark, FlowPacket};
use super::options::FlowOptions;
use super::pass::{FaultScope, Labels, Lens, Now, Pass, PassOutcome, Piece};
use super::record::{FlowCounts, FlowRecord};
use super::rest::RemainingFlows;
use super::slab::{FlowSlot, PerFlow, SideSlab};
use super::table::FlowEnd;
use crate::group::Outcome;

/// Flows handed over per call of those that are left at the end.
const FLOWS_PER_PIECE: usize = 1 << 12;

/// Decides what is kept for a flow.
///
/// Only [`on_frame`](Self::on_frame) is needed. The others are for users that answer while
/// flows are open: what is asked of many flows together is gathered, and answered at a
/// [`pause`](Self::on_pause).
pub trait FromFrames {
    /// What is kept; the default is that of a flow without packets.
    type State: Clone + Default + Send + Sync;

    /// Takes in a frame of a flow, which stands in `slot` until it has ended.
    fn on_frame(
        &mut self,
        state: &mut Self::State,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    );

    /// A flow has ended, after its last frame. Its state is handed over after the next pause.
    #[inline]
    fn on_end(&mut self, _state: &mut Self::State, _ended: &FlowEnd) {}

    /// All frames of a batch have been taken in, or flows have ended whose states are about to be
    /// handed over. Every slot that was reported and has not ended before still stands for its
    /// flow.
    #[inline]
    fn on_pause(&mut self, _states: &mut States<'_, Self::State>) {}

    /// Event time has come so far; what ends by it ends after this. The last mark is reported as
    /// well; no end is reported for the flows that are left then.
    #[inline]
    fn on_mark(&mut self, _states: &mut States<'_, Self::State>, _mark: FlowMark) {}

    /// A panic may have left half done what is kept of the flow in `slot`, here and elsewhere: it
    /// is dropped. The flow begins again with its next frame.
    fn on_fault(&mut self, state: &mut Self::State, _slot: FlowSlot) {
        *state = Self::State::default();
    }
}

/// What is kept for flows, by where they stand.
pub struct States<'a, S>(pub(super) &'a mut dyn OfSlot<S>);

/// Finds what is kept for a flow.
pub(super) trait OfSlot<S> {
    fn of(&mut self, slot: FlowSlot) -> Option<&mut S>;
}

impl<S: Clone + Default + Send + Sync> OfSlot<S> for SideSlab<FlowState<S>> {
    fn of(&mut self, slot: FlowSlot) -> Option<&mut S> {
        self.existing(slot).map(|FlowState(state)| state)
    }
}

impl<'a, S: Clone + Default + Send + Sync> States<'a, S> {
    /// Those that a lens keeps by itself.
    pub fn in_slab(slab: &'a mut SideSlab<FlowState<S>>) -> Self {
        Self(slab)
    }
}

impl<S> States<'_, S> {
    /// What is kept for the flow in `slot`, unless it has given its place to another.
    #[inline]
    pub fn of(&mut self, slot: FlowSlot) -> Option<&mut S> {
        self.0.of(slot)
    }
}

/// What was kept for a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowState<S>(pub S);

impl<S: Clone + Default + Send + Sync> PerFlow for FlowState<S> {
    fn on_packet(&mut self, _: &FlowPacket) {}
}

/// A flow that has ended.
pub type EndedFlow<S> = (FlowRecord, FlowState<S>);

/// Who receives flows as they end.
pub trait FlowSink<S> {
    /// Whether it wants any: what is not taken is neither gathered nor put in order.
    const WANTS_ANY: bool = true;

    /// Takes flows that have ended since the last call, in the order of [`FlowRecord::order`].
    fn take(&mut self, flows: &[EndedFlow<S>]);
}

/// Discards them.
impl<S> FlowSink<S> for () {
    const WANTS_ANY: bool = false;

    fn take(&mut self, _: &[EndedFlow<S>]) {}
}

/// Flows of one reader, with their frames at hand: a pass with one lens.
pub struct FlowFrames<K: FromFrames, T>(Pass<FrameLens<K, T>>);

/// The lens: what is kept of frames, by flow.
pub struct FrameLens<K: FromFrames, T> {
    states: SideSlab<FlowState<K::State>>,
    ended: Vec<EndedFlow<K::State>>,
    /// Who decides what is kept.
    pub keep: K,
    /// Who receives flows as they end.
    pub output: T,
}

impl<K: FromFrames, T: FlowSink<K::State>> FrameLens<K, T> {
    /// Nothing kept yet.
    #[must_use]
    pub fn new(keep: K, output: T) -> Self {
        Self { states: SideSlab::default(), ended: Vec::new(), keep, output }
    }

    /// The flows in these slots that have not ended, with what is kept for them so far.
    #[must_use]
    pub fn open(&self, now: &Now<'_>, slots: Range<u32>) -> Vec<EndedFlow<K::State>> {
        let mut open = Vec::new();
        now.flows(slots, |record, slot| open.push((record, self.states.kept(slot))));
        open
    }
}

/// What is left of a run.
pub struct FramesOutcome<K, T> {
    /// Who decided what was kept.
    pub keep: K,
    /// Who received the flows.
    pub output: T,
    /// The outcome of the packets.
    pub outcome: Outcome,
    /// Event time.
    pub clock: FlowClock,
    /// Flows by how they ended.
    pub counts: FlowCounts,
}

impl<K: FromFrames, T: FlowSink<K::State>> FlowFrames<K, T> {
    /// No flows yet.
    #[must_use]
    pub fn new(options: FlowOptions, seed: HashSeed, keep: K, output: T) -> Self {
        Self(Pass::new(options, seed, FrameLens::new(keep, output)))
    }

    /// Hands over the flows that have not ended, and what is left.
    #[must_use]
    pub fn finish(self) -> FramesOutcome<K, T> {
        let PassOutcome { lens: FrameLens { keep, output, .. }, outcome, clock, counts } =
            self.0.finish();
        FramesOutcome { keep, output, outcome, clock, counts }
    }
}

impl<K: FromFrames, T: FlowSink<K::State>> Lens for FrameLens<K, T> {
    fn on_piece(&mut self, piece: &Piece<'_>, _: &mut Labels) {
        for &slot in piece.slots {
            self.states.prefetch(slot);
        }
        for (_, frame, packet, slot) in piece.flows() {
            if let Some(FlowState(state)) = self.states.state(slot) {
                self.keep.on_frame(state, &frame, packet, slot);
            }
        }
    }

    fn on_ended(&mut self, ended: &[FlowEnd], _: &mut Labels) {
        for ended in ended {
            if let Some(FlowState(state)) = self.states.state(ended.slot) {
                self.keep.on_end(state, ended);
            }
        }
        self.keep.on_pause(&mut States(&mut self.states));
        for FlowEnd { record, slot, .. } in ended {
            let state = self.states.state(*slot).map(std::mem::take);
            if T::WANTS_ANY {
                self.ended.push((*record, state.unwrap_or_default()));
            }
        }
    }

    fn on_batch_end(&mut self, _: &mut Labels) {
        self.keep.on_pause(&mut States(&mut self.states));
    }

    fn on_mark(&mut self, mark: FlowMark, _: &mut Labels) {
        self.keep.on_mark(&mut States(&mut self.states), mark);
    }

    fn on_marked(&mut self, _: FlowMark) {
        if !self.ended.is_empty() {
            FlowRecord::sort(&mut self.ended, |(record, _)| record);
            self.ended.chunks(FLOWS_PER_PIECE).for_each(|flows| self.output.take(flows));
            self.ended.clear();
            // Many end together only after a silence, or where a clock was set.
            self.ended.shrink_to(FLOWS_PER_PIECE);
        }
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        let Self { states, keep, .. } = self;
        for slot in lost.slots() {
            if let Some(FlowState(state)) = states.existing(slot) {
                keep.on_fault(state, slot);
            }
        }
        true
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, _: &Labels) {
        if !T::WANTS_ANY {
            return;
        }
        let Self { states, output, ended, .. } = self;
        left.in_order(FLOWS_PER_PIECE, |flows| {
            ended.clear();
            ended.extend(flows.iter().map(|&(record, slot)| (record, states.kept(slot))));
            output.take(ended);
        });
    }
}

impl<K: FromFrames, T: FlowSink<K::State>> crate::Stage for FlowFrames<K, T> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        self.0.on_batch(batch);
    }
}
