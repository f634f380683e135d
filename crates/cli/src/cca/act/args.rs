//! What can be typed of acting on a queue.

use std::path::PathBuf;

use clap::Args;
use packet::Span;
use session::duration::parse_duration;
use session::rate::parse_rate;

/// Acting on the queue.
#[derive(Debug, Args)]
#[command(next_help_heading = "Acting on the queue")]
pub struct ActArguments {
    /// Share the link between congestion controls: group flows by congestion control into classes
    /// on this device, the router's egress. CHANGES THE MACHINE: its queue becomes an htb, under a
    /// tbf if there is one, and a BPF program steers flows; both are removed when the command ends.
    /// Packets queued at those two moments are lost. Flows beyond -n share the class of the rest
    #[arg(long, value_name = "[NETNS:]DEV", requires = "interface")]
    pub act: Option<String>,
    /// The link's rate, such as 20mbit; of a tbf, its own
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "act")]
    pub act_rate: Option<u64>,
    /// Bytes that all classes queue together [default: those of the tbf, or 100 ms at the rate]
    #[arg(long, value_name = "BYTES", requires = "act")]
    #[arg(value_parser = clap::value_parser!(u64).range(3_000..=4_000_000_000))]
    pub act_buffer: Option<u64>,
    /// Take congestion controls from this file instead of a model: lines `SENDER[:PORT] CONTROL`,
    /// read again each period
    #[arg(long, value_name = "FILE", requires = "act")]
    pub act_by: Option<PathBuf>,
    /// Consecutive periods with the same congestion control before a flow joins a class; three
    /// times as many before it moves to another
    #[arg(long, value_name = "PERIODS", default_value_t = 3, requires = "act")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub act_after: u32,
    /// How long a flow stays in a class before it may move to another
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    #[arg(requires = "act")]
    pub act_hold: Span,
    /// Append each action and its reason to this file, as JSON lines [default: standard error]
    #[arg(long, value_name = "FILE", requires = "act")]
    pub act_events: Option<PathBuf>,
    /// Change nothing; report what would be done
    #[arg(long, requires = "act")]
    pub act_dry_run: bool,
    /// Remove what a killed run with --act left on this device, and exit
    #[arg(long, value_name = "[NETNS:]DEV", conflicts_with_all = ["act", "read", "interface"])]
    #[arg(conflicts_with_all = ["egress", "duration", "output", "format", "force", "model"])]
    #[arg(conflicts_with_all = ["every", "slot", "rows", "passed", "sample", "each_packet"])]
    #[arg(conflicts_with_all = ["egress_offset", "max_flows", "view", "filter", "expression"])]
    #[arg(conflicts_with_all = ["count", "snaplen", "no_decap", "threads", "seed", "check"])]
    #[arg(conflicts_with_all = ["act_rate", "act_buffer", "act_by", "act_after", "act_hold"])]
    #[arg(conflicts_with_all = ["act_events", "act_dry_run", "drop_duplicates", "no_jail"])]
    pub act_undo: Option<String>,
}
