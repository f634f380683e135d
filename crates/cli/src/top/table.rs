//! `top` as people read it.

use std::io::{self, Write as _};

use comfy_table::{CellAlignment, Table};
use session::share;
use session::top::Ranking;

use crate::table;

/// Prints the rows of one window, or of the whole run, with their shares of all packets that have
/// a key.
pub(super) fn print(shown: &Ranking) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if let Some(start) = shown.window_start {
        writeln!(out, "{}", table::broken(&format!("window from {start}")))?;
    }
    write!(out, "{}", lines(shown))?;
    if shown.window_start.is_some() {
        writeln!(out)?;
    }
    Ok(())
}

/// The rows of a table, each with its line end.
fn lines(shown: &Ranking) -> String {
    let Ranking { titles, rows, total, key_count, .. } = shown;
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let measures = ["packets", "bytes", "share"];
    table.set_header(titles.iter().copied().chain(measures));
    for (cells, tally) in rows {
        let measures = [
            grouped(tally.packets),
            grouped(tally.bytes),
            format!("{:.1} %", share(tally.bytes, total.bytes) * 100.0),
        ];
        table.add_row(cells.iter().cloned().chain(measures));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in table.column_iter_mut().skip(titles.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = table::fitted(&mut table, &["share", "packets"]);
    text.push('\n');
    let others = key_count.saturating_sub(rows.len());
    if others > 0 {
        text.push_str(&format!("… and {others} more (-n 0 shows all)\n"));
    }
    text
}

/// A number in groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
