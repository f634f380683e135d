//! Queues: slots collected in the kernel, put together to inputs, and told apart.

mod collect;
mod inputs;

use clap::{Args, Subcommand};

use crate::Failure;

/// Arguments of `cca`.
#[derive(Debug, Args)]
pub(crate) struct CcaArguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Inputs of many flows out of their slots, and flows told apart by a model
    Inputs(inputs::InputsArguments),
    /// What the taps tell of flows that pass two devices, counted a second time beside them
    Collect(collect::CollectArguments),
}

/// Measures what is asked for.
pub(crate) fn run(arguments: &CcaArguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Inputs(arguments) => inputs::run(arguments),
        Command::Collect(arguments) => collect::run(arguments),
    }
}
