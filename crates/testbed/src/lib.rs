//! What the testbed needs at packet speed, beside namespaces and programs that Python puts
//! together: a link with propagation delay, and with the queues of an L4S router where that is
//! asked for ([`relay`]), and what happened to each packet there ([`trace`]).
//!
//! Time is the material here: a relay has to know when a packet is due. It asks a clock of its
//! own in [`sys`], and nothing of this reaches what analyses captures.

#![deny(unsafe_code)]

mod error;
pub mod lateness;
mod lines;
mod prefix;
pub mod record;
pub mod relay;
#[allow(unsafe_code)]
pub mod sys;
pub mod trace;

pub use error::TestbedError;
pub use prefix::Prefix;
