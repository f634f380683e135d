//! The closing lines: how flows were decided, and how soon.

use std::fmt::Write as _;

use classify::{Cascade, Cause, Counts};

use crate::share;

/// What the summary says of verdicts, each line ended.
pub(crate) fn lines(cascade: &Cascade, counts: &Counts) -> String {
    let decided = counts.decided();
    let mut text = format!("classify: {decided} verdicts by {}", cascade.id());
    let causes = Cause::ALL.iter().filter(|&&cause| counts.of(cause) > 0);
    let causes: Vec<_> =
        causes.map(|&cause| format!("{} {}", counts.of(cause), cause.name())).collect();
    if !causes.is_empty() {
        let _ = write!(text, " = {}", causes.join(" + "));
    }
    text.push('\n');
    if decided > 0 {
        let part = |count| format!("{count} ({:.1} %)", share(count, decided) * 100.0);
        let stages = cascade.stages().iter().map(classify::Stage::name);
        let stages: Vec<_> =
            stages.map(|stage| format!("{} by {stage}", part(counts.by(stage)))).collect();
        let first = part(counts.at_first_packet);
        let _ = writeln!(text, "classify: {}; {first} at the first packet", stages.join(", "));
    }
    let other_protocols = if cascade.names_protocols() {
        "flows are neither TCP nor UDP: named by their IP protocol"
    } else {
        "flows are neither TCP nor UDP"
    };
    for (count, what) in [
        (counts.other_protocols, other_protocols),
        (counts.asked_again, "flows were classified again at a later stage, as a rule says"),
        (counts.unknown.total(), "flows are unknown: the best guess is not likely enough"),
        (counts.cut_headers, "flows began with a packet cut short of the headers looked at"),
        (counts.other_segmentation, "flows had packets merged by an offload; none had in training"),
        (counts.hosts, "hosts are remembered"),
        (counts.hosts_forgotten, "hosts were forgotten to make room (more with --hosts-max)"),
        (counts.unfollowed, "flows found no room to be followed (more with --waiting-max)"),
        (
            counts.of(Cause::Full),
            "flows found no room to wait (more with --waiting-max): the last model asked decided",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(text, "classify: {count} {what}");
        }
    }
    text.push_str(&latencies(counts));
    text
}

fn latencies(counts: &Counts) -> String {
    let latencies = &counts.latencies;
    let quantile = |per_mille| latencies.quantile_ns(per_mille).map(microseconds);
    let (Some(median), Some(p99)) = (quantile(500), quantile(990)) else { return String::new() };
    let largest = microseconds(latencies.largest_ns());
    format!(
        "classify: latency of {} verdicts that a frame decided: p50 {median}, p99 {p99}, \
         max {largest}\n",
        latencies.total()
    )
}

#[allow(clippy::cast_precision_loss)]
fn microseconds(ns: u64) -> String {
    format!("{:.1} µs", ns as f64 / 1e3)
}
