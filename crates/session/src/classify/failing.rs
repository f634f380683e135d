//! Models that fail while a run reads: the first failure of each cause is reported.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use classify::{Cascade, Counts, FailureCause, Failures, StageName};
use store::Count;

/// What all threads of a run have reported.
#[derive(Clone)]
pub(super) struct FailureWatch(Arc<Shared>);

struct Shared {
    warn: fn(&str),
    /// Models, stages and causes.
    reported: Mutex<BTreeSet<(String, StageName, FailureCause)>>,
}

impl FailureWatch {
    /// Nothing reported.
    pub(super) fn new(warn: fn(&str)) -> Self {
        Self(Arc::new(Shared { warn, reported: Mutex::default() }))
    }

    /// Reports what failed first, where it was not reported: a library that fails may do so with
    /// each row.
    pub(super) fn look(&self, cascade: &Cascade, failures: &Failures) {
        for first in failures.first() {
            let id = cascade.id();
            let key = (id.to_owned(), first.stage, first.cause);
            let mut reported = self.0.reported.lock().unwrap_or_else(PoisonError::into_inner);
            let is_new = reported.insert(key);
            drop(reported);
            if is_new {
                let (stage, cause, why) = (first.stage, first.cause.name(), &first.why);
                (self.0.warn)(&format!(
                    "classify: the stage {stage} of {id} fails ({cause}): {why}; flows that it was \
                     to decide go to the next stage; after the last one the stage before decides, \
                     or they are unknown; wanted: an answer for each row; try it alone as \
                     docs/guide/onnx.md does, or more memory"
                ));
            }
        }
    }
}

/// For observers of the run: of stages that may fail.
pub(super) fn counts(cascade: &Cascade, failures: &Failures) -> Vec<Count> {
    let mut made = Vec::new();
    for stage in cascade.stages().iter().filter(|stage| stage.may_fail()) {
        for cause in FailureCause::ALL {
            let about = "Rows without an answer of their stage, as its model failed.";
            let count = Count::total("failed_rows", about, failures.of(stage.name(), cause));
            made.push(count.with("stage", stage.name().name()).with("cause", cause.name()));
        }
    }
    made
}

/// The closing lines; none where no model failed.
pub(super) fn lines(counts: &Counts) -> String {
    let mut text = String::new();
    for first in counts.failures.first() {
        let (stage, cause, why) = (first.stage, first.cause, &first.why);
        let (rows, word) = (counts.failures.of(stage, cause), cause.name());
        let _ = writeln!(
            text,
            "classify: {rows} rows have no answer of the stage {stage}, which failed ({word}); \
             first: {why}"
        );
    }
    text
}
