//! Flows with what is kept of their frames, before anyone shows them.

pub mod bits;
pub mod index;
pub mod steps;

use std::sync::Arc;

use engine::flow::{
    EndedFlow, FlowFrames, FlowOptions, FlowPacket, FlowSink, FlowSlot, FramesOutcome, FromFrames,
};
use engine::run::{Control, run_one};
use model::{FirstPackets, FlowFeatures};
use packet::{Frame, HashSeed};

use crate::done::RunTotals;
use crate::reading::{Inputs, OpenSources};

/// How flows are cut, and how they are spread.
#[derive(Clone, Copy, Debug)]
pub struct FlowsRequest {
    /// Time-outs, windows and limits.
    pub options: FlowOptions,
    /// Seed of the hash that spreads flows.
    pub seed: HashSeed,
}

/// Keeps what these features of flows are made of. The headers that they mean are those that the
/// inputs are asked for.
pub struct KeepFirst(pub FlowFeatures);

impl FromFrames for KeepFirst {
    type State = FirstPackets;

    #[inline]
    fn on_frame(
        &mut self,
        first: &mut FirstPackets,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        _: FlowSlot,
    ) {
        first.on_frame(&self.0, frame, packet.direction, packet.timestamp);
    }
}

/// Whoever takes flows, until it refuses.
struct Taken<P, E> {
    put: P,
    control: Arc<Control>,
    refusal: Option<E>,
}

impl<S, P, E> FlowSink<S> for Taken<P, E>
where
    P: FnMut(&[EndedFlow<S>]) -> Result<(), E>,
{
    fn take(&mut self, flows: &[EndedFlow<S>]) {
        if self.refusal.is_none()
            && let Err(refusal) = (self.put)(flows)
        {
            self.refusal = Some(refusal);
            self.control.fail();
        }
    }
}

/// Reads `opened` to its end and hands each flow to `put` when it has ended, those that end
/// together in the order of their first packets.
///
/// # Errors
/// What `put` returns.
pub fn compute<K: FromFrames, E>(
    request: FlowsRequest,
    keep: K,
    inputs: &Inputs,
    opened: OpenSources,
    put: impl FnMut(&[EndedFlow<K::State>]) -> Result<(), E>,
) -> Result<RunTotals, E> {
    let FlowsRequest { options, seed } = request;
    let taken = Taken { put, control: Arc::clone(&inputs.control), refusal: None };
    let mut stage = FlowFrames::new(options, seed, keep, taken);
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut stage, &inputs.control);
    drop(bar);
    let FramesOutcome { output, outcome, clock, counts, .. } = stage.finish();
    match output.refusal {
        Some(refusal) => Err(refusal),
        None => {
            let received = source.received();
            Ok(RunTotals { outcome, received, late: clock.late, clock_steps: clock.steps, counts })
        }
    }
}
