//! Results of an interface as a view that each window paints again.

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Instant;

use crate::clock::now;
use capture::Progress;
use packet::Span;
use session::reading::Inputs;
use session::top::Ranking;

use super::table::{grouped, lines};

/// How often it is painted unless windows are asked for.
pub(crate) const REFRESH: Span = Span::from_seconds(1);

/// Clears the screen and puts the cursor in its first place (ECMA-48, ED and CUP).
const CLEAR: &str = "\x1b[2J\x1b[H";

/// Whether a person looks at standard output.
pub(crate) fn is_watched() -> bool {
    std::io::stdout().is_terminal()
}

/// The view.
pub(crate) struct View {
    title: String,
    window: Span,
    progress: Arc<Progress>,
    painted_at: Instant,
    was_painted: bool,
}

impl View {
    /// Of the windows of a run on an interface.
    pub(crate) fn new(command: &str, inputs: &Inputs, window: Span) -> Self {
        let interface = inputs.interface.as_ref();
        let name = interface.map(|interface| interface.names.join(", ")).unwrap_or_default();
        Self {
            title: format!("wirelens {command} on {name}; Ctrl-C ends it"),
            window,
            progress: Arc::clone(&inputs.options.progress),
            painted_at: now(),
            was_painted: false,
        }
    }

    /// Paints a window.
    pub(super) fn put(&mut self, shown: &Ranking) -> io::Result<()> {
        let seconds = self.window.as_seconds_f64();
        let (total, start) = (shown.total, shown.window_start.unwrap_or_default());
        #[allow(clippy::cast_precision_loss)]
        let rate = |count: u64| count as f64 / seconds;
        let head = format!(
            "{start}, {seconds} s: {:.0} packets/s, {:.3} Mbit/s, {} keys",
            rate(total.packets),
            rate(total.bytes * 8) / 1e6,
            grouped(shown.key_count as u64),
        );
        self.paint(&head, &lines(shown))
    }

    /// Paints that there was nothing.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        let is_stale = self.painted_at.elapsed().as_secs_f64() > 1.5 * self.window.as_seconds_f64();
        // Packets that have come already stand in a window that is still open.
        let is_new = !self.was_painted && self.progress.frames_read() == 0;
        if is_stale || is_new { self.paint("0 packets/s", "") } else { Ok(()) }
    }

    /// Paints these lines.
    pub(crate) fn paint(&mut self, head: &str, rows: &str) -> io::Result<()> {
        (self.painted_at, self.was_painted) = (now(), true);
        let (read, dropped) = (self.progress.frames_read(), self.progress.frames_dropped());
        let totals = format!("{} packets, {} dropped", grouped(read), grouped(dropped));
        let mut out = std::io::stdout().lock();
        write!(out, "{CLEAR}{}\n{head}\nso far: {totals}\n\n{rows}", self.title)?;
        out.flush()?;
        Ok(())
    }
}
