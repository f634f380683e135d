//! What the fuzz targets share: taking values from the engine's bytes, and the
//! promises that hold for more than one of them.

pub mod capture_file;
pub mod decoding;
pub mod expression;
pub mod frames;
pub mod hostile;
pub mod input;
#[cfg(feature = "whole")]
pub mod outputs;
pub mod place;
pub mod promises;
pub mod recorded;
#[cfg(feature = "whole")]
pub mod run;
pub mod ticks;
pub mod traffic;
