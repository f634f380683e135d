//! What can be typed.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::duration::parse_duration;

/// Answers questions about network traffic from every packet.
#[derive(Debug, Parser)]
#[command(
    name = "wirelens",
    disable_version_flag = true,
    after_help = "Examples:
  wirelens info -r capture.pcapng
  wirelens top -r capture.pcap.gz --by pair -n 20
  tcpdump -w - -i eth0 | wirelens top -r - --window 1s tcp port 443

Exit status: 0 fine, 1 error, 2 wrong usage, 3 done but an input was damaged."
)]
pub struct Arguments {
    /// Print the version; with --verbose also how it was built and what it found.
    #[arg(long, short = 'V')]
    pub version: bool,
    /// Say more.
    #[arg(long, requires = "version")]
    pub verbose: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Who sends what: packets and bytes on the wire by source, pair, port, protocol or flow
    Top(TopArguments),
    /// What is in a capture: link types, times, counts, malformed headers by cause
    Info(InfoArguments),
}

/// Which frames to read, and how.
#[derive(Debug, Args)]
pub struct InputArguments {
    /// Capture to read: a file, a folder of captures, or - for standard input; may be given
    /// several times. pcap and pcapng, plain or compressed with gzip or zstd, told by content
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-", required = true)]
    pub read: Vec<PathBuf>,
    /// Only frames that pass this filter (pcap-filter(7)); the same may stand at the end of the
    /// line
    #[arg(short = 'f', long = "filter", value_name = "EXPRESSION", conflicts_with = "expression")]
    pub filter: Option<String>,
    /// Filter, as tcpdump takes it: `tcp port 443 and host 192.0.2.1`
    #[arg(value_name = "EXPRESSION")]
    pub expression: Vec<String>,
    /// Stop after this many frames, in order of time
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = parse_frame_count)]
    pub count: Option<u64>,
    /// Use only the first BYTES of each frame, as if it had been captured with this limit; 0 for
    /// all
    #[arg(short = 's', long = "snapshot-length", value_name = "BYTES")]
    pub snaplen: Option<u32>,
    /// Report tunnels by their outer headers: leave GRE, VXLAN, IP-in-IP and GTP-U closed
    #[arg(long)]
    pub no_decap: bool,
    /// Threads to use; results do not depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Seed of the hash that spreads keys [default: drawn at start]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Check arguments, inputs and filter, then stop without reading on
    #[arg(long)]
    pub check: bool,
    /// No progress bar and no summary; errors are still told
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Where results go, and how they look.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Write to this file; its suffix tells the format (.csv, .jsonl, .parquet, .arrow)
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output [default: from the suffix of FILE, else table]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// How results look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow IPC
    Arrow,
}

/// Arguments of `wirelens top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens top -r capture.pcap                           ten senders of most bytes
  wirelens top -r capture.pcap -n 0 -o sources.parquet   every sender, for a notebook
  wirelens top -r day/ --by pair --window 1m --format csv
  wirelens top -r - --by port udp                        only UDP, from a pipe

Bytes are those on the wire, link header included, whatever was captured.
A packet whose window is closed already is counted in the oldest open one, and as late.")]
pub struct TopArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
    /// What to add up by
    #[arg(long, value_name = "KEY", default_value = "source")]
    pub by: By,
    /// Rows to show, of each window if there are windows; 0 shows all
    #[arg(short = 'n', long = "rows", value_name = "ROWS", default_value_t = 10)]
    pub rows: usize,
    /// Order of the rows, largest first
    #[arg(long, value_name = "MEASURE", default_value = "bytes")]
    pub sort: SortBy,
    /// Add up each window of this length for itself, such as 1s, 100ms or 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub window: Option<packet::Span>,
    /// Keys kept at most, of each window if there are windows; packets of keys beyond are counted
    /// together
    #[arg(long, value_name = "KEYS", default_value_t = KEY_COUNT_DEFAULT)]
    #[arg(value_parser = parse_key_count)]
    pub max_keys: usize,
}

/// What `top` adds up by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum By {
    /// Source address
    Source,
    /// Destination address
    Destination,
    /// Source and destination address, each direction for itself
    Pair,
    /// Transport protocol and the lower of the two port numbers, which is mostly the service's
    Port,
    /// IP protocol, or EtherType where there is no IP
    Protocol,
    /// Conversation: both directions of one 5-tuple together, written from its first sender's side
    Flow,
}

/// What rows are ordered by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum SortBy {
    /// Bytes on the wire
    Bytes,
    /// Packets
    Packets,
}

/// Arguments of `wirelens info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens info -r capture.pcapng
  wirelens info -r day/ --format csv       a line for each capture
  wirelens info -r capture.pcap.zst ip6    only what passes a filter")]
pub struct InfoArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// The value that a flag would take under this name, for askers that have no flags; else what was
/// wanted.
fn named<T: ValueEnum>(name: &str, noun: &str) -> Result<T, String> {
    T::from_str(name, false).map_err(|_| {
        let names: Vec<_> = T::value_variants()
            .iter()
            .filter_map(ValueEnum::to_possible_value)
            .map(|value| value.get_name().to_owned())
            .collect();
        let (last, others) = names.split_last().map_or(("", &names[..]), |(l, o)| (l, o));
        format!("`{name}` is no {noun}; give {} or {last}", others.join(", "))
    })
}

impl By {
    /// The key that `--by` calls so.
    ///
    /// # Errors
    /// What was seen and what was wanted.
    pub fn named(name: &str) -> Result<Self, String> {
        named(name, "key to add up by")
    }
}

impl SortBy {
    /// The measure that `--sort` calls so.
    ///
    /// # Errors
    /// What was seen and what was wanted.
    pub fn named(name: &str) -> Result<Self, String> {
        named(name, "measure to sort by")
    }
}

/// A positive number of frames.
fn parse_frame_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(String::from("wanted a number of frames, at least 1")),
    }
}

/// Keys that may be kept: at least one in each partition, and slots are numbered by 32 bits.
pub const KEY_COUNTS: std::ops::RangeInclusive<usize> = 64..=1_000_000_000;

/// Keys kept unless told otherwise.
pub const KEY_COUNT_DEFAULT: usize = 16_000_000;

/// A number of keys.
fn parse_key_count(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse::<usize>() {
        Ok(count) if KEY_COUNTS.contains(&count) => Ok(count),
        _ => Err(String::from("wanted a number from 64 to 1000000000")),
    }
}
