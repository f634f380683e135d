//! What the keys change: the screen, its order and filter, the row that is selected.

use std::sync::Arc;
use std::time::Instant;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use store::Store;

use crate::first::First;
use crate::model::{Detail, Model, Overview, Question, Sheet, Subject, details, usual_order};
use crate::screens::{Column, Screen};
use crate::text::Glyphs;
use crate::view::Facts;

/// Characters of a filter that can be typed.
const FILTER_LEN_MAX: usize = 400;

/// What of each screen stays when another is looked at.
#[derive(Clone, Default)]
pub(crate) struct ScreenState {
    pub(crate) sort: Option<(usize, bool)>,
    pub(crate) filter: String,
    pub(crate) table: usize,
    pub(crate) selected: usize,
    /// The row that is selected, wherever it moves; none where the first is wanted, whichever.
    selected_id: Option<String>,
    /// The first row that is drawn.
    pub(crate) offset: usize,
}

/// What is on top of the screen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Nothing.
    Screen,
    /// A filter that is typed, and what is wrong with it.
    Filter(String, Option<String>),
    /// Details of a row, from a line on.
    Details(Subject, usize),
    /// The keys, from a line on.
    Help(usize),
}

/// What is to be done after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    Nothing,
    /// Draw what there is.
    Draw,
    /// Ask for the rows again, and draw.
    Refresh,
    Quit,
}

/// The view's state.
pub(crate) struct App {
    pub(crate) model: Model,
    pub(crate) facts: Facts,
    pub(crate) screen: Screen,
    pub(crate) mode: Mode,
    pub(crate) is_paused: bool,
    pub(crate) sheet: Sheet,
    pub(crate) overview: Overview,
    pub(crate) details: Vec<Detail>,
    /// Rows that a page has, as they were drawn.
    pub(crate) page: usize,
    /// Messages that were there when a key was pressed last.
    messages_seen: u64,
    /// The screen that came first, until its order was taken up, and what is shown of it.
    first: Option<(Screen, First)>,
    chosen: [ScreenState; 9],
}

impl App {
    pub(crate) fn new(store: Arc<Store>, facts: Facts) -> Self {
        let first = facts.first;
        let model = Model::new(store, first);
        let wanted = first.and_then(|first| model.screen_of(first.table));
        // A run without an overview begins with what it has.
        let usual = || Screen::ALL.into_iter().find(|&screen| model.has(screen));
        let screen = wanted.or_else(usual).unwrap_or(Screen::Overview);
        Self {
            model,
            screen,
            first: first.filter(|_| wanted.is_some()).map(|first| (screen, first)),
            facts,
            mode: Mode::Screen,
            is_paused: false,
            sheet: Sheet::default(),
            overview: Overview::default(),
            details: Vec::new(),
            page: 10,
            messages_seen: 0,
            chosen: Default::default(),
        }
    }

    pub(crate) const fn glyphs(&self) -> Glyphs {
        self.facts.glyphs
    }

    pub(crate) fn chosen(&self) -> &ScreenState {
        &self.chosen[self.screen.index()]
    }

    pub(crate) fn chosen_mut(&mut self) -> &mut ScreenState {
        &mut self.chosen[self.screen.index()]
    }

    /// The order of the rows that are shown.
    pub(crate) fn order(&self) -> Option<(usize, bool)> {
        let usual = || usual_order(self.screen, &self.sheet);
        self.chosen().sort.or_else(usual)
    }

    /// The last message, until a key is pressed.
    pub(crate) fn message(&self) -> Option<String> {
        let (count, mut kept) = self.facts.messages.all();
        kept.pop().filter(|_| count > self.messages_seen)
    }

    fn question(&self) -> Question {
        let ScreenState { sort, filter, table, .. } = self.chosen().clone();
        Question { screen: self.screen, table, sort, filter }
    }

    /// Reads the rows of the screen from the store.
    pub(crate) fn refresh(&mut self, now: Instant) {
        if self.screen == Screen::Overview {
            self.overview = self.model.overview(now);
            self.sheet = Sheet::default();
        } else {
            self.sheet = self.model.sheet(&self.question(), now);
            self.take_first(now);
        }
        if self.screen == Screen::Health {
            self.sheet.put_messages(&self.facts.messages.all().1);
        }
        if let Mode::Details(subject, _) = &self.mode {
            self.details = details(self.model.store(), subject, self.facts.glyphs);
        }
        // The selected row may have moved; where it is gone, the place stays.
        let chosen = self.chosen();
        let found = chosen
            .selected_id
            .as_ref()
            .and_then(|id| self.sheet.rows.iter().position(|row| row.id == *id));
        self.select(found.unwrap_or(chosen.selected), false);
    }

    /// Order and rows of the screen that came first.
    fn take_first(&mut self, now: Instant) {
        let Some((_, mut first)) = self.first.filter(|(screen, _)| *screen == self.screen) else {
            return;
        };
        let names = std::mem::take(&mut first.sort);
        let is_it = |column: &Column| !names.is_empty() && column.source.names() == names;
        if let Some(place) = self.sheet.columns.iter().position(is_it) {
            self.chosen_mut().sort.get_or_insert((place, true));
            self.sheet = self.model.sheet(&self.question(), now);
        }
        self.first = Some((self.screen, first));
        if let Some(rows) = first.rows.filter(|_| self.chosen().table == 0) {
            self.sheet.rows.truncate(rows);
        }
    }

    /// Selects a row, or the last where there are fewer.
    fn select(&mut self, place: usize, is_chosen: bool) {
        let place = place.min(self.sheet.rows.len().saturating_sub(1));
        let id = self.sheet.rows.get(place).map(|row| row.id.clone());
        let chosen = self.chosen_mut();
        chosen.selected = place;
        if is_chosen {
            // Whoever is at the top wants to see what comes to the top.
            chosen.selected_id = id.filter(|_| place > 0);
        }
    }

    fn show(&mut self, screen: Screen) -> Then {
        self.screen = screen;
        self.mode = Mode::Screen;
        Then::Refresh
    }

    /// What a key does.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Then {
        if key.kind == KeyEventKind::Release {
            return Then::Nothing;
        }
        self.messages_seen = self.facts.messages.all().0;
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && matches!(key.code, KeyCode::Char('c' | 'C')) {
            return Then::Quit;
        }
        match &mut self.mode {
            Mode::Filter(..) if !is_control => self.type_filter(key.code),
            Mode::Filter(..) => Then::Nothing,
            Mode::Help(line) | Mode::Details(_, line) => {
                if let Some(moved) = moved(key.code, *line, self.page) {
                    // Beyond the last line it is brought back when drawn.
                    *line = moved;
                    return Then::Draw;
                }
                self.press_over(key.code)
            }
            Mode::Screen => self.press_on_screen(key.code),
        }
    }

    /// A key on help or details.
    fn press_over(&mut self, code: KeyCode) -> Then {
        match code {
            KeyCode::Char('q') => Then::Quit,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Enter | KeyCode::Char('?') => {
                self.mode = Mode::Screen;
                if self.is_paused { Then::Draw } else { Then::Refresh }
            }
            code => self.change_screen(code),
        }
    }

    fn press_on_screen(&mut self, code: KeyCode) -> Then {
        if let Some(place) = moved(code, self.chosen().selected, self.page) {
            self.select(place, true);
            return Then::Draw;
        }
        match code {
            KeyCode::Char('q') => Then::Quit,
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => {
                self.mode = Mode::Help(0);
                Then::Draw
            }
            KeyCode::Char('/') => {
                self.mode = Mode::Filter(self.chosen().filter.clone(), None);
                Then::Draw
            }
            KeyCode::Char('s') => self.sort_by_next(),
            KeyCode::Char('S') => self.sort_reversed(),
            KeyCode::Char('t') => {
                let chosen = self.chosen_mut();
                let table = chosen.table.wrapping_add(1);
                // Columns of another table have other places.
                *chosen = ScreenState { table, ..ScreenState::default() };
                Then::Refresh
            }
            KeyCode::Enter => self.open_details(),
            KeyCode::Esc if !self.chosen().filter.is_empty() => {
                self.chosen_mut().filter.clear();
                Then::Refresh
            }
            code => self.change_screen(code),
        }
    }

    fn change_screen(&mut self, code: KeyCode) -> Then {
        let here = self.screen.index();
        let count = Screen::ALL.len();
        let place = match code {
            KeyCode::Char(digit @ '1'..='9') => digit as usize - '1' as usize,
            KeyCode::Tab | KeyCode::Right => (here + 1) % count,
            KeyCode::BackTab | KeyCode::Left => (here + count - 1) % count,
            _ => return Then::Nothing,
        };
        Screen::ALL.get(place).map_or(Then::Nothing, |&screen| self.show(screen))
    }

    fn pause(&mut self) -> Then {
        self.is_paused = !self.is_paused;
        if self.is_paused { Then::Draw } else { Then::Refresh }
    }

    fn sort_by_next(&mut self) -> Then {
        let count = self.sheet.columns.len();
        if count == 0 {
            return Then::Nothing;
        }
        let place = self.order().map_or(0, |(place, _)| (place + 1) % count);
        // Of numbers the largest are wanted first, of names the first letters.
        let column = self.sheet.columns.get(place);
        let is_descending = column.is_none_or(|column| column.kind.is_right());
        self.sort(place, is_descending)
    }

    fn sort_reversed(&mut self) -> Then {
        match self.order() {
            Some((place, is_descending)) => self.sort(place, !is_descending),
            None => Then::Nothing,
        }
    }

    fn sort(&mut self, place: usize, is_descending: bool) -> Then {
        let chosen = self.chosen_mut();
        chosen.sort = Some((place, is_descending));
        (chosen.selected, chosen.offset, chosen.selected_id) = (0, 0, None);
        Then::Refresh
    }

    fn open_details(&mut self) -> Then {
        let row = self.sheet.rows.get(self.chosen().selected);
        let Some(subject) = row.map(|row| row.subject.clone()) else { return Then::Nothing };
        if subject == Subject::None {
            return Then::Nothing;
        }
        self.details = details(self.model.store(), &subject, self.facts.glyphs);
        self.mode = Mode::Details(subject, 0);
        Then::Draw
    }

    fn type_filter(&mut self, code: KeyCode) -> Then {
        let Mode::Filter(text, problem) = &mut self.mode else { return Then::Nothing };
        match code {
            KeyCode::Esc => self.mode = Mode::Screen,
            KeyCode::Enter => return self.apply_filter(),
            KeyCode::Backspace => {
                text.pop();
                *problem = None;
            }
            KeyCode::Char(c) if text.chars().count() < FILTER_LEN_MAX && !c.is_control() => {
                text.push(c);
                *problem = None;
            }
            _ => return Then::Nothing,
        }
        Then::Draw
    }

    fn apply_filter(&mut self) -> Then {
        let Mode::Filter(text, _) = &self.mode else { return Then::Nothing };
        let question = Question { filter: text.trim().to_owned(), ..self.question() };
        match self.model.check(&question) {
            Err(why) => {
                self.mode = Mode::Filter(text.clone(), Some(why));
                Then::Draw
            }
            Ok(()) => {
                let chosen = self.chosen_mut();
                chosen.filter = question.filter;
                (chosen.selected, chosen.offset, chosen.selected_id) = (0, 0, None);
                self.mode = Mode::Screen;
                Then::Refresh
            }
        }
    }
}

/// Where keys that move go, from a place; nothing for others.
const fn moved(code: KeyCode, place: usize, page: usize) -> Option<usize> {
    Some(match code {
        KeyCode::Up | KeyCode::Char('k') => place.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => place.saturating_add(1),
        KeyCode::PageUp => place.saturating_sub(page),
        KeyCode::PageDown => place.saturating_add(page),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => usize::MAX,
        _ => return None,
    })
}
