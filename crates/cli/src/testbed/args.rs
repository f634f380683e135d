//! What can be typed after `wirelens testbed`.

use std::path::PathBuf;

use capture::Place;
use capture::live::Passing;
use clap::{Args, Subcommand};
use packet::Span;
use session::amount::parse_ring_size;
use session::duration::{parse_delay, parse_duration};
use session::rate::parse_link_rate;
use testbed::Prefix;
use testbed::record::{CountSettings, TapSettings};

/// The default folder of runs.
const OUTPUT_DEFAULT: &str = "testbed-runs";

/// Arguments of `wirelens testbed`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed check                       what is missing on this machine
  wirelens testbed scenarios                   shipped scenarios
  wirelens testbed run testbed/scenarios/congestion.toml --seed 7
  wirelens testbed make testbed/datasets/congestion.toml --parallel 3

Time: a run takes from some seconds to four minutes, a data set up to three hours.

Needs root, Linux and Python 3.11. All traffic stays in network namespaces that are created for
the run and removed after it. docs/guide/testbed.md has the details.")]
pub struct TestbedArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: TestbedCommand,
}

/// What to do with the testbed.
#[derive(Debug, Subcommand)]
pub enum TestbedCommand {
    /// Run one scenario: captures and their ground truth
    Run(RunArguments),
    /// Make a data set of many runs; continues where it stopped
    Make(MakeArguments),
    /// Check whether this machine can run scenarios, and what is missing
    Check(CheckArguments),
    /// Remove what killed runs left on this machine
    Clean,
    /// List shipped scenarios and data sets
    Scenarios,
    /// Plot the queue of a run
    Plot(PlotArguments),
    /// Simulate flows through an L4S router
    Simulate(SimulateArguments),
    /// A link with delay and loss between two network namespaces
    #[command(hide = true)]
    Relay(Box<RelayArguments>),
    /// Captures and exact counts of what passes devices in network namespaces
    #[command(hide = true)]
    Record(RecordArguments),
    /// Replay the journal of a router and compare its decisions
    #[command(hide = true)]
    Replay(ReplayArguments),
}

/// Arguments of `wirelens testbed run`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed run testbed/scenarios/congestion.toml
  wirelens testbed run congestion.toml -o runs --seed 7 --set flows=18

Time: the duration_s of the scenario and some seconds; at most four minutes for the shipped ones.

A run that fails its own checks is kept as FOLDER.rejected, and the exit status is 3.")]
pub struct RunArguments {
    /// Scenario to run
    #[arg(value_name = "SCENARIO.toml")]
    pub scenario: PathBuf,
    /// Create the run's folder in this folder
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = OUTPUT_DEFAULT)]
    pub output: PathBuf,
    /// Seed of everything the scenario leaves random [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Override a value of the scenario; dots separate tables, VALUE is TOML; may be given several
    /// times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<String>,
    /// No progress; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Arguments of `wirelens testbed make`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed make testbed/datasets/congestion.toml
  wirelens testbed make congestion.toml -o runs --variant heldout --runs 24 --parallel 3

Time: that of its runs together, from some minutes to hours; --parallel shortens it.

Complete runs are not repeated. Ctrl-C ends it; the same command continues.")]
pub struct MakeArguments {
    /// Data set to make
    #[arg(value_name = "DATASET.toml")]
    pub dataset: PathBuf,
    /// Create the data set's folder in this folder
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = OUTPUT_DEFAULT)]
    pub output: PathBuf,
    /// Make only this many runs of each scenario [default: as in the data set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: Option<u32>,
    /// Make only this variant, such as heldout; may be given several times [default: all]
    #[arg(long = "variant", value_name = "NAME")]
    pub variants: Vec<String>,
    /// Parallel runs; runs that disturb each other are rejected and repeated [default: as in the
    /// data set]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallel: Option<u16>,
    /// No progress; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Arguments of `wirelens testbed check`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed check
  wirelens testbed check congestion attacks
  wirelens testbed check --install            and install what is missing, by apt; a minute")]
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

Needs matplotlib.")]
pub struct PlotArguments {
    /// Folder of a run
    #[arg(value_name = "RUN_DIR")]
    pub run: PathBuf,
    /// Write the plot to this file [default: queue.png in the run's folder]
    #[arg(short = 'o', long = "output", value_name = "FILE.png")]
    pub output: Option<PathBuf>,
}

/// Arguments of `wirelens testbed simulate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens testbed simulate testbed/scenarios/l4s-default.txt
  wirelens testbed simulate testbed/scenarios/l4s-mixed.txt --set seed=7 -o packets.l4s

Time: a hundredth of the simulated time or less, a tenth with --model; with a network in ONNX
up to several times the simulated time. It needs neither root nor network namespaces.

A summary is printed as one JSON object. docs/guide/testbed-l4s.md explains scenarios,
docs/guide/l4s-predict.md how to train and use a model.")]
pub struct SimulateArguments {
    /// Scenario, lines of `key value`
    #[arg(value_name = "SCENARIO.txt")]
    pub scenario: PathBuf,
    /// Override a value of the scenario; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub set: Vec<String>,
    /// Write a trace of each packet to this file (docs/specs/l4s-trace.md)
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write each call of the router and its decision to this file
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
    /// Predict latencies with this model of `wirelens train l4s`, for a control such as
    /// predicted:3ms
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Fine-tune the model on the last minute at this interval of simulated time
    #[arg(long, value_name = "INTERVAL", requires = "model", value_parser = parse_duration)]
    pub tune: Option<Span>,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `wirelens testbed relay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Packets that enter one device leave the other after the delay; a packet of a class, by the longest
prefix of its destination, after the delay of its class. `ready` is printed when both devices are
there. Lines on standard input change settings: `delay ab 30ms`, `loss ba 0.02`. At its end, or on
`stop`, a report is printed as one JSON object.

With --router the path from a to b has a rate and the queues of an L4S router, before its delay.
SETTINGS are KEY=VALUE,KEY=VALUE: mode (dualpi2, partitioned or tail-drop), limit, target and
others.")]
pub struct RelayArguments {
    /// Device to create, and its network namespace; NETNS is a name or a path
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
    /// Maximum number of queued packets, per direction
    #[arg(long, value_name = "PACKETS", default_value = "20000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub queue_max: u32,
    /// Seed of losses and of all random decisions of the router
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// Queues from a to b, such as mode=dualpi2,limit=1000
    #[arg(long, value_name = "SETTINGS", requires = "rate")]
    pub router: Option<dualq::Settings>,
    /// Rate from a to b, of IP packets, such as 100mbit
    #[arg(long, value_name = "RATE", requires = "router", value_parser = parse_link_rate)]
    pub rate: Option<u64>,
    /// Write a record of each packet from a to b to FILE
    #[arg(long, value_name = "FILE", requires = "router")]
    pub trace: Option<PathBuf>,
    /// Write each call of the router and its decision to FILE
    #[arg(long, value_name = "FILE", requires = "router")]
    pub journal: Option<PathBuf>,
    /// Sources that are one sender in the trace; the first is sender 0
    #[arg(long, value_name = "PREFIX", requires = "trace")]
    pub sender: Vec<Prefix>,
    /// Destinations that are one receiver in the trace; the first is receiver 0
    #[arg(long, value_name = "PREFIX", requires = "trace")]
    pub receiver: Vec<Prefix>,
}

/// Arguments of `wirelens testbed replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
The settings, seed and start of a relay's router are in its report; simulated routers have the
scenario's settings and seed, and start at 0. Differences are printed
as one JSON object, and the exit status is 1 if there are any.")]
pub struct ReplayArguments {
    /// Journal of a relay, of the simulator or of ns-3
    #[arg(value_name = "JOURNAL")]
    pub journal: PathBuf,
    /// Queues
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    pub router: dualq::Settings,
    /// Seed of the router's random decisions
    #[arg(long, value_name = "N", default_value = "1")]
    pub seed: u64,
    /// When the router began
    #[arg(long, value_name = "NS", default_value = "0")]
    pub start: u64,
}

/// Arguments of `wirelens testbed record`.
#[derive(Debug, Args)]
#[command(after_help = "\
DIRECTION is in, out or both, as the device sees it. `ready` is printed when everything is open;
packets are recorded from then until the end of standard input, or a line `stop`. A report is
then printed as one JSON object. Captures and counts cover the same interval: of received
packets, both have the same ones, if the capture dropped none.")]
pub struct RecordArguments {
    /// Record this device to FILE, as pcapng; it grows as FILE.partial
    #[arg(long, value_name = "NETNS:DEV:DIRECTION:FILE", value_parser = parse_tap)]
    #[arg(required_unless_present = "count")]
    pub tap: Vec<TapSettings>,
    /// Only count at this device
    #[arg(long, value_name = "NETNS:DEV:DIRECTION", value_parser = parse_count)]
    pub count: Vec<CountSettings>,
    /// Snapshot length: capture only the first BYTES of each frame; 0 for all
    #[arg(short = 's', long, value_name = "BYTES", default_value = "96")]
    pub snaplen: u32,
    /// Size of the ring buffer of one tap
    #[arg(long, value_name = "SIZE", default_value = "32MiB", value_parser = parse_ring_size)]
    pub buffer: usize,
    /// Comment to write into each capture
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub comment: String,
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

/// A device, a direction and a file, which may have colons in its name.
fn parse_tap(text: &str) -> Result<TapSettings, String> {
    let mut parts = text.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(namespace), Some(device), Some(direction), Some(file)) if !file.is_empty() => {
            Ok(TapSettings {
                place: format!("{namespace}:{device}").parse()?,
                passing: parse_passing(direction)?,
                file: PathBuf::from(file),
            })
        }
        _ => Err(String::from("wanted NETNS:DEV:DIRECTION:FILE")),
    }
}

/// A device and a direction.
fn parse_count(text: &str) -> Result<CountSettings, String> {
    let (place, direction) = text.rsplit_once(':').ok_or("wanted NETNS:DEV:DIRECTION")?;
    Ok(CountSettings { place: place.parse()?, passing: parse_passing(direction)? })
}

fn parse_passing(text: &str) -> Result<Passing, String> {
    match text {
        "in" => Ok(Passing::In),
        "out" => Ok(Passing::Out),
        "both" => Ok(Passing::Both),
        _ => Err(format!("`{text}` is not a direction; wanted in, out or both")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_is_a_device_a_direction_and_a_file() {
        let tap = parse_tap("wlt-1-r:rd:in:out/a:b.pcapng").unwrap();
        assert_eq!(tap.place.to_string(), "wlt-1-r:rd");
        assert_eq!((tap.passing, tap.file), (Passing::In, PathBuf::from("out/a:b.pcapng")));
        for text in ["a:b:in", "a:b:in:", "a:b:up:f", ":b:in:f", "a::in:f"] {
            assert!(parse_tap(text).is_err(), "{text}");
        }
        let count = parse_count("/proc/7/ns/net:rd:both").unwrap();
        assert_eq!(count.place.to_string(), "/proc/7/ns/net:rd");
        assert!(parse_count("a:b").is_err());
    }

    #[test]
    fn a_class_is_a_prefix_and_a_delay() {
        let (prefix, delay) = parse_class("fd00::/64=5ms").unwrap();
        assert_eq!((prefix.to_string().as_str(), delay.as_ns()), ("fd00::/64", 5_000_000));
        assert!(parse_class("10.0.0.0/8").is_err() && parse_class("10.0.0.0/8=5").is_err());
        assert!(parse_setting("a.b=1").is_ok() && parse_setting("=1").is_err());
    }
}
