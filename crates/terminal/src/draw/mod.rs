//! From state to cells.

mod list;
mod over;
mod overview;
mod theme;

use packet::Timestamp;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use crate::app::{App, Mode};
use crate::screens::Screen;
use crate::text::{cut, plain, width};
use crate::value::count;
use theme::Theme;

/// Keys of the last line, the most needed first.
const KEYS: &str = "q Quit  ? Help  Tab Screen  s/S Sort  / Filter  Enter Details  p Pause";

/// Draws everything. Of small terminals the list keeps most lines.
pub(crate) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let area = frame.area();
    frame.render_widget(Clear, area);
    let theme = Theme::new(app.facts.has_colour);
    let mut lines = Lines(area);
    if area.height >= 8 {
        head(frame, lines.first(), app, theme);
    }
    if area.height >= 4 {
        tabs(frame, lines.first(), app, theme);
    }
    if area.height >= 10 {
        keys(frame, lines.last(), app, theme);
    }
    let status_line = if area.height >= 3 { lines.last() } else { Rect::ZERO };
    let body = lines.0;
    match &app.mode {
        Mode::Help(_) | Mode::Details(..) => over::draw(frame, body, app, theme),
        Mode::Screen | Mode::Filter(..) if app.screen == Screen::Overview => {
            overview::draw(frame, body, app, theme);
        }
        Mode::Screen | Mode::Filter(..) => list::draw(frame, body, app, theme),
    }
    // After the body: which rows are seen is known then.
    status(frame, status_line, app, theme);
}

/// Lines that are not yet taken.
struct Lines(Rect);

impl Lines {
    const fn first(&mut self) -> Rect {
        let Rect { x, y, width, height } = self.0;
        let taken = if height > 0 { 1 } else { 0 };
        self.0 = Rect { x, y: y + taken, width, height: height - taken };
        Rect { x, y, width, height: taken }
    }

    const fn last(&mut self) -> Rect {
        let Rect { x, y, width, height } = self.0;
        let taken = if height > 0 { 1 } else { 0 };
        self.0.height = height - taken;
        Rect { x, y: y + height - taken, width, height: taken }
    }
}

/// Puts text of any length into a line: the left part is cut for the right one.
fn line(frame: &mut Frame<'_>, area: Rect, app: &App, left: Span<'_>, right: Vec<Span<'_>>) {
    let room = usize::from(area.width);
    let taken: usize = right.iter().map(|span| width(&span.content)).sum();
    let (taken, right) = if taken + 8 > room { (0, Vec::new()) } else { (taken, right) };
    let text = cut(&left.content, room.saturating_sub(taken + 1), app.glyphs());
    let gap = room.saturating_sub(width(&text) + taken);
    let mut spans = vec![Span::styled(text, left.style), Span::raw(" ".repeat(gap))];
    spans.extend(right);
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

#[allow(clippy::cast_precision_loss)]
fn head(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let facts = &app.facts;
    let (received, dropped) = (facts.packets)();
    let inputs = (facts.inputs)().join(", ");
    let title = plain(&format!("{} {inputs}", facts.title), facts.glyphs);
    let store = app.model.store();
    let time = store.time_ns().map(|ns| Timestamp::from_ns(ns).to_string());
    // The time of day of an ISO time stamp.
    let time = time.and_then(|text| text.get(11..19).map(|time| format!("{time}Z")));
    let style = if dropped > 0 { theme.warning() } else { theme.plain() };
    let mut right = Vec::new();
    if app.is_paused {
        right.push(Span::styled("paused  ", theme.warning()));
    }
    if store.is_over() {
        right.push(Span::styled("input ended  ", theme.heading()));
    }
    right.push(Span::raw(format!("{} packets  ", count(received as f64))));
    right.push(Span::styled(format!("{} dropped", count(dropped as f64)), style));
    right.extend(time.map(|time| Span::raw(format!("  {time}"))));
    line(frame, area, app, Span::styled(title, theme.heading()), right);
}

fn tabs(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let titles = |is_long: bool, gap: &'static str| -> Vec<Span<'_>> {
        let mut spans = Vec::new();
        for (screen, number) in Screen::ALL.into_iter().zip(1..) {
            let is_here = screen == app.screen;
            let style = match (is_here, app.model.has(screen)) {
                (true, _) => theme.selected(),
                (false, true) => theme.plain(),
                (false, false) => theme.dimmed(),
            };
            let text = if is_long || is_here {
                format!("{number} {}", screen.title())
            } else {
                format!("{number}")
            };
            spans.push(Span::styled(text, style));
            spans.push(Span::raw(gap));
        }
        spans.pop();
        spans
    };
    let forms = [titles(true, "  "), titles(true, " "), titles(false, " ")];
    let fits = |spans: &Vec<Span<'_>>| {
        spans.iter().map(|span| width(&span.content)).sum::<usize>() <= usize::from(area.width)
    };
    let spans = forms.into_iter().find(fits).unwrap_or_else(|| titles(false, ""));
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn status(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let glyphs = app.glyphs();
    if let Mode::Filter(text, problem) = &app.mode {
        let is_alone = frame.area().height < 10;
        if let Some(problem) = problem.as_ref().filter(|_| is_alone) {
            let text = Span::styled(plain(problem, glyphs), theme.warning());
            return line(frame, area, app, text, Vec::new());
        }
        return prompt(frame, area, &plain(text, glyphs), theme);
    }
    let chosen = app.chosen();
    let mut left = match &app.mode {
        Mode::Help(_) => String::from("Esc: back"),
        Mode::Details(..) => String::from("Details; Esc: back"),
        _ if app.screen == Screen::Overview => String::new(),
        _ => rows(app),
    };
    if !chosen.filter.is_empty() && matches!(app.mode, Mode::Screen) {
        left.push_str(&format!("  filter: {}", plain(&chosen.filter, glyphs)));
    }
    if !app.sheet.note.is_empty() {
        left.push_str(&format!("  {}", plain(&app.sheet.note, glyphs)));
    }
    let order = app.order().filter(|_| matches!(app.mode, Mode::Screen));
    let column = order.and_then(|(place, _)| app.sheet.columns.get(place));
    let right = column.zip(order).map(|(column, (_, is_descending))| {
        Span::raw(format!("by {} {}", column.title, glyphs.order(is_descending)))
    });
    line(frame, area, app, Span::raw(left), right.into_iter().collect());
}

/// Which rows are seen, and of how many.
#[allow(clippy::cast_precision_loss)]
fn rows(app: &App) -> String {
    let number = |number: usize| count(number as f64);
    let (len, matched) = (app.sheet.rows.len(), app.sheet.matched);
    if len == 0 {
        return String::new();
    }
    let here = number(app.chosen().selected + 1);
    let tables = app.model.tables(app.screen).len();
    let table = if app.screen.is_of_table() && tables > 1 {
        format!("  table {} (t: next)", plain(&app.sheet.table, app.glyphs()))
    } else {
        String::new()
    };
    if matched > len {
        format!("{here} of the first {}, of {}{table}", number(len), number(matched))
    } else {
        format!("{here} of {}{table}", number(len))
    }
}

/// A filter that is typed: its end, where it is too long.
fn prompt(frame: &mut Frame<'_>, area: Rect, text: &str, theme: Theme) {
    let mut shown = text;
    while width(shown) + 10 > usize::from(area.width) && !shown.is_empty() {
        let mut rest = shown.chars();
        rest.next();
        shown = rest.as_str();
    }
    let spans = vec![
        Span::styled("Filter: ", theme.heading()),
        Span::raw(shown.to_owned()),
        Span::styled(" ", theme.selected()),
    ];
    frame.render_widget(Paragraph::new(Line::from(spans)), area);
}

fn keys(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let message = app.message().filter(|_| !matches!(app.mode, Mode::Filter(..)));
    if let Some(message) = message {
        let text = Span::styled(plain(&message, app.glyphs()), theme.warning());
        return line(frame, area, app, text, Vec::new());
    }
    let (text, style) = match &app.mode {
        Mode::Filter(_, Some(problem)) => (plain(problem, app.glyphs()), theme.warning()),
        Mode::Filter(_, None) => {
            let hint = "Enter: apply  Esc: cancel  e.g. dst_port == 443 and ip == 10.0.0.0/8";
            (hint.to_owned(), theme.dimmed())
        }
        _ => (KEYS.to_owned(), theme.dimmed()),
    };
    line(frame, area, app, Span::styled(text, style), Vec::new());
}
