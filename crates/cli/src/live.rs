//! What a run on an interface has that a run on captures has not: it may have
//! to wait for the link, it ends when it is told to, and its files are begun
//! anew while it runs.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::now;
use capture::live::LiveSource;
use engine::run::Control;
use packet::Span;
use session::reading::Opened;

use crate::args::LiveArguments;
use crate::failure::Failure;
use crate::interrupt::Reopen;

/// Rows wait no longer than this for a row group to be full.
const HELD_MAX: Duration = Duration::from_secs(10);

/// Says what has to be known before frames come, and sets the end.
pub(crate) fn begin(
    arguments: &LiveArguments,
    opened: &Opened,
    control: &Arc<Control>,
    quiet: bool,
) {
    begin_for(arguments.duration, opened, control, quiet);
}

/// The same, for so long.
pub(crate) fn begin_for(
    duration: Option<Span>,
    opened: &Opened,
    control: &Arc<Control>,
    quiet: bool,
) {
    if matches!(opened, Opened::Files(_)) {
        return;
    }
    announce(opened.listening(), quiet);
    if let Some(duration) = duration {
        stop_after(duration, Arc::clone(control));
    }
}

fn announce(sources: &[LiveSource], quiet: bool) {
    let (up, down): (Vec<_>, Vec<_>) = sources.iter().partition(|source| source.is_up_at_start());
    for name in down.iter().map(|source| source.name()) {
        eprintln!("wirelens: {name}: the interface is down; waiting for it to come up");
    }
    if !quiet && !up.is_empty() {
        let names: Vec<_> = up.iter().map(|source| source.name()).collect();
        eprintln!("listening on {}; Ctrl-C ends it", names.join(", "));
    }
}

fn stop_after(duration: Span, control: Arc<Control>) {
    let duration = Duration::from_nanos(u64::try_from(duration.as_ns()).unwrap_or(0));
    // Not waited for: where the run ends before, the process does as well.
    thread::spawn(move || {
        thread::sleep(duration);
        control.stop();
    });
}

/// An output that may hold back what it was given, and may be begun anew.
pub(crate) trait Held: Sized {
    /// Finishes a file and goes on in a new one.
    fn reopen(self) -> Result<Self, Failure>;
    /// Hands on what is held back, so that it outlives this process.
    fn flush_held(&mut self) -> Result<(), Failure>;
}

/// Looks after an output that grows for hours.
pub(crate) struct Upkeep {
    reopen: Reopen,
    held_since: Instant,
}

impl Upkeep {
    /// For an interface; captures come to an end by themselves.
    pub(crate) fn of(opened: &Opened) -> Option<Self> {
        let is_live = matches!(opened, Opened::Live(_));
        is_live.then(|| Self { reopen: Reopen::on_hangup(), held_since: now() })
    }

    /// Hands on rows that were held long, and begins a new file where that was asked for.
    pub(crate) fn look<R: Held>(&mut self, rows: R) -> Result<R, Failure> {
        if self.reopen.take() {
            self.held_since = now();
            return rows.reopen();
        }
        let mut rows = rows;
        if self.held_since.elapsed() >= HELD_MAX {
            self.held_since = now();
            rows.flush_held()?;
        }
        Ok(rows)
    }
}
