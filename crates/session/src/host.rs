//! Who runs us.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The package's folder, and the one in it that holds the program.
const PACKAGE: &str = "wirelens";
const FOLDER: &str = "bin";

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

impl Host {
    /// The host of a program, given the setting that names a Python: whether it was installed by
    /// itself or is carried by the Python package.
    #[must_use]
    pub fn of(program: &Path, set: Option<OsString>) -> Self {
        let Some(package) = package(program) else { return Self::Program };
        let set = set.filter(|python| !python.is_empty()).map(PathBuf::from);
        // The console script sets it.
        let installed = || {
            let python = prefix(package)?.join("bin/python3");
            python.is_file().then_some(python)
        };
        let interpreter = set.or_else(installed).unwrap_or_else(|| "python3".into());
        Self::Python { interpreter, package: package.to_owned() }
    }
}

/// The Python package that carries a program.
fn package(program: &Path) -> Option<&Path> {
    let folder = program.parent().filter(|folder| folder.ends_with(FOLDER))?;
    let package = folder.parent().filter(|package| package.ends_with(PACKAGE))?;
    package.join("__init__.py").is_file().then_some(package)
}

/// Where the Python is that a package was installed for: PREFIX of
/// `PREFIX/lib/pythonX.Y/site-packages/wirelens`. Of a package elsewhere nothing above it is taken:
/// with a copy in `/tmp`, what is found there may be anybody's.
pub(crate) fn prefix(package: &Path) -> Option<&Path> {
    let mut above = package.ancestors().skip(1);
    let mut is_named = |fits: fn(&str) -> bool| {
        above.next()?.file_name()?.to_str().is_some_and(fits).then_some(())
    };
    is_named(|name| matches!(name, "site-packages" | "dist-packages"))?;
    is_named(|name| name.starts_with("python3"))?;
    is_named(|name| matches!(name, "lib" | "lib64"))?;
    above.next()
}

/// The name of this machine.
#[must_use]
pub fn machine_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_in_a_package_runs_for_its_python() {
        let root = tempfile::tempdir().unwrap();
        let package = root.path().join("lib/python3.12/site-packages").join(PACKAGE);
        let program = package.join(FOLDER).join("wirelens");
        fs::create_dir_all(package.join(FOLDER)).unwrap();
        assert_eq!(Host::of(&program, None), Host::Program);
        fs::write(package.join("__init__.py"), "").unwrap();
        let host = |interpreter: &Path| Host::Python {
            interpreter: interpreter.to_owned(),
            package: package.clone(),
        };
        assert_eq!(Host::of(&program, Some("/opt/python".into())), host(Path::new("/opt/python")));
        assert_eq!(Host::of(&program, Some(OsString::new())), host(Path::new("python3")));
        let python = root.path().join("bin/python3");
        fs::create_dir(root.path().join("bin")).unwrap();
        fs::write(&python, "").unwrap();
        assert_eq!(Host::of(&program, None), host(&python));
    }

    #[test]
    fn nothing_above_a_package_that_no_python_installed_is_taken() {
        for (package, found) in [
            ("/opt/x/lib/python3.12/site-packages/wirelens", Some("/opt/x")),
            ("/usr/lib/python3/dist-packages/wirelens", Some("/usr")),
            ("/opt/x/lib64/python3.12/site-packages/wirelens", Some("/opt/x")),
            ("/tmp/a/b/c/wirelens", None),
            ("/tmp/lib/python3.12/packages/wirelens", None),
            ("/tmp/lib/perl5/site-packages/wirelens", None),
            ("wirelens", None),
        ] {
            assert_eq!(prefix(Path::new(package)), found.map(Path::new), "{package}");
        }
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
            assert_eq!(
                Host::of(&program, Some("/opt/python".into())),
                Host::Program,
                "{program:?}"
            );
        }
        assert_eq!(Host::of(Path::new(""), None), Host::Program);
    }
}
