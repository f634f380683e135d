//! Which queue of an L4S router packets should take: predicted latencies of the flows that a user
//! names, and what would be re-marked or is.

#[cfg(all(target_os = "linux", feature = "tap"))]
mod act;
mod application;
mod budgets;
mod cells;
mod closing;
mod flow;
mod follower;
#[cfg(all(target_os = "linux", feature = "tap"))]
mod keeper;
mod rows;
mod settings;
mod target;
mod time;

use std::path::Path;

use engine::columns::Schema;
use l4s::Model;
use l4s::predictor::FILE_LEN_MAX;

#[cfg(all(target_os = "linux", feature = "tap"))]
pub(crate) use act::helper_of;
pub use application::{L4s, Marking};
pub use cells::{TEXT_COLUMNS, TITLES};
pub use rows::{MarkingReport, Row};
pub use settings::L4sSettings;
pub use target::Target;

use crate::application::Refusal;
use crate::shipped::Kind;

/// A folder of a model.
pub const MODEL: Kind = Kind { marker: "model.safetensors", made_by: "wirelens train l4s" };

/// The columns of the command.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![("wirelens l4s", rows::SCHEMA)]
}

/// Reads a model: a folder, or the name of one that ships.
///
/// # Errors
/// [`Refusal`]: it cannot be found or read, was changed, or was made for other inputs.
pub fn read_model(asked: &Path) -> Result<Model, Refusal> {
    let found = MODEL.find(asked).map_err(|error| Refusal::of("model", error))?;
    let bytes = MODEL.read_sealed(&found, MODEL.marker, FILE_LEN_MAX);
    let bytes = bytes.map_err(|error| Refusal::of("model", error))?;
    Model::parse(&bytes).map_err(|error| {
        let path = found.path(MODEL.marker);
        Refusal::of("model", format_args!("{}: {error}", path.display()))
    })
}
