//! Flows in windows of time with what models read of them, before anyone shows them.

use std::sync::Arc;

use engine::flow::{
    EndedFlow, FlowFrames, FlowMark, FlowOptions, FlowPacket, FlowSink, FlowSlot, FlowState,
    FramesOutcome, FromFrames, MarkKind, States,
};
use engine::run::{Control, run_one};
use model::{WindowFeatures, WindowPackets};
use packet::{FlowDirection, FlowKey, Frame, HashSeed, Timestamp};

use crate::flows::RunTotals;
use crate::reading::{Inputs, OpenSources};

/// A request, for every front end.
#[derive(Clone, Debug)]
pub struct WindowsRequest {
    /// Time-outs and limits.
    pub options: FlowOptions,
    /// Seed of the hash that spreads flows.
    pub seed: HashSeed,
    /// What is kept of each flow. The headers that it means are those that the inputs are asked
    /// for.
    pub features: WindowFeatures,
}

/// One window of a flow, after its last packet.
#[derive(Debug)]
pub struct FlowWindow<'a> {
    /// The conversation.
    pub key: FlowKey,
    /// The way of the flow's first packet: its sender is the source.
    pub direction: FlowDirection,
    /// The stamp of the flow's first packet.
    pub first: Timestamp,
    /// The window, and what was counted in it.
    pub packets: &'a WindowPackets,
}

/// What is kept of a flow.
#[derive(Clone, Default)]
struct Following {
    begun: Option<(FlowKey, FlowDirection, Timestamp)>,
    packets: WindowPackets,
}

impl Following {
    fn window(&self) -> Option<FlowWindow<'_>> {
        let (key, direction, first) = self.begun?;
        Some(FlowWindow { key, direction, first, packets: &self.packets })
    }
}

/// Hands a window on when its flow comes to another one, or ends.
struct Keep<P, E> {
    features: WindowFeatures,
    now: Timestamp,
    put: P,
    control: Arc<Control>,
    refusal: Option<E>,
}

impl<P, E> Keep<P, E>
where
    P: FnMut(FlowWindow<'_>) -> Result<(), E>,
{
    fn hand_on(&mut self, flow: &Following) {
        if self.refusal.is_none()
            && let Some(window) = flow.window()
            && let Err(refusal) = (self.put)(window)
        {
            self.refusal = Some(refusal);
            self.control.fail();
        }
    }
}

impl<P, E> FromFrames for Keep<P, E>
where
    P: FnMut(FlowWindow<'_>) -> Result<(), E>,
{
    type State = Following;

    #[inline]
    fn on_frame(
        &mut self,
        flow: &mut Following,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        _: FlowSlot,
    ) {
        let (way, time) = (packet.direction, packet.timestamp);
        self.now = self.now.max(time);
        if flow.packets.ends_before(&self.features, self.now) {
            self.hand_on(flow);
        }
        flow.begun.get_or_insert((packet.key(), way, time));
        flow.packets.on_frame(&self.features, frame, way, time, self.now);
    }

    fn on_mark(&mut self, _: &mut States<'_, Following>, mark: FlowMark) {
        if mark.kind == MarkKind::Step {
            self.now = mark.watermark;
        }
    }

    fn on_end(&mut self, flow: &mut Following, _: &engine::flow::FlowEnd) {
        self.hand_on(&std::mem::take(flow));
    }
}

/// The windows in which the input ended.
#[derive(Default)]
struct Left(Vec<Following>);

impl FlowSink<Following> for Left {
    fn take(&mut self, flows: &[EndedFlow<Following>]) {
        let begun = flows.iter().filter(|(_, FlowState(flow))| flow.begun.is_some());
        self.0.extend(begun.map(|(_, FlowState(flow))| flow.clone()));
    }
}

/// Reads `opened` to its end and hands each window of each flow to `put`, those of a flow in order
/// of time. Windows in which a flow has no packet are none.
///
/// # Errors
/// What `put` returns.
pub fn compute<E>(
    request: WindowsRequest,
    inputs: &Inputs,
    opened: OpenSources,
    put: impl FnMut(FlowWindow<'_>) -> Result<(), E>,
) -> Result<RunTotals, E> {
    let WindowsRequest { options, seed, features } = request;
    let now = Timestamp::MIN;
    let keep = Keep { features, now, put, control: Arc::clone(&inputs.control), refusal: None };
    let mut stage = FlowFrames::new(options, seed, keep, Left::default());
    let mut source = inputs.in_order(opened);
    let bar = inputs.bar();
    run_one(&mut source, &mut stage, &inputs.control);
    drop(bar);
    let FramesOutcome { mut keep, output, outcome, clock, counts } = stage.finish();
    output.0.iter().for_each(|flow| keep.hand_on(flow));
    match keep.refusal {
        Some(refusal) => Err(refusal),
        None => {
            let received = source.received();
            Ok(RunTotals { outcome, received, late: clock.late, clock_steps: clock.steps, counts })
        }
    }
}
