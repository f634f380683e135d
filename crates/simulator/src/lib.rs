//! Many TCP flows through one L4S router, simulated: what ns-3 does in a second takes
//! milliseconds here.
//!
//! Senders with SACK, fast recovery, retransmission time-outs and delayed ACKs share a router
//! ([`dualq::Router`]) and its link. The congestion controls are models of Prague, DCTCP, CUBIC,
//! Reno and BBR, compared with ns-3 (`docs/evaluation/l4s.md`). Time is a number; a seed decides
//! every draw: the same scenario gives the same trace, byte for byte.

#![forbid(unsafe_code)]

mod agenda;
mod congestion;
mod network;
mod receiver;
mod reordering;
mod scenario;
mod sender;
mod steered;
mod summary;
mod traced;
mod workload;

pub use congestion::Kind;
pub use network::{Writers, run};
pub use scenario::{Group, Load, Recovery, Scenario, ScenarioError, SteeringPolicy};
pub use steered::{OfSteering, Predicting};
pub use summary::{Delays, OfGroup, Summary};
