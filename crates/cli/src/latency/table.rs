//! `latency` as people read it.

use std::io::{self, Write as _};

use comfy_table::{CellAlignment, Table};
use session::latency::{Between, Flow, Found, Line, Side};

use crate::top::grouped;

const FLOW_TITLES: [&str; 12] = [
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
const LINE_TITLES: [&str; 9] =
    ["destination", "min", "p50", "p90", "p99", "jitter", "samples", "packets", "resent"];

const BETWEEN_TITLES: [&str; 12] = [
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

/// Prints the first rows, and how many others there are.
pub(super) fn print(found: &Found) -> io::Result<()> {
    let mut out = io::stdout().lock();
    write!(out, "{}", lines(found))
}

/// What stands above a view.
pub(super) fn head(found: &Found) -> String {
    match found {
        Found::Flows(_, total) => {
            format!("{} flows with packets in the last second", grouped(*total))
        }
        Found::Destinations(lines, total) => {
            let start = lines.first().and_then(|line| line.start).unwrap_or_default();
            format!("{start}: {} destinations", grouped(*total))
        }
        Found::OneWay(..) => String::new(),
    }
}

/// The rows of a table, each with its line end.
pub(super) fn lines(found: &Found) -> String {
    match found {
        Found::Flows(flows, total) => {
            let text_columns = [0, 1, 2, 11];
            aligned(&FLOW_TITLES, flows.iter().map(flow_cells), &text_columns, *total)
        }
        Found::OneWay(flows, total) => {
            aligned(&BETWEEN_TITLES, flows.iter().map(between_cells), &[0, 1, 2, 3], *total)
        }
        Found::Destinations(lines, total) => {
            aligned(&LINE_TITLES, lines.iter().map(line_cells), &[0], *total)
        }
    }
}

fn aligned<const N: usize>(
    titles: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
    text_columns: &[usize],
    total: u64,
) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(titles.iter().copied());
    let mut row_count = 0;
    for row in rows {
        table.add_row(row);
        row_count += 1;
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if !text_columns.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    let others = total.saturating_sub(row_count);
    if others > 0 {
        text.push_str(&format!("… and {others} more (-n 0 shows all)\n"));
    }
    text
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

fn flow_cells(flow: &Flow) -> [String; FLOW_TITLES.len()] {
    let (source, destination) = flow.record.endpoints();
    let Side { rtt_min_ns, rtt_p50_ns, rtt_p99_ns, jitter_ns, .. } = flow.dst;
    [
        flow.record.key.protocol().to_string(),
        source.to_string(),
        destination.to_string(),
        duration(rtt_min_ns),
        duration(rtt_p50_ns),
        duration(rtt_p99_ns),
        duration(flow.src.rtt_p50_ns),
        duration(flow.think_p50_ns),
        duration(jitter_ns),
        grouped(flow.dst.totals.packets + flow.src.totals.packets),
        grouped(flow.retransmissions()),
        flow.slow_end().unwrap_or("-").to_owned(),
    ]
}

fn line_cells(line: &Line) -> [String; LINE_TITLES.len()] {
    let (rtt, destination) = (&line.destination.rtt, &line.destination);
    [
        line.address.to_string(),
        duration(rtt.min()),
        duration(rtt.quantile(0.5)),
        duration(rtt.quantile(0.9)),
        duration(rtt.quantile(0.99)),
        duration(rtt.jitter()),
        grouped(rtt.count),
        grouped(destination.packets),
        grouped(destination.retransmissions),
    ]
}

fn between_cells(found: &Between) -> [String; BETWEEN_TITLES.len()] {
    let (source, destination) = found.key.endpoints(found.direction);
    let delays = &found.flow.delays;
    [
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
        grouped(found.flow.packets),
        grouped(found.flow.lost),
    ]
}
