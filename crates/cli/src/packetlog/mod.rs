//! `wirelens packetlog`: packets kept as their class deserves, and found again.

pub mod args;
mod calibrate;
mod query;
mod record;
mod stats;
mod steer;
mod verify;

use std::ffi::OsString;
use std::path::Path;

use engine::columns::Schema;

use crate::failure::{Failure, Status};
use crate::run::tell_line;
use session::packetlog::{LogError, log, socket};
use session::run::Jail;

pub(crate) use record::model;

use args::{CompressArguments, LogArguments, PacketlogArguments, PacketlogCommand};

/// The columns of its sub-commands.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![
        ("wirelens packetlog stats", session::packetlog::STATS),
        ("wirelens packetlog stats --why", session::packetlog::REASONS),
        ("wirelens simulate packetlog", session::packetlog::SIMULATION),
        ("wirelens packetlog query --list hosts", session::packetlog::HOSTS),
        ("wirelens packetlog query --list sessions", session::packetlog::SESSIONS),
    ]
}

/// What a user of other packet recorders may have meant.
pub(crate) fn hint(words: &[OsString], error: &clap::Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    let is_ours = words.next().is_some_and(|word| word == "packetlog" || word == "log");
    let command = words.next().filter(|word| !word.starts_with('-'));
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if !is_ours || error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    match (command, argument.as_str()) {
        (None, "-i" | "-r") => Some(
            "Packets are recorded with `wirelens packetlog record`, from an interface with -i \
                  NAME",
        ),
        (Some("record"), "-w") => Some("A log is a folder of pcapng files: give it with -o DIR"),
        (Some("record"), "-C" | "-G" | "-W" | "-a" | "-b") => Some(
            "Files of a log are rotated by --file-bytes or --file-time; --keep-bytes and \
             --keep-time limit the whole log",
        ),
        (Some(_), "-r" | "-o") => Some("A log is named by its folder, with --log DIR"),
        _ => None,
    }
}

/// Says so where a folder holds nothing that could be asked: it may be another that was meant.
fn tell_empty(folder: &Path, quiet: bool) {
    if !quiet {
        let folder = folder.display();
        eprintln!("{folder}: no packet was stored there yet; name another folder with --log DIR");
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        match error {
            LogError::Usage(message) => Self::usage(message),
            LogError::Failed(message) => Self::error(message),
        }
    }
}

/// Runs `wirelens packetlog`.
pub(crate) fn run(arguments: &PacketlogArguments) -> Result<Status, Failure> {
    match &arguments.command {
        PacketlogCommand::Record(arguments) => record::run(arguments),
        PacketlogCommand::Calibrate(arguments) => calibrate::run(arguments),
        PacketlogCommand::Mode(arguments) => steer::mode(arguments),
        PacketlogCommand::Status(arguments) => steer::status(arguments),
        PacketlogCommand::Modes(arguments) => steer::modes(arguments),
        PacketlogCommand::Query(arguments) => query::run(arguments),
        PacketlogCommand::Stats(arguments) => stats::run(arguments),
        PacketlogCommand::Recover(arguments) => recover(arguments),
        PacketlogCommand::Compress(arguments) => compress(arguments),
        PacketlogCommand::Verify(arguments) => verify::run(arguments),
    }
}

fn recover(arguments: &LogArguments) -> Result<Status, Failure> {
    let folder = &arguments.at.folder;
    Jail::unless(arguments.no_jail).enter_to_change_folder(folder, tell_line);
    let recovered = packetlog::log::recover(folder).map_err(Failure::error)?;
    let line = log::recovered_line(&recovered);
    eprintln!("{}", line.unwrap_or_else(|| String::from("nothing to repair")));
    Ok(Status::Fine)
}

fn compress(arguments: &CompressArguments) -> Result<Status, Failure> {
    let folder = &arguments.log.at.folder;
    let keeps_newest = socket::is_answered(folder);
    Jail::unless(arguments.log.no_jail).enter_to_change_folder(folder, tell_line);
    let done = packetlog::log::compress(folder, arguments.level, keeps_newest);
    let done = done.map_err(Failure::error)?;
    eprintln!(
        "{} files compressed, {} bytes instead of {}",
        done.file_count, done.bytes_after, done.bytes_before
    );
    Ok(Status::Fine)
}
