//! What people type is handed to the testbed's library: this process becomes its Python.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use session::Host;

use super::args::TestbedCommand;
use crate::failure::{Failure, Status};
use crate::host::checkout;
use crate::python::Python;

/// Folder that holds the library.
const LIBRARY_SETTING: &str = "WIRELENS_TESTBED";
const PACKAGE: &str = "wirelens_testbed";
/// Where a checkout has the library.
const LIBRARY_FOLDER: &str = "testbed";

pub(super) fn run(command: &TestbedCommand, host: &Host) -> Result<Status, Failure> {
    let program = own_program()?;
    let library = library(&program)?;
    let python = Python::find("testbed", host, library.as_deref().and_then(Path::parent));
    if library.is_none() && !python.has_module(PACKAGE)? {
        return Err(Failure::error(format_args!(
            "testbed: its library, the Python package {PACKAGE}, was not found; wanted: {} in the \
             clone where {} was built, or installed for {}, or its folder in {LIBRARY_SETTING}",
            Path::new(LIBRARY_FOLDER).join(PACKAGE).display(),
            program.display(),
            python.path().display(),
        )));
    }
    let others = env::var_os("PYTHONPATH");
    let path = library.as_deref().map(|at| first_of_path(at, others.as_deref())).transpose()?;
    let request = request(command, &program)?.to_string();
    // On success there is nothing to come back to.
    Err(python.become_module(PACKAGE, [request], path.as_deref()))
}

/// What is asked of the library: one JSON object.
fn request(command: &TestbedCommand, program: &Path) -> Result<Value, Failure> {
    let mut request = match command {
        TestbedCommand::Run(arguments) => json!({
            "command": "run",
            "scenario": text(&arguments.scenario)?,
            "output": text(&arguments.output)?,
            "seed": arguments.seed,
            "set": arguments.set,
            "quiet": arguments.quiet,
        }),
        TestbedCommand::Make(arguments) => json!({
            "command": "make",
            "dataset": text(&arguments.dataset)?,
            "output": text(&arguments.output)?,
            "runs": arguments.runs,
            "variants": arguments.variants,
            "parallel": arguments.parallel,
            "quiet": arguments.quiet,
        }),
        TestbedCommand::Check(arguments) => json!({
            "command": "check",
            "kinds": arguments.kinds,
            "install": arguments.install,
        }),
        TestbedCommand::Clean => json!({ "command": "clean" }),
        TestbedCommand::Scenarios => json!({ "command": "scenarios" }),
        TestbedCommand::Plot(arguments) => json!({
            "command": "plot",
            "run": text(&arguments.run)?,
            "output": arguments.output.as_deref().map(text).transpose()?,
        }),
        // Not the library's; it asks for these itself.
        TestbedCommand::Relay(_)
        | TestbedCommand::Record(_)
        | TestbedCommand::Replay(_)
        | TestbedCommand::Simulate(_) => Value::Null,
    };
    if let Value::Object(fields) = &mut request {
        fields.insert(String::from("wirelens"), text(program)?.into());
    }
    Ok(request)
}

/// A path as text, which JSON has to be.
fn text(path: &Path) -> Result<&str, Failure> {
    path.to_str().ok_or_else(|| {
        Failure::usage(format_args!("{}: not UTF-8; give another name", path.display()))
    })
}

/// The file of this program, for the library to start parts of itself.
fn own_program() -> Result<PathBuf, Failure> {
    env::current_exe()
        .map_err(|error| Failure::error(format_args!("testbed: this program's own file: {error}")))
}

/// Folder of the library, where it is not left to Python to find it.
fn library(program: &Path) -> Result<Option<PathBuf>, Failure> {
    if let Some(folder) = env::var_os(LIBRARY_SETTING).filter(|folder| !folder.is_empty()) {
        let folder = PathBuf::from(folder);
        if holds_library(&folder) {
            return Ok(Some(folder));
        }
        return Err(Failure::error(format_args!(
            "{}: no testbed library, as {LIBRARY_SETTING} says; wanted a folder that holds \
             {PACKAGE}/__main__.py",
            folder.display()
        )));
    }
    let cloned = checkout(program).map(|root| root.join(LIBRARY_FOLDER));
    Ok(cloned.filter(|folder| holds_library(folder)))
}

fn holds_library(folder: &Path) -> bool {
    folder.join(PACKAGE).join("__main__.py").is_file()
}

fn first_of_path(folder: &Path, others: Option<&OsStr>) -> Result<OsString, Failure> {
    let others = others.filter(|others| !others.is_empty());
    let folders = others.into_iter().flat_map(env::split_paths);
    env::join_paths(std::iter::once(folder.to_owned()).chain(folders)).map_err(Failure::error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command as AnyCommand};
    use clap::Parser as _;

    fn asked(line: &str) -> Value {
        let words = ["wirelens", "testbed"].into_iter().chain(line.split(' '));
        match Arguments::try_parse_from(words).unwrap().command {
            Some(AnyCommand::Testbed(arguments)) => {
                request(&arguments.command, Path::new("/bin/wirelens")).unwrap()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_typed_is_what_the_library_is_asked() {
        let wanted = json!({
            "command": "run", "scenario": "a.toml", "output": "x", "seed": 7,
            "set": ["flows=18", "link.rate=\"1mbit\""], "quiet": false,
            "wirelens": "/bin/wirelens",
        });
        let line = "run a.toml -o x --seed 7 --set flows=18 --set link.rate=\"1mbit\"";
        assert_eq!(asked(line), wanted);
        assert_eq!(asked("run a.toml")["output"], "testbed-runs");
        assert_eq!(asked("run a.toml")["seed"], Value::Null);
        assert_eq!(asked("make d.toml --runs 3 --parallel 2")["parallel"], 2);
        assert_eq!(asked("make d.toml --variant a --variant b")["variants"], json!(["a", "b"]));
        assert_eq!(asked("check calls attacks --install")["kinds"], json!(["calls", "attacks"]));
        assert_eq!(asked("plot r -o p.png")["output"], "p.png");
        assert_eq!(asked("clean"), json!({ "command": "clean", "wirelens": "/bin/wirelens" }));
    }

    #[test]
    fn the_library_of_a_clone_is_found_and_none_further_up() {
        let root = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            std::fs::create_dir_all(root.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(root.path().join(name), "").unwrap();
            root.path().join(name)
        };
        made("testbed/wirelens_testbed/__main__.py");
        let (built, copied) = (made("target/release/wirelens"), made("x/bin/wirelens"));
        assert_eq!(library(&built).unwrap(), Some(root.path().join("testbed")));
        assert_eq!(library(&copied).unwrap(), None);
        let python = Python::find("testbed", &Host::Program, Some(root.path()));
        assert_eq!(python.path(), Path::new("python3"));
    }

    #[test]
    fn the_library_comes_before_what_was_in_the_path() {
        let path = |others| first_of_path(Path::new("/l"), others).unwrap();
        assert_eq!(path(None), "/l");
        assert_eq!(path(Some(OsStr::new("/a:/b"))), "/l:/a:/b");
        assert_eq!(path(Some(OsStr::new(""))), "/l");
    }
}
