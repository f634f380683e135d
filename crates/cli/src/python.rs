//! Commands whose library is Python: which Python runs them, and this process becoming it.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use session::Host;

use crate::failure::Failure;

/// Python that runs libraries.
pub(crate) const PYTHON_SETTING: &str = "WIRELENS_PYTHON";

/// Python's flags: no compiled files next to a checkout's sources, which root would own, and
/// nothing imported from the current folder.
const FLAGS: [&str; 2] = ["-B", "-P"];

/// How to install the Python package, as errors say it; the package itself says it in
/// `wirelens.compat`. From a clone alone: the name on the index of Python packages is not ours.
pub(crate) fn install_line(python: &str, extra: &str) -> String {
    format!(
        "install it from a clone of Wirelens, in its folder: {python} -m pip install '.{extra}'"
    )
}

/// A Python, for the command that is named.
pub(crate) struct Python {
    command: &'static str,
    path: PathBuf,
}

impl Python {
    /// The one that is set, else the one that runs us, else that of the checkout, else the path's.
    pub(crate) fn find(command: &'static str, host: &Host, checkout: Option<&Path>) -> Self {
        let set = env::var_os(PYTHON_SETTING).filter(|python| !python.is_empty());
        let path = match (set, host) {
            (Some(python), _) => PathBuf::from(python),
            (None, Host::Python { interpreter, .. }) => interpreter.clone(),
            (None, Host::Program) => {
                let beside = checkout.map(|root| root.join(".venv/bin/python"));
                beside.filter(|python| python.is_file()).unwrap_or_else(|| "python3".into())
            }
        };
        Self { command, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has this module among its packages.
    pub(crate) fn has_module(&self, module: &str) -> Result<bool, Failure> {
        // The packages above a module are imported to find it, and may be missing themselves.
        let question = format!(
            "import sys\nfrom importlib.util import find_spec\n\
             try: sys.exit(find_spec('{module}') is None)\n\
             except ImportError: sys.exit(1)"
        );
        let status = Command::new(&self.path)
            .args(FLAGS)
            .args(["-c", &question])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .map_err(|error| self.cannot_run(&error))?;
        Ok(status.success())
    }

    /// Becomes the module, with these arguments; comes back only where that failed.
    pub(crate) fn become_module(
        &self,
        module: &str,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        path: Option<&OsStr>,
    ) -> Failure {
        let mut process = Command::new(&self.path);
        process.args(FLAGS).args(["-m", module]).args(arguments);
        if let Some(path) = path {
            process.env("PYTHONPATH", path);
        }
        self.cannot_run(&process.exec())
    }

    fn cannot_run(&self, error: &io::Error) -> Failure {
        Failure::error(format_args!(
            "{}: cannot run {}: {error}; wanted Python 3.11 or newer, try \
             `apt-get install python3` or name one in {PYTHON_SETTING}",
            self.command,
            self.path.display()
        ))
    }
}
