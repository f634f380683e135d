//! Whether this program was installed by itself or is carried by the Python package.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use session::Host;

use crate::environment;
use crate::python::PYTHON_SETTING;

/// The package's folder, and the one in it that holds the program.
const PACKAGE: &str = "wirelens";
const FOLDER: &str = "bin";

/// The host of this process.
pub(crate) fn own() -> Host {
    let program = std::env::current_exe().unwrap_or_default();
    of(&program, environment(PYTHON_SETTING))
}

/// The host of a program, given the setting that names a Python.
fn of(program: &Path, set: Option<OsString>) -> Host {
    let Some(package) = package(program) else { return Host::Program };
    let set = set.filter(|python| !python.is_empty()).map(PathBuf::from);
    // The console script sets it. Without: PREFIX/lib/pythonX.Y/site-packages/wirelens.
    let installed = || {
        let python = package.ancestors().nth(4)?.join("bin/python3");
        python.is_file().then_some(python)
    };
    let interpreter = set.or_else(installed).unwrap_or_else(|| "python3".into());
    Host::Python { interpreter, package: package.to_owned() }
}

/// The Python package that carries a program.
fn package(program: &Path) -> Option<&Path> {
    let folder = program.parent().filter(|folder| folder.ends_with(FOLDER))?;
    let package = folder.parent().filter(|package| package.ends_with(PACKAGE))?;
    package.join("__init__.py").is_file().then_some(package)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_in_a_package_runs_for_its_python() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("lib/python3.12/site-packages").join(PACKAGE);
        let program = package.join(FOLDER).join("wirelens");
        fs::create_dir_all(package.join(FOLDER)).unwrap();
        assert_eq!(of(&program, None), Host::Program);
        fs::write(package.join("__init__.py"), "").unwrap();
        let host = |interpreter: &Path| Host::Python {
            interpreter: interpreter.to_owned(),
            package: package.clone(),
        };
        assert_eq!(of(&program, Some("/opt/python".into())), host(Path::new("/opt/python")));
        assert_eq!(of(&program, Some(OsString::new())), host(Path::new("python3")));
        let python = root.path().join("bin/python3");
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::write(&python, "").unwrap();
        assert_eq!(of(&program, None), host(&python));
    }

    #[test]
    fn a_program_elsewhere_is_its_own_host() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["wirelens", "other/bin", "wirelens/release"] {
            let folder = root.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            for above in folder.ancestors().take(2) {
                fs::write(above.join("__init__.py"), "").unwrap();
            }
            let program = folder.join("wirelens");
            assert_eq!(of(&program, Some("/opt/python".into())), Host::Program, "{program:?}");
        }
        assert_eq!(of(Path::new(""), None), Host::Program);
    }
}
