//! Thresholds from a site's own traffic, and whether it stays as it was.

mod blocks;
mod drift;
#[cfg(test)]
mod tests;

pub use blocks::{
    BlockShortage, Budget, CalibrationResult, EXCESS_MIN, LEFT_OUT_MAX, OutlierBlock, ScoreBlocks,
};
pub use drift::{
    Calibration, DriftCounts, DriftMonitor, DriftReference, DriftState, DriftWarning, PACKETS_MIN,
    PSI_MIN,
};

use packet::{Batch, HashSeed};
use std::sync::Arc;

use crate::classifier::{Classifier, ClassifierCounts};
use crate::judged::PacketVerdict;
use crate::model::Model;
use crate::pipeline::Judge;
use crate::reasons::{Reason, ReasonTally};
use crate::score::ForestThresholds;

/// The packet log's classifier, with the thresholds of a calibration if there is one.
pub struct CalibrationJudge {
    classifier: Classifier,
    monitor: Option<DriftMonitor>,
}

impl CalibrationJudge {
    /// Before the first packet.
    #[must_use]
    pub fn new(model: Arc<Model>, seed: HashSeed, calibration: Option<&Calibration>) -> Self {
        let classifier = Classifier::new(model, seed).with_reasons(seed);
        let Some(Calibration { budget, flow, packet, reference }) = calibration else {
            return Self { classifier, monitor: None };
        };
        let thresholds = ForestThresholds { flow: *flow, packet: *packet };
        let monitor = Some(DriftMonitor::new(reference.clone(), *budget));
        Self { classifier: classifier.with_thresholds(thresholds), monitor }
    }

    /// How packets compare with what was calibrated, where they are compared.
    #[must_use]
    pub fn drift(&self) -> Option<Arc<DriftState>> {
        self.monitor.as_ref().map(DriftMonitor::state)
    }

    /// The outcome of reasons of marked packets.
    #[must_use]
    pub fn reason_tally(&self) -> Arc<ReasonTally> {
        self.classifier.reason_tally().unwrap_or_default()
    }

    /// The outcome of packets so far.
    #[must_use]
    pub fn counts(&self) -> ClassifierCounts {
        self.classifier.counts()
    }
}

impl Judge for CalibrationJudge {
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        self.classifier.judge(batch, judged);
        let Some(monitor) = &mut self.monitor else { return };
        let scores = self.classifier.scores();
        for ((record, judged), &score) in batch.records.iter().zip(judged.iter()).zip(scores) {
            monitor.add(record.timestamp, score, judged.class > 0);
        }
        monitor.show();
    }

    fn reasons(&self) -> &[Reason] {
        self.classifier.reasons()
    }
}
