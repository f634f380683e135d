//! What can be typed after `wirelens classify`.

use std::path::PathBuf;

use clap::Args;
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
  wirelens classify -r capture.pcap --model services          what there is, by label
  wirelens classify -r day/ --model services -o verdicts.parquet
  wirelens classify -i eth0 --model services --format jsonl   each flow when it is decided
  wirelens classify -r capture.pcap --model services --format eve -o eve.json
  wirelens classify -r capture.pcap --model services --pace 2   twice as fast as recorded
  wirelens classify -r capture.pcap --model devices --by host   what each host is
  wirelens classify -r call.pcapng --model video-rate --every 1s  frame rate, each second

A model is the folder that `wirelens train classify` wrote, or the name of one that ships:
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
    /// Folder of a trained cascade, or the name of one that ships
    #[arg(short = 'm', long, value_name = "DIR")]
    pub model: PathBuf,
    /// What a row is of; hosts need a model with a memory of them
    #[arg(long, value_name = "KEY", default_value = "flow", value_parser = choice::<By>())]
    pub by: By,
    /// Call a flow unknown where its best guess is less likely right than P, 0 to 1, whatever the
    /// model says: 0 gives every flow a class [default: as the model says]
    #[arg(long, value_name = "P", value_parser = parse_probability)]
    pub unknown_below: Option<f64>,
    /// Classify each flow again in each window of this length, with a model that was trained on
    /// such windows: 1s. A flow without packets in a window has no row
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub every: Option<Span>,
    /// Replay captures at their own speed, or FACTOR times as fast: then verdicts have latencies
    #[arg(long, value_name = "FACTOR", num_args = 0..=1, default_missing_value = "1")]
    #[arg(value_parser = parse_factor, conflicts_with_all = OF_INTERFACES)]
    pub pace: Option<f64>,
    /// Threads that answer for the models after the first; results do not depend on it unless an
    /// interface brings more than they can do
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub consumers: u16,
    /// Flows that wait for more packets at most; one more is decided by the last model asked. With
    /// --every, flows that are followed at most; one more is not reported
    #[arg(long, value_name = "FLOWS", default_value_t = classify::Options::WAITING_MAX_DEFAULT)]
    #[arg(value_parser = parse_waiting)]
    pub waiting_max: usize,
    /// Flows kept at most; when a partition is full, an idle flow makes room for a new one
    #[arg(long, value_name = "FLOWS", default_value_t = 4_194_304, value_parser = parse_key_count)]
    pub max_flows: usize,
    /// Hosts that a model with a memory of them remembers at most; beyond, those without flows for
    /// the longest are forgotten
    #[arg(long, value_name = "HOSTS", default_value_t = classify::Options::HOSTS_MAX_DEFAULT)]
    #[arg(value_parser = parse_key_count)]
    pub hosts_max: usize,
}

/// Where verdicts go, and how they look.
#[derive(Debug, Args)]
pub struct ClassifyOutputArguments {
    /// Write to this file; its suffix sets the format (.csv, .jsonl, .parquet, .arrow)
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output [default: from the suffix of FILE, else table]
    #[arg(long, value_name = "FORMAT", value_parser = any_format(StyledVerdicts::STYLES))]
    pub format: Option<AnyFormat>,
    /// Also write the captures again, as pcapng, with each verdict as a comment on the packet that
    /// decided
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_INTERFACES)]
    pub pcapng: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

impl ClassifyOutputArguments {
    /// Whose lines are asked for, if no rows and no table.
    pub(super) fn style(&self) -> Option<Style> {
        self.format.and_then(AnyFormat::style)
    }

    /// As other commands have them.
    pub(super) fn plain(&self) -> OutputArguments {
        let format = self.format.and_then(AnyFormat::plain);
        OutputArguments { output: self.output.clone(), format, force: self.force }
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
