//! What can be typed after `wirelens nprint`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use files::FileMode;
use session::duration::parse_duration;
use session::first::index::IndexBy;

use crate::args::{InputArguments, choice, parse_key_count};

/// What rows of flows do not have. An option that these conflict with is no longer missed where it
/// is required, so whatever requires it names them as well.
const OF_PACKETS: [&str; 4] = ["index", "relative_timestamps", "absolute_timestamps", "all_ip"];

/// Arguments of `wirelens nprint`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens nprint -r capture.pcap -4 -t -u -O flow > bits.csv      in nPrint's format
  wirelens nprint -r capture.pcap --depth 10 -o flows.parquet      one row per flow
  wirelens nprint -r capture.pcap --depth 20 --sequences -o steps.parquet
  wirelens nprint -r day/ -6 -t -u --no-addresses -x _cksum_ -o bits.npy udp port 53
  wirelens nprint -r capture.pcap --all-ip --icmp -p 16 -F 0 --format jsonl

Without -4, -6, -t, -u, --icmp and -p the rows have IPv4, TCP and UDP: 1024 bits. Column names,
their order and the values are those of nPrint 1.2.1; docs/specs/feature-schema.md lists where
rows differ from nPrint's, and why.")]
pub struct NprintArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: NprintOutputArguments,
    /// Which bits.
    #[command(flatten)]
    pub bits: BitArguments,
    /// First column of a packet's row; nPrint's numbers 0 to 5 are accepted as well
    #[arg(short = 'O', long = "index", value_name = "WHICH", default_value = "src_ip")]
    #[arg(value_parser = choice::<IndexBy>())]
    pub index: IndexBy,
    /// Add a column `rts`: microseconds since the previous row
    #[arg(short = 'R', long, conflicts_with = "depth")]
    pub relative_timestamps: bool,
    /// Add columns `tv_sec` and `tv_usec`: timestamp of the packet
    #[arg(short = 'A', long, conflicts_with = "depth")]
    pub absolute_timestamps: bool,
    /// A row for every IP packet, including those without TCP, UDP or ICMP
    #[arg(long, conflicts_with = "depth")]
    pub all_ip: bool,
    /// One row per flow instead: the bits of its first N packets side by side
    #[arg(long, value_name = "N", conflicts_with = "index")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..))]
    pub depth: Option<u8>,
    /// Sizes, directions and gaps of these packets instead of their bits
    #[arg(long, requires = "depth", conflicts_with_all = [
        "ipv4", "ipv6", "tcp", "udp", "icmp", "payload", "fill", "exclude", "no_addresses",
        "no_ports", "index", "relative_timestamps", "absolute_timestamps", "all_ip",
    ])]
    pub sequences: bool,
    /// Idle timeout: end a flow after this long without a packet
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    #[arg(requires = "depth", conflicts_with_all = OF_PACKETS)]
    pub idle_timeout: packet::Span,
    /// Active timeout: end a flow at this age; its next packet starts a new one
    #[arg(long, value_name = "DURATION", default_value = "1800s", value_parser = parse_duration)]
    #[arg(requires = "depth", conflicts_with_all = OF_PACKETS)]
    pub active_timeout: packet::Span,
    /// Maximum number of flows; if a partition of the flow table is full, idle flows are evicted
    #[arg(long, value_name = "FLOWS", default_value_t = 1_048_576, value_parser = parse_key_count)]
    #[arg(requires = "depth", conflicts_with_all = OF_PACKETS)]
    pub max_flows: usize,
    /// Print the schema of the values, in order, with its hash, and read nothing
    #[arg(long, conflicts_with_all = [
        "read", "filter", "expression", "count", "snaplen", "threads", "seed", "check", "output",
        "drop_duplicates", "format", "force", "index", "no_jail", "relative_timestamps", "absolute_timestamps", "all_ip",
        "idle_timeout", "active_timeout", "max_flows",
    ])]
    pub schema: bool,
}

/// Which bits a packet's row has.
#[derive(Debug, Args)]
#[command(next_help_heading = "Bits")]
pub struct BitArguments {
    /// IPv4 with options: 480 bits
    #[arg(short = '4', long)]
    pub ipv4: bool,
    /// IPv6 without extension headers: 320 bits
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// TCP with options: 480 bits
    #[arg(short = 't', long)]
    pub tcp: bool,
    /// UDP: 64 bits
    #[arg(short = 'u', long)]
    pub udp: bool,
    /// ICMP: 64 bits (nPrint's -i)
    #[arg(long)]
    pub icmp: bool,
    /// The first BYTES of payload after the transport header: 8 bits each
    #[arg(short = 'p', long, value_name = "BYTES", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(..=i64::from(model::PAYLOAD_LEN_MAX)))]
    pub payload: u16,
    /// Value of bits that a packet does not have
    #[arg(short = 'F', long, value_name = "NUMBER", default_value_t = -1)]
    #[arg(allow_negative_numbers = true)]
    pub fill: i8,
    /// Exclude columns whose names match this regular expression; may be given several times
    #[arg(short = 'x', long, value_name = "REGEX")]
    pub exclude: Vec<String>,
    /// Exclude the columns of addresses
    #[arg(long)]
    pub no_addresses: bool,
    /// Exclude the columns of ports
    #[arg(long)]
    pub no_ports: bool,
}

/// Where rows go.
#[derive(Debug, Args)]
pub struct NprintOutputArguments {
    /// Write to this file; its suffix sets the format (.csv, .jsonl, .parquet, .arrow, .npy)
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Format of the output [default: from the suffix of FILE, else csv]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<NprintFormat>,
    /// Replace FILE if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Permissions of files that are created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE", requires = "output")]
    pub file_mode: Option<FileMode>,
}

/// How rows are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum NprintFormat {
    /// Comma-separated values with a header line, as nPrint writes them
    Csv,
    /// One JSON object per line
    Jsonl,
    /// Apache Parquet
    Parquet,
    /// Apache Arrow IPC
    Arrow,
    /// NumPy matrix of int8; columns other than bits go to FILE.index.csv
    Npy,
}
