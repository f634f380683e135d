//! A cascade with nothing around it: flows, rows of their first packets, models, thresholds. What
//! scores rows can be exchanged; all else is the same.

use std::sync::Arc;

use classify::Cascade;
use classify::cascade::Model;
use engine::flow::{FlowEnd, FlowMark, FlowPacket, FlowSlot, FromFrames, MarkKind, States};
use model::{FirstPackets, Forest, Rows};
use packet::Frame;

use crate::Failure;

/// Scores rows of a cascade's stages.
pub(crate) trait Score {
    /// Adds a row of a stage.
    fn push(&mut self, stage: usize, records: &[u8], numbers: &[f64]);

    /// The probabilities of all rows of a stage, row by row; the rows are forgotten.
    fn score(&mut self, stage: usize) -> &[f64];
}

/// What is kept of a flow.
#[derive(Clone, Default)]
pub(crate) struct PlainFlow {
    packets: FirstPackets,
    stage: usize,
    is_asked: bool,
    is_decided: bool,
}

/// The cascade.
pub(crate) struct Plain<S> {
    cascade: Arc<Cascade>,
    scoring: S,
    numbers: Vec<f64>,
    /// By stage: flows that have what it looks at.
    ready: Vec<Vec<FlowSlot>>,
    /// Flows that wait for packets, or did.
    waiting: Vec<FlowSlot>,
    /// Flows decided, by stage and label.
    check: u64,
}

impl<S: Score> Plain<S> {
    pub(crate) fn new(cascade: Arc<Cascade>, scoring: S) -> Self {
        let ready = vec![Vec::new(); cascade.stages().len()];
        Self { cascade, scoring, numbers: Vec::new(), ready, waiting: Vec::new(), check: 0 }
    }

    /// The same as of the classifier.
    pub(crate) const fn check(&self) -> u64 {
        self.check
    }

    fn ask(&mut self, states: &mut States<'_, PlainFlow>) {
        let Self { cascade, scoring, numbers, ready, waiting, check } = self;
        let class_count = cascade.classes().len();
        for (at, stage) in cascade.stages().iter().enumerate() {
            let asked = std::mem::take(&mut ready[at]);
            for &slot in &asked {
                if let Some(flow) = states.of(slot) {
                    numbers.clear();
                    flow.packets.numbers(stage.features(), numbers);
                    scoring.push(at, flow.packets.records(stage.features()), numbers);
                }
            }
            let scores = scoring.score(at).chunks_exact(class_count);
            let flows = asked.iter().filter(|&&slot| states.of(slot).is_some());
            let answers: Vec<_> = scores.map(|row| stage.uncertainty().answer(row)).collect();
            let flows: Vec<_> = flows.copied().collect();
            for (answer, slot) in answers.into_iter().zip(flows) {
                let Some(flow) = states.of(slot) else { continue };
                flow.is_asked = false;
                if stage.is_enough(&answer) || at + 1 == ready.len() {
                    *check = check.wrapping_add(1 + u64::from(answer.label) * stage.name() as u64);
                    *flow = PlainFlow { is_decided: true, ..PlainFlow::default() };
                    continue;
                }
                flow.stage = at + 1;
                let wanted = cascade.stages()[at + 1].features().packets();
                if flow.packets.packet_count() >= wanted {
                    flow.is_asked = true;
                    ready[at + 1].push(slot);
                } else {
                    waiting.push(slot);
                }
            }
        }
    }
}

impl<S: Score> FromFrames for Plain<S> {
    type State = PlainFlow;

    fn on_frame(
        &mut self,
        flow: &mut PlainFlow,
        frame: &Frame<'_>,
        packet: &FlowPacket,
        slot: FlowSlot,
    ) {
        if flow.is_decided {
            return;
        }
        let features = self.cascade.features();
        flow.packets.on_frame(features, frame, packet.direction, packet.timestamp);
        let wanted = self.cascade.stages()[flow.stage].features().packets();
        if !flow.is_asked && flow.packets.packet_count() >= wanted {
            flow.is_asked = true;
            self.ready[flow.stage].push(slot);
        }
    }

    fn on_end(&mut self, flow: &mut PlainFlow, ended: &FlowEnd) {
        if !flow.is_decided && !flow.is_asked {
            flow.is_asked = true;
            self.ready[flow.stage].push(ended.slot);
        }
    }

    fn on_pause(&mut self, states: &mut States<'_, PlainFlow>) {
        self.ask(states);
    }

    fn on_mark(&mut self, states: &mut States<'_, PlainFlow>, mark: FlowMark) {
        if mark.kind != MarkKind::Last {
            return;
        }
        self.ask(states);
        // Those that still wait are scored with what there is.
        for slot in std::mem::take(&mut self.waiting) {
            if let Some(flow) = states.of(slot)
                && !flow.is_decided
                && !flow.is_asked
            {
                flow.is_asked = true;
                self.ready[flow.stage].push(slot);
            }
        }
        self.ask(states);
    }
}

/// Our trees.
pub(crate) struct Trees {
    forests: Vec<(Forest, Rows)>,
    scores: Vec<f64>,
}

impl Trees {
    pub(crate) fn new(cascade: &Cascade) -> Result<Self, Failure> {
        let forests = cascade.stages().iter().map(|stage| forest(stage.model()));
        let forests = forests.map(|forest| {
            let forest = forest?.clone();
            let rows = Rows::for_forest(&forest, 64);
            Ok((forest, rows))
        });
        Ok(Self { forests: forests.collect::<Result<_, Failure>>()?, scores: Vec::new() })
    }
}

fn forest(model: &Model) -> Result<&Forest, Failure> {
    match model {
        Model::Trees(forest) => Ok(forest),
        _ => Err(String::from("a stage that is no trees; wanted: trees")),
    }
}

impl Score for Trees {
    fn push(&mut self, stage: usize, records: &[u8], numbers: &[f64]) {
        let (forest, rows) = &mut self.forests[stage];
        // What does not fit is missed by the check.
        let _ = forest.push_with(rows, records, numbers);
    }

    fn score(&mut self, stage: usize) -> &[f64] {
        let (forest, rows) = &mut self.forests[stage];
        self.scores.clear();
        self.scores.resize(rows.len() * forest.classes().len(), 0.0);
        let _ = forest.score(rows, &mut self.scores);
        rows.clear();
        &self.scores
    }
}

/// The same models in ONNX Runtime.
#[cfg(feature = "onnx")]
pub(crate) struct Onnx {
    models: Vec<(model::onnx::OnnxModel, model::onnx::OnnxRows)>,
    scores: Vec<f64>,
}

#[cfg(feature = "onnx")]
impl Onnx {
    pub(crate) fn new(
        cascade: &Cascade,
        library: &std::path::Path,
        folder: &std::path::Path,
    ) -> Result<Self, Failure> {
        let models = cascade.stages().iter().map(|stage| {
            let stem = folder.join(stage.name().name());
            let model = crate::onnx::open(library, &stem, forest(stage.model())?)?;
            let rows = model.rows(64);
            Ok((model, rows))
        });
        Ok(Self { models: models.collect::<Result<_, Failure>>()?, scores: Vec::new() })
    }
}

#[cfg(feature = "onnx")]
impl Score for Onnx {
    fn push(&mut self, stage: usize, records: &[u8], numbers: &[f64]) {
        let (model, rows) = &mut self.models[stage];
        let _ = model.push(rows, records, numbers);
    }

    fn score(&mut self, stage: usize) -> &[f64] {
        let (model, rows) = &mut self.models[stage];
        self.scores.clear();
        self.scores.resize(rows.len() * model.class_count(), 0.0);
        if !rows.is_empty() {
            let _ = model.score(rows, &mut self.scores);
        }
        rows.clear();
        &self.scores
    }
}
