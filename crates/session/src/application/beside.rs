//! What runs beside the passes of a run, and takes no packets from them.

use engine::run::Control;

/// Something that runs on a thread of its own beside the passes, for what never comes into user
/// space as packets, such as taps in the kernel. Its rows leave by the outlet of its application.
///
/// It is bounded in itself: it waits for the kernel, and what it has no time for is left out and
/// counted.
pub trait Beside: Send {
    /// Runs until `over` is stopped, which it is once all passes have ended, or until there is
    /// nothing more to look at.
    fn run(self: Box<Self>, over: &Control) -> BesideReport;
}

/// What is said at the end of what ran beside the passes.
#[derive(Debug, Default)]
pub struct BesideReport {
    /// Lines of its own, each ended.
    pub lines: String,
    /// What was lost although it was to be kept; the run ends with an error.
    pub loss: Option<String>,
}
