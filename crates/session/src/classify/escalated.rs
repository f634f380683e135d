//! Stages after the first, computed by workers over NATS.

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
    outcomes: Vec<RowOutcome>,
}

impl WorkerStages {
    pub(super) const fn new(asker: Asker) -> Self {
        Self { asker, outcomes: Vec::new() }
    }
}

/// The part of the flows that a flow is in, on every machine the same.
#[allow(clippy::cast_possible_truncation)] // It is a remainder.
fn partition(key: &FlowKey) -> u16 {
    (key.key_hash(HashSeed::new(0)) % u64::from(PARTITION_COUNT)) as u16
}

/// An answer by the sensor's own types.
const fn answer(row: RowAnswer) -> Answer {
    let RowAnswer { label, guess, confidence, uncertainty } = row;
    Answer { label, guess, confidence, uncertainty }
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
        outcomes.extend(self.outcomes.drain(..).map(|one| StageOutcome {
            place: one.place,
            stage: one.stage.into(),
            answer: one.answer.map(answer),
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
