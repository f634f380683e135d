//! What can be typed after `wirelens packetlog`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use files::FileMode;
use packet::Span;
use packetlog::calibration::Budget;
use packetlog::ledger::Head;
use session::duration::parse_duration;
use session::packetlog::{
    Direct, Encoding, FileSettings, HindsightSettings, Listed, Means, Notes, Reach, WhenFull, Why,
    parse_budget, parse_calibration_time,
};
use session::written::parse_bytes;

use crate::args::{InputArguments, LiveArguments, OutputArguments, OutputFormat, choice};

/// Folder of a log, unless another is given.
const FOLDER: &str = "packetlog";

/// Arguments of `wirelens packetlog`.
#[derive(Debug, Args)]
pub struct PacketlogArguments {
    /// What to do with it.
    #[command(subcommand)]
    pub command: PacketlogCommand,
}

/// What to do with a log of packets.
#[derive(Debug, Subcommand)]
pub enum PacketlogCommand {
    /// Record packets of an interface, or of captures, selectively by class
    Record(Box<RecordArguments>),
    /// Set the classifier's thresholds on traffic of this site, for a budget of marked packets
    Calibrate(Box<CalibrateArguments>),
    /// Switch a running recorder to another mode
    Mode(ModeArguments),
    /// Show the status of a running recorder
    Status(StatusArguments),
    /// List modes and what each stores
    Modes(ModesArguments),
    /// Search packets by time, host, flow and class
    Query(QueryArguments),
    /// Show how much of each class was seen and stored
    Stats(StatsArguments),
    /// Repair a log whose recorder was killed; the next recorder does it as well
    Recover(LogArguments),
    /// Compress files that are complete
    Compress(CompressArguments),
    /// Find what was changed in a log, or removed from it, by its ledger
    Verify(VerifyArguments),
}

/// Which log.
#[derive(Debug, Args)]
pub struct FolderArguments {
    /// Folder of the log
    #[arg(short = 'l', long = "log", value_name = "DIR", default_value = FOLDER)]
    pub folder: PathBuf,
}

/// Which log is read, or changed, and with which rights.
#[derive(Debug, Args)]
pub struct LogArguments {
    /// Its folder.
    #[command(flatten)]
    pub at: FolderArguments,
    /// Keep all rights while the log is read; without it only what the command needs
    #[arg(long)]
    pub no_jail: bool,
}

/// Arguments of `wirelens packetlog record`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog record -i eth0                        into ./packetlog
  wirelens packetlog record -i eth0 -o /srv/log --keep-bytes 500G --when-full overwrite
  wirelens packetlog record -r day.pcap -o log --mode log-minimum
  wirelens packetlog record -i eth0 --hindsight 2s         an anomalous flow from its beginning
  wirelens packetlog record -i eth0 --settings log.toml --mode night
  wirelens packetlog record -i eth0 --model /srv/models/our-traffic
  wirelens packetlog record -i eth0 --calibration calibration.json

While it runs, `wirelens packetlog mode NAME` changes what is stored, without losing a packet.
Under resource pressure (disk, buffers, capture) it switches the mode itself, reports this, and
switches back when the pressure has ended. The files are pcapng, readable by Wireshark and
tcpdump; `wirelens packetlog query` searches them. docs/guide/packetlog.md has the details.

The shipped model finds attacks that show in connections and volume: scans, floods, spoofing,
password guessing. On exploits, credential theft, discovery, web attacks and command-and-control
traffic of networks that it was not trained on it is no better than chance. There it marks 1 to
3 % of benign packets, at some up to 10 %. `wirelens packetlog calibrate` sets the thresholds
for a budget of marked packets on your own traffic; `wirelens train packetlog` trains on it.

The exit status is 1 if packets that should be stored are not in the log.")]
pub struct RecordArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Or listening on an interface.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Folder of the log; created if it does not exist, otherwise continued
    #[arg(short = 'o', long = "output", value_name = "DIR", default_value = FOLDER)]
    pub folder: PathBuf,
    /// Folder of a model of `wirelens train packetlog`, or the name of a shipped model
    #[arg(short = 'm', long, value_name = "DIR", default_value = "packetlog")]
    pub model: PathBuf,
    /// Thresholds for this site: a file of `wirelens packetlog calibrate`, of the same model
    #[arg(long, value_name = "FILE.json")]
    pub calibration: Option<PathBuf>,
    /// Mode to begin in; `wirelens packetlog modes` lists them
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub mode: String,
    /// File with your own modes, priorities and limits, in TOML
    #[arg(long, value_name = "FILE.toml")]
    pub settings: Option<PathBuf>,
    /// How the log is written.
    #[command(flatten)]
    pub files: FileArguments,
    /// Keep the chosen mode under resource pressure; warnings are still printed
    #[arg(long)]
    pub fixed_mode: bool,
    /// Append events to this file, as JSON lines [default: events.jsonl in the log's folder]
    #[arg(long, value_name = "FILE")]
    pub events: Option<PathBuf>,
    /// How long packets wait.
    #[command(flatten)]
    pub hindsight: HindsightArguments,
    /// Classify and truncate packets in the kernel, for interfaces that receive mirrored traffic
    /// alone; the default model is then packetlog-kernel
    #[arg(long, value_name = "HOW", value_parser = choice::<Means>(), requires = "interface")]
    #[arg(conflicts_with_all = ["read", "snaplen", "filter", "expression", "drop_duplicates"])]
    pub offload: Option<Means>,
    /// The interface receives mirrored traffic alone: what is truncated there reaches no one else
    #[arg(long, requires = "offload")]
    pub mirror: bool,
}

/// Arguments of `wirelens packetlog calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog calibrate -i eth0 --for 1h --budget 2%
  wirelens packetlog calibrate -r monday.pcap -r tuesday.pcap --budget 5% -o office.json
  wirelens packetlog record -i eth0 --calibration calibration.json

No labels are needed. The threshold is the lowest one at which the expected share of marked
packets of a block of time is within the budget (conformal risk control), if later blocks are
exchangeable with the calibrated ones: benign traffic of the same site at similar times. Blocks
with far more marked packets than the others may hold an attack; they are left out and listed.
While it records, `packetlog record --calibration` warns if traffic changes. Ctrl-C ends the
calibration early. docs/guide/packetlog.md has the details.")]
pub struct CalibrateArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Listen on this interface instead of reading captures; any listens on all
    #[arg(short = 'i', long = "interface", value_name = "NAME")]
    pub interface: Option<String>,
    /// How long to listen, at most 7d
    #[arg(long = "for", value_name = "DURATION", default_value = "1h", requires = "interface")]
    #[arg(value_parser = parse_calibration_time)]
    pub time: Span,
    /// Share of benign packets that may be marked, 0.1% to 50%
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = parse_budget)]
    pub budget: Budget,
    /// File to write
    #[arg(short = 'o', long = "output", value_name = "FILE", default_value = "calibration.json")]
    pub output: PathBuf,
    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
    /// Permissions of the file that is created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE")]
    pub file_mode: Option<FileMode>,
    /// Folder of a model of `wirelens train packetlog`, or the name of a shipped model
    #[arg(short = 'm', long, value_name = "DIR", default_value = "packetlog")]
    pub model: PathBuf,
    /// File with your own modes, in TOML: what they store is estimated, too
    #[arg(long, value_name = "FILE.toml")]
    pub settings: Option<PathBuf>,
}

/// How long packets wait before they are truncated.
#[derive(Debug, Args)]
#[command(next_help_heading = "Hindsight")]
pub struct HindsightArguments {
    /// Hold packets in memory for this long, at most 60s, so that a flow is stored like its first
    /// anomalous packet; what waits is lost if the recorder is killed
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub hindsight: Option<Span>,
    /// Memory for waiting packets; if it is full, the oldest wait for less, and are counted
    #[arg(long, value_name = "BYTES", default_value = "256M", value_parser = parse_bytes)]
    pub hindsight_bytes: u64,
    /// What is stored like an anomalous packet
    #[arg(long, value_name = "WHAT", default_value = "flow")]
    #[arg(value_parser = choice::<Reach>())]
    pub hindsight_reach: Reach,
}

impl HindsightArguments {
    pub(super) const fn settings(&self) -> HindsightSettings {
        HindsightSettings {
            time: self.hindsight,
            bytes: self.hindsight_bytes,
            reach: self.hindsight_reach,
        }
    }
}

/// How a log is written.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct FileArguments {
    /// Rotate the file after this many bytes
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = parse_bytes)]
    pub file_bytes: u64,
    /// Rotate the file after this time
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    pub file_time: Span,
    /// Maximum size of the log in bytes; the oldest files of the least important classes are
    /// deleted first
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    pub keep_bytes: Option<u64>,
    /// Delete files older than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub keep_time: Option<Span>,
    /// What to do when the disk is full
    #[arg(long, value_name = "WHAT", default_value = "stop")]
    #[arg(value_parser = choice::<WhenFull>())]
    pub when_full: WhenFull,
    /// How blocks are written
    #[arg(long, value_name = "HOW", default_value = "auto")]
    #[arg(value_parser = choice::<Direct>())]
    pub direct: Direct,
    /// Block size in bytes, a multiple of 4096
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = parse_bytes)]
    pub block_bytes: u64,
    /// Number of blocks that are being filled or wait for the disk
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u16).range(2..=4096))]
    pub blocks: u16,
    /// Write a block that is not full after this time
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub flush: Span,
    /// Synchronise each block to the disk before it counts as written
    #[arg(long)]
    pub sync: bool,
    /// Make the log readable by the folder's group; otherwise only by its owner
    #[arg(long)]
    pub group_readable: bool,
    /// How class and confidence are stored with a packet
    #[arg(long, value_name = "HOW", default_value = "option")]
    #[arg(value_parser = choice::<Notes>())]
    pub notes: Notes,
    /// How packets are encoded in the files
    #[arg(long, value_name = "HOW", default_value = "pcapng")]
    #[arg(value_parser = choice::<Encoding>())]
    pub encoding: Encoding,
    /// Compress files once they are complete, with zstd at this level
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, default_missing_value = "3")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=19))]
    pub compress: Option<i32>,
    /// Append heads of the ledger to this file, at the start, each minute and at the end; put it
    /// where those who can change the log cannot, for `wirelens packetlog verify`
    #[arg(long, value_name = "FILE")]
    pub anchor: Option<PathBuf>,
}

impl FileArguments {
    /// What is asked of the log's files.
    pub(super) fn settings(&self) -> FileSettings {
        FileSettings {
            file_bytes: self.file_bytes,
            file_time: self.file_time,
            keep_bytes: self.keep_bytes,
            keep_time: self.keep_time,
            when_full: self.when_full,
            direct: self.direct,
            block_bytes: self.block_bytes,
            blocks: self.blocks,
            flush: self.flush,
            sync: self.sync,
            group_readable: self.group_readable,
            notes: self.notes,
            encoding: self.encoding,
            compress: self.compress,
            anchor: self.anchor.clone(),
        }
    }
}

/// Arguments of `wirelens packetlog mode`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog mode log-sampled
  wirelens packetlog mode default --log /srv/log")]
pub struct ModeArguments {
    /// The mode
    #[arg(value_name = "NAME")]
    pub mode: String,
    /// Which recorder.
    #[command(flatten)]
    pub folder: FolderArguments,
}

/// Arguments of `wirelens packetlog status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog status
  wirelens packetlog status --format prometheus > /var/lib/node_exporter/wirelens.prom")]
pub struct StatusArguments {
    /// Which recorder.
    #[command(flatten)]
    pub folder: FolderArguments,
    /// Format of the status
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    pub format: StatusFormat,
}

/// The format of a status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum StatusFormat {
    /// Aligned lines for reading
    Table,
    /// One JSON object
    Json,
    /// Prometheus' text format
    Prometheus,
}

/// Arguments of `wirelens packetlog modes`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog modes
  wirelens packetlog modes --settings log.toml

`anomalous` and `benign` are the model's classes. The shipped model recognises volume (scans,
floods, spoofing) and little else on networks that it was not trained on:
docs/guide/packetlog.md")]
pub struct ModesArguments {
    /// File with your own modes, in TOML
    #[arg(long, value_name = "FILE.toml")]
    pub settings: Option<PathBuf>,
}

/// Arguments of `wirelens packetlog query`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog query --host 192.0.2.7 -w out.pcapng
  wirelens packetlog query --class anomalous --from 2026-03-01T10:00:00Z -w anomalous.pcapng
  wirelens packetlog query --flow 1:wCb3OG7yAFWelaUydu0D+125CLM= -w - | tshark -r -
  wirelens packetlog query --log /srv/log --host 192.0.2.7 tcp port 443 -w out.pcapng
  wirelens packetlog query --class anomalous --list sessions

Without -w it prints how many packets there are. A host or a class given more than once
matches any of its values; different conditions must all match.")]
pub struct QueryArguments {
    /// Which log.
    #[command(flatten)]
    pub log: LogArguments,
    /// Packets from or to this address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_host)]
    pub host: Vec<std::net::IpAddr>,
    /// Packets of this flow, in both directions: its Community ID, or
    /// PROTOCOL,ADDRESS,PORT,ADDRESS,PORT
    #[arg(long, value_name = "FLOW")]
    pub flow: Option<String>,
    /// Packets of this class
    #[arg(long, value_name = "CLASS")]
    pub class: Vec<String>,
    /// Packets at or after this time: 2026-03-01T10:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = session::when::parse_time)]
    pub from: Option<packet::Timestamp>,
    /// Packets before this time
    #[arg(long, value_name = "TIME", value_parser = session::when::parse_time)]
    pub to: Option<packet::Timestamp>,
    /// Of those, only packets that match this filter (pcap-filter(7))
    #[arg(value_name = "EXPRESSION")]
    pub expression: Vec<String>,
    /// List the hosts or sessions of these packets, most bytes first
    #[arg(long, value_name = "WHAT", value_parser = choice::<Listed>())]
    pub list: Option<Listed>,
    /// Format of --list
    #[arg(long, value_name = "FORMAT", default_value = "table", requires = "list")]
    pub format: OutputFormat,
    /// Write the packets to this file, as pcapng; - is standard output
    #[arg(short = 'w', long = "write", value_name = "FILE|-")]
    pub write: Option<PathBuf>,
    /// Stop after this many packets
    #[arg(short = 'c', long, value_name = "N")]
    pub count: Option<u64>,
    /// Replace FILE if it exists
    #[arg(long, requires = "write")]
    pub force: bool,
    /// Permissions of the file that is created, such as 0640 for the group to read [default: 0600]
    #[arg(long, value_name = "MODE", requires = "write")]
    pub file_mode: Option<FileMode>,
    /// Do not print what was found; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// Arguments of `wirelens packetlog stats`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog stats
  wirelens packetlog stats --log /srv/log --format jsonl
  wirelens packetlog stats --why                     why hosts were marked
  wirelens packetlog stats --why flows --host 192.0.2.7

--why prints for each host, or flow, its first and its strongest verdict, with the values that
raised the probability of the class most, and the thresholds that they passed. It explains how
the model decided, not whether it was right. docs/guide/packetlog.md has the details.")]
pub struct StatsArguments {
    /// Which log.
    #[command(flatten)]
    pub log: LogArguments,
    /// Show why packets were marked
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "hosts")]
    #[arg(value_parser = choice::<Why>())]
    pub why: Option<Why>,
    /// Of --why, only packets from or to this address
    #[arg(long, value_name = "ADDRESS", value_parser = parse_host, requires = "why")]
    pub host: Vec<std::net::IpAddr>,
    /// Of --why, only packets of this flow: its Community ID, or
    /// PROTOCOL,ADDRESS,PORT,ADDRESS,PORT
    #[arg(long, value_name = "FLOW", requires = "why")]
    pub flow: Option<String>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Arguments of `wirelens packetlog compress`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog compress
  wirelens packetlog compress --log /srv/log --level 9")]
pub struct CompressArguments {
    /// Which log.
    #[command(flatten)]
    pub log: LogArguments,
    /// Level of zstd
    #[arg(long, value_name = "LEVEL", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,
}

/// Arguments of `wirelens packetlog verify`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens packetlog verify
  wirelens packetlog verify --log /srv/log
  wirelens packetlog verify --head > head.txt

Reads the whole log. Each block and each record of the ledger is compared with its hash, and the
ledger with heads that were anchored elsewhere, by `record --anchor` or by hand: every change
and removal before the last of them is found. Without an anchor, a user who can write to the
folder can have rewritten log and ledger together.

The exit status is 3 if anything was changed or removed, if no given anchor is in the ledger, or
if there is no ledger. docs/guide/packetlog.md has the details.")]
pub struct VerifyArguments {
    /// Heads that were anchored, as --head prints them
    #[arg(value_name = "HEAD", value_parser = parse_head)]
    pub heads: Vec<Head>,
    /// Which log.
    #[command(flatten)]
    pub log: LogArguments,
    /// File with heads: of `record --anchor`, or any text that contains them
    #[arg(long, value_name = "FILE")]
    pub anchor: Vec<PathBuf>,
    /// Print the present head of the ledger, to anchor it
    #[arg(long, conflicts_with_all = ["heads", "anchor"])]
    pub head: bool,
}

/// A head of a ledger.
fn parse_head(text: &str) -> Result<Head, String> {
    Head::parse(text).ok_or_else(|| String::from("wanted NUMBER:HASH, as --head prints it"))
}

/// One address of IPv4 or IPv6.
fn parse_host(text: &str) -> Result<std::net::IpAddr, String> {
    let wanted = "wanted one address, such as 192.0.2.7 or 2001:db8::7";
    text.parse().map_err(|_| match text.contains('/') {
        true => format!("{wanted}; for a network use a filter expression: net {text}"),
        false => String::from(wanted),
    })
}
