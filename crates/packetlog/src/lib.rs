//! Keeps each packet at the granularity that it deserves, and finds it again.
//!
//! Every packet is classified ([`PacketVerdict`]): what class of traffic it is of, and how sure
//! that is. A [`policy`] says how much of a packet of that class is kept.

#![deny(unsafe_code)]

mod account;
pub mod calibration;
mod cause;
pub mod classifier;
mod compact;
pub mod features;
mod file_name;
pub mod hindsight;
pub mod index;
pub mod integer;
pub mod judged;
pub mod ledger;
pub mod log;
pub mod manager;
pub mod model;
pub mod own;
pub mod pipeline;
pub mod policy;
pub mod reasons;
pub mod recorder;
pub mod reuse;
pub mod score;
mod section;
pub mod switch;
mod uring;

pub use classifier::{Classifier, ClassifierCounts};
pub use features::FeatureOptions;
pub use judged::{Basis, PacketVerdict};
pub use model::{Model, ModelError};
