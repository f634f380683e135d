//! `wirelens testbed`: the front of the testbed, whose library is Python, and the parts of it
//! that work at packet speed.

pub mod args;
mod front;
mod record;
mod relay;
mod replay;
mod router;
mod simulate;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use ::testbed::TestbedError;
use serde_json::Value;
use session::Host;

use crate::failure::{Failure, Status};
use args::TestbedCommand;

/// Runs `wirelens testbed`.
pub(crate) fn run(command: TestbedCommand, host: &Host) -> Result<Status, Failure> {
    match command {
        TestbedCommand::Relay(arguments) => relay::run(*arguments),
        TestbedCommand::Simulate(arguments) => simulate::run(&arguments, host),
        TestbedCommand::Record(arguments) => record::run(arguments),
        TestbedCommand::Replay(arguments) => replay::run(&arguments),
        command => front::run(&command, host),
    }
}

/// Standard input, unbuffered: commands, and the lifetime of the parent process.
fn commands() -> io::Result<File> {
    Ok(File::from(io::stdin().as_fd().try_clone_to_owned()?))
}

/// Reports to the parent process, immediately.
fn say(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

fn say_report(report: &Value) -> io::Result<()> {
    say(&report.to_string())
}

impl From<TestbedError> for Failure {
    fn from(error: TestbedError) -> Self {
        match error {
            TestbedError::Command(words) => Self::usage(words),
            error => Self::error(error),
        }
    }
}
