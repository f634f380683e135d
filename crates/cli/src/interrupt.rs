//! Signals. SIGINT and SIGTERM: the first asks the run to finish, the second
//! ends it. SIGHUP: begin a new output file.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use engine::run::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register;
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;

use crate::clock::CLOCK;
use crate::service;

/// Exit status after a second interrupt: 128 and the signal's number, as shells give it.
const STATUS_INTERRUPTED: i32 = 130;

/// A signal this soon after the first is the same wish: `timeout` signals its child and then
/// its process group, so that one wish arrives twice.
const SAME_WITHIN: Duration = Duration::from_millis(200);

/// A control that the first interrupt stops: what was counted is written, and
/// the run ends as if the input had ended there.
pub(crate) fn control() -> Arc<Control> {
    let control = Arc::new(Control::default());
    for signal in [SIGINT, SIGTERM] {
        // Where no handler can be installed an interrupt ends the process, as it would any
        // other; a partial output is marked by its name.
        let _ = register(signal, control.flag());
    }
    let _ = end_at_the_second();
    control
}

/// The second interrupt ends the process, whatever it is doing.
fn end_at_the_second() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let waiting = move || {
        let mut first = None;
        for _ in signals.forever() {
            let at = (CLOCK.monotonic)();
            service::stopping();
            if at - *first.get_or_insert(at) > SAME_WITHIN {
                exit(STATUS_INTERRUPTED);
            }
        }
    };
    thread::Builder::new().name(String::from("signals")).spawn(waiting).map(drop)
}

/// From here on SIGHUP asks the run to finish, too: the machine is as it was afterwards.
pub(crate) fn on_hangup(control: &Control) {
    let _ = register(SIGHUP, control.flag());
}

/// Whether new files are to be begun.
pub(crate) struct Reopen(Arc<AtomicBool>);

impl Reopen {
    /// From here on SIGHUP asks for a new file instead of ending the process.
    pub(crate) fn on_hangup() -> Self {
        let asked = Arc::new(AtomicBool::new(false));
        let _ = register(SIGHUP, Arc::clone(&asked));
        Self(asked)
    }

    /// Whether it was asked for since the last look.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
