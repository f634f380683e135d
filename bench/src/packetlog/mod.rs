//! The packet log: packets in memory into files, and a question to files.

mod query;
mod record;

use clap::{Args, Subcommand};

use crate::Failure;

/// Arguments of `packetlog`.
#[derive(Debug, Args)]
pub(crate) struct PacketlogArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Records the packets of a capture that lies in memory, again and again
    Record(record::RecordArguments),
    /// Asks a log for a host: which chunks, the first packet, all packets
    Query(query::QueryArguments),
}

pub(crate) fn run(arguments: &PacketlogArguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Record(arguments) => record::run(arguments),
        Command::Query(arguments) => query::run(arguments),
    }
}
