//! Serving a cascade in windows of time: a verdict for each window of each flow, while it
//! continues.
//!
//! Within a window it is as with flows: the first stage is asked at the packet with which it has
//! all that it looks at, the next one where it is unsure. A stage that looks at the whole window is
//! asked when the window is over, and so is one whose packets did not come. Models are asked about
//! one row at a time: an answer is due immediately, and a flow has one row in a second.
//!
//! **A window is over** when a packet of any flow, or a mark, shows that time has come to its end.
//! A window in which a flow has no packet has no verdict.
//!
//! **Limits.** At most [`Options::waiting_max`] flows are followed at a time; one that begins
//! beyond that has no verdicts and is counted ([`Counts::unfollowed`]). A flow is followed until it
//! ends. [`WindowClassifier::size_bytes_max`] returns the bound.

use std::sync::Arc;

use engine::flow::{FlowEnd, FlowMark, FlowPacket, FlowSlot, FromFrames, MarkKind, States};
use model::{WindowFeatures, WindowPackets};
use packet::{FlowDirection, FlowKey, Frame, Protocol, Timestamp, must};

use crate::cascade::{Cascade, Segmentation};
use crate::counts::Counts;
use crate::model::Asking;
use crate::serve::{Clock, Options, TakeVerdicts, is_cut};
use crate::uncertainty::Answer;
use crate::verdict::{Cause, Verdict};

/// What is kept of a flow.
#[derive(Clone, Debug, Default)]
pub enum FlowTracking {
    /// None of its packets was seen.
    #[default]
    New,
    /// There was no room for it.
    Unfollowed,
    /// It is followed.
    Followed(Box<TrackedFlow>),
}

/// A flow that is followed.
#[derive(Clone, Debug)]
pub struct TrackedFlow {
    key: FlowKey,
    /// Of its first packet.
    direction: FlowDirection,
    input: u16,
    first: Timestamp,
    packets: WindowPackets,
    /// The stamp of its last packet.
    last: Timestamp,
    /// The stage that is asked next in this window, by its index; beyond all of them where the
    /// window is decided.
    stage: usize,
    /// The last answer about this window, and the stage that gave it.
    given: Option<(usize, Answer)>,
    /// Whether a packet of the window was several.
    is_merged: bool,
}

/// When and why a stage is asked.
#[derive(Clone, Copy)]
enum Moment {
    /// At a packet.
    Packet(Timestamp),
    /// At the end of the window.
    End(Timestamp),
}

/// Asks the models of a cascade about the windows of flows.
pub struct WindowClassifier<C, O> {
    cascade: Arc<Cascade>,
    features: WindowFeatures,
    options: Options,
    clock: C,
    output: O,
    asking: Vec<Asking>,
    /// Event time.
    now: Timestamp,
    /// Flows with a packet in a window that was not over when it came.
    open: Vec<FlowSlot>,
    followed_count: usize,
    verdicts: Vec<Verdict>,
    counts: Counts,
}

impl<C: Clock, O: TakeVerdicts> WindowClassifier<C, O> {
    /// No flows yet. `features` are those of all stages ([`Cascade::window`]).
    #[must_use]
    pub fn new(
        cascade: Arc<Cascade>,
        features: WindowFeatures,
        options: Options,
        clock: C,
        output: O,
    ) -> Self {
        let asking = cascade.stages.iter().map(|stage| Asking::new(stage, 1)).collect();
        Self {
            counts: Counts::new(&cascade),
            cascade,
            features,
            options,
            clock,
            output,
            asking,
            now: Timestamp::MIN,
            open: Vec::new(),
            followed_count: 0,
            verdicts: Vec::new(),
        }
    }

    /// Outcome of the windows so far, up to the last mark.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Flows that are followed.
    #[must_use]
    pub const fn followed_count(&self) -> usize {
        self.followed_count
    }

    /// Outcome of the windows, and who received the verdicts.
    #[must_use]
    pub fn finish(self) -> (Counts, O) {
        (self.counts, self.output)
    }

    /// What the flows that are followed never exceed.
    #[must_use]
    pub fn size_bytes_max(&self) -> usize {
        let flow = size_of::<TrackedFlow>() + size_of::<FlowSlot>();
        (flow + WindowPackets::size_bytes_max(&self.features)) * self.options.waiting_max
    }

    /// A flow's first packet.
    fn begin(&mut self, frame: &Frame<'_>, packet: &FlowPacket) -> FlowTracking {
        let protocol = packet.key().protocol();
        let is_other = protocol != Protocol::TCP && protocol != Protocol::UDP;
        self.counts.other_protocols += u64::from(is_other);
        self.counts.cut_headers += u64::from(is_cut(frame, &self.cascade));
        if self.followed_count >= self.options.waiting_max {
            self.counts.unfollowed += 1;
            return FlowTracking::Unfollowed;
        }
        self.followed_count += 1;
        self.counts.waiting_most = self.counts.waiting_most.max(self.followed_count as u64);
        FlowTracking::Followed(Box::new(TrackedFlow {
            key: packet.key(),
            direction: packet.direction,
            input: packet.input(),
            first: packet.timestamp,
            packets: WindowPackets::default(),
            last: packet.timestamp,
            stage: usize::MAX,
            given: None,
            is_merged: false,
        }))
    }

    /// Asks the stages that have what they look at, or will not have it.
    fn ask(&mut self, flow: &mut TrackedFlow, moment: Moment) {
        let cascade = Arc::clone(&self.cascade);
        while let Some(stage) = cascade.stages.get(flow.stage) {
            let Some(window) = stage.window() else { return };
            let wanted = window.first().packets() as u64;
            let has_packets = flow.packets.packet_count() >= wanted;
            let is_at_end = matches!(moment, Moment::End(_));
            if !is_at_end && (!has_packets || window.needs_whole_window()) {
                return;
            }
            let Some(asking) = self.asking.get_mut(flow.stage) else { return };
            if let Some(count) = self.counts.asked.get_mut(stage.name as usize) {
                *count += 1;
            }
            asking.push_window(stage, window, &flow.packets);
            let mut given = None;
            let failure = asking.answer(stage, |answer| given = Some(answer));
            if let Some(failure) = failure {
                self.counts.failures.note(stage.name, failure);
            }
            let Some(answer) = given else { return };
            // Where a model failed, the answer of the stage before stands.
            if !answer.is_none() || flow.given.is_none() {
                flow.given = Some((flow.stage, answer));
            }
            flow.stage += 1;
            let is_last = flow.stage == cascade.stages.len();
            if !is_last && !stage.is_enough(&answer) {
                continue;
            }
            let cause = match moment {
                _ if answer.is_none() => Cause::Unanswered,
                Moment::End(_) if !has_packets && !window.needs_whole_window() => Cause::Ended,
                _ if is_last => Cause::LastStage,
                _ => Cause::Confident,
            };
            flow.stage = usize::MAX;
            self.decide(flow, cause, moment);
        }
    }

    /// The last answer stands.
    fn decide(&mut self, flow: &TrackedFlow, cause: Cause, moment: Moment) {
        let Some(window) = flow.packets.window() else { return };
        let given = must(flow.given, "a window is decided by an answer");
        let Some((stage, answer)) = given else { return };
        let Some(stage) = self.cascade.stages.get(stage) else { return };
        let mut shown = flow.packets.packet_count();
        if let Some(features) = stage.window()
            && !features.needs_whole_window()
        {
            shown = shown.min(features.first().packets() as u64);
        }
        let (decided, latency_ns) = match moment {
            Moment::Packet(time) => (time, self.clock.latency_ns(time)),
            Moment::End(time) => (time, None),
        };
        self.verdicts.push(Verdict {
            key: flow.key,
            direction: flow.direction,
            input: flow.input,
            first: flow.first,
            window: Some(window),
            label: self.cascade.label(&answer),
            confidence: answer.confidence,
            stage: Some(stage.name),
            packets_used: u16::try_from(shown).unwrap_or(u16::MAX),
            deciding: flow.last,
            decided,
            cause,
            latency_ns,
            version: 0,
            other_segmentation: flow.is_merged && self.cascade.segmentation == Segmentation::Single,
        });
    }

    /// The window of a flow is over, if it was not before.
    fn close(&mut self, flow: &mut TrackedFlow) {
        if flow.stage < self.cascade.stages.len()
            && let Some(window) = flow.packets.window()
        {
            self.ask(flow, Moment::End(window.plus(self.features.every())));
        }
    }

    /// Closes windows that are over, or all of them.
    fn close_due(&mut self, states: &mut States<'_, FlowTracking>, is_last: bool) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|&slot| {
            let Some(FlowTracking::Followed(flow)) = states.of(slot) else { return false };
            if !is_last && !flow.packets.ends_before(&self.features, self.now) {
                return true;
            }
            self.close(flow);
            false
        });
        self.open = open;
    }

    fn hand_over(&mut self) {
        self.verdicts.sort_by_key(Verdict::order);
        self.verdicts.iter().for_each(|verdict| self.counts.add(verdict));
        self.output.take(&self.verdicts);
        self.verdicts.clear();
    }
}

impl<C: Clock, O: TakeVerdicts> FromFrames for WindowClassifier<C, O> {
    type State = FlowTracking;

    fn on_frame(
        &mut self,
        following: &mut FlowTracking,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        let (way, time) = (packet.direction, packet.timestamp);
        self.now = self.now.max(time);
        if matches!(following, FlowTracking::New) {
            *following = self.begin(frame, packet);
        }
        let FlowTracking::Followed(flow) = following else { return };
        let is_over = flow.packets.ends_before(&self.features, self.now);
        if is_over {
            self.close(flow);
        }
        let begins = is_over || flow.packets.window().is_none();
        flow.packets.on_frame(&self.features, frame, way, time, self.now);
        if begins {
            (flow.stage, flow.given, flow.is_merged) = (0, None, false);
            self.counts.begun += 1;
            self.open.push(slot);
        }
        flow.last = time;
        flow.is_merged |= frame.record.segments > 1;
        self.ask(flow, Moment::Packet(time));
    }

    fn on_end(&mut self, following: &mut FlowTracking, _: &FlowEnd) {
        if let FlowTracking::Followed(mut flow) = std::mem::take(following) {
            self.close(&mut flow);
            self.followed_count -= 1;
        }
    }

    fn on_fault(&mut self, following: &mut FlowTracking, _: FlowSlot) {
        if let FlowTracking::Followed(flow) = std::mem::take(following) {
            let is_open = flow.stage < self.cascade.stages.len() && flow.packets.window().is_some();
            self.counts.begun = self.counts.begun.saturating_sub(u64::from(is_open));
            self.counts.given_up += u64::from(is_open);
            self.followed_count -= 1;
        }
    }

    fn on_mark(&mut self, states: &mut States<'_, FlowTracking>, mark: FlowMark) {
        let is_step = mark.kind == MarkKind::Step;
        self.now = if is_step { mark.watermark } else { self.now.max(mark.watermark) };
        self.close_due(states, is_step || mark.kind == MarkKind::Last);
        self.hand_over();
    }
}
