//! What can be typed after `wirelens cca`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use packet::Span;
use session::cca::CcaSettings;
use session::cca::settings::{PassedRule, parse_share};
use session::duration::{parse_duration, parse_offset};

use super::act::args::ActArguments;
use crate::args::{InputArguments, OutputArguments, choice};

/// Arguments of `wirelens cca`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens cca -r before.pcapng --egress after.pcapng                 each second, ten flows
  wirelens cca -r before.pcapng --egress after.pcapng --every 100ms -n 500 -o queue.parquet
  wirelens cca -r before.pcap --egress after.pcap 'tcp port 443'      only some flows
  wirelens cca -i lan0 --egress exit:up0                              live: eBPF, root
  wirelens cca -i lan0 --egress exit:up0 -m cca --act up0 --act-dry-run
  wirelens cca -i lan0 --egress xmit:wan0                             no next hop to tap
  wirelens cca -r one.pcap                                            one tap: bytes in flight

One tap is upstream of the queue, the other downstream. Taps are captures with the same clock,
or nearly so, or interfaces, of which received packets are read: -i on the router and --egress
at the next hop, since a router's own egress is tapped upstream of the queue. NETNS:DEV is in
another network namespace. If the next hop cannot be tapped, xmit:DEV reads what the kernel
hands to the driver of the router's own device: nearly every packet; packets that sequence
numbers show to be missing are reported. Queue occupancy is measured from sequence numbers, so
both taps must see the same TCP flows; 80 bytes of each frame are enough. A flow's share is of
the bytes in the queue of all reported flows.

Without --egress there is a single tap, which has to see both directions of a flow. It measures
bytes in flight beyond the tap, sent and not acknowledged; they are no share of a queue.")]
pub struct CcaArguments {
    /// Captures made upstream of the queue.
    #[command(flatten)]
    pub input: InputArguments,
    /// Interface that receives the packets that enter the queue, instead of captures
    #[arg(short = 'i', long = "interface", value_name = "[NETNS:]DEV")]
    #[arg(conflicts_with_all = ["read", "filter", "expression", "count", "snaplen"])]
    #[arg(conflicts_with = "drop_duplicates")]
    pub interface: Option<String>,
    /// Tap downstream of the queue: a capture, with -r, or an interface, with -i; xmit:DEV for what
    /// the router hands to its driver, which misses packets [default: a single tap]
    #[arg(long, value_name = "FILE|DIR|[xmit:][NETNS:]DEV")]
    pub egress: Vec<PathBuf>,
    /// Stop after this time
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "interface")]
    pub duration: Option<Span>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
    /// Identify congestion controls with this model: the shipped ones, `cca` (two taps) or
    /// `cca-onetap` (a single tap), or a folder written by `wirelens train cca`
    #[arg(short = 'm', long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Reporting interval
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_duration)]
    pub every: Span,
    /// Length of the slots into which packets are grouped
    #[arg(long, value_name = "DURATION", default_value = "1ms", value_parser = parse_duration)]
    pub slot: Span,
    /// Flows reported per interval, heaviest first; 0 for all
    #[arg(short = 'n', long = "rows", value_name = "FLOWS", default_value_t = 10)]
    pub rows: usize,
    /// Which bytes count as having passed a tap at the end of a slot
    #[arg(long, value_name = "RULE", default_value = "highest")]
    #[arg(value_parser = choice::<PassedRule>())]
    pub passed: PassedRule,
    /// With two taps: read this share of the packets with data, sampled at random at each tap
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_share)]
    pub sample: f64,
    /// Have the kernel report every packet instead of slots: the same results, for more CPU time
    #[arg(long, requires = "interface")]
    pub each_packet: bool,
    /// Offset added to downstream timestamps, such as -3ms [default: the smallest with which no
    /// packet leaves before it arrived; 0 for standard input]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_offset)]
    #[arg(requires = "egress")]
    pub egress_offset: Option<Span>,
    /// Maximum number of flows tracked at the same time; packets of others are counted [default:
    /// 65536]
    #[arg(long, value_name = "FLOWS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub max_flows: Option<u32>,
    /// Show live flows on an interactive screen instead of one table after the other [default:
    /// auto]
    #[arg(long, value_name = "WHEN", requires = "interface")]
    pub view: Option<ViewWhen>,
    /// Acting on the queue.
    #[command(flatten)]
    pub act: ActArguments,
}

/// When live flows are shown on a screen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum ViewWhen {
    /// If standard input and output are a terminal
    Auto,
    /// On a screen; an error without a terminal
    Always,
    /// One table after the other
    Never,
}

/// What was typed of settings.
pub(super) fn settings(arguments: &CcaArguments) -> CcaSettings {
    CcaSettings {
        // Of `run`, which may listen elsewhere.
        ingress: None,
        egress: arguments.egress.clone(),
        model: arguments.model.clone(),
        every: arguments.every,
        slot: arguments.slot,
        rows: arguments.rows,
        passed: arguments.passed,
        sample: arguments.sample,
        each_packet: arguments.each_packet,
        egress_offset: arguments.egress_offset,
        max_flows: arguments.max_flows,
    }
}
