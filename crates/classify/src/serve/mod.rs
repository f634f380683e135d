//! Serving a cascade: from the frames of flows to one verdict each.
//!
//! A flow is undecided from its first packet until its verdict. The rows of a batch's first packets
//! are scored together at the end of the batch by the first stage; where that is unsure, the next
//! stage is asked, immediately where it looks at no more packets. Otherwise the flow waits, and its
//! packets are kept as compact records until the stage has as many as it looks at, the flow has
//! ended, or has waited long enough: then it is scored with what there is. A decided flow keeps
//! nothing but its verdict, and its packets are ignored.
//!
//! **When a flow stops waiting** is decided by event time: by a packet of its own that comes too
//! late, which is then ignored, or by a mark ([`FlowMark`]). Both stand at the same place in the
//! input however it is cut into batches.
//!
//! **Limits.** At most [`Options::waiting_max`] flows wait; one more is decided immediately by the
//! last stage that was asked ([`Cause::Full`]), or, where none was, by the first with the packets
//! there are. In addition there are as many undecided flows as begin in one batch. Each keeps a few
//! hundred bytes and its records; [`Classifier::size_bytes_max`] returns the bound.

mod asking;
mod consumers;
mod elsewhere;
mod first;
mod hosts;
mod standing;
mod undecided;

use std::sync::Arc;

use engine::flow::{FlowEnd, FlowMark, FlowPacket, FlowSlot, FromFrames, MarkKind, States};
use packet::{BATCH_LEN_MAX, Frame, Timestamp, must};

use crate::cascade::{Cascade, Segmentation};
use crate::counts::Counts;
use crate::evidence::{FlowEvidence, NamesSoFar};
use crate::failures::Failures;
use crate::host::HostVerdict;
use crate::memory::Memory;
use crate::model::Asking;
use crate::uncertainty::Answer;
use crate::verdict::{Cause, Label, Verdict};
use consumers::Consumers;
use elsewhere::Answering;
pub use elsewhere::{AskElsewhere, StageOutcome, StageRow, StageRows};
pub(crate) use first::is_cut;
use first::{is_portless, named_by_protocol};
pub use standing::{Decision, EarlyVerdict, Progress, Standing};
use undecided::{PendingFlow, Pool, StageOutput};

/// Rows that a model is asked about in one call. So many go down a tree together; more would only
/// make the first wait for the last.
const ROWS_MAX: usize = 64;

/// How flows are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Flows that wait for packets at most.
    pub waiting_max: usize,
    /// Threads that answer for the stages after the first; 1 or none: the one that keeps the flows
    /// does it itself.
    pub consumer_count: usize,
    /// Hosts that are remembered at most, where the cascade remembers any.
    pub hosts_max: usize,
    /// Whether frames come whether we keep up or not. Where consumers do not, the last answer then
    /// stands ([`Cause::Full`]); else they are waited for, and verdicts are the same as without.
    pub is_live: bool,
    /// The number of the model among those of a run, where models replace each other.
    pub version: u16,
}

impl Options {
    /// Flows that wait by default: ten seconds of 6,500 undecided flows a second.
    pub const WAITING_MAX_DEFAULT: usize = 1 << 16;

    /// Hosts that are remembered by default.
    pub const HOSTS_MAX_DEFAULT: usize = 1 << 16;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            waiting_max: Self::WAITING_MAX_DEFAULT,
            consumer_count: 1,
            hosts_max: Self::HOSTS_MAX_DEFAULT,
            is_live: false,
            version: 0,
        }
    }
}

/// The clock outside, which a door lends for latencies only: nothing that is decided depends on it.
pub trait Clock {
    /// Nanoseconds since a frame with this stamp became readable, where that is known.
    fn latency_ns(&self, stamp: Timestamp) -> Option<u64>;
}

/// No clock.
impl Clock for () {
    fn latency_ns(&self, _: Timestamp) -> Option<u64> {
        None
    }
}

/// Who receives verdicts.
pub trait TakeVerdicts {
    /// Takes the verdicts since the last call, in the order of [`Verdict::order`]. Called at each
    /// mark, also where there are none.
    fn take(&mut self, verdicts: &[Verdict]);

    /// Takes the verdicts on hosts since the last call, by address, where they are
    /// [noted](Classifier::note_hosts). Called at each mark then, after [`take`](Self::take).
    fn take_hosts(&mut self, _verdicts: &[HostVerdict]) {}
}

/// Asks the models of a cascade about flows.
pub struct Classifier<C, O> {
    cascade: Arc<Cascade>,
    options: Options,
    clock: C,
    output: O,
    undecided: Pool,
    /// Flows waiting for packets.
    waiting_count: usize,
    /// By stage: rows that are complete, or will not be.
    ready: Vec<Vec<u32>>,
    asking: Vec<Asking>,
    answers: Vec<Answer>,
    /// Who computes the stages after the first, if not we.
    answering: Option<Answering>,
    answered: Vec<StageOutcome>,
    /// What is remembered of hosts, if anything.
    memory: Option<Memory>,
    /// Whether verdicts on hosts are wanted.
    notes_hosts: bool,
    /// Verdicts that are not remembered yet, with what the model says by itself.
    unremembered: Vec<(Verdict, Vec<f64>)>,
    /// Event time.
    now: Timestamp,
    due: Vec<u32>,
    verdicts: Vec<Verdict>,
    /// If they were asked for, flows that were decided since the last look.
    decided: Option<Vec<EarlyVerdict>>,
    /// Labels for which a stage before the last is not enough.
    again: Vec<Label>,
    counts: Counts,
}

impl<C: Clock, O: TakeVerdicts> Classifier<C, O> {
    /// No flows yet.
    #[must_use]
    pub fn new(cascade: Arc<Cascade>, options: Options, clock: C, output: O) -> Self {
        let counts = Counts::new(&cascade);
        let asking = cascade.stages.iter().map(|stage| Asking::new(stage, ROWS_MAX)).collect();
        let memory = cascade.memory.map(|rule| Memory::new(rule, options.hosts_max));
        // What is remembered lies with the flows.
        let is_divided = options.consumer_count > 1 && memory.is_none();
        let answering = (is_divided && cascade.stages.len() > 1)
            .then(|| Answering::Threads(Consumers::start(&cascade, options.consumer_count)));
        let ready = cascade.stages.iter().map(|_| Vec::with_capacity(ROWS_MAX)).collect();
        Self {
            cascade,
            options,
            clock,
            output,
            undecided: Pool::new(),
            waiting_count: 0,
            ready,
            asking,
            answers: Vec::with_capacity(ROWS_MAX),
            answering,
            answered: Vec::new(),
            memory,
            notes_hosts: false,
            unremembered: Vec::new(),
            now: Timestamp::MIN,
            due: Vec::new(),
            verdicts: Vec::new(),
            decided: None,
            again: Vec::new(),
            counts,
        }
    }

    /// Has the stages after the first computed elsewhere. Where hosts are remembered they are not:
    /// what is remembered lies with the flows.
    pub fn ask_elsewhere(&mut self, to: Box<dyn AskElsewhere>) {
        if self.memory.is_none() {
            self.answering = Some(Answering::elsewhere(to));
        }
    }

    /// From here on also notes flows when they are decided, for
    /// [`take_decided`](Self::take_decided).
    pub fn note_decided(&mut self) {
        self.decided.get_or_insert_default();
    }

    /// From the next answer on, the last stage is asked about a flow with one of these labels,
    /// however sure a stage before it is. `Unknown` stands for any guess. Until then the first
    /// label holds; the verdict is that of the last stage.
    pub fn ask_again(&mut self, about: Vec<Label>) {
        self.again = about;
    }

    fn is_asked_again(&self, answer: &Answer) -> bool {
        if self.again.is_empty() {
            return false;
        }
        let label = self.cascade.label(answer);
        let fits = |again: &Label| *again == label || again.is_unknown() && label.is_unknown();
        self.again.iter().any(fits)
    }

    /// The flows that were decided since the last call, save those that have given their place to
    /// others.
    pub fn take_decided(&mut self) -> impl Iterator<Item = EarlyVerdict> + '_ {
        self.decided.iter_mut().flat_map(|decided| decided.drain(..))
    }

    /// How far a flow is that is not decided.
    #[must_use]
    pub fn progress(&self, standing: Standing) -> Option<Progress> {
        let Standing::Undecided(place) = standing else { return None };
        let flow = self.undecided.get(place)?;
        let packet_count = flow.packet_count;
        Some(Progress { packet_count, is_closed: flow.closed.is_some() })
    }

    /// Outcome of the flows so far, up to the last mark.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { failures: self.failures(), ..self.counts.clone() };
        if let Some(memory) = &self.memory {
            counts.hosts = memory.host_count() as u64;
            counts.hosts_forgotten = memory.forgotten();
        }
        counts
    }

    /// Rows without an answer of their stage, as its model failed, so far.
    #[must_use]
    pub fn failures(&self) -> Failures {
        let mut failures = self.counts.failures.clone();
        if let Some(answering) = &self.answering {
            failures.fold(&answering.failures());
        }
        failures
    }

    /// Flows waiting for packets.
    #[must_use]
    pub const fn waiting_count(&self) -> usize {
        self.waiting_count
    }

    /// Whether no flow is undecided, and every verdict was handed over.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.undecided.is_empty() && self.verdicts.is_empty()
    }

    /// Who receives the verdicts.
    pub const fn output_mut(&mut self) -> &mut O {
        &mut self.output
    }

    /// Outcome of the flows, and who received the verdicts.
    #[must_use]
    pub fn finish(self) -> (Counts, O) {
        (self.counts(), self.output)
    }

    /// Bytes of undecided flows. Looks at every one.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.undecided.size_bytes()
    }

    /// What [`size_bytes`](Self::size_bytes) never exceeds: lists grow by doubling, and so may
    /// have room for twice what is in them.
    #[must_use]
    pub fn size_bytes_max(&self) -> usize {
        let features = &self.cascade.features;
        let packet = features.layout().record_len() + PACKET_BYTES;
        let names = if self.cascade.names.is_some() { size_of::<FlowEvidence>() } else { 0 };
        let flow =
            size_of::<PendingFlow>() + size_of::<u32>() + packet * self.cascade.packets() + names;
        let under_way = self.answering.as_ref().map_or(0, Answering::under_way_max);
        2 * flow * (self.options.waiting_max + BATCH_LEN_MAX + 2 * under_way)
    }

    /// A flow's first packet: decided by its protocol where that has no ports and the cascade
    /// names such flows by it.
    fn begin(&mut self, frame: &Frame<'_>, packet: &FlowPacket, slot: FlowSlot) -> Standing {
        self.counts.begun += 1;
        let is_other = is_portless(packet.key().protocol());
        self.counts.other_protocols += u64::from(is_other);
        if is_other && self.cascade.names_protocols {
            let latency_ns = self.clock.latency_ns(packet.timestamp);
            let verdict = named_by_protocol(packet, latency_ns, self.options.version);
            let Verdict { confidence, label, packets_used, stage, cause, .. } = verdict;
            self.verdicts.push(verdict);
            if let Some(decided) = &mut self.decided {
                decided.push(EarlyVerdict { slot, label, packets_used, cause });
            }
            return Standing::Decided(Decision { confidence, label, packets_used, stage });
        }
        self.counts.cut_headers += u64::from(is_cut(frame, &self.cascade));
        Standing::Undecided(self.undecided.begin(packet, slot, self.now))
    }

    /// A flow that is not decided begins again with its next packet. A verdict stands: a second one
    /// for the flow would be wrong.
    fn give_up(&mut self, standing: &mut Standing) {
        if matches!(standing, Standing::Decided(_)) {
            return;
        }
        self.counts.given_up += 1;
        let Standing::Undecided(place) = std::mem::take(standing) else { return };
        let Self { undecided, ready, answering, .. } = self;
        let Some(flow) = undecided.get_mut(place) else { return };
        let mut waits = ready.get_mut(flow.stage).into_iter();
        let is_ready = waits.any(|ready| {
            let found = ready.iter().position(|&one| one == place);
            found.map(|at| ready.swap_remove(at)).is_some()
        });
        self.waiting_count -= usize::from(std::mem::take(&mut flow.is_waiting));
        self.counts.begun = self.counts.begun.saturating_sub(1);
        if flow.is_asked && !is_ready && answering.is_some() {
            // Its place is another's only after the answer, which says nothing of what begins.
            flow.is_given_up = true;
            return;
        }
        undecided.release(place);
    }

    /// Takes in a packet of a flow that is not decided.
    fn take_in(
        &mut self,
        place: u32,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        names: Option<NamesSoFar<'_>>,
    ) {
        let Self { cascade, undecided, .. } = self;
        let Some(flow) = must(undecided.get_mut(place), "an undecided flow is kept") else {
            return;
        };
        if flow.closed.is_some() {
            return;
        }
        let (count, time) = (flow.packet_count, packet.timestamp);
        if count > 0 && time.since(flow.first) >= cascade.wait {
            flow.close(Cause::Waited, time);
        } else {
            let depth = cascade.packets();
            if count == depth {
                return;
            }
            flow.packet_count += 1;
            flow.packets.on_frame(&cascade.features, frame, packet.direction, time);
            if let Some(names) = names {
                flow.take_names(cascade, names);
            }
            flow.stamp(time, depth);
            if frame.record.segments > 1 && flow.merged_packet == 0 {
                flow.merged_packet = count + 1;
            }
        }
        self.route(place);
    }

    /// Sends the row of a flow to its stage, if it is complete or will not be. False where the
    /// flow has to wait and cannot, but has an answer.
    fn route(&mut self, place: u32) -> bool {
        let Self { cascade, undecided, ready, .. } = self;
        let Some(flow) = must(undecided.get_mut(place), "a routed flow is kept") else {
            return true;
        };
        let Some(stage) = must(cascade.stages.get(flow.stage), "a flow's stage exists") else {
            return true;
        };
        if flow.is_asked {
            return true;
        }
        let is_complete = flow.packet_count >= flow.wanted(stage);
        if !is_complete && flow.closed.is_none() {
            if flow.is_waiting {
                return true;
            }
            if self.waiting_count < self.options.waiting_max {
                flow.is_waiting = true;
                self.waiting_count += 1;
                self.counts.waiting_most = self.counts.waiting_most.max(self.waiting_count as u64);
                return true;
            }
            flow.close(Cause::Full, flow.time_of(flow.packet_count));
            if flow.given.is_some() {
                return false;
            }
        }
        flow.is_asked = true;
        if let Some(ready) = ready.get_mut(flow.stage) {
            ready.push(place);
        }
        true
    }

    fn on_answer(
        &mut self,
        place: u32,
        stage_index: usize,
        answer: Answer,
        states: &mut States<'_, Standing>,
    ) {
        let again = self.is_asked_again(&answer);
        let Self { cascade, undecided, decided, counts, .. } = self;
        let found = must(undecided.get_mut(place), "a flow that is asked about is kept");
        let Some(flow) = found else { return };
        let Some(stage) = must(cascade.stages.get(stage_index), "a stage answers") else { return };
        let (count, wanted) = (flow.packet_count, flow.wanted(stage));
        let is_last = stage_index + 1 == cascade.stages.len();
        flow.is_asked = false;
        // Where a model failed, the answer of the stage before stands.
        if !answer.is_none() || flow.given.is_none() {
            flow.given =
                Some(StageOutput { answer, stage: stage_index, packets_used: count.min(wanted) });
        }
        if answer.is_none() && is_last {
            return self.decide(place, Cause::Unanswered, states);
        }
        let is_full = flow.closed.is_some_and(|closed| closed.cause == Cause::Full);
        let is_enough = stage.is_enough(&answer);
        if !is_last && !is_full && (again || !is_enough) {
            flow.stage = if again { cascade.stages.len() - 1 } else { stage_index + 1 };
            if is_enough {
                counts.asked_again += 1;
                if let (Some(decided), Some(slot)) = (decided, flow.slot) {
                    let packets_used = u16::try_from(count.min(wanted)).unwrap_or(u16::MAX);
                    let (label, cause) = (cascade.label(&answer), Cause::Confident);
                    decided.push(EarlyVerdict { slot, label, packets_used, cause });
                }
            }
            if self.route(place) {
                return;
            }
            return self.decide(place, Cause::Full, states);
        }
        let cause = match flow.closed {
            Some(closed) if count < wanted => closed.cause,
            _ if is_last => Cause::LastStage,
            _ => Cause::Confident,
        };
        self.decide(place, cause, states);
    }

    /// The last answer stands.
    fn decide(&mut self, place: u32, cause: Cause, states: &mut States<'_, Standing>) {
        let Self { cascade, undecided, .. } = self;
        let Some(flow) = must(undecided.get_mut(place), "a flow that is decided is kept") else {
            return;
        };
        let given = must(flow.given, "a flow is decided by an answer");
        let Some(StageOutput { answer, stage, packets_used }) = given else { return };
        let Some(stage) = cascade.stages.get(stage).map(|stage| stage.name) else { return };
        let deciding = flow.time_of(packets_used);
        let (decided, latency_ns) = match (cause, flow.closed) {
            (Cause::Ended | Cause::Waited, Some(closed)) => (closed.time, None),
            _ => (deciding, self.clock.latency_ns(deciding)),
        };
        let is_merged = (1..=packets_used).contains(&flow.merged_packet);
        let packets_used = u16::try_from(packets_used).unwrap_or(u16::MAX);
        let (label, confidence, stage) = (cascade.label(&answer), answer.confidence, Some(stage));
        let verdict = Verdict {
            key: flow.key,
            direction: flow.direction,
            input: flow.input,
            first: flow.first,
            window: None,
            label,
            confidence,
            stage,
            packets_used,
            deciding,
            decided,
            cause,
            latency_ns,
            version: self.options.version,
            other_segmentation: is_merged && cascade.segmentation == Segmentation::Single,
        };
        self.verdicts.push(verdict);
        if self.memory.is_some() {
            self.unremembered.push((verdict, std::mem::take(&mut flow.own)));
        }
        if let Some(state) = flow.slot.and_then(|slot| states.of(slot)) {
            *state = Standing::Decided(Decision { confidence, label, packets_used, stage });
        }
        if let (Some(decided), Some(slot)) = (&mut self.decided, flow.slot) {
            decided.push(EarlyVerdict { slot, label, packets_used, cause });
        }
        self.waiting_count -= usize::from(flow.is_waiting);
        self.undecided.release(place);
    }

    /// Closes flows that have waited long enough, or all of them where no time is given.
    fn close_due(&mut self, is_last: bool) {
        let until = (!is_last).then_some((self.now, self.cascade.wait));
        let mut due = std::mem::take(&mut self.due);
        self.undecided.due(until, &mut due);
        for place in due.drain(..) {
            if let Some(flow) = self.undecided.get_mut(place) {
                let cause = if is_last { Cause::Ended } else { Cause::Waited };
                flow.close(cause, self.now);
            }
            self.route(place);
        }
        self.due = due;
    }

    fn hand_over(&mut self, is_last: bool) {
        self.verdicts.sort_by_key(Verdict::order);
        self.verdicts.iter().for_each(|verdict| self.counts.add(verdict));
        self.output.take(&self.verdicts);
        self.verdicts.clear();
        self.remember(is_last);
    }
}

/// What is kept for a packet in addition to its record: its stamp, and a step where numbers need
/// one.
const PACKET_BYTES: usize = size_of::<Timestamp>() + size_of::<model::Step>();

impl<C: Clock, O: TakeVerdicts> Classifier<C, O> {
    /// As [`on_frame`](FromFrames::on_frame), with what is known of the flow's names, for a cascade
    /// that takes them for evidence. Without, there is none and it is not awaited.
    #[inline]
    pub fn on_named_frame(
        &mut self,
        standing: &mut Standing,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
        names: Option<NamesSoFar<'_>>,
    ) {
        self.now = self.now.max(packet.timestamp);
        match *standing {
            Standing::Decided(_) => {}
            Standing::Undecided(place) => self.take_in(place, frame, packet, names),
            Standing::New => {
                *standing = self.begin(frame, packet, slot);
                if let Standing::Undecided(place) = *standing {
                    self.take_in(place, frame, packet, names);
                }
            }
        }
    }
}

impl<C: Clock, O: TakeVerdicts> FromFrames for Classifier<C, O> {
    type State = Standing;

    #[inline]
    fn on_frame(
        &mut self,
        standing: &mut Standing,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        self.on_named_frame(standing, frame, packet, slot, None);
    }

    fn on_end(&mut self, standing: &mut Standing, ended: &FlowEnd) {
        let Standing::Undecided(place) = *standing else { return };
        if let Some(flow) = self.undecided.get_mut(place) {
            flow.close(Cause::Ended, ended.seen);
            if self.answering.is_some() {
                // The answer may come when the slot is another's.
                flow.slot = None;
            }
            self.route(place);
        }
    }

    fn on_fault(&mut self, standing: &mut Standing, _: FlowSlot) {
        self.give_up(standing);
    }

    fn on_pause(&mut self, states: &mut States<'_, Standing>) {
        self.ask(states);
    }

    fn on_mark(&mut self, states: &mut States<'_, Standing>, mark: FlowMark) {
        let is_last = mark.kind == MarkKind::Last;
        let settle = if self.options.is_live && !is_last { Self::ask } else { Self::settle };
        // What is ready was so before the mark, wherever batches end.
        settle(self, states);
        self.now = match mark.kind {
            MarkKind::Step => mark.watermark,
            MarkKind::Tick | MarkKind::Last => self.now.max(mark.watermark),
        };
        if mark.kind == MarkKind::Step {
            self.undecided.set_back(self.now);
        }
        self.close_due(is_last);
        settle(self, states);
        self.hand_over(is_last);
    }
}
