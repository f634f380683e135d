//! Work that runs alongside the passes of a run, and takes no packets from them.

use engine::run::Control;

/// Work on a thread of its own alongside the passes, for packets that never enter user
/// space, such as those at taps in the kernel. Its rows go to the outlet of its application.
///
/// It is bounded: it waits for the kernel, and packets for which it has no time are left out and
/// counted.
pub trait Beside: Send {
    /// Runs until `over` is stopped, which it is once all passes have ended, or until there is
    /// nothing more to look at.
    fn run(self: Box<Self>, over: &Control) -> BesideReport;
}

/// The closing counts of work that ran alongside the passes.
#[derive(Debug, Default)]
pub struct BesideReport {
    /// Lines of its own, each ended.
    pub lines: String,
    /// What was lost although it was to be kept; the run ends with an error.
    pub loss: Option<String>,
}
