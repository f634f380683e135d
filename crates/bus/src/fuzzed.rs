//! Messages of brokers and other machines, as fuzz targets hand them in.

pub use crate::central::fuzzed::{metrics_are_read, read_row_message};
pub use crate::escalation::fuzzed::{read_answer_again, read_escalation_again};
