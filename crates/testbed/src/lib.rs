//! What the testbed needs at packet speed, beside namespaces and programs that Python puts
//! together: a link with propagation delay ([`relay`]).
//!
//! Time is the material here: a relay has to know when a packet is due. It asks a clock of its
//! own in [`sys`], and nothing of this reaches what analyses captures.

#![deny(unsafe_code)]

mod error;
pub mod lateness;
mod lines;
pub mod record;
pub mod relay;
#[allow(unsafe_code)]
pub mod sys;

pub use error::TestbedError;
