//! The progress bar of a long run, on standard error, only where a person looks at it.

use std::any::Any;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use capture::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Runs shorter than this need no bar.
const SHOW_AFTER: Duration = Duration::from_millis(500);
const REFRESH_EVERY: Duration = Duration::from_millis(100);

/// A bar that follows a [`Progress`] until it is dropped.
pub(crate) struct Bar {
    finished: Option<mpsc::Sender<()>>,
    painter: Option<JoinHandle<()>>,
}

impl Bar {
    /// A bar for `bytes_total` bytes, or a spinner where the end is not known;
    /// nothing unless standard error is a terminal.
    pub(crate) fn start(progress: &Arc<Progress>, bytes_total: Option<u64>) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self { finished: None, painter: None };
        }
        let (finished, wait) = mpsc::channel();
        let progress = Arc::clone(progress);
        let painter = thread::spawn(move || paint(&progress, bytes_total, &wait));
        Self { finished: Some(finished), painter: Some(painter) }
    }
}

/// What a run shows of its progress.
pub(crate) fn painter(progress: &Arc<Progress>, bytes_total: Option<u64>) -> Box<dyn Any> {
    Box::new(Bar::start(progress, bytes_total))
}

impl Drop for Bar {
    fn drop(&mut self) {
        drop(self.finished.take());
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
    }
}

fn paint(progress: &Progress, bytes_total: Option<u64>, wait: &mpsc::Receiver<()>) {
    if wait.recv_timeout(SHOW_AFTER) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    let bar = ProgressBar::with_draw_target(bytes_total, ProgressDrawTarget::stderr());
    let template = if bytes_total.is_some() {
        "{bar:40} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg} eta {eta}"
    } else {
        "{spinner} {bytes} {binary_bytes_per_sec} {msg}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    while wait.recv_timeout(REFRESH_EVERY) == Err(RecvTimeoutError::Timeout) {
        bar.set_position(progress.bytes_read());
        bar.set_message(format!("{} packets", progress.frames_read()));
    }
    bar.finish_and_clear();
}
