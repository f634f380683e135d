//! What can be typed after `wirelens classify`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use files::FileMode;
use packet::Span;
use session::classify::{By, StyledVerdicts};
use session::duration::parse_duration;
use session::exports::Style;

use crate::args::{
    AnyFormat, InputArguments, LiveArguments, OutputArguments, any_format, choice, parse_key_count,
};

/// What captures have nothing to do with. All are named: an option that another conflicts with is
/// no longer missed where it is required.
const OF_INTERFACES: [&str; 5] =
    ["interface", "no_promiscuous", "buffer_size", "latency", "duration"];

/// Arguments of `wirelens classify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens classify -r capture.pcap --model services          traffic by label
  wirelens classify -r day/ --model services -o verdicts.parquet
  wirelens classify -i eth0 --model services --format jsonl   each flow when it is decided
  wirelens classify -r capture.pcap --model services --format eve -o eve.json
  wirelens classify -r capture.pcap --model services --pace 2   twice the recorded speed
  wirelens classify -r capture.pcap --model devices --by host   label of each host
  wirelens classify -r call.pcapng --model video-rate --every 1s  frame rate, each second

A model is a folder written by `wirelens train classify`, or the name of a shipped one:
services, categories, devices or video-rate. docs/guide/classify.md explains verdicts.")]
pub struct ClassifyArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Or listening on an interface.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: ClassifyOutputArguments,
    /// Folder of a trained cascade, or the name of a shipped model
    #[arg(short = 'm', long, value_name = "DIR")]
    pub model: PathBuf,
    /// Report flows or hosts; hosts need a model with host memory
    #[arg(long, value_name = "KEY", default_value = "flow", value_parser = choice::<By>())]
    pub by: By,
    /// Label a flow unknown if the probability of its likeliest class is below P, 0 to 1; 0 gives
    /// every flow a class [default: the model's threshold]
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    pub unknown_below: Option<f64>,
    /// Classify each flow again in each window of this length, with a model that was trained on
    /// such windows: 1s. A flow without packets in a window has no row
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub every: Option<Span>,
    /// Replay captures in real time, or FACTOR times as fast; verdicts then have latencies
    #[arg(long, value_name = "FACTOR", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = parse_factor, conflicts_with_all = OF_INTERFACES)]
    pub pace: Option<f64>,
    /// Threads for the models after the first; results do not depend on it unless an interface
    /// receives more than they can process
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub consumers: u16,
    /// Maximum number of flows that wait for more packets; a further one is decided by the last
    /// model used. With --every, maximum number of flows tracked; a further one is not reported
    #[arg(long, value_name = "FLOWS", default_value_t = classify::Options::WAITING_MAX_DEFAULT)]
    #[arg(value_parser = parse_waiting)]
    pub waiting_max: usize,
    /// Maximum number of flows; if a partition of the flow table is full, idle flows are evicted
    #[arg(long, value_name = "FLOWS", default_value_t = 4_194_304, value_parser = parse_key_count)]
    pub max_flows: usize,
    /// Maximum number of hosts in a model's host memory; beyond, the hosts idle for longest are
    /// evicted
    #[arg(long, value_name = "HOSTS", default_value_t = classify::Options::HOSTS_MAX_DEFAULT)]
    #[arg(value_parser = parse_key_count)]
    pub hosts_max: usize,
}

/// Where verdicts go, and how they look.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("written").args(["output", "pcapng"]).multiple(true))]
pub struct ClassifyOutputArguments {
    /// Write to this file; its suffix sets the format (.csv, .jsonl, .parquet, .arrow)
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output [default: from the suffix of FILE, else table]
    #[arg(long, value_name = "FORMAT", value_parser = any_format(StyledVerdicts::STYLES))]
    pub format: Option<AnyFormat>,
    /// Also write the captures as pcapng, with each verdict as a comment on the deciding packet
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_INTERFACES)]
    pub pcapng: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
    /// Permissions of files that are created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE", requires = "written")]
    pub file_mode: Option<FileMode>,
}

impl ClassifyOutputArguments {
    /// Whose lines are asked for, if no rows and no table.
    pub(super) fn style(&self) -> Option<Style> {
        self.format.and_then(AnyFormat::style)
    }

    /// As other commands have them.
    pub(super) fn plain(&self) -> OutputArguments {
        let format = self.format.and_then(AnyFormat::plain);
        let Self { output, force, file_mode, .. } = self;
        OutputArguments { output: output.clone(), format, force: *force, file_mode: *file_mode }
    }
}

/// How many times as fast.
fn parse_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (1e-3..=1e6).contains(&factor) => Ok(factor),
        _ => Err(String::from(
            "wanted how many times as fast, from 0.001 to 1000000; a filter goes after -f",
        )),
    }
}

/// A probability.
pub(crate) fn parse_probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(String::from("wanted a probability from 0 to 1, such as 0.8")),
    }
}

/// A number of flows that wait.
fn parse_waiting(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse::<usize>() {
        Ok(count) if count <= 100_000_000 => Ok(count),
        _ => Err(String::from("wanted a number from 0 to 100000000")),
    }
}
