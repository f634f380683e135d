//! Moves records: batches through stages, keys to partitions, items across cores.
//!
//! - A [`Stage`] sees every batch, runs to completion on it and keeps its own
//!   state. [`run`](run::run) drives one stage per thread and folds them.
//! - A [`Table`](table::Table) lies in 64 [partitions](partition); a thread
//!   folds the partitions it owns, so no lock is ever taken per packet.
//! - [`group`] counts packets and bytes by key, [`window`] by key and time.
//! - [`exchange`] carries items from the thread that reads to the threads that
//!   own partitions, in chunks over [`ring`]s, for work whose order matters.
//! - [`lanes`] lets several threads look at one stream, each lane in order.
//! - [`sketch`] keeps sums of packets by key in a fixed memory, window by window.
//! - [`columns`] is what leaves the engine.

#![deny(unsafe_code)]

pub mod census;
pub mod columns;
pub mod exchange;
pub mod flow;
pub mod group;
pub mod grouping;
pub mod lanes;
pub mod partition;
#[allow(unsafe_code)]
pub mod prefetch;
pub mod recent;
mod remembered;
pub mod ring;
pub mod run;
pub mod sketch;
pub mod stage;
pub mod sums;
pub mod table;
pub mod window;

// Needed by crates that have rows and no packets.
pub use packet::{event_time, time};

pub use partition::{PARTITION_COUNT, Partition, PartitionShare};
pub use stage::{Fold, Stage};
