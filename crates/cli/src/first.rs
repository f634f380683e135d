//! Flows with what models read of their first packets, before anyone shows them.

use std::sync::Arc;

use engine::flow::{
    EndedFlow, FlowFrames, FlowOptions, FlowPacket, FlowSlot, FramesDone, FromFrames, TakeEnded,
};
use engine::run::{Control, run_one};
use model::{FirstPackets, FlowFeatures};
use packet::{Frame, HashSeed};

use crate::flows::Done;
use crate::reading::{Inputs, Opened};

/// What is asked, whoever asks.
#[derive(Clone, Debug)]
pub struct FirstRequest {
    /// Time-outs and limits.
    pub options: FlowOptions,
    /// Seed of the hash that spreads flows.
    pub seed: HashSeed,
    /// What is kept of each flow. The headers that it means are those that the inputs are asked
    /// for.
    pub features: FlowFeatures,
}

/// Keeps what the features of flows are made of.
struct Keep(FlowFeatures);

impl FromFrames for Keep {
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

impl<P, E> TakeEnded<FirstPackets> for Taken<P, E>
where
    P: FnMut(&[EndedFlow<FirstPackets>]) -> Result<(), E>,
{
    fn take(&mut self, flows: &[EndedFlow<FirstPackets>]) {
        if self.refusal.is_none()
            && let Err(refusal) = (self.put)(flows)
        {
            self.refusal = Some(refusal);
            self.control.stop();
        }
    }
}

/// Reads `opened` to its end and hands each flow to `put` when it has ended, those that end together
/// in the order of their first packets.
///
/// # Errors
/// What `put` returns.
pub fn compute<E>(
    request: FirstRequest,
    inputs: &Inputs,
    opened: Opened,
    put: impl FnMut(&[EndedFlow<FirstPackets>]) -> Result<(), E>,
) -> Result<Done, E> {
    let FirstRequest { options, seed, features } = request;
    let taken = Taken { put, control: Arc::clone(&inputs.control), refusal: None };
    let mut stage = FlowFrames::new(options, seed, Keep(features), taken);
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut stage, &inputs.control);
    drop(bar);
    let FramesDone { output, outcome, clock, counts, .. } = stage.finish();
    match output.refusal {
        Some(refusal) => Err(refusal),
        None => {
            let received = source.received();
            Ok(Done { outcome, received, late: clock.late, clock_steps: clock.steps, counts })
        }
    }
}
