//! Names the service or the device of a flow from its first packets, with models that are asked
//! one after the other: `ServeFlow`'s cascade.
//!
//! - [`Cascade`] is read from an artifact, a directory that training wrote
//!   (`docs/specs/cascade.md`); all that it says is checked.
//! - [`Classifier`] keeps what is needed of flows that are not decided, asks the models and gives
//!   each flow one [`Verdict`]. It runs in [`engine::flow::FlowFrames`].
//! - [`WindowClassifier`] gives each flow a verdict for each window of time instead.
//! - [`HostVerdict`] is what its flows together say of a host, where the cascade remembers hosts.
//! - [`columns`] is how verdicts leave.
//!
//! The three queues of the paper (section 3.1) are here: rows of first packets that wait for the
//! end of their batch (Queue 1), compact records of the later packets of undecided flows, kept with
//! the flow (Queue 2), and flows that a later model was asked about (Queue 3). Joining the last two
//! by flow costs nothing, since they lie in one place.
//!
//! A verdict depends on the flow's own packets and on event time alone, so it is the same
//! however frames are cut into batches, on any number of threads and under any seed, as long as no
//! limit is touched.

#![forbid(unsafe_code)]

pub mod cascade;
pub mod columns;
pub mod counts;
pub mod drift;
pub mod evidence;
pub mod failures;
pub mod host;
pub mod latency;
pub mod memory;
mod model;
pub mod serve;
pub mod uncertainty;
pub mod verdict;
pub mod windows;

pub use cascade::{Cascade, CascadeError, Stage, StageName};
pub use counts::Counts;
pub use evidence::NamesSoFar;
pub use failures::{FailureCause, Failures};
pub use host::HostVerdict;
pub use serve::{Classifier, Clock, EarlyVerdict, Options, Progress, Standing, TakeVerdicts};
pub use uncertainty::{Answer, Uncertainty};
pub use verdict::{Cause, Label, UNKNOWN, Verdict};
pub use windows::WindowClassifier;
