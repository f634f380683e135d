//! Models that fail while they score: rows that have no answer of their stage, by cause.
//!
//! Trees do not fail; a library that runs networks does, as where memory is short. About a flow
//! without an answer of a stage the next one is asked; where the last one fails, the last answer
//! stands, and a flow without any is unknown.

use crate::cascade::StageName;

/// Why a stage had no answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FailureCause {
    /// The library had no memory for a session when its thread began.
    Session,
    /// The library failed while it ran the model.
    Run,
    /// The model's output is not a probability for each class of each row.
    Output,
    /// The rows are none of the model's.
    Rows,
}

impl FailureCause {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Session, Self::Run, Self::Output, Self::Rows];

    /// The word in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Session => "session",
            Self::Run => "run",
            Self::Output => "output",
            Self::Rows => "rows",
        }
    }
}

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) cause: FailureCause,
    /// What the model or its library said.
    pub(crate) why: String,
    /// Rows without an answer.
    pub(crate) rows: u64,
}

/// The first failure of a stage for a cause.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstFailure {
    /// The stage.
    pub stage: StageName,
    /// The cause.
    pub cause: FailureCause,
    /// What the model or its library said.
    pub why: String,
}

/// Rows without an answer of their stage, and the first failure for each cause.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    rows: [[u64; FailureCause::ALL.len()]; StageName::ALL.len()],
    first: Vec<FirstFailure>,
}

impl Failures {
    #[cold]
    pub(crate) fn note(&mut self, stage: StageName, failure: Failure) {
        let Failure { cause, why, rows } = failure;
        self.add(stage, cause, rows);
        self.keep(FirstFailure { stage, cause, why });
    }

    fn add(&mut self, stage: StageName, cause: FailureCause, rows: u64) {
        let of_stage = self.rows.get_mut(stage as usize);
        if let Some(count) = of_stage.and_then(|of_stage| of_stage.get_mut(cause as usize)) {
            *count += rows;
        }
    }

    /// So many at most as there are stages and causes.
    fn keep(&mut self, failure: FirstFailure) {
        let is_it =
            |known: &FirstFailure| (known.stage, known.cause) == (failure.stage, failure.cause);
        if !self.first.iter().any(is_it) {
            self.first.push(failure);
        }
    }

    /// Rows of a stage that have no answer for a cause.
    #[must_use]
    pub fn of(&self, stage: StageName, cause: FailureCause) -> u64 {
        let of_stage = self.rows.get(stage as usize);
        of_stage.and_then(|of_stage| of_stage.get(cause as usize)).copied().unwrap_or(0)
    }

    /// Rows without an answer.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.rows.iter().flatten().sum()
    }

    /// The first failure of each stage and cause.
    #[must_use]
    pub fn first(&self) -> &[FirstFailure] {
        &self.first
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        for (mine, theirs) in self.rows.iter_mut().flatten().zip(other.rows.iter().flatten()) {
            *mine += theirs;
        }
        other.first.iter().for_each(|one| self.keep(one.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_cause_and_the_first_of_each_is_kept() {
        let failure = |cause, why: &str, rows| Failure { cause, why: why.into(), rows };
        let (mut one, mut other) = (Failures::default(), Failures::default());
        one.note(StageName::Slow, failure(FailureCause::Run, "first", 64));
        one.note(StageName::Slow, failure(FailureCause::Run, "second", 3));
        other.note(StageName::Slow, failure(FailureCause::Run, "third", 1));
        other.note(StageName::Fast, failure(FailureCause::Session, "memory", 2));
        one.fold(&other);
        assert_eq!(one.of(StageName::Slow, FailureCause::Run), 68);
        assert_eq!(one.of(StageName::Fast, FailureCause::Session), 2);
        assert_eq!(one.of(StageName::Fast, FailureCause::Run), 0);
        assert_eq!(one.total(), 70);
        let said: Vec<_> = one.first().iter().map(|first| first.why.as_str()).collect();
        assert_eq!(said, ["first", "memory"]);
    }
}
