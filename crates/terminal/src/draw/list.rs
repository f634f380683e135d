//! The rows of a screen as a table.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};

use super::theme::Theme;
use crate::app::App;
use crate::model::{Row as ModelRow, Sheet};
use crate::screens::{Column, fitting};
use crate::text::{Glyphs, cut, cut_ends, width};
use crate::value::Kind;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    if app.sheet.is_missing {
        return missing(frame, area, app, theme);
    }
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    app.page = room;
    let row_count = app.sheet.rows.len();
    let chosen = app.chosen_mut();
    let last_offset = row_count.saturating_sub(room);
    let lowest = (chosen.selected + 1).saturating_sub(room);
    chosen.offset = chosen.offset.clamp(lowest, chosen.selected.max(lowest)).min(last_offset);
    let (offset, selected) = (chosen.offset, chosen.selected);
    if row_count == 0 {
        let text =
            if chosen.filter.is_empty() { "no rows yet" } else { "no row matches the filter" };
        table(frame, area, &app.sheet, &[], None, Look { order: app.order(), ..app.look(theme) });
        let below =
            Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area };
        frame.render_widget(Paragraph::new(text).style(theme.dimmed()), below);
        return;
    }
    let shown = app.sheet.rows.get(offset..).unwrap_or_default();
    let shown = shown.get(..room.min(shown.len())).unwrap_or_default();
    let look = Look { order: app.order(), ..app.look(theme) };
    table(frame, area, &app.sheet, shown, selected.checked_sub(offset), look);
}

impl App {
    pub(super) const fn look(&self, theme: Theme) -> Look {
        Look { theme, glyphs: self.facts.glyphs, order: None }
    }
}

/// How rows are drawn.
#[derive(Clone, Copy)]
pub(super) struct Look {
    theme: Theme,
    glyphs: Glyphs,
    order: Option<(usize, bool)>,
}

/// Draws some rows of a sheet, with the columns that fit.
pub(super) fn table(
    frame: &mut Frame<'_>,
    area: Rect,
    sheet: &Sheet,
    rows: &[ModelRow],
    selected: Option<usize>,
    look: Look,
) {
    if area.is_empty() || sheet.columns.is_empty() {
        return;
    }
    let columns = fitting(&sheet.columns, area.width);
    let widths = columns.iter().map(|(_, width)| Constraint::Length(*width));
    let header = columns.iter().filter_map(|&(place, width)| {
        let column = *sheet.columns.get(place)?;
        let sign = look.order.filter(|(by, _)| *by == place);
        let sign = sign.map_or("", |(_, is_descending)| look.glyphs.order(is_descending));
        Some(cell(&format!("{}{sign}", column.title), &column, width, look.glyphs))
    });
    let header = Row::new(header).style(look.theme.heading());
    let rows = rows.iter().enumerate().map(|(at, row)| {
        let cells = columns.iter().filter_map(|&(place, width)| {
            let (column, value) = (sheet.columns.get(place)?, row.values.get(place)?);
            let text = value.written(column.kind, usize::from(width), look.glyphs);
            let style = if column.kind == Kind::Chart { look.theme.chart() } else { Style::new() };
            Some(cell(&arrows(&text, look.glyphs), column, width, look.glyphs).style(style))
        });
        let style = match (selected == Some(at), row.is_warning) {
            (true, _) => look.theme.selected(),
            (false, true) => look.theme.warning(),
            (false, false) => look.theme.plain(),
        };
        Row::new(cells).style(style)
    });
    frame.render_widget(Table::new(rows, widths).header(header).column_spacing(1), area);
}

/// Between both ends of a flow an arrow was replaced where the terminal has none.
fn arrows(text: &str, glyphs: Glyphs) -> String {
    if glyphs == Glyphs::Ascii { text.replace(" ? ", " > ") } else { text.to_owned() }
}

fn cell(text: &str, column: &Column, columns: u16, glyphs: Glyphs) -> Cell<'static> {
    let room = usize::from(columns);
    let text =
        if column.is_flexible() { cut_ends(text, room, glyphs) } else { cut(text, room, glyphs) };
    let alignment = if column.kind.is_right() { Alignment::Right } else { Alignment::Left };
    debug_assert!(width(&text) <= usize::from(columns), "a cell is as wide as its column");
    Cell::from(Text::from(Line::from(text).alignment(alignment)))
}

/// What to do to have this screen.
pub(super) fn missing(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let table = app.screen.table();
    let title = app.screen.title();
    let lines = vec![
        Line::from(format!("{title}: this run does not have the application {table}.")),
        Line::from(""),
        Line::from("Add its table to wirelens.toml:"),
        Line::from(""),
        Line::from(format!("    [{table}]")),
    ];
    let text = Paragraph::new(lines).style(theme.dimmed()).wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}
