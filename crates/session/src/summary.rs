//! The summary at the end of a run: packets read, and their outcome.

use std::fmt::Write as _;

use capture::{Input, Report};
use engine::group::Outcome;

use crate::reading::{Inputs, ReceiveOutcome};

/// What a stage did with the frames it was given.
pub struct StageSummary<'a> {
    /// The stage.
    pub name: &'a str,
    /// Packets by what it did with them.
    pub outcome: &'a Outcome,
    /// What packets without a key lack, such as "an IP source".
    pub key: &'a str,
    /// Packets whose window was already closed.
    pub late: u64,
    /// Packets whose key found the table full.
    pub beyond_max_keys: u64,
}

/// Outcome of a source that one application reads for itself.
pub struct SourceSummary {
    /// What was read.
    pub inputs: Inputs,
    /// Packets by their outcome before.
    pub received: ReceiveOutcome,
    /// Packets by what was done with them.
    pub outcome: Outcome,
    /// What packets without a key lack, such as "an IP source".
    pub key: &'static str,
    /// Packets whose key found the table full.
    pub beyond_max_keys: u64,
    /// What there is to say besides, each line ended.
    pub lines: String,
}

impl SourceSummary {
    /// The names of what was read.
    #[must_use]
    pub fn names(&self) -> String {
        names(&self.inputs)
    }

    /// What the application did with it.
    #[must_use]
    pub const fn stage<'a>(&'a self, name: &'a str) -> StageSummary<'a> {
        let Self { outcome, key, beyond_max_keys, .. } = self;
        StageSummary { name, outcome, key, late: 0, beyond_max_keys: *beyond_max_keys }
    }
}

/// The names of captures.
#[must_use]
pub fn names(inputs: &Inputs) -> String {
    let name = |input: &Input| match input {
        Input::Stdin => String::from("-"),
        Input::File(path) => path.display().to_string(),
    };
    inputs.resolved.inputs.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// The lines, each ended, and the command's additional text.
#[must_use]
pub fn lines(
    inputs: &Inputs,
    received: &ReceiveOutcome,
    stage: Option<&StageSummary<'_>>,
) -> String {
    let mut text = own_lines(inputs, received, stage);
    for notice in inputs.resolved.refused.iter().chain(&received.notices()) {
        let _ = writeln!(text, "{notice}");
    }
    text
}

/// The lines, each ended, without the command's additional text.
#[must_use]
pub fn own_lines(
    inputs: &Inputs,
    received: &ReceiveOutcome,
    stage: Option<&StageSummary<'_>>,
) -> String {
    let mut text = received_lines(received);
    if let Some(stage) = stage {
        text.push_str(&stage_lines(stage, &received.report));
    }
    // A run on an interface has no other end.
    if inputs.control.is_interrupted() && inputs.interface.is_none() {
        text.push_str("interrupted: results cover the input read so far\n");
    }
    let skipped = inputs.resolved.skipped.len();
    if skipped > 0 {
        let _ = writeln!(text, "skipped in folders, as they are not captures: {skipped}");
    }
    let refused = inputs.resolved.refused.len();
    if refused > 0 {
        let _ = writeln!(text, "skipped in folders, as they cannot be read: {refused}");
    }
    text
}

// Below: writing to a string cannot fail.

/// What came in, as tcpdump says it, and what did not.
fn received_lines(received: &ReceiveOutcome) -> String {
    let report = &received.report;
    let passed = received.handed_out();
    let mut text = format!(
        "{passed} packets captured\n{} packets received by filter\n{} packets dropped",
        report.received,
        report.dropped.total()
    );
    text.push_str(&match (report.dropped.ring_full, report.dropped.duplicates) {
        (0, 0) => String::new(),
        (_, 0) => String::from(" by the kernel: its ring was full (a larger one with -B)"),
        (0, _) => String::from(" as duplicates"),
        (lost, copies) => format!(
            ": {lost} by the kernel, whose ring was full (a larger one with -B), {copies} as \
             duplicates"
        ),
    });
    text.push('\n');
    for (count, what) in [
        (report.interface_dropped, "packets dropped by the interface, before they were received"),
        (report.unread, "packets received after the last one counted"),
        (report.interface_down_count, "times the interface went down"),
    ] {
        if count > 0 {
            let _ = writeln!(text, "{count} {what}");
        }
    }
    text
}

/// Terms of the sum that are seldom there.
fn more(terms: &[(u64, &str)]) -> String {
    let there = terms.iter().filter(|(count, _)| *count > 0);
    there.map(|(count, what)| format!(" + {count} {what}")).collect()
}

/// What a stage did with what came in.
#[must_use]
pub fn stage_lines(stage: &StageSummary<'_>, report: &Report) -> String {
    let mut text = String::new();
    let outcome = stage.outcome;
    let _ = write!(
        text,
        "{}: {} processed = {} counted + {} without {} + {} truncated by the capture; {} malformed",
        stage.name,
        outcome.processed(),
        outcome.keyed,
        outcome.without_key,
        stage.key,
        outcome.cut,
        outcome.malformed.total()
    );
    let causes: Vec<_> =
        outcome.malformed.iter().map(|(cause, count)| format!("{count} {cause}")).collect();
    if !causes.is_empty() {
        let _ = write!(text, " ({})", causes.join(", "));
    }
    text.push('\n');
    let _ = writeln!(
        text,
        "{}: {} received = {} processed + {} filtered + {} dropped + {} malformed{}",
        stage.name,
        report.received,
        outcome.processed(),
        report.filtered,
        report.dropped.total(),
        outcome.malformed.total(),
        more(&[(report.unread, "unread"), (outcome.faulted, "faulted")]),
    );
    if stage.late > 0 {
        let _ = writeln!(
            text,
            "{}: {} late packets were counted in the oldest open window",
            stage.name, stage.late
        );
    }
    if stage.beyond_max_keys > 0 {
        let _ = writeln!(
            text,
            "{}: {} packets are of keys beyond the maximum and are in no row; --max-keys or \
             --max-flows sets it",
            stage.name, stage.beyond_max_keys
        );
    }
    text
}
