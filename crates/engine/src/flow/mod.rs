//! Flows: both directions of one 5-tuple, from a first packet to an end.
//!
//! What a flow is, when it ends and what happens when the table is full stands
//! in `docs/guide/flows.md`; the code follows its order.
//!
//! - [`FlowExtract`] turns frames into [`FlowPacket`]s, keeps event time and
//!   reports it to the owners by [`FlowMark`]s;
//! - [`FlowTable`] keeps the flows of some partitions and gives each packet its
//!   [`FlowSlot`], by which applications find what they keep for a flow in a
//!   [`SideSlab`];
//! - [`FlowOwner`] joins a table, a per-flow state and a [`Collect`]or, and is
//!   what [`exchange`](crate::exchange) runs;
//! - [`pass::Pass`] does all of it on one thread, for any number of lenses that look at the frames;
//! - [`FlowFrames`] is a pass with one lens, which keeps something of each flow's frames.
//!
//! Bytes for each flow: 128 in the table, 12 to 24 in its index, and what the
//! applications keep. Fixed: 100 KiB of lists an owner.

mod collect;
mod entry;
mod extract;
mod frames;
mod index;
mod options;
mod owner;
pub mod pass;
mod record;
mod rest;
mod segmented;
mod slab;
mod statistics;
mod table;
mod wheel;
mod with;

pub use collect::{AllFlows, Collect, Heaviest};
pub use extract::{FlowClock, FlowExtract, FlowMark, FlowPacket, MarkKind};
pub use frames::{
    EndedFlow, FlowFrames, FlowSink, FlowState, FrameLens, FramesOutcome, FromFrames, States,
};
pub use options::FlowOptions;
pub use owner::{FlowOwner, FlowPart};
pub use record::{EndReason, FlowCounts, FlowRecord};
pub use rest::{FlowRest, RemainingFlows};
pub use slab::{FlowSlot, PerFlow, SideSlab};
pub use statistics::{FlowStatistics, SideStatistics, Spread};
pub use table::{FlowEnd, FlowTable};
pub use with::With;
