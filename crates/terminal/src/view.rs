//! The view on a terminal: raw mode, keys, redraws.

use std::io::{self, IsTerminal as _, Write};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use store::Store;

use crate::app::{App, Then};
use crate::draw::draw;
use crate::first::First;
use crate::keys;
use crate::messages::Messages;
use crate::text::Glyphs;

/// Redraws that no key asked for are this far apart.
const REDRAW: Duration = Duration::from_millis(500);

/// How soon a wish to stop is seen.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// Reading rows takes at most one in so many parts of the time: a router has other work.
const REFRESH_SHARE: u32 = 10;

/// Packets so far: received, and lost before they were read.
pub type PacketCounts = Box<dyn Fn() -> (u64, u64) + Send>;

/// Captures, or the interfaces that are listened on now.
pub type InputNames = Box<dyn Fn() -> Vec<String> + Send>;

/// What there is to say of a run as a whole, and of the terminal.
pub struct Facts {
    /// What runs, such as `wirelens run`.
    pub title: String,
    /// Captures or interfaces.
    pub inputs: InputNames,
    /// As the source counts them.
    pub packets: PacketCounts,
    /// The front door's output to the terminal, again for each who writes to it.
    pub out: fn() -> Box<dyn Write + Send>,
    /// The monotonic clock of the front door.
    pub now: fn() -> Instant,
    /// What is said while the view is shown: warnings, errors.
    pub messages: Messages,
    /// What the terminal can print, by the locale.
    pub glyphs: Glyphs,
    /// What is shown first; none for the first screen that the run has.
    pub first: Option<First>,
    /// Whether to use colours: not where `NO_COLOR` is set.
    pub has_colour: bool,
}

/// Shows the store's tables until `q`, Ctrl-C or `stop`, and leaves the terminal as it was, on a
/// panic too. `on_quit` is called where it was a key that ended it.
///
/// What is written to standard error meanwhile spoils the screen until Ctrl-L: the caller hands
/// messages to [`Facts::messages`]. That the output is a terminal is for the caller to see.
///
/// # Errors
/// Standard input is no terminal, or it is gone.
pub fn run(
    store: Arc<Store>,
    facts: Facts,
    stop: impl Fn() -> bool,
    on_quit: impl FnOnce(),
) -> io::Result<()> {
    if !io::stdin().is_terminal() {
        let message = "standard input: not a terminal, from which the view reads keys";
        return Err(io::Error::new(io::ErrorKind::Unsupported, message));
    }
    let screen = AlternateScreen::open(facts.out)?;
    let (keys, _reading) = keys::read()?;
    let mut terminal = Terminal::new(CrosstermBackend::new((facts.out)()))?;
    let mut app = App::new(store, facts);
    let was_quit = turn(&mut app, &mut terminal, &keys, &screen, &stop);
    drop(screen);
    if was_quit? {
        on_quit();
    }
    Ok(())
}

type Screen = Terminal<CrosstermBackend<Box<dyn Write + Send>>>;

/// Draws and takes keys until the end: whether a key ended it.
fn turn(
    app: &mut App,
    terminal: &mut Screen,
    keys: &Receiver<io::Result<KeyInput>>,
    screen: &AlternateScreen,
    stop: &impl Fn() -> bool,
) -> io::Result<bool> {
    let now = app.facts.now;
    let mut sequence = None;
    let mut then = Then::Refresh;
    let mut due = now();
    loop {
        if then == Then::Refresh {
            let begun = now();
            let asked = app.model.store().sequence();
            app.refresh(begun);
            // Ask now for what is drawn next: answers come at the end of a batch.
            app.model.store().ask();
            sequence = Some(asked);
            let cost = now().saturating_duration_since(begun);
            due = now() + REDRAW.max(cost * REFRESH_SHARE);
        }
        if then != Then::Nothing {
            if screen.was_spoilt() {
                terminal.clear()?;
            }
            terminal.draw(|frame| draw(frame, app))?;
        }
        if stop() {
            return Ok(false);
        }
        let wait = due.saturating_duration_since(now()).min(STOP_LOOK);
        then = match keys.recv_timeout(wait) {
            Ok(Ok(KeyInput::Key(key))) => press(app, key, keys),
            Ok(Ok(KeyInput::Redraw)) => {
                terminal.clear()?;
                Then::Draw
            }
            Ok(Err(why)) => return Err(why),
            Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(RecvTimeoutError::Timeout) if now() < due => Then::Nothing,
            Err(RecvTimeoutError::Timeout) => {
                due = now() + REDRAW;
                // Counts of the source change without the store's knowledge: the head is drawn.
                let is_same = sequence == Some(app.model.store().sequence());
                if app.is_paused || (is_same && app.model.store().is_over()) {
                    Then::Draw
                } else {
                    Then::Refresh
                }
            }
        };
        if then == Then::Quit {
            return Ok(true);
        }
    }
}

/// Takes a key, and those that came by now: of a key that is held down each would be drawn later
/// than it is pressed. Up to one that needs other rows, as those after it are meant for them.
fn press(app: &mut App, key: KeyEvent, keys: &Receiver<io::Result<KeyInput>>) -> Then {
    let mut then = app.press(key);
    while matches!(then, Then::Nothing | Then::Draw) {
        let Ok(Ok(KeyInput::Key(key))) = keys.try_recv() else { break };
        then = match app.press(key) {
            Then::Nothing => then,
            next => next,
        };
    }
    then
}

/// What comes from the keyboard.
pub(crate) enum KeyInput {
    /// A key.
    Key(KeyEvent),
    /// The wish to draw everything again.
    Redraw,
}

/// A channel that holds few keys: the rest waits in the terminal.
pub(crate) fn channel() -> (mpsc::SyncSender<io::Result<KeyInput>>, Receiver<io::Result<KeyInput>>)
{
    mpsc::sync_channel(64)
}

type Hook = Box<dyn Fn(&PanicHookInfo<'_>) + Sync + Send>;

/// The terminal while it is ours. What it was before is put back when this goes.
struct AlternateScreen {
    out: fn() -> Box<dyn Write + Send>,
    is_open: Arc<AtomicBool>,
    is_spoilt: Arc<AtomicBool>,
    hook: Arc<Hook>,
}

impl AlternateScreen {
    fn open(out: fn() -> Box<dyn Write + Send>) -> io::Result<Self> {
        enable_raw_mode()?;
        let (is_open, is_spoilt) = (AtomicBool::new(true), AtomicBool::new(false));
        let (is_open, is_spoilt) = (Arc::new(is_open), Arc::new(is_spoilt));
        let screen = Self { out, is_open, is_spoilt, hook: Arc::new(take_hook()) };
        screen.hook_panics(thread::current().id());
        execute!(out(), EnterAlternateScreen)?;
        Ok(screen)
    }

    /// The message of a panic would be written to a screen that goes: before that of this thread
    /// the terminal is put back, after those of others everything is drawn again.
    fn hook_panics(&self, ours: ThreadId) {
        let (hook, is_spoilt) = (Arc::clone(&self.hook), Arc::clone(&self.is_spoilt));
        let (is_open, out) = (Arc::clone(&self.is_open), self.out);
        set_hook(Box::new(move |info| {
            if thread::current().id() == ours {
                restore(&is_open, out);
            }
            hook(info);
            is_spoilt.store(true, Ordering::Release);
        }));
    }

    fn was_spoilt(&self) -> bool {
        self.is_spoilt.swap(false, Ordering::AcqRel)
    }
}

/// Once: a second time would put the cursor where it was before the view, over a message. Nothing
/// can be done about a terminal that refuses this: it is gone.
fn restore(is_open: &AtomicBool, out: fn() -> Box<dyn Write + Send>) {
    if !is_open.swap(false, Ordering::AcqRel) {
        return;
    }
    let _ = execute!(out(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

impl Drop for AlternateScreen {
    fn drop(&mut self) {
        restore(&self.is_open, self.out);
        // A hook cannot be changed by a thread that panics; ours then only calls the one before.
        if !thread::panicking() {
            let hook = Arc::clone(&self.hook);
            set_hook(Box::new(move |info| hook(info)));
        }
    }
}
