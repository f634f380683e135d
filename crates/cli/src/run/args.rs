//! What can be typed after `wirelens run`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use session::run::Drill;

/// Arguments of `wirelens run`.
#[derive(Debug, Default, Args)]
#[command(after_help = "Examples:
  wirelens run --init > wirelens.toml            settings to start from, each explained
  wirelens run -c wirelens.toml --check          every mistake with its line, without reading
  wirelens run -c wirelens.toml                  all applications in one pass
  wirelens run -c wirelens.toml -r day/          the same on other captures
  wirelens run -c wirelens.toml -i eth0 -i eth1  on interfaces, until Ctrl-C
  wirelens run -r capture.pcap --page            the usual applications, in a browser
  sudo wirelens run -i eth0 --view               in this terminal

Each table of the settings is an application; its rows are those of the command of the same name.
Rules let a verdict change what happens to the next packets of its flow: packets of a service are
stored in full, or only heavy flows are analysed by cca. On SIGHUP output files are finished and
re-created, and rules are read again, without losing a packet. Paths are relative to the current
folder. docs/guide/run.md has settings for a mirror port, a router, a laptop, a lab and CI.")]
pub struct RunArguments {
    /// Settings, in TOML
    #[arg(
        short = 'c',
        long = "config",
        value_name = "FILE.toml",
        required_unless_present_any = ["init", "page", "view"]
    )]
    pub config: Option<PathBuf>,
    /// Read these captures instead of those in the settings
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-", conflicts_with = "interface")]
    pub read: Vec<PathBuf>,
    /// Listen on this interface instead of those in the settings; may be given several times
    #[arg(short = 'i', long = "interface", value_name = "NAME")]
    pub interface: Vec<String>,
    /// Replay captures in real time, or FACTOR times as fast
    #[arg(long, value_name = "FACTOR", num_args = 0..=1, default_missing_value = "1")]
    #[arg(conflicts_with = "interface")]
    pub pace: Option<f64>,
    /// Threads to read captures; rows do not depend on it [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    #[arg(conflicts_with_all = ["interface", "pace"])]
    pub threads: Option<u16>,
    /// Serve the page, the API and /metrics at this address [default: 127.0.0.1:9417]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:9417")]
    #[arg(value_parser = session::page::parse_listen)]
    pub page: Option<SocketAddr>,
    /// A drill, a fault on purpose: drop, full-table, slow-disk or fault (docs/guide/drills.md)
    #[arg(long, value_name = "WHAT[=N]")]
    pub simulate: Vec<Drill>,
    /// Keep all rights while packets are read; without it only what the run needs
    #[arg(long)]
    pub no_jail: bool,
    /// Check settings, models, inputs and filter, then exit
    #[arg(long)]
    pub check: bool,
    /// Show the run in this terminal: a screen per application; ? lists the keys
    #[arg(long, conflicts_with = "check")]
    pub view: bool,
    /// Send a test alert to each [[notify]] of the settings, report the outcome, then exit
    #[arg(long, requires = "config")]
    pub test_alerts: bool,
    /// Print a settings file with every application and key, explained
    #[arg(
        long,
        conflicts_with_all = [
            "config", "read", "interface", "pace", "threads", "page", "view", "test_alerts",
            "check", "quiet", "simulate"
        ]
    )]
    pub init: bool,
    /// No progress bar and no summary; errors are still printed
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Whether rows without an output are kept, for a report
    #[arg(skip)]
    pub keeps_rows: bool,
}
