//! Details of a row, and the keys.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::theme::Theme;
use crate::app::{App, Mode};
use crate::model::Detail;
use crate::text::{cut, width};

/// Columns of the names of fields.
const NAME_LEN: usize = 22;

const HELP: &[(&str, &str)] = &[
    ("1 to 9, Tab", "screens; dimmed ones need a table in wirelens.toml"),
    ("Up Down, j k", "move by one row"),
    ("PgUp PgDn", "move by one page"),
    ("Home End, g G", "first or last row; in the first row, the list stays at its top"),
    ("s", "sort by the next column"),
    ("S", "reverse the order"),
    ("/", "filter the rows of this screen; empty: all rows"),
    ("Enter", "details: all rows of this flow, host or service in all tables"),
    ("Esc", "back; on a screen: clear the filter"),
    ("t", "next table, where the screen has several"),
    ("p, Space", "pause or continue"),
    ("Ctrl-L", "draw everything again"),
    ("?", "this help"),
    ("q, Ctrl-C", "quit"),
    ("", ""),
    ("Filters", "by column, as in Wireshark; details show their names"),
    ("", "dst_port == 443 and bytes > 1M"),
    ("", "ip == 10.0.0.0/8 or not protocol == \"tcp\""),
    ("", "src_port in {53, 853}"),
    ("", "server_name contains example"),
    ("", "example, in any column of text"),
    ("", ""),
    ("Rate", "growth since the previous redraw, in packet time"),
    ("CBIQ", "bytes that the flow has in the bottleneck queue"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &mut App, theme: Theme) {
    let columns = usize::from(area.width);
    let lines: Vec<Line<'static>> = if matches!(app.mode, Mode::Help(_)) {
        HELP.iter().flat_map(|(key, text)| field(key, text, columns, 16, app, theme)).collect()
    } else {
        app.details.iter().flat_map(|detail| detail_lines(detail, columns, app, theme)).collect()
    };
    let room = usize::from(area.height).max(1);
    app.page = room;
    let (Mode::Help(first) | Mode::Details(_, first)) = &mut app.mode else { return };
    *first = (*first).min(lines.len().saturating_sub(room));
    let shown: Vec<_> = lines.into_iter().skip(*first).take(room).collect();
    frame.render_widget(Paragraph::new(shown), area);
}

fn detail_lines(detail: &Detail, columns: usize, app: &App, theme: Theme) -> Vec<Line<'static>> {
    match detail {
        Detail::Heading(text) => {
            let text = cut(text, columns, app.glyphs());
            vec![Line::from(Span::styled(text, theme.heading()))]
        }
        Detail::Field(name, value) => field(name, value, columns, NAME_LEN, app, theme),
        Detail::Gap => vec![Line::from("")],
    }
}

/// A name and a value, which goes on in further lines.
fn field(
    name: &str,
    value: &str,
    columns: usize,
    name_len: usize,
    app: &App,
    theme: Theme,
) -> Vec<Line<'static>> {
    let name_len = name_len.min(columns / 2);
    let room = columns.saturating_sub(name_len + 1).max(2);
    let name = cut(name, name_len, app.glyphs());
    let mut parts = vec![String::new()];
    for c in value.chars() {
        let is_full = parts.last().is_some_and(|part| width(part) + 2 > room);
        let fits = |part: &String| width(&format!("{part}{c}")) <= room;
        if is_full && !parts.last().is_some_and(fits) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let line = |(at, part): (usize, String)| {
        let name = if at == 0 { name.as_str() } else { "" };
        let gap = " ".repeat((name_len + 1).saturating_sub(width(name)));
        Line::from(vec![Span::styled(format!("{name}{gap}"), theme.dimmed()), Span::raw(part)])
    };
    parts.into_iter().enumerate().map(line).collect()
}
