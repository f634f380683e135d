//! The packet log: packets judged, in memory into files, and a question to files.

mod agreement;
mod features;
mod forest;
mod query;
mod record;
mod reference;
mod scale;
mod sketch_error;
mod whole;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
    /// How often whole numbers decide as floats do
    Agreement(agreement::AgreementArguments),
    /// Packets into snapshots and judgements, from a capture and from memory
    Features(features::FeaturesArguments),
    /// What a switch at 100, 200 and 400 Gb/s would log, as the paper extrapolates it
    Scale(scale::ScaleArguments),
    /// How far a sketch's sums are from the true ones, by active flows in a window
    SketchError(sketch_error::SketchErrorArguments),
    /// Records the packets of a capture that lies in memory, again and again
    Record(record::RecordArguments),
    /// Packets of a capture through the whole of it: read, judged, and kept in a log
    Whole(whole::WholeArguments),
    /// Asks a log for a host: which chunks, the first packet, all packets
    Query(query::QueryArguments),
}

/// Measures what is asked for.
pub(crate) fn run(arguments: &PacketlogArguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Agreement(arguments) => agreement::run(arguments),
        Command::Features(arguments) => features::run(arguments),
        Command::Scale(arguments) => scale::run(arguments),
        Command::SketchError(arguments) => sketch_error::run(arguments),
        Command::Record(arguments) => record::run(arguments),
        Command::Whole(arguments) => whole::run(arguments),
        Command::Query(arguments) => query::run(arguments),
    }
}

/// The clock that a recorder is lent. A door: it times the machine.
#[allow(clippy::disallowed_methods)]
fn clock() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
