//! Judges each packet when it comes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use engine::sketch::SketchCounts;
use model::numeric::BLOCK_ROWS;
use packet::{Batch, HashSeed};

use crate::features::{
    ExactCounts, Features, Key, MergedCounts, PacketSet, PlaceCounts, StateCounts,
};
use crate::judged::{Basis, PacketVerdict};
use crate::model::Model;
use crate::pipeline::Judge;
use crate::reasons::{JudgedBlock, Reason, ReasonTally, Reasons};
use crate::reuse::StoredVerdicts;
use crate::score::{ForestThresholds, ScoreStep, Threshold};

/// Finds of each packet what class of traffic it is of.
///
/// The flow forest judges a packet of whose flow anything is kept, which is any packet with an IP
/// header for which the sketch, or the table, has a place; the packet forest judges the others,
/// such as ARP. (Of a model whose keys are hosts alone it is the first of them that decides.) The
/// class is that of the highest probability, and of several such the first; with thresholds of a
/// calibration it is the most probable anomalous class of packets whose score is above them, and
/// the first class of others. What is judged does not depend on how packets are cut into batches.
pub struct Classifier {
    model: Arc<Model>,
    features: Features,
    /// Places in the block of packets for each forest.
    by_flow: Vec<u16>,
    by_packet: Vec<u16>,
    scores: Vec<f64>,
    thresholds: Option<ForestThresholds>,
    /// Of each packet of the batch, where there are thresholds.
    steps: Vec<ScoreStep>,
    /// Why packets are marked, where that is asked for.
    reasons: Option<Box<Reasons>>,
    judged_by_flow: u64,
    judged_by_packet: u64,
    without_key: u64,
    /// Where the model has verdicts used again.
    stored: Option<StoredVerdicts>,
}

/// The outcome of packets and of what is kept of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClassifierCounts {
    /// Packets that the flow forest judged.
    pub by_flow: u64,
    /// Packets that the packet forest judged.
    pub by_packet: u64,
    /// Those among them that have no flow: no IP header, or one that cannot be read.
    pub without_key: u64,
    /// Packets that came more than a second behind the latest stamp.
    pub late: u64,
    /// Times that the clock was set back.
    pub clock_steps: u64,
    /// Frames that offloads made of several packets, each judged once.
    pub merged: MergedCounts,
    /// The outcome of keys in sketches.
    pub sketches: Vec<(Key, SketchCounts)>,
    /// The outcome of keys in tables.
    pub tables: Vec<(Key, ExactCounts)>,
    /// The outcome of states, where the model reads any.
    pub states: Option<StateCounts>,
    /// Packets among all of these that no forest was asked about, since the last verdict of their
    /// flow was used again, and the outcome of flows whose verdicts are stored; nothing where the
    /// model has no verdicts used again.
    pub reused: Option<(u64, PlaceCounts)>,
    /// Bytes of sketches, or of what tables hold now, of states and of stored verdicts.
    pub size_bytes: usize,
}

impl Classifier {
    /// Before the first packet. The seed keys the hashes of sketches and tables.
    #[must_use]
    pub fn new(model: Arc<Model>, seed: HashSeed) -> Self {
        let features = Features::for_model(&model, seed);
        let (window, idle_timeout) = (model.options().window, model.options().idle_timeout);
        let stored =
            model.verdict_reuse().map(|rule| StoredVerdicts::new(rule, window, idle_timeout));
        Self {
            features,
            model,
            by_flow: Vec::new(),
            by_packet: Vec::new(),
            scores: Vec::new(),
            thresholds: None,
            steps: Vec::new(),
            reasons: None,
            judged_by_flow: 0,
            judged_by_packet: 0,
            without_key: 0,
            stored,
        }
    }

    /// Decides by these thresholds from here on, and keeps the score of each packet.
    #[must_use]
    pub fn with_thresholds(self, thresholds: ForestThresholds) -> Self {
        Self { thresholds: Some(thresholds), ..self }
    }

    /// Also makes the reasons of packets that are newly marked.
    #[must_use]
    pub fn with_reasons(self, seed: HashSeed) -> Self {
        let column_count = self.model.columns().len();
        Self { reasons: Some(Box::new(Reasons::new(column_count, seed))), ..self }
    }

    /// Why packets of the last batch are marked that are newly so.
    #[must_use]
    pub fn reasons(&self) -> &[Reason] {
        self.reasons.as_ref().map_or(&[], |reasons| reasons.made())
    }

    /// The outcome of reasons, where they are made.
    #[must_use]
    pub fn reason_tally(&self) -> Option<Arc<ReasonTally>> {
        self.reasons.as_ref().map(|reasons| reasons.tally())
    }

    /// The scores of the packets of the last batch, in order; none without thresholds.
    #[must_use]
    pub fn scores(&self) -> &[ScoreStep] {
        &self.steps
    }

    /// One [`PacketVerdict`] for each record of the batch, in order; `judged` is cleared first.
    pub fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        judged.clear();
        self.steps.clear();
        self.reasons.iter_mut().for_each(|reasons| reasons.begin());
        for records in batch.records.chunks(BLOCK_ROWS) {
            self.judge_block(&Batch { records, ..*batch }, judged);
        }
        self.reasons.iter().for_each(|reasons| reasons.end());
        self.features.end(batch);
    }

    /// At most [`BLOCK_ROWS`] packets.
    fn judge_block(&mut self, block: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        let Self {
            model, features, by_flow, by_packet, scores, thresholds, steps, reasons, ..
        } = self;
        let arrived = features.read(block);
        let stored = self.stored.as_mut();
        let asked = stored.map_or(PacketSet::ALL, |stored| stored.choose(&arrived));
        let snapshots = features.snapshots(block.bytes, block.records, asked);
        by_flow.clear();
        by_packet.clear();
        let first = judged.len();
        for (index, &flow) in (0u16..).zip(snapshots.flows) {
            let (basis, places) = if snapshots.holds_flow(index.into()) {
                (Basis::Flow, &mut *by_flow)
            } else {
                (Basis::Packet, &mut *by_packet)
            };
            if asked.has(index.into()) {
                places.push(index);
            }
            self.without_key += u64::from(flow.is_none());
            judged.push(PacketVerdict { class: 0, confidence: 0.0, basis, flow });
        }
        if thresholds.is_some() {
            steps.resize(judged.len(), ScoreStep::default());
        }
        let judged = &mut judged[first..];
        let steps = steps.get_mut(first..).unwrap_or_default();
        for (forest, rows, threshold) in [
            (model.flow_forest(), &*by_flow, thresholds.map(|thresholds| thresholds.flow)),
            (model.packet_forest(), &*by_packet, thresholds.map(|thresholds| thresholds.packet)),
        ] {
            forest.score(snapshots.values(), rows, scores);
            match threshold {
                None => decide(rows, scores, forest.class_count(), judged),
                Some(threshold) => {
                    decide_by(threshold, rows, scores, forest.class_count(), judged, steps);
                }
            }
            if let Some(reasons) = reasons {
                let (bytes, records) = (block.bytes, block.records);
                let block = JudgedBlock { bytes, records, snapshots: &snapshots, judged };
                reasons.look(forest, rows, &block);
            }
        }
        if let Some(stored) = &mut self.stored {
            stored.settle(judged, steps);
        }
        let by_packet = judged.iter().filter(|judged| judged.basis == Basis::Packet).count();
        self.judged_by_packet += by_packet as u64;
        self.judged_by_flow += (judged.len() - by_packet) as u64;
    }

    /// The model.
    #[must_use]
    pub const fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// The outcome of packets so far.
    #[must_use]
    pub fn counts(&self) -> ClassifierCounts {
        let (late, clock_steps) = self.features.late_and_steps();
        let of_keys = Key::ALL.into_iter();
        let sketch = |key| self.features.sketch_counts(key).map(|counts| (key, counts));
        let table = |key| self.features.exact_counts(key).map(|counts| (key, counts));
        ClassifierCounts {
            by_flow: self.judged_by_flow,
            by_packet: self.judged_by_packet,
            without_key: self.without_key,
            late,
            clock_steps,
            merged: self.features.merged_counts(),
            sketches: of_keys.clone().filter_map(sketch).collect(),
            tables: of_keys.filter_map(table).collect(),
            states: self.features.state_counts(),
            reused: self.stored.as_ref().map(|stored| (stored.reused(), stored.counts())),
            size_bytes: self.features.size_bytes()
                + self.stored.as_ref().map_or(0, StoredVerdicts::size_bytes),
        }
    }
}

impl Judge for Classifier {
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        Self::judge(self, batch, judged);
    }

    fn reasons(&self) -> &[Reason] {
        Self::reasons(self)
    }
}

/// Of each row the class of the highest probability.
#[allow(clippy::cast_possible_truncation)]
fn decide(rows: &[u16], scores: &[f64], class_count: usize, judged: &mut [PacketVerdict]) {
    for (&row, scores) in rows.iter().zip(scores.chunks_exact(class_count)) {
        let Some(judged) = judged.get_mut(usize::from(row)) else { continue };
        let (class, highest) = most_probable((0..).zip(scores));
        (judged.class, judged.confidence) = (class, highest as f32);
    }
}

/// The class of the highest probability, of several such the first.
#[inline(always)]
fn most_probable<'a>(scores: impl Iterator<Item = (u16, &'a f64)>) -> (u16, f64) {
    let (mut class, mut highest) = (0, f64::NEG_INFINITY);
    for (at, &score) in scores {
        if score > highest {
            (class, highest) = (at, score);
        }
    }
    (class, highest)
}

/// Of each row its score, and by the threshold the first class or the most probable other one.
#[allow(clippy::cast_possible_truncation)]
fn decide_by(
    threshold: Threshold,
    rows: &[u16],
    scores: &[f64],
    class_count: usize,
    judged: &mut [PacketVerdict],
    steps: &mut [ScoreStep],
) {
    for (&row, scores) in rows.iter().zip(scores.chunks_exact(class_count)) {
        let row = usize::from(row);
        let (Some(judged), Some(step)) = (judged.get_mut(row), steps.get_mut(row)) else {
            continue;
        };
        let (class, highest) = most_probable((0..).zip(scores).skip(1));
        let first = scores.first().copied().unwrap_or_default();
        *step = ScoreStep::of(highest - first);
        (judged.class, judged.confidence) =
            if threshold.marks(*step) { (class, highest as f32) } else { (0, first as f32) };
    }
}
