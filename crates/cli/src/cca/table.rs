//! Flows in a queue as people read them.

use std::io::Write as _;

use cca::model::Told as Named;
use comfy_table::{CellAlignment, Table};
use packet::SlotClock;

use super::rows::{Told, name};
use crate::failure::Failure;
use crate::top::grouped;

/// A bar that stands for the whole queue.
const BAR_LEN: usize = 20;

/// Prints a period.
pub(super) fn print(told: &Told, clock: SlotClock, controls: &[String]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let start = clock.start(told.period.start);
    writeln!(out, "from {start}, {:.0} bytes in the queue", told.cbiq_sum)?;
    writeln!(out, "{}", lines(told, clock, controls))?;
    if !controls.is_empty() {
        let shares = told.shares(controls);
        let shares =
            shares.iter().map(|(control, share)| format!("{control} {:.1} %", share * 100.0));
        writeln!(out, "the queue by control: {}", shares.collect::<Vec<_>>().join(", "))?;
    }
    writeln!(out)?;
    Ok(())
}

fn lines(told: &Told, clock: SlotClock, controls: &[String]) -> String {
    #[allow(clippy::cast_precision_loss)]
    let seconds = clock.length().as_seconds_f64() * told.period.len as f64;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let mut titles = vec!["flow", "Mbit/s", "delay ms", "drops", "CBIQ bytes", "share", ""];
    if !controls.is_empty() {
        titles.push("control");
    }
    table.set_header(titles);
    for (flow, named) in told.flows.iter().zip(&told.named) {
        #[allow(clippy::cast_precision_loss)]
        let rate = flow.ingress_bytes as f64 * 8e-6 / seconds;
        let delay = flow.delay_max.map(|delay| format!("{:.1}", delay.as_seconds_f64() * 1e3));
        let share = told.share(flow);
        let [drops, cbiq] = match flow.queue {
            Ok(queue) => [format!("{:.0}", queue.drops), grouped(queue.cbiq_mean.round() as u64)],
            Err(missing) => [String::new(), format!("no {}", missing.name())],
        };
        let mut cells = vec![
            name(flow),
            format!("{rate:.2}"),
            delay.unwrap_or_default(),
            drops,
            cbiq,
            share.map(|share| format!("{:.1} %", share * 100.0)).unwrap_or_default(),
            bar(share.unwrap_or_default(), BAR_LEN),
        ];
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

/// A control and how probable it is; what is not probable enough has a question mark.
pub(super) fn control(named: &Named, controls: &[String]) -> String {
    let name = named.control.and_then(|control| controls.get(control));
    format!("{} {:.2}", name.map_or("?", String::as_str), named.confidence)
}

/// A bar, `whole` long of the whole queue.
pub(super) fn bar(share: f64, whole: usize) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    let len = (share.clamp(0.0, 1.0) * whole as f64).round() as usize;
    "▇".repeat(len)
}
