//! `wirelens packetlog`: packets kept as their class deserves, and found again.

pub mod args;
mod desk;
mod events;
mod log;
mod metrics;
mod query;
mod record;
mod settings;
mod socket;
mod stats;
mod steer;
mod when;

use engine::columns::Schema;

use crate::Host;
use crate::failure::{Failure, Status};
use args::{CompressArguments, FolderArguments, PacketlogArguments, PacketlogCommand};

/// The columns of its sub-commands.
pub(crate) fn declared_columns() -> Vec<(&'static str, Schema)> {
    vec![("wirelens packetlog stats", stats::SCHEMA)]
}

/// Runs `wirelens packetlog`.
pub(crate) fn run(arguments: &PacketlogArguments, host: &Host) -> Result<Status, Failure> {
    match &arguments.command {
        PacketlogCommand::Record(arguments) => record::run(arguments, host),
        PacketlogCommand::Mode(arguments) => steer::mode(arguments),
        PacketlogCommand::Status(arguments) => steer::status(arguments),
        PacketlogCommand::Modes(arguments) => steer::modes(arguments),
        PacketlogCommand::Query(arguments) => query::run(arguments),
        PacketlogCommand::Stats(arguments) => stats::run(arguments),
        PacketlogCommand::Recover(arguments) => recover(arguments),
        PacketlogCommand::Compress(arguments) => compress(arguments),
    }
}

fn recover(arguments: &FolderArguments) -> Result<Status, Failure> {
    let folder = &arguments.folder;
    let recovered = packetlog::log::recover(folder).map_err(Failure::error)?;
    let line = log::recovered_line(&recovered);
    eprintln!("{}", line.unwrap_or_else(|| String::from("nothing to put right")));
    Ok(Status::Fine)
}

fn compress(arguments: &CompressArguments) -> Result<Status, Failure> {
    let folder = &arguments.folder.folder;
    let keeps_newest = socket::is_answered(folder);
    let done = packetlog::log::compress(folder, arguments.level, keeps_newest);
    let done = done.map_err(Failure::error)?;
    eprintln!(
        "{} files compressed, {} bytes instead of {}",
        done.file_count, done.bytes_after, done.bytes_before
    );
    Ok(Status::Fine)
}
