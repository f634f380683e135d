//! Flows at one tap as people read them.

use std::io::Write as _;

use cca::flight::FlightPeriod;
use comfy_table::{CellAlignment, Table};
use packet::SlotClock;

use super::rows::Told;
use crate::cca::table::control;
use crate::failure::Failure;
use crate::top::grouped;

/// Prints a period.
pub(super) fn print(told: &Told, clock: SlotClock, controls: &[String]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "from {}, one tap", clock.start(told.period.start))?;
    writeln!(out, "{}\n", lines(told, clock, controls))?;
    Ok(())
}

fn lines(told: &Told, clock: SlotClock, controls: &[String]) -> String {
    #[allow(clippy::cast_precision_loss)]
    let seconds = clock.length().as_seconds_f64() * told.period.len as f64;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let mut titles = vec!["flow", "Mbit/s", "RTT ms", "resent", "flight bytes", "highest"];
    if !controls.is_empty() {
        titles.push("control");
    }
    table.set_header(titles);
    for (flow, named) in told.flows.iter().zip(&told.named) {
        let mut cells = cells(flow, seconds);
        if !controls.is_empty() {
            cells.push(named.map(|named| control(&named, controls)).unwrap_or_default());
        }
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table.trim_fmt();
    if told.other_count > 0 {
        text.push_str(&format!("\n… and {} more (-n 0 shows all)", told.other_count));
    }
    text
}

fn cells(flow: &FlightPeriod, seconds: f64) -> Vec<String> {
    let (source, destination) = flow.way.key.endpoints(flow.way.direction);
    #[allow(clippy::cast_precision_loss)]
    let rate = flow.sent_bytes as f64 * 8e-6 / seconds;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let [mean, highest] = match flow.flight {
        Ok(flight) => [grouped(flight.mean_bytes.round() as u64), grouped(flight.max_bytes.into())],
        Err(missing) => [format!("no {}", missing.name()), String::new()],
    };
    vec![
        format!("{source} → {destination}"),
        format!("{rate:.2}"),
        flow.rtt_s.map(|rtt| format!("{:.1}", rtt * 1e3)).unwrap_or_default(),
        flow.resent.to_string(),
        mean,
        highest,
    ]
}
