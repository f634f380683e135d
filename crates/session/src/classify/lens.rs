//! One verdict for each flow, on a pass that others share.

use std::any::Any;

use classify::{Cause, EarlyVerdict, Progress, Standing};
use engine::flow::pass::{LabelKind, LabelUse, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, FlowMark, FlowSlot, FlowState, FromFrames as _, SideSlab, States};

use super::Classify;
use super::application::{ClassifySummary, label, number};
use super::counted::counts;
use super::naming::{NamedClassifier, NamingOutcome};
use super::out::Part;
use crate::application::{Application as _, Closing, Count, Refusal, Watcher, of_same};
use crate::done::RunTotals;
use crate::outside::Outside;
use crate::rules::Following;

/// A packet of a flow that was not decided before it.
pub(super) struct FlowProgress {
    slot: FlowSlot,
    place: usize,
    /// How far its flow is with it; nothing where it is the first and decided by its protocol.
    progress: Option<Progress>,
}

/// One verdict for each flow.
pub(super) struct Flows {
    pub(super) found: ClassifySummary,
    pub(super) states: SideSlab<FlowState<Standing>>,
    pub(super) classifier: NamedClassifier<Outside, Part>,
    pub(super) kind: LabelKind,
    pub(super) rules: Following,
    /// The labels that are given, where somebody reads them.
    pub(super) gives: Option<LabelKind>,
    pub(super) followed: Vec<FlowProgress>,
}

impl Flows {
    /// Which flows are classified again.
    pub(super) fn take_up_rules(&mut self) {
        let numbers = self.rules.rules().again(self.kind);
        let about = numbers.into_iter().map(|number| label(&self.found.cascade, number)).collect();
        self.classifier.by_packets.ask_again(about);
    }

    fn pause(&mut self) {
        self.classifier.on_pause(&mut States::in_slab(&mut self.states));
    }

    /// Labels flows that were decided in the piece at hand, each from the packet on that comes
    /// after the deciding one.
    fn label(&mut self, kind: LabelKind, labels: &mut Labels) {
        for decided in self.classifier.by_packets.take_decided() {
            let mut of_flow = self.followed.iter().filter(|followed| followed.slot == decided.slot);
            let deciding = of_flow.clone().find(|followed| has_decided(followed, &decided));
            let place =
                deciding.or_else(|| of_flow.next_back()).map_or(0, |followed| followed.place);
            labels.give(kind, decided.slot, place, number(&self.found.cascade, decided.label));
        }
        self.followed.clear();
    }

    /// Labels flows that were decided between pieces.
    fn label_now(&mut self, labels: &mut Labels) {
        let Some(kind) = self.gives else { return };
        for decided in self.classifier.by_packets.take_decided() {
            labels.give_now(kind, decided.slot, number(&self.found.cascade, decided.label));
        }
    }
}

/// Whether a packet is the one that decided.
fn has_decided(followed: &FlowProgress, decided: &EarlyVerdict) -> bool {
    let Some(progress) = followed.progress else { return decided.cause == Cause::Protocol };
    match decided.cause {
        Cause::Waited | Cause::Ended => progress.is_closed,
        Cause::Confident | Cause::LastStage | Cause::Full | Cause::Protocol | Cause::Unanswered => {
            progress.packet_count >= usize::from(decided.packets_used)
        }
    }
}

impl Lens for Flows {
    fn labels(&self) -> LabelUse {
        LabelUse { reads: Vec::new(), gives: self.gives.into_iter().collect() }
    }

    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        if self.rules.look() {
            self.take_up_rules();
        }
        for &slot in piece.slots {
            self.states.prefetch(slot);
        }
        let Self { states, classifier, followed, gives, .. } = self;
        for (place, frame, packet, slot) in piece.flows() {
            let Some(FlowState(state)) = states.state(slot) else { continue };
            let is_open = gives.is_some() && !matches!(state, Standing::Decided(_));
            classifier.on_frame(state, &frame, packet, slot);
            if is_open {
                followed.push(FlowProgress {
                    slot,
                    place,
                    progress: classifier.by_packets.progress(*state),
                });
            }
        }
        if let Some(kind) = self.gives {
            // Others want to know by the next packet.
            self.pause();
            self.label(kind, labels);
        }
    }

    fn on_ended(&mut self, ended: &[FlowEnd], labels: &mut Labels) {
        for ended in ended {
            if let Some(FlowState(state)) = self.states.state(ended.slot) {
                self.classifier.on_end(state, ended);
            }
        }
        self.pause();
        self.label_now(labels);
        for ended in ended {
            self.states.state(ended.slot).map(std::mem::take);
        }
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.pause();
        self.label_now(labels);
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.classifier.on_mark(&mut States::in_slab(&mut self.states), mark);
        self.label_now(labels);
    }
}

impl Watcher for Flows {
    fn name(&self) -> &'static str {
        Classify::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        let (counted, waiting, names) = self.classifier.counts();
        counts(&self.found.cascade, &counted, waiting, names.as_ref())
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        let other = of_same::<Self>(other)?;
        self.found.folded.fold(&other.classifier.finish().counts);
        Ok(())
    }

    fn close(self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        let hosts = self.classifier.by_packets.hosts();
        let NamingOutcome { counts, output, names } = self.classifier.finish();
        self.found.closing(counts, output, flows, hosts, names)
    }
}
