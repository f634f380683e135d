//! Styles: of the 16 colours that every terminal has, or none.

use ratatui::style::{Color, Modifier, Style};

/// What styles mean.
#[derive(Clone, Copy)]
pub(super) struct Theme {
    has_colour: bool,
}

impl Theme {
    pub(super) const fn new(has_colour: bool) -> Self {
        Self { has_colour }
    }

    const fn colour(self, style: Style, colour: Color) -> Style {
        if self.has_colour { style.fg(colour) } else { style }
    }

    pub(super) const fn plain(self) -> Style {
        Style::new()
    }

    pub(super) const fn heading(self) -> Style {
        self.colour(Style::new().add_modifier(Modifier::BOLD), Color::Cyan)
    }

    /// Each meaning has a modifier too, so that nothing is said by colour alone.
    pub(super) const fn warning(self) -> Style {
        self.colour(Style::new().add_modifier(Modifier::BOLD), Color::Yellow)
    }

    pub(super) const fn dimmed(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    pub(super) const fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub(super) const fn chart(self) -> Style {
        self.colour(Style::new(), Color::Green)
    }
}
