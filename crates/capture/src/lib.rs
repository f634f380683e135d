//! Files and interfaces to bytes: opens captures and lends their frames.
//!
//! [`input`] turns what was named on a command line into captures, by content
//! and not by suffix. A capture is read from a memory map ([`mapped`]), which
//! threads can share in [`split`] spans, or as a [`stream`] when it is
//! compressed or piped. [`merged`] puts several captures into one order of
//! time, and [`distinct`] leaves out copies of packets. On Linux, `live` lends
//! frames out of the kernel's rings, `devices` shows
//! what interfaces there are, a `Place` names one in another network namespace, and `tap`
//! counts what passes one. Every source keeps a
//! [`Report`](report::Report): what it received, what the filter took out,
//! what was lost, and what was wrong with the file.

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
pub mod devices;
pub mod distinct;
pub mod error;
pub mod filter;
pub mod input;
pub mod limited;
#[cfg(target_os = "linux")]
pub mod live;
pub mod mapped;
pub mod merged;
pub mod open;
#[cfg(target_os = "linux")]
mod place;
pub mod reading;
pub mod report;
pub mod split;
pub mod stream;
#[allow(unsafe_code)]
pub mod sys;
#[cfg(all(target_os = "linux", feature = "tap"))]
pub mod tap;

pub use error::OpenError;
pub use filter::{Filter, FilterError};
pub use input::Input;
pub use open::{FileSource, open};
#[cfg(target_os = "linux")]
pub use place::Place;
pub use reading::ReadOptions;
pub use report::{Damage, DamageCause, Drops, Progress, Report, UnusedFrames};
