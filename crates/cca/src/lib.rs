//! Which congestion control fills a queue, from any moment of a flow.
//!
//! One tap is upstream of a queue, one downstream of it. For each followed flow both report,
//! slot by slot, what passed ([`TapSlot`](packet::TapSlot)); from both come the [`inputs`] by which
//! congestion controls are distinguished, the bytes that the flow has in the queue above all. After
//! Carmel and Keslassy, *Dragonfly: In-Flight CCA Identification*.

#![forbid(unsafe_code)]

pub mod flight;
pub mod follow;
pub mod grouping;
mod header;
pub mod inputs;
pub mod model;
pub mod pair;
pub mod queue_rows;
pub mod sampling;
pub mod segment;
pub mod tap;
pub mod trained;
pub mod unseen;
pub mod votes;
pub mod walk;

pub use flight::{FlightInput, FlightTap};
pub use follow::{Change, Follow};
pub use grouping::{Grouping, GroupingRules, Sizes, Step};
pub use inputs::{Input, Rules, Window};
pub use model::{Model, ModelError};
pub use pair::{FlowPeriod, InQueue, Pair, Period};
pub use queue_rows::QueueRows;
pub use sampling::Sampler;
pub use segment::{FlowWay, Segment, UnfitReason};
pub use tap::{Tap, TapCounts, TapFlow, TapOptions};
pub use trained::{QueueConditions, TrainingConditions, UnnamedReason};
pub use unseen::SequenceGaps;
pub use votes::Votes;
pub use walk::Walk;
