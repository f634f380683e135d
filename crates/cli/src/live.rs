//! What a run on an interface has that a run on captures has not: it may have
//! to wait for the link, and it ends when it is stopped.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use capture::live::LiveSource;
use engine::run::Control;
use packet::Span;
use session::reading::OpenSources;

/// Says what has to be known before frames come, and sets the end.
pub(crate) fn begin_for(
    duration: Option<Span>,
    opened: &OpenSources,
    control: &Arc<Control>,
    quiet: bool,
) {
    if matches!(opened, OpenSources::Files(_)) {
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
