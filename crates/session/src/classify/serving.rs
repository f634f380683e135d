//! The flows of one model of a run.

use std::sync::Arc;

use classify::{Cascade, EarlyVerdict, HostVerdict, Options, Standing, TakeVerdicts, Verdict};
use engine::flow::pass::LabelKind;
use engine::flow::{FlowEnd, FlowSlot, FlowState, FromFrames as _, SideSlab, States};

use super::application::label;
use super::naming::NamedClassifier;
use crate::outside::Outside;
use crate::rules::Rules;

/// Verdicts since the last mark.
#[derive(Default)]
pub(super) struct MarkVerdicts {
    pub(super) verdicts: Vec<Verdict>,
    pub(super) hosts: Vec<HostVerdict>,
}

impl TakeVerdicts for MarkVerdicts {
    fn take(&mut self, verdicts: &[Verdict]) {
        self.verdicts.extend_from_slice(verdicts);
    }

    fn take_hosts(&mut self, verdicts: &[HostVerdict]) {
        self.hosts.extend_from_slice(verdicts);
    }
}

/// Makes the classifier of a model.
pub(super) type MakeClassifier =
    Box<dyn Fn(Arc<Cascade>, Options) -> NamedClassifier<Outside, MarkVerdicts> + Send>;

/// The flows that began while a model was the newest.
pub(super) struct Serving {
    pub(super) version: u16,
    pub(super) cascade: Arc<Cascade>,
    pub(super) states: SideSlab<FlowState<Standing>>,
    pub(super) classifier: NamedClassifier<Outside, MarkVerdicts>,
    /// Flows that began with it and have not ended.
    pub(super) open_count: usize,
}

impl Serving {
    /// None yet.
    pub(super) fn new(
        make: &MakeClassifier,
        cascade: Arc<Cascade>,
        options: Options,
        version: u16,
    ) -> Self {
        let classifier = make(Arc::clone(&cascade), Options { version, ..options });
        Self { version, cascade, states: SideSlab::default(), classifier, open_count: 0 }
    }

    /// Whether a flow began with it.
    #[inline]
    pub(super) fn has(&mut self, slot: FlowSlot) -> bool {
        let state = self.states.state(slot);
        state.is_some_and(|FlowState(state)| !matches!(state, Standing::New))
    }

    /// Whether it has nothing left to say.
    pub(super) fn is_over(&self) -> bool {
        self.open_count == 0 && self.classifier.by_packets.is_idle()
    }

    /// Which flows are classified again.
    pub(super) fn take_up(&mut self, rules: &Rules, kind: LabelKind) {
        let numbers = rules.again(kind);
        let about = numbers.into_iter().map(|number| label(&self.cascade, number)).collect();
        self.classifier.by_packets.ask_again(about);
    }

    pub(super) fn on_ended(&mut self, ended: &[FlowEnd]) {
        for ended in ended {
            if let Some(FlowState(state)) = self.states.state(ended.slot) {
                self.classifier.on_end(state, ended);
            }
        }
    }

    /// The places of flows that have ended are others' from here on.
    pub(super) fn forget(&mut self, ended: &[FlowEnd]) {
        for ended in ended {
            if self.has(ended.slot) {
                self.open_count = self.open_count.saturating_sub(1);
                self.states.state(ended.slot).map(std::mem::take);
            }
        }
    }

    pub(super) fn pause(&mut self) {
        self.classifier.on_pause(&mut States::in_slab(&mut self.states));
    }

    pub(super) fn take_decided(&mut self) -> impl Iterator<Item = EarlyVerdict> + '_ {
        self.classifier.by_packets.take_decided()
    }

    /// Its verdicts since the last mark.
    pub(super) fn take_verdicts(&mut self) -> MarkVerdicts {
        std::mem::take(self.classifier.by_packets.output_mut())
    }
}
