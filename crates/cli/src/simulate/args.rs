//! What can be typed after `wirelens simulate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use packet::Span;
use session::duration::parse_duration;
use session::packetlog::{WorkloadName, parse_gbps};

use crate::args::{InputArguments, OutputArguments, choice};

/// Arguments of `wirelens simulate`.
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// What to simulate.
    #[command(subcommand)]
    pub command: SimulateCommand,
}

/// What can be simulated.
#[derive(Debug, Subcommand)]
pub enum SimulateCommand {
    /// Simulate a switch that records packets selectively, at 100 Gbit/s and more
    Packetlog(Box<PacketlogSimulation>),
}

/// Arguments of `wirelens simulate packetlog`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens simulate packetlog -r capture.pcap              a stream of it for each 100 Gbit/s
  wirelens simulate packetlog -r capture.pcap --gbps 400 --mode log-minimum --mode default
  wirelens simulate packetlog --workload w1 --workload w3  traffic as in TitanLog's Table IV
  wirelens simulate packetlog -r capture.pcap --format csv -o switch.csv
  wirelens simulate packetlog -r capture.pcap --anomalous frames.txt   what the classifier finds

A switch splits packets that are stored with payload into segments of 128 to 4 bytes, each a
message of its own; the rest recirculates at 100 Gbit/s. A server takes 60 Gbit/s by RDMA into
two memory blocks of 8 GB, written to disk at 38 Gbit/s. Rates are those before any limit;
packets are lost where a limit is exceeded. docs/guide/packetlog-switch.md has the details.")]
pub struct PacketlogSimulation {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Simulate a workload of the paper instead of captures: its rates, sizes and verdicts; may be
    /// given several times
    #[arg(long, value_name = "NAME", value_parser = choice::<WorkloadName>())]
    #[arg(conflicts_with = "InputArguments")]
    pub workload: Vec<WorkloadName>,
    /// How long to simulate a workload, in its own time
    #[arg(long = "for", value_name = "TIME", default_value = "10ms")]
    #[arg(value_parser = parse_duration, requires = "workload", conflicts_with = "read")]
    pub time: Span,
    /// Offered rates in Gbit/s, multiples of 100: a stream of the capture for each 100, with the
    /// first byte of addresses combined with its number by XOR
    #[arg(long, value_name = "RATES", value_delimiter = ',', default_value = "100,200,400")]
    #[arg(value_parser = parse_gbps)]
    pub gbps: Vec<u32>,
    /// Recording mode; may be given several times
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub mode: Vec<String>,
    /// Folder of a model of `wirelens train packetlog`, or the name of a shipped model
    #[arg(short = 'm', long, value_name = "DIR", default_value = "packetlog")]
    #[arg(conflicts_with = "workload")]
    pub model: PathBuf,
    /// Classify in whole numbers, as a switch does; needs a model without states of connections
    #[arg(long, conflicts_with = "workload")]
    pub integer: bool,
    /// Numbers of the anomalous frames of the capture, one per line, as `tshark -T fields -e
    /// frame.number` prints them; adds the classifier's precision, recall and accuracy at each rate
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["workload", "filter", "expression", "count", "drop_duplicates"])]
    pub anomalous: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
}
