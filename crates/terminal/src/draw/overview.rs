//! The overview: rates over time, the largest hosts and services.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::symbols::bar::Set;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::list;
use super::theme::Theme;
use crate::app::App;
use crate::model::Sheet;
use crate::text::{Glyphs, width};
use crate::value::{count, rate};

/// Narrower than this, hosts and services have no room beside each other.
const TWO_LISTS_MIN: u16 = 70;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let mut rest = area;
    let mut take = |height: u16| {
        let height = height.min(rest.height);
        let taken = Rect { height, ..rest };
        rest = Rect { y: rest.y + height, height: rest.height - height, ..rest };
        taken
    };
    let overview = &app.overview;
    if overview.has_traffic {
        numbers(frame, take(1), app, theme);
        // A chart is a third of what is left, and of no use as a single line.
        let height = area.height.saturating_sub(1) / 3;
        if height >= 2 {
            chart(frame, take(height), &overview.bytes, app.glyphs(), theme);
            take(1);
        }
    } else {
        let text = "rates over time need the table [traffic] in wirelens.toml";
        frame.render_widget(Paragraph::new(text).style(theme.dimmed()), take(1));
        take(1);
    }
    let left_len = if rest.width >= TWO_LISTS_MIN { rest.width / 2 - 1 } else { rest.width };
    let left = Rect { width: left_len, ..rest };
    ranking(frame, left, &overview.hosts, "top hosts need the table [flows]", app, theme);
    if rest.width >= TWO_LISTS_MIN {
        let right_len = rest.width - left_len - 2;
        let right = Rect { x: rest.x + left_len + 2, width: right_len, ..rest };
        let missing = "top services need the table [classify]";
        ranking(frame, right, &overview.services, missing, app, theme);
    }
}

#[allow(clippy::cast_precision_loss)]
fn numbers(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let overview = &app.overview;
    let last = |values: &[f64]| values.last().copied().unwrap_or(0.0);
    let highest = overview.bytes.iter().copied().fold(0.0, f64::max);
    let dropped = if overview.dropped > 0.0 { theme.warning() } else { theme.plain() };
    let parts = [
        (rate(last(&overview.bytes)), theme.heading()),
        (format!("max {}", rate(highest)), theme.plain()),
        (format!("{} packets/s", count(last(&overview.packets).round())), theme.plain()),
        (format!("{} open flows", count(overview.open_flows as f64)), theme.plain()),
        (format!("{} lost", count(overview.dropped)), dropped),
        (format!("{} new", count(overview.new_flows)), theme.plain()),
        (format!("{} ended", count(overview.ended_flows)), theme.plain()),
    ];
    let mut spans = Vec::new();
    let mut taken = 0;
    for (text, style) in parts {
        taken += width(&text) + 2;
        // Parts that do not fit are left out whole: half a number would be another one.
        if taken > usize::from(area.width) + 2 {
            break;
        }
        spans.extend([Span::styled(text, style), Span::raw("  ")]);
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

/// The newest value is at the right edge.
fn chart(frame: &mut Frame<'_>, area: Rect, values: &[f64], glyphs: Glyphs, theme: Theme) {
    let room = usize::from(area.width);
    let values = values.get(values.len().saturating_sub(room)..).unwrap_or_default();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let data: Vec<u64> = values.iter().map(|&value| value.max(0.0) as u64).collect();
    let missing = u16::try_from(room.saturating_sub(data.len())).unwrap_or(0);
    let area = Rect { x: area.x + missing, width: area.width - missing, ..area };
    let [empty, one_eighth, one_quarter, three_eighths, half, five, three_quarters, seven, full] =
        glyphs.bars();
    let bars = Set {
        full,
        seven_eighths: seven,
        three_quarters,
        five_eighths: five,
        half,
        three_eighths,
        one_quarter,
        one_eighth,
        empty,
    };
    let style: Style = theme.chart();
    frame.render_widget(Sparkline::default().data(&data).bar_set(bars).style(style), area);
}

fn ranking(
    frame: &mut Frame<'_>,
    area: Rect,
    sheet: &Sheet,
    missing: &str,
    app: &App,
    theme: Theme,
) {
    if sheet.is_missing {
        frame.render_widget(Paragraph::new(missing.to_owned()).style(theme.dimmed()), area);
        return;
    }
    let room = usize::from(area.height.saturating_sub(1));
    let rows = sheet.rows.get(..room.min(sheet.rows.len())).unwrap_or_default();
    list::table(frame, area, sheet, rows, None, app.look(theme));
}
