//! A queue that is watched while it runs: taps in the kernel, the heaviest flows of the link.

mod chosen;
mod departures;
mod device;
mod watch;

use std::fmt;

use capture::tap::TapError;

pub use chosen::{Choice, FlowChoices};
pub use departures::{Departures, MissedDepartures};
pub use device::{Device, DeviceError, NamespaceError};
pub use watch::{Watch, WatchOptions, ends, lines};

/// Why a queue cannot be watched.
#[derive(Debug)]
pub enum WatchError {
    /// A device is in a network namespace that cannot be entered.
    Namespace(NamespaceError),
    /// What the kernel refuses of a tap.
    Tap(TapError),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(error) => error.fmt(f),
            Self::Tap(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WatchError {}

impl From<NamespaceError> for WatchError {
    fn from(error: NamespaceError) -> Self {
        Self::Namespace(error)
    }
}

impl From<TapError> for WatchError {
    fn from(error: TapError) -> Self {
        Self::Tap(error)
    }
}
