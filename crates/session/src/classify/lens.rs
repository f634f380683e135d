//! One verdict for each flow, on a pass that others share.

use std::any::Any;
use std::sync::Arc;

use classify::{Cause, EarlyVerdict, Options, Progress, Standing, Verdict};
use engine::flow::pass::{FaultScope, LabelKind, LabelUse, Labels, Lens, Now, Piece};
use engine::flow::{FlowEnd, FlowMark, FlowSlot, FlowState, FromFrames as _, States};

use super::Classify;
use super::application::{ClassifySummary, label, number};
use super::counted::counts;
use super::drift::DriftPart;
use super::naming::NamingOutcome;
use super::out::Part;
use super::serving::{MakeClassifier, MarkVerdicts, ModelVerdicts, Serving};
use super::versions::ModelVersions;
use crate::application::{Application as _, Closing, Count, Refusal, Watcher, of_same};
use crate::done::RunTotals;
use crate::rules::Following;

/// A packet of a flow that was not decided before it.
pub(super) struct FlowProgress {
    slot: FlowSlot,
    place: usize,
    /// How far its flow is with it; nothing where it is the first and decided by its protocol.
    progress: Option<Progress>,
}

/// Models that still have flows, besides the newest, at most: beyond it the newest has to wait.
const OLDER_MAX: usize = 3;

/// One verdict for each flow.
pub(super) struct Flows {
    pub(super) found: ClassifySummary,
    pub(super) models: ModelVersions,
    pub(super) make: MakeClassifier,
    pub(super) options: Options,
    /// Who serves flows that begin.
    pub(super) newest: Serving,
    /// Who serves those that began before.
    pub(super) older: Vec<Serving>,
    pub(super) part: Part,
    pub(super) kind: LabelKind,
    pub(super) rules: Following,
    /// The labels that are given, where somebody reads them.
    pub(super) gives: Option<LabelKind>,
    pub(super) followed: Vec<FlowProgress>,
    /// Whether traffic stays as it began, where that is watched.
    pub(super) drift: Option<DriftPart>,
}

impl Flows {
    fn all(&mut self) -> impl Iterator<Item = &mut Serving> {
        std::iter::once(&mut self.newest).chain(&mut self.older)
    }

    /// Which flows are classified again.
    pub(super) fn take_up_rules(&mut self) {
        let numbers = self.rules.rules().again(self.kind);
        let about: Vec<_> =
            numbers.into_iter().map(|number| label(&self.found.cascade, number)).collect();
        self.all().for_each(|serving| serving.classifier.by_packets.ask_again(about.clone()));
    }

    /// A model has taken the place of the newest.
    #[cold]
    fn take_up_model(&mut self, version: u16) {
        self.retire();
        if self.older.len() == OLDER_MAX {
            return;
        }
        let Some(model) = self.models.all().get(usize::from(version)).map(Arc::clone) else {
            return;
        };
        let mut next = Serving::new(&self.make, model, self.options, version);
        next.continue_from(&self.newest);
        self.older.push(std::mem::replace(&mut self.newest, next));
        self.take_up_rules();
    }

    /// Takes in what models have counted whose flows are all over.
    fn retire(&mut self) {
        for serving in self.older.extract_if(.., |serving| serving.is_over()) {
            self.found.take_in(serving);
        }
    }

    fn pause(&mut self) {
        self.all().for_each(Serving::pause);
    }

    /// Labels flows that were decided in the piece at hand, each from the packet on that comes
    /// after the deciding one.
    fn label(&mut self, kind: LabelKind, labels: &mut Labels) {
        let Self { found, newest, older, followed, .. } = self;
        for serving in std::iter::once(newest).chain(older) {
            for decided in serving.take_decided() {
                let mut of_flow = followed.iter().filter(|followed| followed.slot == decided.slot);
                let deciding = of_flow.clone().find(|followed| has_decided(followed, &decided));
                let place =
                    deciding.or_else(|| of_flow.next_back()).map_or(0, |followed| followed.place);
                labels.give(kind, decided.slot, place, number(&found.cascade, decided.label));
            }
        }
        self.followed.clear();
    }

    /// Labels flows that were decided between pieces.
    fn label_now(&mut self, labels: &mut Labels) {
        let Some(kind) = self.gives else { return };
        let Self { found, newest, older, .. } = self;
        for serving in std::iter::once(newest).chain(older) {
            for decided in serving.take_decided() {
                labels.give_now(kind, decided.slot, number(&found.cascade, decided.label));
            }
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
        let version = self.models.newest();
        if version != self.newest.version {
            self.take_up_model(version);
        }
        let Self { newest, older, followed, gives, .. } = self;
        for &slot in piece.slots {
            newest.states.prefetch(slot);
        }
        for (place, frame, packet, slot) in piece.flows() {
            let serving = match older.iter_mut().find_map(|one| one.has(slot).then_some(one)) {
                Some(older) => older,
                None => &mut *newest,
            };
            let Some(FlowState(state)) = serving.states.state(slot) else { continue };
            serving.open_count += usize::from(matches!(state, Standing::New));
            let is_open = gives.is_some() && !matches!(state, Standing::Decided(_));
            serving.classifier.on_frame(state, &frame, packet, slot);
            if is_open {
                let progress = serving.classifier.by_packets.progress(*state);
                followed.push(FlowProgress { slot, place, progress });
            }
        }
        if let Some(kind) = self.gives {
            // Others want to know by the next packet.
            self.pause();
            self.label(kind, labels);
        }
    }

    fn on_ended(&mut self, ended: &[FlowEnd], labels: &mut Labels) {
        self.all().for_each(|serving| serving.on_ended(ended));
        self.pause();
        self.label_now(labels);
        self.all().for_each(|serving| serving.forget(ended));
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.pause();
        self.label_now(labels);
    }

    fn on_fault(&mut self, lost: &FaultScope<'_>) -> bool {
        self.followed.clear();
        let Self { newest, older, .. } = self;
        for slot in lost.slots() {
            match older.iter_mut().find_map(|one| one.has(slot).then_some(one)) {
                Some(older) => older.on_fault(slot),
                None => newest.on_fault(slot),
            }
        }
        true
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        let (mut made, failing) = (MarkVerdicts::default(), self.found.failing.clone());
        for serving in self.all() {
            serving.classifier.on_mark(&mut States::in_slab(&mut serving.states), mark);
            let MarkVerdicts { verdicts, hosts } = serving.take_verdicts();
            made.verdicts.extend(verdicts);
            made.hosts.extend(hosts);
            if serving.cascade.stages().iter().any(classify::Stage::may_fail) {
                failing.look(&serving.cascade, &serving.classifier.by_packets.failures());
            }
        }
        if !self.older.is_empty() {
            made.verdicts.sort_by_key(Verdict::order);
            self.retire();
        }
        if let Some(drift) = &mut self.drift {
            drift.on_mark(&made.verdicts);
        }
        self.part.put(&mut made);
        self.label_now(labels);
    }
}

impl Watcher for Flows {
    fn name(&self) -> &'static str {
        Classify::NAME
    }

    fn counts(&self, _: &Now<'_>) -> Vec<Count> {
        let (mut counted, mut waiting, mut names) = self.newest.classifier.counts();
        counted.fold(&self.found.folded);
        for older in &self.older {
            let (counts, more, of_names) = older.classifier.counts();
            counted.fold(&counts);
            waiting += more;
            if let (Some(names), Some(more)) = (&mut names, of_names) {
                names.fold(&more);
            }
        }
        let mut made = counts(&self.found.cascade, &counted, waiting, names.as_ref());
        if self.newest.version > 0 {
            let mut by_model = ModelVerdicts::default();
            by_model.fold(&self.found.by_model);
            std::iter::once(&self.newest).chain(&self.older).for_each(|one| by_model.add(one));
            made.extend(by_model.counts());
        }
        made
    }

    fn fold(&mut self, other: Box<dyn Any>) -> Result<(), Refusal> {
        let other = of_same::<Self>(other)?;
        self.found.folded.fold(&other.found.folded);
        self.found.by_model.fold(&other.found.by_model);
        for serving in std::iter::once(other.newest).chain(other.older) {
            self.found.take_in(serving);
        }
        Ok(())
    }

    fn close(mut self: Box<Self>, flows: &RunTotals) -> Result<Closing, Refusal> {
        let hosts = self.newest.classifier.by_packets.hosts();
        for older in self.older {
            self.found.take_in(older);
        }
        self.found.by_model.add(&self.newest);
        let NamingOutcome { counts, names, .. } = self.newest.classifier.finish();
        let mut closing = self.found.closing(counts, self.part, flows, hosts, names)?;
        if let Some(drift) = self.drift {
            closing.lines.push_str(&drift.lines());
        }
        Ok(closing)
    }
}
