//! Verdicts as people read them.

use std::io::{self, Write as _};

use classify::counts::LabelCounts;
use classify::verdict::UNKNOWN;
use classify::{Cascade, Counts, HostVerdict, Label, StageName, Verdict};
use comfy_table::{CellAlignment, Table};
use packet::{Protocol, Timestamp};
use session::classify::{By, HOST_TITLES, host_cells};
use session::share;

use crate::latency::table::aligned;
use crate::table;
use crate::top::grouped;

/// Prints a line a label.
pub(super) fn print(cascade: &Cascade, counts: &Counts) -> io::Result<()> {
    let stages: Vec<_> = cascade.stages().iter().map(classify::Stage::name).collect();
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // A flow is told of in each window.
    let counted = if cascade.every().is_some() { "windows" } else { "flows" };
    let titles = ["label", counted, "share", "confidence"].into_iter();
    table.set_header(titles.chain(stages.iter().map(|stage| stage.name())));
    for row in rows(cascade, counts) {
        let mut cells = vec![
            row.label,
            grouped(row.flows),
            format!("{:.1} %", share(row.flows, counts.decided()) * 100.0),
            row.confidence,
        ];
        cells.extend(stages.iter().map(|&stage| of(&row.by_stage, stage)));
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(io::stdout(), "{}", table::fitted(&mut table, &["slow", "fast", "fastest", "share"]))
}

/// A label of the table.
struct Row {
    label: String,
    flows: u64,
    confidence: String,
    by_stage: [u64; StageName::ALL.len()],
}

/// Classes and protocols, most flows first and of equals the cascade's order; then what is unknown.
fn rows(cascade: &Cascade, counts: &Counts) -> Vec<Row> {
    let of_class = |(class, label): (&String, &LabelCounts)| {
        let flows = label.total();
        #[allow(clippy::cast_precision_loss)]
        let confidence = format!("{:.3}", label.confidence_sum / flows as f64);
        Row { label: class.clone(), flows, confidence, by_stage: label.flows }
    };
    let of_protocol = |(&protocol, &flows): (&Protocol, &u64)| Row {
        label: Label::Protocol(protocol).name(cascade).into_owned(),
        flows,
        confidence: String::from("1.000"),
        by_stage: Default::default(),
    };
    let classes = cascade.classes().iter().zip(&counts.labels).map(of_class);
    let mut rows: Vec<_> = classes.chain(counts.protocols.iter().map(of_protocol)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.flows));
    let unknown = Row {
        label: String::from(UNKNOWN),
        flows: counts.unknown.total(),
        confidence: String::from("-"),
        by_stage: counts.unknown.flows,
    };
    rows.push(unknown);
    rows.retain(|row| row.flows > 0);
    rows
}

/// How likely a label is right; nothing of none.
fn confidence(verdict: &Verdict) -> String {
    if verdict.label.is_unknown() {
        String::from("-")
    } else {
        format!("{:.3}", verdict.confidence)
    }
}

fn of(flows: &[u64; StageName::ALL.len()], stage: StageName) -> String {
    grouped(flows.get(stage as usize).copied().unwrap_or(0))
}

const TITLES: [&str; 9] = [
    "decided",
    "protocol",
    "source",
    "destination",
    "label",
    "confidence",
    "stage",
    "packets",
    "cause",
];

/// Widths of the columns of lines: what IPv4 takes, since lines are not known in advance.
const WIDTHS: [usize; 9] = [30, 9, 21, 21, 16, 10, 7, 7, 10];

/// The same of hosts.
const HOST_WIDTHS: [usize; HOST_TITLES.len()] = [15, 16, 10, 8, 30, 30];

/// Hosts that a table shows.
const HOSTS_SHOWN: usize = 50;

/// Prints the first hosts, a line each, and how many others there are.
pub(super) fn print_hosts(cascade: &Cascade, hosts: &[HostVerdict]) -> io::Result<()> {
    let shown = hosts.iter().take(HOSTS_SHOWN);
    let rows = shown.map(|host| host_cells(cascade, host, grouped).into()).collect();
    write!(io::stdout(), "{}", aligned(&HOST_TITLES, &[0, 1, 4, 5], rows))?;
    match hosts.len().saturating_sub(HOSTS_SHOWN) {
        0 => Ok(()),
        others => writeln!(io::stdout(), "… and {others} more (--format csv shows all)"),
    }
}

/// Prints the titles of lines.
pub(super) fn begin(by: By) -> io::Result<()> {
    match by {
        By::Flow => line(&TITLES.map(str::to_owned), &WIDTHS),
        By::Host => line(&HOST_TITLES.map(str::to_owned), &HOST_WIDTHS),
    }
}

/// Prints a host of an interface.
pub(super) fn host(cascade: &Cascade, verdict: &HostVerdict) -> io::Result<()> {
    line(&host_cells(cascade, verdict, grouped), &HOST_WIDTHS)
}

/// Prints a verdict of an interface.
pub(super) fn verdict(cascade: &Cascade, verdict: &Verdict) -> io::Result<()> {
    let (source, destination) = verdict.key.endpoints(verdict.direction);
    let is_known = verdict.decided != Timestamp::UNKNOWN;
    let cells = [
        if is_known { verdict.decided.to_string() } else { "-".to_owned() },
        verdict.key.protocol().to_string(),
        source.to_string(),
        destination.to_string(),
        verdict.label.name(cascade).into_owned(),
        confidence(verdict),
        verdict.stage_name().to_owned(),
        verdict.packets_used.to_string(),
        verdict.cause.name().to_owned(),
    ];
    line(&cells, &WIDTHS)
}

fn line(cells: &[String], widths: &[usize]) -> io::Result<()> {
    let cells: Vec<_> =
        cells.iter().zip(widths).map(|(cell, &width)| format!("{cell:width$}")).collect();
    writeln!(io::stdout(), "{}", cells.join("  ").trim_end())
}
