//! A device, in this network namespace or another.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use capture::Place;
use capture::tap::TapError;

use super::WatchError;

/// A device, in this network namespace or another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// In this one.
    Here(String),
    /// In another.
    Elsewhere(Place),
}

/// What was named is no device: what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceError(String);

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DeviceError {}

impl DeviceError {
    /// One device for both taps, which sees each packet once: no flow would have anything in the
    /// queue.
    pub(in crate::cca) fn both_taps(device: &str) -> Self {
        Self(format!(
            "{device} is upstream of the queue as well; wanted: the receiving interface of the \
             next hop, or xmit:{device} for what is handed to the driver"
        ))
    }
}

/// A network namespace cannot be entered.
#[derive(Debug)]
pub struct NamespaceError {
    file: PathBuf,
    error: io::Error,
}

impl fmt::Display for NamespaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, error } = self;
        write!(
            f,
            "{}: {error}; wanted a network namespace, as `ip netns list` names them, and root",
            file.display()
        )
    }
}

impl std::error::Error for NamespaceError {}

/// Reads `DEV` or `NETNS:DEV`.
impl FromStr for Device {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        if text.contains(':') {
            return text.parse().map(Self::Elsewhere).map_err(DeviceError);
        }
        Ok(Self::Here(text.to_owned()))
    }
}

impl Device {
    /// Its name where it is.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Here(device) => device,
            Self::Elsewhere(place) => &place.device,
        }
    }

    /// Whether it is in another network namespace.
    #[must_use]
    pub const fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere(_))
    }

    /// Attaches a tap to it, in its namespace.
    pub(super) fn attach(
        &self,
        attach: impl FnOnce(&str) -> Result<(), TapError> + Send,
    ) -> Result<(), WatchError> {
        Ok(self.inside(|| attach(self.name()))??)
    }

    /// Does something in its network namespace.
    ///
    /// # Errors
    /// [`NamespaceError`]
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        match self {
            Self::Here(_) => Ok(work()),
            Self::Elsewhere(place) => place
                .inside(work)
                .map_err(|error| NamespaceError { file: place.namespace_file(), error }),
        }
    }
}
