//! `latency` as people read it.

use std::io::{self, Write as _};

use comfy_table::{CellAlignment, Table};
use session::latency::LatencyRows;

use crate::table;
use crate::top::grouped;

/// What a narrow terminal can do without, the least needed first.
const LEAST: [&str; 9] =
    ["jitter", "server p50", "packets", "dst min", "min", "samples", "src p50", "protocol", "p90"];

/// Prints the first rows, and how many others there are.
pub(super) fn print(found: &LatencyRows) -> io::Result<()> {
    write!(io::stdout().lock(), "{}", lines(found))
}

/// The rows of a table, each with its line end.
fn lines(found: &LatencyRows) -> String {
    let (titles, text_columns) = found.titles();
    let rows = found.cells(grouped);
    let others = found.total().saturating_sub(rows.len() as u64);
    let mut text = aligned(titles, text_columns, rows);
    if others > 0 {
        text.push_str(&format!("… and {others} more (-n 0 shows all)\n"));
    }
    text
}

/// Titles above rows, each with its line end; columns that hold no text are aligned to the right.
pub(crate) fn aligned(titles: &[&str], text_columns: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(titles.iter().copied());
    table.add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if !text_columns.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = table::fitted(&mut table, &LEAST);
    text.push('\n');
    text
}
