//! Any set of applications on one pass: what `wirelens run` does.
//!
//! A [`Plan`] is what a file of settings asks for, read and checked; [`Session`] is the plan with
//! its inputs and outputs open.

mod besides;
mod example;
mod passes;
mod plan;
mod reload;
mod seat;
mod session;

pub use crate::input::InputSettings;
pub use example::example;
pub use plan::{Plan, Planned, RunSettings, read};
pub use reload::Reload;
pub use session::{Doors, Finished, RunError, Session};
