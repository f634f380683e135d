//! A recorder of packets with all that steers it: settings, resources, events, operators.

mod anomalous;
mod application;
mod calibrate;
mod calibration;
pub mod desk;
mod drift;
pub mod events;
mod files;
pub mod filter;
mod hindsight;
mod judging;
mod listed;
pub mod log;
mod metrics;
mod named;
#[cfg(not(all(target_os = "linux", feature = "tap")))]
#[path = "no_offload.rs"]
mod offload;
#[cfg(all(target_os = "linux", feature = "tap"))]
mod offload;
mod recording;
pub mod search;
pub mod settings;
mod simulate;
mod simulated;
pub mod socket;
mod stats;
mod verify;
mod why;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use model::sums::sha256;
use packetlog::Model;

pub use anomalous::AnomalousFrames;
pub use application::{Packetlog, RecordSettings, offloads_line};
pub use calibrate::{
    CalibrateSettings, CalibrationReport, Calibrator, ModeVolume, parse_budget,
    parse_calibration_time,
};
pub use calibration::{CalibrationSpan, read_calibration};
pub use files::{Direct, Encoding, FileSettings, Means, Notes, WhenFull};
pub use hindsight::{HINDSIGHT_BYTES, HindsightSettings, Reach};
pub use listed::{HOSTS, Listed, Listing, SESSIONS};
pub use named::flow_named;
pub use offload::Offload;
pub use recording::Ask;
pub use simulate::{
    SimulationSettings, Simulator, WorkloadName, parse_gbps, recommended_modes, simulate_workloads,
};
pub use simulated::{SIMULATION, SimulationReport};
pub use stats::{STATS, ledger_lines, stats_columns};
pub use verify::{anchors, is_confirmed, verified_lines};
pub use why::{REASONS, ReasonListing, Why};

use crate::reading::Needs;
use crate::shipped::{Kind, ModelError};

/// Prints messages for users during a recording; a line each.
pub type Tell = fn(&str);

/// What is looked at of a frame: its headers; and all of it may be kept.
const NEEDS: Needs = Needs { stage: "packetlog", len: Needs::TRANSPORT_LEN, takes_all: true };

/// A folder of a model.
const MODEL: Kind = Kind { marker: "model.json", made_by: "wirelens train packetlog" };

/// Why a log cannot be recorded, or not be asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogError {
    /// What is asked for makes no sense.
    Usage(String),
    /// What is asked for cannot be done.
    Failed(String),
}

impl LogError {
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::Usage(message.to_string())
    }

    pub(crate) fn error(message: impl fmt::Display) -> Self {
        Self::Failed(message.to_string())
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(message) | Self::Failed(message)) = self;
        f.write_str(message)
    }
}

impl std::error::Error for LogError {}

/// Why there is no model.
#[derive(Debug)]
pub enum ReadError {
    /// It cannot be found or read, or was changed.
    Model(ModelError),
    /// Its file is none.
    File(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => error.fmt(f),
            Self::File(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<ModelError> for ReadError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

/// A model that was read, and the hash of its file.
#[derive(Clone)]
pub struct PacketModel {
    /// The model.
    pub model: Arc<Model>,
    /// SHA-256 of its `model.json`, in hexadecimal digits.
    pub sha256: String,
}

/// Reads the model in a folder, or the one of this name that ships; one that was changed after
/// training is none.
///
/// # Errors
/// [`ReadError`]
pub fn read_model(asked: &Path) -> Result<PacketModel, ReadError> {
    let files = MODEL.find(asked)?;
    let bytes = MODEL.read_sealed(&files, MODEL.marker, packetlog::model::FILE_LEN_MAX)?;
    let model = Model::parse(&bytes).map_err(|error| {
        ReadError::File(format!("{}: {error}", files.path(MODEL.marker).display()))
    })?;
    Ok(PacketModel { model: Arc::new(model), sha256: sha256(&bytes) })
}
