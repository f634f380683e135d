//! Who runs us.

use std::ffi::OsString;
use std::path::PathBuf;

/// Looks up a setting of the process, which only a front end may do.
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

/// Why ONNX Runtime cannot be loaded from where it is looked for; nothing where it can.
#[must_use]
pub fn onnx_refusal(host: &Host, environment: Environment) -> Option<String> {
    #[cfg(feature = "onnx")]
    return crate::onnx::library(host, environment).err().map(|error| error.to_string());
    #[cfg(not(feature = "onnx"))]
    {
        let _ = (host, environment);
        Some(String::from("this program was built without it"))
    }
}
