//! Verdicts as people read them.

use std::io::Write as _;

use classify::{Cascade, Counts, StageName, Verdict};
use comfy_table::{CellAlignment, Table};
use packet::Timestamp;

use crate::failure::Failure;
use crate::top::{grouped, share};

/// Prints a line a label: most flows first, and of equals the cascade's order.
pub(super) fn print(cascade: &Cascade, counts: &Counts) -> Result<(), Failure> {
    let stages: Vec<_> = cascade.stages().iter().map(classify::Stage::name).collect();
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    // A flow is told of in each window.
    let counted = if cascade.every().is_some() { "windows" } else { "flows" };
    let titles = ["label", counted, "share", "confidence"].into_iter();
    table.set_header(titles.chain(stages.iter().map(|stage| stage.name())));
    let mut labels: Vec<_> = cascade.classes().iter().zip(&counts.labels).collect();
    labels.retain(|(_, label)| label.total() > 0);
    labels.sort_by_key(|(_, label)| std::cmp::Reverse(label.total()));
    for (class, label) in labels {
        let flows = label.total();
        #[allow(clippy::cast_precision_loss)]
        let confidence = label.confidence_sum / flows as f64;
        let mut cells = vec![
            class.clone(),
            grouped(flows),
            format!("{:.1} %", share(flows, counts.decided()) * 100.0),
            format!("{confidence:.3}"),
        ];
        cells.extend(stages.iter().map(|&stage| of(&label.flows, stage)));
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(std::io::stdout(), "{}", table.trim_fmt())?;
    Ok(())
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

/// Prints the titles of lines.
pub(super) fn begin() -> Result<(), Failure> {
    line(&TITLES.map(str::to_owned))
}

/// Prints a verdict of an interface.
pub(super) fn verdict(cascade: &Cascade, verdict: &Verdict) -> Result<(), Failure> {
    let (source, destination) = verdict.key.endpoints(verdict.direction);
    let is_known = verdict.decided != Timestamp::UNKNOWN;
    line(&[
        if is_known { verdict.decided.to_string() } else { "-".to_owned() },
        verdict.key.protocol().to_string(),
        source.to_string(),
        destination.to_string(),
        cascade.class(verdict.label).to_owned(),
        format!("{:.3}", verdict.confidence),
        verdict.stage.to_string(),
        verdict.packets_used.to_string(),
        verdict.cause.name().to_owned(),
    ])
}

fn line(cells: &[String; TITLES.len()]) -> Result<(), Failure> {
    let cells: Vec<_> =
        cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{cell:width$}")).collect();
    writeln!(std::io::stdout(), "{}", cells.join("  ").trim_end())?;
    Ok(())
}
