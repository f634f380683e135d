//! How long packets take: from a tap to their receiver and back, each measured by what answers it.
//!
//! Data of TCP is answered by acknowledgements, cumulative or selective; a DNS query by its
//! response; a change of QUIC's spin bit by the change that it brings about. Everything that makes
//! such a measurement wrong has a name and a count: retransmissions, acknowledgements that were
//! held back, gaps, clocks that were set back. What is kept is bounded by [`Limits`], whatever
//! packets say.

#![forbid(unsafe_code)]

mod budget;
mod clocks;
mod context;
mod destinations;
mod echo;
mod flow;
mod histogram;
mod measure;
mod one_way;
mod outstanding;
mod rtt;
mod sample;
mod segment;
mod spin;
#[cfg(test)]
mod tests;
mod way;

pub use budget::Budget;
pub use clocks::{Clocks, Estimate, Offset};
pub use context::Limits;
pub use destinations::{Destination, Destinations, PeriodDestinations};
pub use echo::EchoKind;
pub use flow::Flow;
pub use histogram::{BUCKET_COUNT_MAX, Histogram};
pub use measure::{Counts, Latency};
pub use one_way::{Identity, OneWay, OneWayCounts, OneWayFlow, Tap, TapPacket, WAIT_MAX};
pub use rtt::{Rtt, Series, SharpRule};
pub use sample::{
    AckDelay, Echo, Method, MissingReason, Place, Sample, Sharp, TakeSamples, ecn_name,
};
pub use segment::Segment;
pub use way::{Totals, Way};
