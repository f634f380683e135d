//! The lines at the end, on standard error: what was read and what became of it.

use std::fmt::Write as _;

use capture::{Damage, DamageCause, Report};
use engine::group::Outcome;

use crate::failure::{Failure, Status};
use crate::reading::{Inputs, Received};

/// What a stage did with the frames it was given.
pub(crate) struct StageSummary<'a> {
    pub(crate) name: &'a str,
    pub(crate) outcome: &'a Outcome,
    /// What packets without a key lack, such as "IP source".
    pub(crate) key: &'a str,
    pub(crate) late: u64,
    /// Packets whose key found the table full.
    pub(crate) beyond_max_keys: u64,
}

/// Prints the summary; tells how the run ended.
///
/// The identity `received = processed + filtered + malformed` is checked here,
/// once for each run, because this is where it is printed.
pub(crate) fn print(
    inputs: &Inputs,
    quiet: bool,
    received: &Received,
    stage: Option<&StageSummary<'_>>,
) -> Result<Status, Failure> {
    // A pipe names its link type only as it is read: there a filter is refused as late as this.
    let refused = received.damages.iter().find(|damage| damage.frames_before == 0);
    if let Some(Damage { cause: DamageCause::Filter(reason), .. }) = refused {
        return Err(Failure::usage(reason));
    }
    if !quiet {
        eprint!("{}", lines(inputs, received, stage));
    }
    for damage in &received.damages {
        eprintln!("wirelens: {damage}");
    }
    if let Some(stage) = stage {
        let known = stage.outcome.processed() + stage.outcome.malformed.total();
        let handed_out = handed_out(&received.report);
        if known != handed_out {
            return Err(Failure::error(format_args!(
                "packets are missing from the count: {handed_out} came in, {known} are accounted for; please report this"
            )));
        }
    }
    Ok(if received.damages.is_empty() { Status::Fine } else { Status::Damaged })
}

/// Frames that reached the stages.
fn handed_out(report: &Report) -> u64 {
    report.received - report.filtered - report.dropped.total() - report.unread
}

fn lines(inputs: &Inputs, received: &Received, stage: Option<&StageSummary<'_>>) -> String {
    let report = &received.report;
    let passed = handed_out(report);
    let mut text = format!(
        "{passed} packets captured\n{} packets received by filter\n{} packets dropped\n",
        report.received,
        report.dropped.total()
    );
    // Writing to a string cannot fail.
    if let Some(stage) = stage {
        let outcome = stage.outcome;
        let _ = write!(
            text,
            "{}: {} processed = {} counted + {} without {} + {} cut short by the capture; {} malformed",
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
        if stage.late > 0 {
            let _ = writeln!(
                text,
                "{}: {} late packets were counted in the oldest window still open",
                stage.name, stage.late
            );
        }
        if stage.beyond_max_keys > 0 {
            let _ = writeln!(
                text,
                "{}: {} packets belong to keys beyond --max-keys and are in no row",
                stage.name, stage.beyond_max_keys
            );
        }
    }
    if inputs.control.is_stopped() {
        text.push_str("interrupted: results cover what was read before\n");
    }
    let skipped = inputs.resolved.skipped.len();
    if skipped > 0 {
        let _ = writeln!(text, "left out of folders as no captures: {skipped}");
    }
    text
}
