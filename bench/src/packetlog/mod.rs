//! The packet log's classifier and its sketch: speed, and error.

mod features;
mod forest;
mod reference;
mod sketch_error;

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
    /// Packets into snapshots and judgements, from a capture and from memory
    Features(features::FeaturesArguments),
    /// How far a sketch's sums are from the true ones, by active flows in a window
    SketchError(sketch_error::SketchErrorArguments),
}

/// Measures what is asked for.
pub(crate) fn run(arguments: &PacketlogArguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Features(arguments) => features::run(arguments),
        Command::SketchError(arguments) => sketch_error::run(arguments),
    }
}
