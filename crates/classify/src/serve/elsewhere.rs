//! Stages after the first that are computed elsewhere, such as on other machines.
//!
//! What a stage looks at of a flow is sent as plain bytes and numbers, so that the other side needs
//! nothing but the same cascade: [`StageRows`] there gives the answer that would have been given
//! here. An answer may also not come; who asks decides when it is too late.

use std::sync::Arc;

use packet::FlowKey;

use super::consumers::Consumers;
use super::undecided::PendingFlow;
use crate::cascade::Cascade;
use crate::evidence::Evidence;
use crate::failures::Failures;
use crate::model::Asking;
use crate::uncertainty::Answer;

/// What a stage looks at of a flow.
#[derive(Clone, Copy, Debug)]
pub struct StageRow<'a> {
    /// The stage, by its index in the cascade.
    pub stage: usize,
    /// The compact records of its packets, end to end.
    pub records: &'a [u8],
    /// The numbers that are not read from records.
    pub numbers: &'a [f32],
    /// What names say, where the stage takes them for evidence.
    pub evidence: Option<Evidence>,
}

/// The outcome of a row that was taken.
#[derive(Clone, Copy, Debug)]
pub struct StageOutcome {
    /// By what its flow is known to who asked.
    pub place: u32,
    /// The stage, by its index in the cascade.
    pub stage: usize,
    /// The answer; none where it did not come in time.
    pub answer: Option<Answer>,
}

/// Who has stages computed elsewhere. Each row that is taken has one outcome.
pub trait AskElsewhere: Send {
    /// Takes a row of the flow with this key; false where there is no room for it.
    fn ask(&mut self, place: u32, key: &FlowKey, row: StageRow<'_>) -> bool;

    /// Sends what waits for company.
    fn flush(&mut self);

    /// Appends the outcomes since the last call; where `waits` and rows are under way, at least
    /// one.
    fn take(&mut self, waits: bool, outcomes: &mut Vec<StageOutcome>);

    /// Rows without an outcome.
    fn under_way(&self) -> usize;

    /// The same at most.
    fn under_way_max(&self) -> usize;
}

/// Who computes the stages after the first, where the thread that keeps the flows does not.
pub(super) enum Answering {
    Threads(Consumers),
    Elsewhere { to: Box<dyn AskElsewhere>, numbers: Vec<f32> },
}

impl Answering {
    pub(super) fn elsewhere(to: Box<dyn AskElsewhere>) -> Self {
        Self::Elsewhere { to, numbers: Vec::new() }
    }

    /// Whether an answer may not come at all.
    pub(super) const fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere { .. })
    }

    /// Whether no row is under way.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Threads(threads) => threads.is_idle(),
            Self::Elsewhere { to, .. } => to.under_way() == 0,
        }
    }

    /// Whether a row would find no room until answers come.
    pub(super) fn is_full(&self) -> bool {
        match self {
            // They wait for room themselves.
            Self::Threads(_) => false,
            Self::Elsewhere { to, .. } => {
                to.under_way() > 0 && to.under_way() >= to.under_way_max()
            }
        }
    }

    /// Rows under way at most.
    pub(super) fn under_way_max(&self) -> usize {
        match self {
            Self::Threads(threads) => threads.count() * Consumers::ROWS_MAX,
            Self::Elsewhere { to, .. } => to.under_way_max(),
        }
    }

    /// Sends the row of a flow, waiting for room where `waits` and it is a thread's; whether it was
    /// taken.
    pub(super) fn ask(
        &mut self,
        cascade: &Cascade,
        flow: &PendingFlow,
        (place, index): (u32, usize),
        waits: bool,
    ) -> bool {
        let (to, numbers) = match self {
            Self::Threads(threads) => return threads.ask(flow, place, index, waits),
            Self::Elsewhere { to, numbers } => (to, numbers),
        };
        let Some(stage) = cascade.stages.get(index) else { return false };
        numbers.clear();
        flow.packets.unrecorded_numbers(&stage.features, numbers);
        let evidence = stage.names().map(|_| flow.evidence(index));
        let records = flow.packets.records(&stage.features);
        to.ask(place, &flow.key, StageRow { stage: index, records, numbers, evidence })
    }

    /// What failed where stages are computed here: workers answer for themselves.
    pub(super) fn failures(&self) -> Failures {
        match self {
            Self::Threads(threads) => threads.failures(),
            Self::Elsewhere { .. } => Failures::default(),
        }
    }

    /// Sends what waits for company.
    pub(super) fn flush(&mut self) {
        match self {
            Self::Threads(threads) => threads.flush(),
            Self::Elsewhere { to, .. } => to.flush(),
        }
    }

    /// Outcomes that are there; where `waits` and rows are under way, at least one, unless no one
    /// is left to answer.
    pub(super) fn take(&mut self, waits: bool, outcomes: &mut Vec<StageOutcome>) {
        match self {
            Self::Threads(threads) => threads.take(waits, outcomes),
            Self::Elsewhere { to, .. } => to.take(waits, outcomes),
        }
    }
}

/// Rows of flows that others keep, and the stages that answer them.
pub struct StageRows {
    cascade: Arc<Cascade>,
    asking: Vec<Asking>,
}

impl StageRows {
    /// No rows yet, of each stage so many at most without more room.
    #[must_use]
    pub fn new(cascade: Arc<Cascade>, capacity: usize) -> Self {
        let asking = cascade.stages.iter().map(|stage| Asking::new(stage, capacity)).collect();
        Self { cascade, asking }
    }

    /// Takes a row; false where it is none of the cascade's: of a stage that it does not have, or
    /// with other records, numbers or evidence than that stage looks at.
    #[must_use]
    pub fn push(&mut self, row: StageRow<'_>) -> bool {
        let Self { cascade, asking } = self;
        let of_stage = cascade.stages.get(row.stage).zip(asking.get_mut(row.stage));
        of_stage.is_some_and(|(stage, asking)| asking.push_row(stage, row))
    }

    /// Answers the rows of a stage, in the order in which they came, and forgets them. Where the
    /// model fails, answers say nothing, and the cause is returned.
    pub fn answer(&mut self, stage: usize, take: impl FnMut(Answer)) -> Option<String> {
        let Self { cascade, asking } = self;
        let (of_stage, asking) = cascade.stages.get(stage).zip(asking.get_mut(stage))?;
        asking.answer(of_stage, take).map(|failure| failure.why)
    }
}
