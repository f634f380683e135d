//! Which queue of an L4S router each packet of a sender should take.
//!
//! A sender chooses by the ECN field: ECT(1) is for the L4S queue, Not-ECT for the classic one.
//! [`Steering`] chooses for each packet by a rule that learns nothing, [`Marker`] by the latency
//! that a [`Predictor`] expects of each queue, from what [`history`] has seen acknowledged.
//! [`tuning`] fine-tunes its model on the last minute while it predicts.
//! [`trace`] is what happened to each packet, in one layout from every world that carries them.

#![forbid(unsafe_code)]

pub mod history;
pub mod journal;
mod marker;
pub mod predictor;
mod steering;
pub mod trace;
pub mod tuning;

pub use dualq::{OfQueue, Queue};
pub use marker::{Marker, MarkerCounts, MarkerError, MarkerSettings, RECENT_PACKETS, Verdict};
pub use predictor::{Model, Predictor};
pub use steering::{Control, ControlError, Steering};
pub use tuning::{Tuner, TuningCounts, TuningError, TuningSettings};
