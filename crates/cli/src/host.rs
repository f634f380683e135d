//! The host of this process.

use session::Host;

use crate::environment;
use crate::python::PYTHON_SETTING;

/// Whether this program was installed by itself or is carried by the Python package.
pub(crate) fn own() -> Host {
    let program = std::env::current_exe().unwrap_or_default();
    Host::of(&program, environment(PYTHON_SETTING))
}
