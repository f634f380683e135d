//! The two queues of an L4S router: arrivals and dequeue instants in, decisions out.
//!
//! [`Router`] is the coupled dual-queue AQM of RFC 9332 in the form that Linux gives it
//! (`sch_dualpi2`: PI2, coupling, step threshold, weighted scheduler with credit), and what it
//! is compared with: the RFC's ramp and time-shifted FIFO, a link that is partitioned between
//! the queues, and one queue with tail drop. It has no clock, no sockets and no threads: its
//! caller says when a packet arrives and when the link is free, and a seed decides every draw.
//! The same arrivals, dequeue instants and seed give the same decisions in a simulator, in
//! ns-3 and in front of real TCP.

#![forbid(unsafe_code)]

mod counts;
mod draws;
mod ecn;
mod pi2;
mod router;
mod settings;
mod written;

pub use counts::{Counts, OfQueue};
pub use draws::Draws;
pub use ecn::Ecn;
pub use router::{
    Arrival, Departure, DropCause, EnqueueOutcome, Fate, MarkCause, Packet, Queue, Router, State,
};
pub use settings::{Aqm, Mode, Scheduler, Settings, SettingsError};
