//! Stages after the first, computed by workers over NATS.

use std::time::Duration;

use bus::{Asker, Evidence, PARTITION_COUNT, RowAnswer, RowOutcome};
use classify::Answer;
use classify::evidence;
use classify::serve::{AskElsewhere, StageOutcome, StageRow};
use packet::{FlowKey, HashSeed, KeyHash as _, Span};

/// A row has to be answered within this time by default.
pub(super) const DEADLINE: Span = Span::from_ns(200_000_000);

/// Rows under way by default: with records of 30 packets, 18 MB.
pub(super) const UNDER_WAY_MAX: usize = 4096;

/// Asks workers for a thread that keeps flows.
pub(super) struct WorkerStages {
    asker: Asker,
    class_count: u16,
    outcomes: Vec<RowOutcome>,
}

impl WorkerStages {
    /// `class_count` are the classes that answers may name.
    pub(super) fn new(asker: Asker, class_count: usize) -> Self {
        let class_count = u16::try_from(class_count).unwrap_or(u16::MAX);
        Self { asker, class_count, outcomes: Vec::new() }
    }
}

/// The part of the flows that a flow is in, on every machine the same.
#[allow(clippy::cast_possible_truncation)] // It is a remainder.
fn partition(key: &FlowKey) -> u16 {
    (key.key_hash(HashSeed::new(0)) % u64::from(PARTITION_COUNT)) as u16
}

/// An answer by the sensor's own types, if its classes are those of the model.
fn answer(row: RowAnswer, class_count: u16) -> Option<Answer> {
    let RowAnswer { label, guess, confidence, uncertainty } = row;
    let is_ours = label.max(guess) < class_count && !confidence.is_nan();
    is_ours.then_some(Answer { label, guess, confidence, uncertainty })
}

impl AskElsewhere for WorkerStages {
    fn ask(&mut self, place: u32, key: &FlowKey, row: StageRow<'_>) -> bool {
        let StageRow { stage, records, numbers, evidence } = row;
        let evidence = evidence.map(|evidence| Evidence {
            classes: *evidence.classes(),
            is_unlisted: evidence.is_unlisted,
        });
        let Ok(stage) = u8::try_from(stage) else { return false };
        self.asker.ask((place, partition(key)), stage, records, numbers, evidence)
    }

    fn flush(&mut self) {
        self.asker.flush();
    }

    fn take(&mut self, waits: bool, outcomes: &mut Vec<StageOutcome>) {
        self.asker.take(waits, &mut self.outcomes);
        let class_count = self.class_count;
        outcomes.extend(self.outcomes.drain(..).map(|one| StageOutcome {
            place: one.place,
            stage: one.stage.into(),
            answer: one.answer.and_then(|row| answer(row, class_count)),
        }));
    }

    fn under_way(&self) -> usize {
        self.asker.under_way()
    }

    fn under_way_max(&self) -> usize {
        self.asker.rows_max()
    }
}

/// What evidence a worker is given is what the sensor had.
pub(crate) fn evidence_of(given: Evidence) -> evidence::Evidence {
    evidence::Evidence::of(given.classes, given.is_unlisted)
}

/// The same time for who is not ours.
pub(super) fn duration(span: Span) -> Duration {
    Duration::from_nanos(u64::try_from(span.as_ns()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_classes_that_the_model_has_not_is_none() {
        let row = RowAnswer { label: 2, guess: 1, confidence: 0.5, uncertainty: 0.5 };
        assert!(answer(row, 3).is_some());
        assert!(answer(row, 2).is_none());
        assert!(answer(RowAnswer { guess: 9, ..row }, 3).is_none());
        assert!(answer(RowAnswer { confidence: f64::NAN, ..row }, 3).is_none());
    }
}
