//! Who runs us.

use std::ffi::OsString;
use std::path::PathBuf;

/// Looks a setting of the process up, which a front door alone may do.
pub type Environment = fn(&str) -> Option<OsString>;

/// The process that asks: it decides where models and libraries are looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Host {
    /// The program `wirelens`.
    Program,
    /// A Python, which has Wirelens as a package.
    Python {
        /// Its program.
        interpreter: PathBuf,
        /// The folder of the package `wirelens`.
        package: PathBuf,
    },
}
