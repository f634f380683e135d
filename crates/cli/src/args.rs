//! What can be typed.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use files::FileMode;
use session::KEY_COUNTS;
use session::choice::Choice;
use session::duration::parse_duration;
use session::exports::{Partition, Style};
use session::flows::Names;
use session::top::{By, SortBy};
use session::written::parse_bytes;

use crate::cca::args::CcaArguments;
use crate::classify::args::ClassifyArguments;
use crate::doctor::DoctorArguments;
use crate::installed::{CompletionsArguments, ManArguments};
use crate::l4s::args::L4sArguments;
use crate::latency::args::LatencyArguments;
use crate::nprint::args::NprintArguments;
use crate::packetlog::args::PacketlogArguments;
use crate::report::ReportArguments;
use crate::run::args::RunArguments;
use crate::simulate::args::SimulateArguments;
use crate::testbed::args::TestbedArguments;
use crate::train::{EvalArguments, PythonOptions, TrainArguments};
use crate::worker::WorkerArguments;

/// Analyse network traffic: top talkers, flows, service and device classification, selective packet
/// recording, queue and congestion-control analysis, latency, from captures or a live interface.
#[derive(Debug, Parser)]
#[command(
    name = "wirelens",
    disable_version_flag = true,
    after_help = "Examples:
  wirelens info -r capture.pcapng
  wirelens top -r capture.pcap.gz --by pair -n 20
  wirelens flows -r capture.pcap -o flows.parquet
  wirelens top -i eth0 tcp port 443
  ssh router tcpdump -w - | wirelens top -r - --window 1s

Exit status: 0 success, 1 error, 2 wrong usage, 3 success, but an input was damaged."
)]
pub struct Arguments {
    /// Print the version; with --verbose also the build and the libraries found.
    #[arg(long, short = 'V')]
    pub version: bool,
    /// List interfaces that can be captured on, as `wirelens devices` does.
    #[arg(short = 'D', long = "list-interfaces")]
    pub list_interfaces: bool,
    /// Print more.
    #[arg(long, requires = "version")]
    pub verbose: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report top talkers: packets and bytes on the wire by source, pair, port, protocol or flow
    Top(TopArguments),
    /// Report flows: packets, bytes, times, TCP flags and how each ended
    Flows(FlowsArguments),
    /// Write header bits of packets or flows in nPrint's format, as features for models
    Nprint(NprintArguments),
    /// Classify flows by service, device or your own labels, from their first packets
    Classify(ClassifyArguments),
    /// Record packets selectively by class (full, truncated, headers, sampled), within a disk
    /// budget, and search the recording by host, flow, class and time
    #[command(alias = "log")]
    Packetlog(PacketlogArguments),
    /// Measure how many bytes each heavy flow has in a bottleneck queue, and identify its
    /// congestion control
    ///
    /// Needs captures or taps upstream and downstream of the queue; with a single tap, bytes in
    /// flight and RTT are measured instead.
    Cca(CcaArguments),
    /// Measure RTT, jitter, retransmissions and queueing delay per flow, destination or packet, and
    /// find which end is slow
    Latency(LatencyArguments),
    /// Predict the latency of packets in either queue of an L4S router, and re-mark those of named
    /// flows to take the faster one
    L4s(L4sArguments),
    /// Write a report on captures: flows, services, queues and latency as a page in one file
    Report(ReportArguments),
    /// Run several applications in one pass over the packets, from a settings file
    Run(RunArguments),
    /// Compute the later stages of a model for sensors, over NATS
    Worker(WorkerArguments),
    /// Simulate hardware that is not at hand: a switch that records packets at 100 Gbit/s and more
    Simulate(SimulateArguments),
    /// List interfaces that can be captured on; also -D
    Devices(DevicesArguments),
    /// Check whether this machine can capture: permissions, interfaces, offloads, clock, disk
    Doctor(DoctorArguments),
    /// Summarise a capture: link types, times, counts, malformed headers by cause
    Info(InfoArguments),
    /// Recover the complete rows of a run that was killed or ran out of disk space
    Recover(RecoverArguments),
    /// Train models on labelled captures
    Train(TrainArguments),
    /// Evaluate models on labelled captures
    Eval(EvalArguments),
    /// Collect flows that a model is least certain of, to label them and train it again
    ///
    /// Needs the Python package; docs/guide/feedback.md. `wirelens feedback --help` has more.
    #[command(after_help = "Examples:
  wirelens feedback -r captures/ --model services -n 200 -o feedback
  wirelens feedback --verdicts sensor.parquet --model services -n 200 -o later")]
    Feedback(PythonOptions),
    /// Generate labelled traffic on this machine, with real programs in network namespaces
    Testbed(TestbedArguments),
    /// Print a shell's completions of these commands and flags, for bash, zsh or fish
    #[command(hide = true)]
    Completions(CompletionsArguments),
    /// Write a manual page per command, as man(1) shows them, to a folder
    #[command(hide = true)]
    Man(ManArguments),
}

/// Which frames to read, and how.
#[derive(Clone, Debug, Args)]
pub struct InputArguments {
    /// Capture to read: a file, a folder of captures, or - for standard input; may be given
    /// several times. pcap and pcapng, plain or compressed with gzip or zstd, detected by content
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-")]
    pub read: Vec<PathBuf>,
    /// Read only frames that match this filter (pcap-filter(7)); it may also be given at the end of
    /// the command line
    #[arg(short = 'f', long = "filter", value_name = "EXPRESSION", conflicts_with = "expression")]
    pub filter: Option<String>,
    /// Filter in the syntax of tcpdump: `tcp port 443 and host 192.0.2.1`
    #[arg(value_name = "EXPRESSION")]
    pub expression: Vec<String>,
    /// Stop after this many frames, in order of time
    #[arg(short = 'c', long = "count", value_name = "N", value_parser = parse_frame_count)]
    pub count: Option<u64>,
    /// Use only the first BYTES of each frame, as if it had been captured with this limit; 0 for
    /// all
    #[arg(short = 's', long = "snapshot-length", value_name = "BYTES")]
    pub snaplen: Option<u32>,
    /// Drop and count duplicates, such as those of a SPAN port: packets equal to one in the WINDOW
    /// before them, except for link header, TTL and header checksum; reads on one thread
    #[arg(long, value_name = "WINDOW", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "5ms", value_parser = parse_duration)]
    pub drop_duplicates: Option<packet::Span>,
    /// Report tunnels by their outer headers: do not decapsulate GRE, ERSPAN, VXLAN, Geneve,
    /// IP-in-IP and GTP-U
    #[arg(long)]
    pub no_decap: bool,
    /// Threads to use; results do not depend on it [default: one per core; for flows one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: Option<u16>,
    /// Seed of the hash table [default: random]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    /// Check arguments, inputs and filter, then exit
    #[arg(long)]
    pub check: bool,
    /// Keep all rights while packets are read; without it only what the run needs
    #[arg(long)]
    pub no_jail: bool,
    /// No progress bar and no summary; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Listening on an interface.
#[derive(Debug, Args)]
#[command(next_help_heading = "Live")]
pub struct LiveArguments {
    /// Listen on this interface instead of reading captures; any listens on all
    #[arg(short = 'i', long = "interface", value_name = "NAME")]
    pub interface: Option<String>,
    /// Do not put the interface into promiscuous mode
    #[arg(short = 'p', long = "no-promiscuous-mode", requires = "interface")]
    pub no_promiscuous: bool,
    /// Size of the kernel's ring buffer in KiB [default: 65536]
    #[arg(short = 'B', long = "buffer-size", value_name = "KIB", requires = "interface")]
    #[arg(value_parser = clap::value_parser!(u32).range(64..=16_777_216))]
    pub buffer_size: Option<u32>,
    /// Optimise for throughput or for low latency
    #[arg(long, value_name = "WHICH", default_value = "throughput", requires = "interface")]
    pub latency: Latency,
    /// Stop after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "interface")]
    pub duration: Option<packet::Span>,
    /// Become this user once the interface is open; outputs are made as that user
    #[arg(long, value_name = "NAME", requires = "interface")]
    pub user: Option<String>,
}

/// What matters more on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Latency {
    /// Frames are delivered in blocks, after 10 to 25 ms
    Throughput,
    /// Each frame is delivered immediately
    Low,
}

/// Where results go, and how they look.
#[derive(Debug, Args)]
pub struct OutputArguments {
    /// Write to this file; its suffix sets the format (.csv, .jsonl, .parquet, .arrow)
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output [default: from the suffix of FILE, else table]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<OutputFormat>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Permissions of files that are created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE", requires = "output")]
    pub file_mode: Option<FileMode>,
}

/// How results look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON object per line
    Jsonl,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow IPC
    Arrow,
}

/// How results look: as those of all commands, or as records of another tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnyFormat {
    /// A table, or rows.
    Plain(OutputFormat),
    /// Records.
    Of(Style),
}

impl AnyFormat {
    /// Whose records.
    pub(crate) const fn style(self) -> Option<Style> {
        if let Self::Of(style) = self { Some(style) } else { None }
    }

    /// A table or rows.
    pub(crate) const fn plain(self) -> Option<OutputFormat> {
        if let Self::Plain(format) = self { Some(format) } else { None }
    }
}

/// Reads a format: one of all commands, or one of these.
pub(crate) fn any_format(styles: &'static [Style]) -> impl TypedValueParser<Value = AnyFormat> {
    let plain = OutputFormat::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    let of = |style: &Style| PossibleValue::new(style.name()).help(style.about());
    PossibleValuesParser::new(plain.chain(styles.iter().map(of))).try_map(|name| {
        let plain = || <OutputFormat as ValueEnum>::from_str(&name, false).map(AnyFormat::Plain);
        Style::named(&name).map(AnyFormat::Of).or_else(|_| plain())
    })
}

/// Where flows go, and how they look.
#[derive(Debug, Args)]
pub struct FlowsOutputArguments {
    /// Write to this file; its suffix sets the format (.csv, .jsonl, .parquet, .arrow, .ipfix). A
    /// folder for --format zeek and for --partition; udp://HOST:PORT or tcp://HOST:PORT for an
    /// IPFIX collector
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output [default: from the suffix of FILE, else table]
    #[arg(long, value_name = "FORMAT", value_parser = any_format(Style::ALL))]
    pub format: Option<AnyFormat>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Permissions of files that are created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE", requires = "output")]
    pub file_mode: Option<FileMode>,
    /// Partition rows into folders by the end time of flows, as Hive does; existing parts are kept
    #[arg(long, value_name = "LENGTH", requires = "output", value_parser = choice::<Partition>())]
    pub partition: Option<Partition>,
    /// Rotate the file at this size, such as 100M: FILE-1, FILE-2, …
    #[arg(long, value_name = "BYTES", requires = "output", value_parser = parse_bytes)]
    pub rotate_bytes: Option<u64>,
    /// Rotate the file at each multiple of this packet time, such as 1h
    #[arg(long, value_name = "DURATION", requires = "output", value_parser = parse_duration)]
    pub rotate_time: Option<packet::Span>,
    /// IPFIX: both directions of a flow in one record (RFC 5103) instead of one each
    #[arg(long)]
    pub biflow: bool,
    /// IPFIX: add Community ID and label as private elements of this enterprise number
    #[arg(long, value_name = "NUMBER")]
    pub enterprise: Option<u32>,
}

/// Arguments of `wirelens top`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens top -r capture.pcap                           ten senders with most bytes
  wirelens top -r capture.pcap -n 0 -o sources.parquet   every sender, for a notebook
  wirelens top -r day/ --by pair --window 1m --format csv
  wirelens top -r - --by port udp                        only UDP, from a pipe
  wirelens top -r capture.pcap --by name                 servers by SNI, HTTP host or DNS
  wirelens top -i eth0                                   live screen, until q

Bytes are those on the wire, including the link header, also of truncated packets.
A packet whose window is already closed is counted in the oldest open one, and as late.")]
pub struct TopArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Or listening on an interface.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
    /// Key to aggregate by
    #[arg(long, value_name = "KEY", default_value = "source")]
    #[arg(value_parser = choice::<By>())]
    pub by: By,
    /// Rows to show, with --window per window; 0 shows all
    #[arg(short = 'n', long = "rows", value_name = "ROWS", default_value_t = 10)]
    pub rows: usize,
    /// Sort rows by this measure, largest first
    #[arg(long, value_name = "MEASURE", default_value = "bytes")]
    #[arg(value_parser = choice::<SortBy>())]
    pub sort: SortBy,
    /// Report totals for each window of this length, such as 1s, 100ms or 5m
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub window: Option<packet::Span>,
    /// Maximum number of keys, with --window of all windows that are open at a time; packets of
    /// further keys are counted together
    #[arg(long, value_name = "KEYS", default_value_t = KEY_COUNT_DEFAULT)]
    #[arg(value_parser = parse_key_count)]
    pub max_keys: usize,
    /// With --by name: pseudonyms (HMAC-SHA-256) instead of names, with the key in this file
    #[arg(long, value_name = "KEYFILE")]
    pub hash_names: Option<PathBuf>,
}

/// Arguments of `wirelens flows`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens flows -r capture.pcap                          ten flows with most bytes
  wirelens flows -r capture.pcap -o flows.parquet         every flow, for a notebook
  wirelens flows -r capture.pcap --stats --format csv     also sizes, gaps and flags
  wirelens flows -r capture.pcap --read-names             with server names and protocols
  wirelens flows -r day/ --window 10s -o flows.jsonl      each flow in each ten seconds
  wirelens flows -r capture.pcap --names nfstream -o flows.csv
  wirelens flows -r capture.pcap --format eve -o eve.json   events in Suricata's format
  wirelens flows -r capture.pcap -o flows --partition hour  Parquet in folders by time
  wirelens flows -i eth0 -o udp://192.0.2.1:4739          IPFIX to a collector
  wirelens flows -i eth0 tcp                              each flow as it ends

A table shows the heaviest flows; all other formats have every flow. docs/guide/flows.md
defines what a flow is and when it ends.")]
pub struct FlowsArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Or listening on an interface.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: FlowsOutputArguments,
    /// Flows to show in a table; 0 shows all [default: 10]
    #[arg(short = 'n', long = "rows", value_name = "ROWS")]
    pub rows: Option<usize>,
    /// Sort rows of a table by this measure, largest first [default: bytes]
    #[arg(long, value_name = "MEASURE")]
    #[arg(value_parser = choice::<SortBy>())]
    pub sort: Option<SortBy>,
    /// Idle timeout: end a flow after this long without a packet
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub idle_timeout: packet::Span,
    /// Active timeout: end a flow at this age; its next packet starts a new one
    #[arg(long, value_name = "DURATION", default_value = "1800s", value_parser = parse_duration)]
    pub active_timeout: packet::Span,
    /// Write one row per flow and window of this length in which it has packets
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub window: Option<packet::Span>,
    /// Add sizes, gaps between packets and counts of TCP flags
    #[arg(long)]
    pub stats: bool,
    /// Add the MAC addresses of both ends, as the first frame of a flow has them
    #[arg(long)]
    pub macs: bool,
    /// Names, units and order of the columns
    #[arg(long, value_name = "NAMES", default_value = "wirelens")]
    #[arg(value_parser = choice::<Names>())]
    pub names: Names,
    /// Maximum number of flows; if a partition of the flow table is full, idle flows are evicted
    #[arg(long, value_name = "FLOWS", default_value_t = 4_194_304, value_parser = parse_key_count)]
    pub max_flows: usize,
    /// Add names from the payload: TLS and QUIC server names, ALPN, JA4, HTTP hosts, DNS, protocol
    #[arg(long)]
    pub read_names: bool,
    /// The same, with names as pseudonyms (HMAC-SHA-256), with the key in this file
    #[arg(long, value_name = "KEYFILE")]
    pub hash_names: Option<PathBuf>,
    /// Add the label of this trained cascade to each flow; timeouts are those of the model
    #[arg(long, value_name = "DIR")]
    #[arg(conflicts_with_all = ["idle_timeout", "active_timeout", "window", "names"])]
    #[arg(conflicts_with_all = ["read_names", "hash_names"])]
    pub model: Option<PathBuf>,
    /// With --model: label a flow unknown if the probability of its likeliest class is below P, 0
    /// to 1 [default: the model's threshold]
    #[arg(long, value_name = "P", requires = "model")]
    #[arg(conflicts_with_all = ["idle_timeout", "active_timeout", "window", "names"])]
    #[arg(value_parser = crate::classify::args::parse_probability)]
    pub unknown_below: Option<f64>,
}

/// Arguments of `wirelens devices`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens devices
  wirelens -D
  wirelens devices --format jsonl")]
pub struct DevicesArguments {
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Arguments of `wirelens info`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens info -r capture.pcapng
  wirelens info -r day/ --format csv       one line per capture
  wirelens info -r capture.pcap.zst ip6    only packets that match a filter")]
pub struct InfoArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Arguments of `wirelens recover`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens recover flows.parquet.partial             into flows.parquet
  wirelens recover flows.parquet.partial -o saved.parquet

All complete lines of CSV and JSON lines, row groups of Parquet and batches of Arrow are
recovered. The partial file is not changed; the next run replaces it. If the run that writes it
is still running, what it has written so far is recovered.")]
pub struct RecoverArguments {
    /// File left by a killed run or ran out of disk space
    #[arg(value_name = "FILE.partial")]
    pub partial: PathBuf,
    /// Write to this file; the format stays the same [default: FILE, without .partial]
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
    /// Permissions of the file that is created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE")]
    pub file_mode: Option<FileMode>,
    /// Do not print what was recovered; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Reads one of a few words.
pub(crate) fn choice<T: Choice + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let values = T::ALL
        .iter()
        .map(|value| PossibleValue::new(value.name()).help(value.about()).aliases(value.alias()));
    PossibleValuesParser::new(values).try_map(|name| T::named(&name))
}

/// A positive number of frames.
fn parse_frame_count(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(String::from("wanted a number of frames, at least 1")),
    }
}

/// Keys kept by default.
pub const KEY_COUNT_DEFAULT: usize = 3_000_000;

/// A number of keys.
pub(crate) fn parse_key_count(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse::<usize>() {
        Ok(count) if KEY_COUNTS.contains(&count) => Ok(count),
        _ => Err(String::from("wanted a number from 64 to 1000000000")),
    }
}
