//! Tables no wider than the terminal: what does not fit is left out and named, never wrapped.

use comfy_table::{ColumnConstraint, Table};

/// The table as lines without a last line end. On a terminal that is too narrow the columns with
/// these titles are left out one after the other until the rest fits; a file or pipe gets them all.
pub(crate) fn fitted(table: &mut Table, least: &[&str]) -> String {
    match terminal::width() {
        Some(width) => within(table, least, width.into()),
        None => table.trim_fmt(),
    }
}

fn within(table: &mut Table, least: &[&str], width: usize) -> String {
    let titles: Vec<String> = table
        .header()
        .map(|header| header.cell_iter().map(comfy_table::Cell::content).collect())
        .unwrap_or_default();
    let mut left_out = Vec::new();
    let mut candidates = least.iter();
    let mut text = table.trim_fmt();
    while text.lines().any(|line| line.chars().count() > width) {
        let Some(title) = candidates.next() else { break };
        let place = titles.iter().position(|known| known == title);
        let Some(column) = place.and_then(|place| table.column_mut(place)) else { continue };
        column.set_constraint(ColumnConstraint::Hidden);
        left_out.push(*title);
        text = table.trim_fmt();
    }
    if !left_out.is_empty() {
        let named = format!("… left out: {} (-o FILE has all)", left_out.join(", "));
        let counted = format!("… {} columns left out", left_out.len());
        text.push('\n');
        text.push_str(if named.chars().count() <= width { &named } else { &counted });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(["source", "first", "bytes", "end"]);
        table.add_row(["192.0.2.1:443", "2026-11-21T22:11:54Z", "368,504", "fin"]);
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        table
    }

    #[test]
    fn columns_are_left_out_until_the_rest_fits() {
        let whole = table().trim_fmt();
        let least = ["end", "nothing", "first"];
        assert_eq!(within(&mut table(), &least, 80), whole);
        let narrow = within(&mut table(), &least, 46);
        assert_eq!(
            narrow.lines().collect::<Vec<_>>(),
            [
                "source         first                 bytes",
                "192.0.2.1:443  2026-11-21T22:11:54Z  368,504",
                "… left out: end (-o FILE has all)"
            ]
        );
        let narrower = within(&mut table(), &least, 30);
        assert!(narrower.starts_with("source         bytes\n192.0.2.1:443  368,504\n"));
        assert!(narrower.ends_with("\n… 2 columns left out"));
        // Nothing more can be left out.
        assert_eq!(within(&mut table(), &least, 3), narrower);
    }
}
