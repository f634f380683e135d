//! Rows of flows that other machines score: escalations of a sensor, answers of workers.
//!
//! A sensor's rows wait for nothing but the next pause of its packets, go out together by partition
//! of flows, and are under way for at most their deadline. A worker answers with what the sensor's
//! own stage would have said. What is not answered in time is the sensor's to decide; an answer
//! that comes later, or twice, is counted and goes nowhere. `docs/specs/messages.md` specifies
//! subjects and bytes.

mod asker;
mod format;
#[cfg(feature = "fuzzed")]
pub(crate) mod fuzzed;
mod sensor;
mod tally;
mod waiting;
mod worker;

pub use asker::{Asker, RowOutcome};
pub use format::{Evidence, RowAnswer, RowFields};
pub use sensor::{EscalationOptions, Escalations};
pub use waiting::BatchOptions;
pub use worker::{AnswerError, AnswerRows, Worker, WorkerCounts, WorkerOptions};

/// Parts of the flows: each has a subject of its own, so that workers can share them. A message has
/// rows of one part, and a sensor's time goes by messages: more parts cost more.
pub const PARTITION_COUNT: u16 = 4;

/// The version of subjects and bytes: version 1 had all numbers of a row, of 64 bits each.
const VERSION: u8 = 2;

/// Where rows of a part of the flows go, for workers that have this model.
fn subject(prefix: &str, model: &str, partition: &str) -> String {
    let model = crate::message::token(model);
    format!("{prefix}.v{VERSION}.escalations.{model}.{partition}")
}
