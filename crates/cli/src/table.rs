//! Tables no wider than the terminal: columns that do not fit are left out and counted, and if the
//! rest does not fit either, each row is a block with a line for each of its cells.

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
    if text.lines().any(|line| line.chars().count() > width) {
        text = broken_at(&stacked(table, &titles, &left_out), width);
    }
    if !left_out.is_empty() {
        let named = format!("… left out: {} (-o FILE has all)", left_out.join(", "));
        let counted = format!("… {} columns left out", left_out.len());
        text.push('\n');
        text.push_str(if named.chars().count() <= width { &named } else { &counted });
    }
    text
}

/// Lines beside a table, which a terminal that is too narrow gets broken at spaces.
pub(crate) fn broken(text: &str) -> String {
    terminal::width().map_or_else(|| text.to_owned(), |width| broken_at(text, width.into()))
}

fn broken_at(text: &str, width: usize) -> String {
    let broken = |line: &str| {
        let (mut done, mut rest) = (String::new(), line.to_owned());
        while rest.chars().count() > width {
            let beyond = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
            // What is before the text stands for its indent.
            let indent = rest.len() - rest.trim_start().len();
            let spaces = || rest.match_indices(' ').map(|(at, _)| at).filter(|at| *at > indent);
            let Some(at) = spaces().take_while(|at| *at <= beyond).last().or(spaces().next())
            else {
                break;
            };
            done.push_str(rest[..at].trim_end());
            done.push('\n');
            rest = format!("  {}", rest[at..].trim_start());
        }
        done + &rest
    };
    text.split('\n').map(broken).collect::<Vec<_>>().join("\n")
}

/// Each row as a block: a line for each cell, after its title.
fn stacked(table: &Table, titles: &[String], left_out: &[&str]) -> String {
    let is_shown = |title: &&String| !left_out.contains(&title.as_str());
    let widths = titles.iter().filter(is_shown).map(|title| title.chars().count());
    let title_width = widths.max().unwrap_or(0);
    let block = |row: &comfy_table::Row| {
        let cells = titles.iter().zip(row.cell_iter().map(comfy_table::Cell::content));
        let shown = cells.filter(|(title, _)| is_shown(title));
        let lines = shown.map(|(title, cell)| format!("{title:title_width$}  {}", cell.trim()));
        lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
    };
    table.row_iter().map(block).collect::<Vec<_>>().join("\n\n")
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
    fn lines_break_at_spaces_and_words_stay_whole() {
        assert_eq!(broken_at("a bc def", 8), "a bc def");
        assert_eq!(broken_at("a bc def", 7), "a bc\n  def");
        assert_eq!(
            broken_at("first         2026-11-21T22:11:36Z", 20),
            "first\n  2026-11-21T22:11:36Z"
        );
        assert_eq!(broken_at("Überlänge ist → lang\nb", 12), "Überlänge\n  ist → lang\nb");
        assert_eq!(broken_at("  unbreakable-word", 5), "  unbreakable-word");
        assert_eq!(broken_at("unbreakable-word and", 5), "unbreakable-word\n  and");
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
        let narrowest = within(&mut table(), &least, 21);
        assert_eq!(
            narrowest.lines().collect::<Vec<_>>(),
            ["source  192.0.2.1:443", "bytes   368,504", "… 2 columns left out"]
        );
    }
}
