//! The flows of one model of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use classify::{Cascade, EarlyVerdict, HostVerdict, Options, Standing, TakeVerdicts, Verdict};
use engine::flow::{FlowEnd, FlowSlot, FlowState, FromFrames as _, SideSlab, States};

use super::naming::NamedClassifier;
use crate::application::Count;
use crate::outside::Outside;

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

    /// Takes over what flows of the model before have shown of others.
    pub(super) fn continue_from(&mut self, before: &Self) {
        self.classifier.continue_from(&before.classifier);
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

    /// A flow that is not decided begins again with its next packet.
    pub(super) fn on_fault(&mut self, slot: FlowSlot) {
        let Some(FlowState(state)) = self.states.state(slot) else { return };
        let was_open = !matches!(state, Standing::New);
        self.classifier.on_fault(state, slot);
        if was_open && matches!(state, Standing::New) {
            self.open_count = self.open_count.saturating_sub(1);
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

/// Verdicts of each model of a run, by its number.
#[derive(Default)]
pub(super) struct ModelVerdicts(BTreeMap<u16, (String, u64)>);

impl ModelVerdicts {
    pub(super) fn add(&mut self, serving: &Serving) {
        let decided = serving.classifier.by_packets.counts().decided();
        self.put(serving.version, serving.cascade.id(), decided);
    }

    fn put(&mut self, version: u16, id: &str, count: u64) {
        self.0.entry(version).or_insert_with(|| (id.to_owned(), 0)).1 += count;
    }

    pub(super) fn fold(&mut self, other: &Self) {
        other.0.iter().for_each(|(&version, (id, count))| self.put(version, id, *count));
    }

    /// For people; nothing where there was one model.
    pub(super) fn line(&self) -> String {
        if self.0.len() < 2 {
            return String::new();
        }
        let of_each: Vec<_> =
            self.0.values().map(|(id, count)| format!("{count} by {id}")).collect();
        format!("classify: verdicts by model: {}\n", of_each.join(", "))
    }

    /// For counts that are asked for while it runs.
    pub(super) fn counts(&self) -> impl Iterator<Item = Count> {
        let about = "Verdicts by model, where models were replaced.";
        self.0
            .values()
            .map(move |(id, count)| Count::total("model_verdicts", about, *count).with("model", id))
    }
}
