//! The command-line front end: turns arguments into requests, results and exit codes.
//!
//! Only front ends print, exit and read settings. Data goes to standard output,
//! everything else to standard error. A command's request is separate from its arguments:
//! the other front end, the Python extension, makes the same requests of [`session`] without
//! this crate; its package contains the program.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod alone;
pub mod args;
mod asked;
pub mod cca;
pub mod classify;
mod clock;
mod devices;
pub mod doctor;
mod failure;
pub mod flows;
mod hints;
mod host;
mod info;
pub mod installed;
mod interrupt;
pub mod l4s;
pub mod latency;
mod live;
pub mod nprint;
mod output;
pub mod packetlog;
mod progress;
mod python;
mod recover;
mod report;
pub mod run;
mod service;
pub mod simulate;
mod summary;
mod table;
pub mod testbed;
pub mod top;
pub mod train;
mod version;
mod view;
pub mod worker;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use files::FileMode;
use session::Host;

use crate::args::{Arguments, Command};
use crate::failure::{Failure, Status};

/// The columns that each command declares, by the words that ask for them; for
/// the reference pages.
#[must_use]
pub fn declared_columns() -> Vec<(&'static str, engine::columns::Schema)> {
    let mut declared = session::applications::declared_columns();
    declared.extend(nprint::declared_columns());
    declared.extend(packetlog::declared_columns());
    declared.push(("wirelens devices", session::devices::SCHEMA));
    declared.push(("wirelens info", info::SCHEMA));
    declared
}

/// Columns of a terminal below which help stands under options and not beside them.
const NARROW: u16 = 60;

/// A setting of this process.
fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// Runs the command with these arguments, the program's name first. `testbed`, `train` and `eval`
/// take the process over, to become its Python part.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    capture::sys::allocator::set_up();
    let words: Vec<OsString> = arguments.into_iter().collect();
    if let Some(status) = session::serve_as_helper(&words, std::io::stdin()) {
        return status;
    }
    let words = hints::understood(words);
    // Beside a long option a narrow terminal has no room for its help.
    let is_narrow = terminal::width().is_some_and(|width| width < NARROW);
    let command = Arguments::command().next_line_help(is_narrow);
    let parsed = command.try_get_matches_from(&words);
    let understood = parsed.and_then(|matches| {
        FileMode::ask(file_mode(&matches));
        Arguments::from_arg_matches(&matches)
    });
    let status = match understood {
        Ok(arguments) => start(arguments, &host::own()).unwrap_or_else(|failure| failure.report()),
        Err(error) => {
            // Help and version are no errors, and go where they are asked for.
            let is_usage = error.use_stderr();
            let status = match error.print() {
                Err(error) if !is_usage => Failure::from(error).report(),
                // Where even that cannot be written there is nobody left to tell.
                _ if is_usage => Status::Usage,
                _ => Status::Fine,
            };
            if let Some(hint) = is_usage.then(|| hints::of(&words, &error)).flatten() {
                eprintln!("{hint}");
            }
            status
        }
    };
    ExitCode::from(status as u8)
}

/// The permissions that are asked for, with whichever command.
fn file_mode(matches: &ArgMatches) -> Option<FileMode> {
    let asked = matches.try_get_one("file_mode").ok().flatten().copied();
    asked.or_else(|| file_mode(matches.subcommand()?.1))
}

fn start(arguments: Arguments, host: &Host) -> Result<Status, Failure> {
    if arguments.version {
        return version::print(arguments.verbose);
    }
    if arguments.list_interfaces {
        return devices::list();
    }
    match arguments.command {
        Some(Command::Top(arguments)) => top::run(&arguments),
        Some(Command::Flows(arguments)) => flows::run(&arguments, host),
        Some(Command::Nprint(arguments)) => nprint::run(&arguments),
        Some(Command::Classify(arguments)) => classify::run(&arguments, host),
        Some(Command::Packetlog(arguments)) => packetlog::run(&arguments),
        Some(Command::Cca(arguments)) => cca::run(&arguments),
        Some(Command::Latency(arguments)) => latency::run(&arguments),
        Some(Command::L4s(arguments)) => l4s::run(&arguments),
        Some(Command::Simulate(arguments)) => simulate::run(&arguments),
        Some(Command::Report(arguments)) => report::run(&arguments, host),
        Some(Command::Run(arguments)) => run::run(&arguments, host),
        Some(Command::Devices(arguments)) => devices::run(&arguments),
        Some(Command::Doctor(arguments)) => doctor::run(&arguments, host),
        Some(Command::Info(arguments)) => info::run(&arguments),
        Some(Command::Recover(arguments)) => recover::run(&arguments),
        Some(Command::Worker(arguments)) => worker::run(&arguments, host),
        Some(Command::Train(arguments)) => train::run(&arguments, host),
        Some(Command::Eval(arguments)) => train::run_eval(&arguments, host),
        Some(Command::Feedback(handed)) => train::feedback(&handed, host),
        Some(Command::Testbed(arguments)) => testbed::run(arguments.command, host),
        Some(Command::Completions(arguments)) => installed::print_completions(&arguments),
        Some(Command::Man(arguments)) => installed::write_pages(&arguments),
        None => {
            Err(Failure::usage("no command given; try `wirelens top -r FILE` or `wirelens --help`"))
        }
    }
}
