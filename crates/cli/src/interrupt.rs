//! SIGINT and SIGTERM: the first asks the run to finish, the second ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::run::Control;

/// Exit status after a second interrupt: 128 and the signal's number, as shells give it.
const STATUS_INTERRUPTED: i32 = 130;

/// A control that the first interrupt stops: what was counted is written, and
/// the run ends as if the input had ended there.
pub(crate) fn control() -> Arc<Control> {
    let control = Arc::new(Control::default());
    let stopped = Arc::clone(&control);
    let asked_before = AtomicBool::new(false);
    let installed = ctrlc::set_handler(move || {
        if asked_before.swap(true, Ordering::Relaxed) {
            #[allow(clippy::exit)]
            std::process::exit(STATUS_INTERRUPTED);
        }
        stopped.stop();
    });
    // Where no handler can be installed an interrupt ends the process, as it
    // would any other; a partial output is marked by its name.
    drop(installed);
    control
}
