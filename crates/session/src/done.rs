//! Outcome of the packets and flows of a run, for every application.

use engine::flow::{EndReason, FlowCounts};
use engine::group::Outcome;

use crate::application::Closing;
use crate::reading::ReceiveOutcome;
use crate::summary::StageSummary;

/// Outcome of the packets of a run, and of its flows.
#[derive(Default)]
pub struct RunTotals {
    /// Packets by what the stage did with them.
    pub outcome: Outcome,
    /// Packets by their outcome before.
    pub received: ReceiveOutcome,
    /// Packets more than a second behind the capture's time.
    pub late: u64,
    /// Times that the clock was set back.
    pub clock_steps: u64,
    /// Flows by how they ended.
    pub counts: FlowCounts,
}

impl RunTotals {
    /// What packets without a flow lack.
    pub const KEY: &'static str = "an IP header";

    /// What an application says at the end that looked at flows, and found nothing else.
    #[must_use]
    pub fn closing(&self) -> Closing {
        Closing {
            outcome: self.outcome.clone(),
            key: Self::KEY,
            lines: self.lines(),
            counts: vec![("late", self.late), ("clock_steps", self.clock_steps)],
            ended: Some(self.counts),
            ..Closing::default()
        }
    }

    /// What the summary says of flows.
    #[must_use]
    pub fn lines(&self) -> String {
        let ended = EndReason::ALL.iter().filter(|&&reason| self.counts.of(reason) > 0);
        let ended: Vec<_> =
            ended.map(|&reason| format!("{} {}", self.counts.of(reason), reason.name())).collect();
        let total = self.counts.total();
        let mut text = match ended.as_slice() {
            [] => String::from("flows: none\n"),
            _ => format!("flows: {total} ended = {}\n", ended.join(" + ")),
        };
        for (count, what) in [
            (self.late, "packets were late, more than a second behind the capture's time"),
            (self.clock_steps, "clock steps: timestamps went back by the idle timeout or more"),
        ] {
            if count > 0 {
                text.push_str(&format!("flows: {count} {what}\n"));
            }
        }
        text
    }

    /// What the summary says of the packets.
    #[must_use]
    pub fn stage(&self) -> StageSummary<'_> {
        StageSummary {
            name: "flows",
            outcome: &self.outcome,
            key: Self::KEY,
            // Reported with the flows, in words of their own.
            late: 0,
            beyond_max_keys: 0,
        }
    }
}
