//! The front door: what was typed becomes work, results and exit codes.
//!
//! Only the doors print, exit and read settings. Data goes to standard output,
//! everything else to standard error. What a command asks for is separate from how it was typed:
//! the other door, the Python package, asks [`reading`] and [`top`] for the same.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
mod asked;
pub mod duration;
mod failure;
mod info;
mod interrupt;
mod output;
mod progress;
pub mod reading;
pub mod summary;
pub mod top;
mod version;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Arguments, Command};
use crate::failure::{Failure, Status};

/// The columns that each command declares, by the words that ask for them; for
/// the reference pages.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, engine::columns::Schema)> {
    let mut declared = top::declared_columns();
    declared.push(("wirelens info", info::SCHEMA));
    declared
}

/// Runs the command with these arguments, the program's name first.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(arguments))
}

/// The same, for a process that is not ours to end: its exit status.
pub fn status(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let status = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => run(arguments).unwrap_or_else(|failure| failure.report()),
        Err(error) => {
            // Help and version are no errors, and go where they are asked for.
            let status = if error.use_stderr() { Status::Usage } else { Status::Fine };
            // Where even that cannot be written there is nobody left to tell.
            let _ = error.print();
            if let Some(hint) = hint(&error) {
                eprintln!("{hint}");
            }
            status
        }
    };
    status as u8
}

/// What somebody who knows other tools may have meant.
fn hint(error: &clap::Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let argument = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => argument.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::MissingRequiredArgument => {
            Some("Captures are given with -r: wirelens top -r FILE")
        }
        ErrorKind::UnknownArgument if argument.starts_with("-i") => {
            Some("Interfaces are read through a pipe: tcpdump -i eth0 -w - | wirelens top -r -")
        }
        ErrorKind::UnknownArgument if argument.starts_with("-w") => {
            Some("Results are written with -o FILE; frames are not written")
        }
        _ => None,
    }
}

fn run(arguments: Arguments) -> Result<Status, Failure> {
    if arguments.version {
        return version::print(arguments.verbose);
    }
    match arguments.command {
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Info(arguments)) => info::run(&arguments),
        None => Err(Failure::usage(
            "no command was given; try `wirelens top -r FILE` or `wirelens --help`",
        )),
    }
}
