//! What can be typed after `wirelens testbed`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use packet::Span;
use testbed::Place;
use testbed::relay::Prefix;

use crate::duration::parse_delay;

/// Where runs go unless told otherwise.
const OUTPUT_DEFAULT: &str = "testbed-runs";

/// Arguments of `wirelens testbed`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed check                       can this machine do it, and what is missing
  wirelens testbed scenarios                   what ships
  wirelens testbed run testbed/scenarios/congestion.toml --seed 7
  wirelens testbed make testbed/datasets/congestion.toml --parallel 3

It takes root, Linux and Python 3.11. All traffic stays in network namespaces that are made for
the run and removed after it. docs/guide/testbed.md tells more.")]
pub struct TestbedArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: TestbedCommand,
}

/// What to do with the testbed.
#[derive(Debug, Subcommand)]
pub enum TestbedCommand {
    /// Run one scenario: its captures, and what is true of them
    Run(RunArguments),
    /// Make a data set, many runs; goes on where it stopped
    Make(MakeArguments),
    /// Can this machine run them, and what is missing
    Check(CheckArguments),
    /// Remove what killed runs left on this machine
    Clean,
    /// List scenarios and data sets that ship
    Scenarios,
    /// Draw what happened in a run
    Plot(PlotArguments),
    /// A link with delay and loss between two network namespaces
    #[command(hide = true)]
    Relay(RelayArguments),
}

/// Arguments of `wirelens testbed run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed run testbed/scenarios/congestion.toml
  wirelens testbed run congestion.toml -o runs --seed 7 --set flows=18

A run whose own checks do not hold is kept as FOLDER.rejected, and the exit status is 3.")]
pub struct RunArguments {
    /// Scenario to run
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: PathBuf,
    /// Make the run's folder in this one
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = OUTPUT_DEFAULT)]
    pub output: PathBuf,
    /// Draw what the scenario leaves open from this seed [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Use another value than the scenario has; dots lead into its tables, VALUE is as in TOML;
    /// may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<String>,
    /// No progress; errors are still told
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Arguments of `wirelens testbed make`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed make testbed/datasets/congestion.toml
  wirelens testbed make congestion.toml -o runs --runs 500 --parallel 3

Runs that are complete are not made again. Ctrl-C ends it; the same line goes on.")]
pub struct MakeArguments {
    /// Data set to make
    #[arg(value_name = "DATASET.toml")]
    pub dataset: PathBuf,
    /// Make the data set's folder in this one
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = OUTPUT_DEFAULT)]
    pub output: PathBuf,
    /// Make only so many runs of each scenario [default: as many as the data set says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Runs at the same time; those that disturb each other are rejected and made again
    /// [default: as many as the data set says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: Option<u16>,
    /// No progress; errors are still told
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Arguments of `wirelens testbed check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed check
  wirelens testbed check congestion attacks
  wirelens testbed check --install            and install what is missing, by apt")]
pub struct CheckArguments {
    /// Kinds of scenarios to check for [default: all]
    #[arg(value_name = "KIND")]
    pub kinds: Vec<String>,
    /// Install the Debian packages that are missing
    #[arg(long)]
    pub install: bool,
}

/// Arguments of `wirelens testbed plot`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed plot testbed-runs/congestion-7
  wirelens testbed plot testbed-runs/congestion-7 -o queue.png

It takes matplotlib.")]
pub struct PlotArguments {
    /// Folder of a run
    #[arg(value_name = "RUN_DIR")]
    pub run: PathBuf,
    /// Write the picture to this file [default: beside what it shows, in the run's folder]
    #[arg(short = 'o', long = "output", value_name = "FILE.png")]
    pub output: Option<PathBuf>,
}

/// Arguments of `wirelens testbed relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Packets that enter one device leave the other after the delay; a packet of a class, by the longest
prefix of its destination, after the delay of its class. `ready` is printed when both devices are
there. Lines on standard input change what is so far: `delay ab 30ms`, `loss ba 0.02`. At its
end, or on `stop`, a report is printed as one JSON object.")]
pub struct RelayArguments {
    /// Device to make, and where; NETNS is a name or a path
    #[arg(long, value_name = "NETNS:DEV")]
    pub a: Place,
    /// Device at the other end
    #[arg(long, value_name = "NETNS:DEV")]
    pub b: Place,
    /// Delay from a to b
    #[arg(long, value_name = "DELAY", default_value = "0ms", value_parser = parse_delay)]
    pub delay_ab: Span,
    /// Delay from b to a
    #[arg(long, value_name = "DELAY", default_value = "0ms", value_parser = parse_delay)]
    pub delay_ba: Span,
    /// Delay from a to b of packets to these addresses
    #[arg(long, value_name = "PREFIX=DELAY", value_parser = parse_class)]
    pub class_ab: Vec<(Prefix, Span)>,
    /// Delay from b to a of packets to these addresses
    #[arg(long, value_name = "PREFIX=DELAY", value_parser = parse_class)]
    pub class_ba: Vec<(Prefix, Span)>,
    /// Probability that a packet from a to b is lost
    #[arg(long, value_name = "0..1", default_value = "0", value_parser = parse_loss)]
    pub loss_ab: f64,
    /// Probability that a packet from b to a is lost
    #[arg(long, value_name = "0..1", default_value = "0", value_parser = parse_loss)]
    pub loss_ba: f64,
    /// Packets that may wait, each way
    #[arg(long, value_name = "PACKETS", default_value = "20000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue_max: u32,
    /// Decides which packets are lost
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
}

/// Something set to something.
fn parse_setting(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok(text.to_owned()),
        _ => Err(String::from("wanted KEY=VALUE")),
    }
}

/// A prefix and its delay.
fn parse_class(text: &str) -> Result<(Prefix, Span), String> {
    let (prefix, delay) =
        text.split_once('=').ok_or("wanted PREFIX=DELAY, such as 10.1.0.0/16=20ms")?;
    Ok((prefix.parse()?, parse_delay(delay)?))
}

/// A probability.
pub(super) fn parse_loss(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(loss) if (0.0..=1.0).contains(&loss) => Ok(loss),
        _ => Err(String::from("wanted a probability, from 0 to 1")),
    }
}
