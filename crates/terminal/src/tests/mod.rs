//! Screens as text, over a store that the demo shares.
#![allow(clippy::disallowed_methods, clippy::cast_possible_truncation)]
#![allow(clippy::cast_precision_loss, unreachable_pub)]

mod properties;
#[path = "../../examples/demo/rows.rs"]
mod rows;
mod screens;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use store::Store;

use crate::app::{App, Then};
use crate::draw::draw;
use crate::first::First;
use crate::messages::Messages;
use crate::text::Glyphs;
use crate::view::Facts;

/// The view as it would be on a terminal, with a clock that tests turn.
struct Bench {
    app: App,
    now: Instant,
}

impl Bench {
    fn new(store: Arc<Store>, glyphs: Glyphs) -> Self {
        Self::beginning(store, glyphs, None)
    }

    fn beginning(store: Arc<Store>, glyphs: Glyphs, first: Option<First>) -> Self {
        let facts = Facts {
            title: String::from("wirelens run"),
            inputs: Box::new(|| vec![String::from("eth0\x1b[31m")]),
            packets: Box::new(|| (1_234, 5)),
            out: || Box::new(std::io::sink()),
            messages: Messages::default(),
            now: Instant::now,
            glyphs,
            first,
            has_colour: true,
        };
        let mut bench = Self { app: App::new(store, facts), now: Instant::now() };
        bench.refresh();
        bench
    }

    fn refresh(&mut self) {
        self.now += Duration::from_millis(500);
        self.app.refresh(self.now);
    }

    fn press(&mut self, code: KeyCode) -> Then {
        let then = self.app.press(KeyEvent::new(code, KeyModifiers::NONE));
        if then == Then::Refresh {
            self.refresh();
        }
        then
    }

    fn type_text(&mut self, text: &str) {
        text.chars().for_each(|c| {
            self.press(KeyCode::Char(c));
        });
    }

    fn cells(&mut self, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &mut self.app)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// Lines without the spaces at their ends.
    fn lines(&mut self, width: u16, height: u16) -> Vec<String> {
        let buffer = self.cells(width, height);
        let line = |y| {
            let mut line = String::new();
            let mut x = 0;
            while x < width {
                let symbol = buffer[(x, y)].symbol();
                line.push_str(symbol);
                // A wide character takes the cell after it too.
                x += crate::text::width(symbol).max(1) as u16;
            }
            line.trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }
}
