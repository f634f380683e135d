//! What can be typed after `wirelens latency`.

use std::path::PathBuf;

use clap::Args;
use packet::Span;
use session::duration::{parse_duration, parse_offset};
use session::latency::{By, LatencySettings, SortBy};

use crate::args::{InputArguments, LiveArguments, OutputArguments, choice, parse_key_count};

/// Arguments of `wirelens latency`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  wirelens latency -r capture.pcap                          RTT of the ten busiest flows
  wirelens latency -r capture.pcap --sort p99 -n 20         the slowest flows
  wirelens latency -r capture.pcap --by destination         RTT of each address that answers
  wirelens latency -r capture.pcap --by packet -o packets.parquet
  wirelens latency -r before.pcap --egress after.pcap       one-way delay from tap to tap
  wirelens latency -i eth0                                  live screen of open flows, until q

RTT is measured from the capture point to an end and back: dst is the path to the destination,
src the path to the source, server the time from request to response. TCP data is matched to
its ACK, SACK and timestamps, a DNS query to its response, QUIC by its spin bit. Latencies of
retransmitted packets are left out unless timestamps say which copy was acknowledged; delayed
ACKs are marked. docs/guide/latency.md defines every column.")]
pub struct LatencyArguments {
    /// Which frames to read.
    #[command(flatten)]
    pub input: InputArguments,
    /// Or listening on an interface.
    #[command(flatten)]
    pub live: LiveArguments,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArguments,
    /// Capture of a second tap: measure the one-way delay of each packet that both saw
    #[arg(long, value_name = "FILE|DIR|-", conflicts_with = "interface")]
    pub egress: Vec<PathBuf>,
    /// Offset added to timestamps of the second tap, such as -3ms; 0ms for taps of one clock
    /// [default: estimated from the smallest delays]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_offset)]
    #[arg(requires = "egress")]
    pub egress_offset: Option<Span>,
    /// What each row describes
    #[arg(long, value_name = "KEY", default_value = "flow")]
    #[arg(value_parser = choice::<By>())]
    pub by: By,
    /// Report destinations for each period of this length, such as 10s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub every: Option<Span>,
    /// Rows to show in a table; 0 shows all [default: 10]
    #[arg(short = 'n', long = "rows", value_name = "ROWS")]
    pub rows: Option<usize>,
    /// Sort rows of a table by this measure [default: packets]
    #[arg(long, value_name = "MEASURE", value_parser = choice::<SortBy>())]
    pub sort: Option<SortBy>,
    /// Shortest delayed-ACK timer: an ACK of a single packet that is later than the least RTT by
    /// this much is marked, and is no RTT sample
    /// [default: 35ms]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub delayed_ack: Option<Span>,
    /// A sharp change is at least this much from one latency to the next
    #[arg(long, value_name = "DURATION", default_value = "20ms", value_parser = parse_duration)]
    pub sharp_change: Span,
    /// And at least this share of the latency before
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    pub sharp_share: f64,
    /// Maximum number of flows measured at the same time; packets of others are counted
    #[arg(long, value_name = "FLOWS", default_value_t = 262_144)]
    #[arg(value_parser = parse_key_count)]
    pub max_flows: usize,
    /// Maximum number of packets that wait for an ACK, over all flows; others have no latency
    #[arg(long, value_name = "PACKETS", default_value_t = 1_048_576)]
    #[arg(value_parser = parse_key_count)]
    pub max_waiting: usize,
}

/// What was typed of settings.
pub(super) fn settings(arguments: &LatencyArguments) -> LatencySettings {
    let LatencyArguments {
        by,
        every,
        delayed_ack,
        sharp_change,
        sharp_share,
        max_flows,
        max_waiting,
        egress_offset,
        ..
    } = *arguments;
    LatencySettings {
        by,
        every,
        delayed_ack,
        sharp_change,
        sharp_share,
        max_flows,
        max_waiting,
        egress: arguments.egress.clone(),
        egress_offset,
    }
}
