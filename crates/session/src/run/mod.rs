//! Any set of applications on one pass: what `wirelens run` does.
//!
//! A [`Plan`] is what a file of settings asks for, read and checked; [`Session`] is the plan with
//! its inputs and outputs open.

mod alerting;
mod app_plan;
mod besides;
mod central;
mod closing;
mod counted;
mod cutting;
mod drilling;
mod driving;
mod example;
mod faults;
mod finished;
mod interfaces;
mod jailed;
#[cfg(not(all(target_os = "linux", feature = "tap")))]
#[path = "no_opener.rs"]
mod opener;
#[cfg(all(target_os = "linux", feature = "tap"))]
mod opener;
mod outlets;
mod outputs;
mod passes;
mod places;
mod plan;
mod quarantine;
mod reload;
mod seat;
mod session;
mod settings;
mod shown;
mod spare;

pub use crate::drills::{Drill, Drills};
pub use crate::input::InputSettings;
pub use central::{CentralDoors, CentralRun};
pub(crate) use counted::count_process;
pub use example::{USUAL, example};
pub use jailed::{Jail, change_user, check_user};
#[cfg(all(target_os = "linux", feature = "tap"))]
pub(crate) use opener::helper_of;
pub use outputs::OutputSettings;
pub use places::RunFolder;
pub use plan::{AppPlan, NO_FILE, Plan, RunSettings, open_alone, read};
pub use reload::{Readings, Reload};
pub use session::{Again, Doors, RunError, Session, SessionOutcome};
pub use spare::spare;
