//! What can be typed after `wirelens l4s`.

use std::path::PathBuf;

use clap::Args;
use packet::Span;
use session::duration::{parse_delay, parse_duration};
use session::l4s::{L4sSettings, Target};

use crate::args::{InputArguments, OutputArguments};

/// Arguments of `wirelens l4s`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens l4s -r sender.pcapng -m l4s --to 10.2.1.2      a capture
  wirelens l4s -i eth0 -m l4s --to 192.0.2.0/24           predict only
  wirelens l4s -i eth0 -m l4s --to 192.0.2.1 --dry-run    count in the kernel
  wirelens l4s -i eth0 -m l4s --to '*:443' --act          re-mark

Run it at the sender, on its egress interface. The model predicts the
latency of each packet in the L4S queue and in the classic one. If the classic queue is
predicted to be faster, the flow's next packets are re-marked from ECT(1) to Not-ECT, with
--act. Nothing is ever marked ECT(1), and no flow that --to does not name is touched. Packets
keep their marking if ACKs stop, if a prediction is late, and when the command ends, also if
it is killed. docs/guide/l4s-live.md explains the results.")]
pub struct L4sArguments {
    /// Captures made at the sender.
    #[command(flatten)]
    pub input: InputArguments,
    /// Egress interface of this host, instead of captures
    #[arg(short = 'i', long = "interface", value_name = "NAME")]
    pub interface: Option<String>,
    /// Stop after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "interface")]
    pub duration: Option<Span>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
    /// Latency model: l4s, the shipped one, or a folder written by `wirelens train l4s`
    #[arg(short = 'm', long, value_name = "DIR", required = true)]
    pub model: Option<PathBuf>,
    /// Receivers of the flows to track, such as 192.0.2.1, 192.0.2.0/24:443, [2001:db8::1]:443 or
    /// *:443; may be given several times. No other flow is touched
    #[arg(long, value_name = "ADDRESS[/LEN][:PORT]", required = true)]
    pub to: Vec<Target>,
    /// Report each flow for each period of this length [default: 1s; all of a capture]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub every: Option<Span>,
    /// Re-mark if the classic queue is predicted to be faster by this
    #[arg(long, value_name = "DURATION", default_value = "3ms", value_parser = parse_delay)]
    pub margin: Span,
    /// Maximum share of L4S packets that are re-marked, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.8)]
    pub max_share: f64,
    /// Packets keep their marking if no ACK arrived for this long
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = parse_duration)]
    pub silence: Span,
    /// Packets keep their marking if a prediction is later than this after the packet left
    #[arg(long, value_name = "DURATION", default_value = "5ms", value_parser = parse_duration)]
    #[arg(requires = "interface")]
    pub late: Span,
    /// Fine-tune the model this often on the last minute, such as 5m [default: never]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub tune: Option<Span>,
    /// Re-mark packets. CHANGES THE MACHINE: a BPF program rewrites the ECN field of named flows,
    /// and segmentation offloads of the interface are off until the command ends
    #[arg(long, requires = "interface")]
    pub act: bool,
    /// Change nothing; count in the kernel what --act would re-mark
    #[arg(long, requires = "interface", conflicts_with = "act")]
    pub dry_run: bool,
}

/// What was typed of settings.
pub(super) fn settings(arguments: &L4sArguments) -> L4sSettings {
    let L4sArguments { every, margin, max_share, silence, late, tune, .. } = *arguments;
    let (model, to) = (arguments.model.clone(), arguments.to.clone());
    L4sSettings { model, to, every, margin, max_share, silence, late, tune }
}
