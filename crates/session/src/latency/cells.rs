//! What is found as people read it: the cells of a table.

use super::flow::{Flow, Side};
use super::line::{LatencyRows, Line};
use super::one_way::Between;

const FLOW_TITLES: &[&str] = &[
    "protocol",
    "source",
    "destination",
    "dst min",
    "p50",
    "p99",
    "src p50",
    "server p50",
    "jitter",
    "packets",
    "resent",
    "slow end",
];
const LINE_TITLES: &[&str] =
    &["destination", "min", "p50", "p90", "p99", "jitter", "samples", "packets", "resent"];
const BETWEEN_TITLES: &[&str] = &[
    "protocol",
    "source",
    "destination",
    "first tap",
    "min",
    "p50",
    "p90",
    "p99",
    "max",
    "jitter",
    "packets",
    "lost",
];

/// How a count is written.
type Counted = fn(u64) -> String;

impl LatencyRows {
    /// The titles of its columns, and which of them hold text.
    #[must_use]
    pub const fn titles(&self) -> (&'static [&'static str], &'static [usize]) {
        match self {
            Self::Flows(..) => (FLOW_TITLES, &[0, 1, 2, 11]),
            Self::Destinations(..) => (LINE_TITLES, &[0]),
            Self::OneWay(..) => (BETWEEN_TITLES, &[0, 1, 2, 3]),
        }
    }

    /// The cells of its rows.
    #[must_use]
    pub fn cells(&self, counted: Counted) -> Vec<Vec<String>> {
        match self {
            Self::Flows(flows, _) => flows.iter().map(|flow| of_flow(flow, counted)).collect(),
            Self::Destinations(lines, _) => {
                lines.iter().map(|line| of_line(line, counted)).collect()
            }
            Self::OneWay(flows, _) => flows.iter().map(|flow| of_between(flow, counted)).collect(),
        }
    }

    /// Rows that there are, shown or not.
    #[must_use]
    pub const fn total(&self) -> u64 {
        match self {
            Self::Flows(_, total) | Self::Destinations(_, total) | Self::OneWay(_, total) => *total,
        }
    }
}

/// A duration with its unit, in three digits.
fn duration(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".to_owned() };
    #[allow(clippy::cast_precision_loss)]
    let (value, unit) = match ns {
        0..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {unit}")
}

fn of_flow(flow: &Flow, counted: Counted) -> Vec<String> {
    let (source, destination) = flow.record.endpoints();
    let Side { rtt_min_ns, rtt_p50_ns, rtt_p99_ns, jitter_ns, .. } = flow.dst;
    vec![
        flow.record.key.protocol().to_string(),
        source.to_string(),
        destination.to_string(),
        duration(rtt_min_ns),
        duration(rtt_p50_ns),
        duration(rtt_p99_ns),
        duration(flow.src.rtt_p50_ns),
        duration(flow.think_p50_ns),
        duration(jitter_ns),
        counted(flow.dst.totals.packets + flow.src.totals.packets),
        counted(flow.retransmissions()),
        flow.slow_end().unwrap_or("-").to_owned(),
    ]
}

fn of_line(line: &Line, counted: Counted) -> Vec<String> {
    let (rtt, destination) = (&line.destination.rtt, &line.destination);
    vec![
        line.address.to_string(),
        duration(rtt.min()),
        duration(rtt.quantile(0.5)),
        duration(rtt.quantile(0.9)),
        duration(rtt.quantile(0.99)),
        duration(rtt.jitter()),
        counted(rtt.count),
        counted(destination.packets),
        counted(destination.retransmissions),
    ]
}

fn of_between(found: &Between, counted: Counted) -> Vec<String> {
    let (source, destination) = found.key.endpoints(found.direction);
    let delays = &found.flow.delays;
    vec![
        found.key.protocol().to_string(),
        source.to_string(),
        destination.to_string(),
        found.first_tap().to_owned(),
        duration(delays.min()),
        duration(delays.quantile(0.5)),
        duration(delays.quantile(0.9)),
        duration(delays.quantile(0.99)),
        duration(delays.max()),
        duration(delays.jitter()),
        counted(found.flow.packets),
        counted(found.flow.lost),
    ]
}
