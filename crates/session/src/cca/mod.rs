//! Per-flow queue occupancy and bytes in flight: models, rows, and captures of two taps.

#[cfg(all(target_os = "linux", feature = "tap"))]
pub mod act;
mod application;
mod counted;
pub mod flight;
#[cfg(all(target_os = "linux", feature = "tap"))]
pub mod live;
pub mod naming;
mod period;
pub mod rows;
pub mod settings;
pub mod taps;

use std::fmt;
use std::path::Path;

use cca::model::FILE_LEN_MAX;
use cca::{Model, ModelError as CcaModelError};
use engine::columns::Schema;
use packet::SlotClock;

#[cfg(all(target_os = "linux", feature = "tap"))]
pub use application::Devices;
pub use application::{Cca, PeriodView};
pub use period::{PeriodReport, way_columns};
pub use settings::CcaSettings;

use crate::shipped::{Kind, ModelError};

/// A folder of a model.
pub const MODEL: Kind = Kind { marker: "model.safetensors", made_by: "wirelens train cca" };

/// The default number of flows that are followed at the same time.
pub const FLOWS_MAX: u32 = 65_536;

/// What is said of packets that fit no window.
pub const BEGUN_AGAIN: &str = "packets with data are more than 2^30 bytes from the previous ones, \
                               which exceeds any window: each is treated as the start of another \
                               connection";

/// The columns of the command.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![("wirelens cca", rows::SCHEMA), ("wirelens cca, of one tap", flight::SCHEMA)]
}

/// Why there is no model.
#[derive(Debug)]
pub enum ReadError {
    /// It cannot be found or read, or was changed.
    Model(ModelError),
    /// Its file is none.
    File(String, CcaModelError),
    /// It was trained on other slots.
    Slots {
        /// Those that were asked for.
        ours: SlotClock,
        /// Its own.
        its: SlotClock,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::File(path, error) => write!(f, "{path}: {error}"),
            Self::Slots { ours, its } => write!(
                f,
                "slots of {}s, and the model was trained on {}s",
                ours.length().as_seconds_f64(),
                its.length().as_seconds_f64()
            ),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<ModelError> for ReadError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

/// Reads the model in a folder, or the one of this name that ships; it has to cut time as it is cut
/// here.
///
/// # Errors
/// [`ReadError`]
pub fn read_model(asked: &Path, clock: SlotClock) -> Result<Model, ReadError> {
    let files = MODEL.find(asked)?;
    let path = files.path(MODEL.marker);
    let bytes = MODEL.read_sealed(&files, MODEL.marker, FILE_LEN_MAX)?;
    let model =
        Model::parse(&bytes).map_err(|error| ReadError::File(path.display().to_string(), error))?;
    if model.clock() != clock {
        return Err(ReadError::Slots { ours: clock, its: model.clock() });
    }
    Ok(model)
}
