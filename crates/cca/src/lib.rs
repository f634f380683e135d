//! Which congestion control fills a queue, from any moment of a flow.
//!
//! Two taps stand before and behind a queue. Of each flow that is followed each of them tells, slot
//! by slot, what passed ([`TapSlot`](packet::TapSlot)); from both come the [`inputs`] by which
//! congestion controls are told apart, the bytes that the flow has in the queue above all. After
//! Carmel and Keslassy, *Dragonfly: In-Flight CCA Identification*.

#![forbid(unsafe_code)]

pub mod flight;
pub mod follow;
pub mod grouping;
pub mod inputs;
pub mod model;
pub mod pair;
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
pub use sampling::Sampler;
pub use segment::{FlowWay, Segment, Unfit};
pub use tap::{Tap, TapCounts, TapFlow, TapOptions};
pub use trained::{QueueSeen, TrainedOn, Unnamed};
pub use unseen::Unseen;
pub use votes::Votes;
pub use walk::Walk;
