//! The closing lines: how flows were decided, and how soon.

use std::fmt::Write as _;

use classify::{Cascade, Cause, Counts};

use super::failing;
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
        "flows are neither TCP nor UDP: labelled by their IP protocol"
    } else {
        "flows are neither TCP nor UDP"
    };
    for (count, what) in [
        (counts.other_protocols, other_protocols),
        (counts.asked_again, "flows were classified again at a later stage, by a rule"),
        (counts.unknown.total(), "flows are unknown: the likeliest class is below the threshold"),
        (counts.cut_headers, "flows began with a packet truncated within the headers used"),
        (counts.other_segmentation, "flows had packets merged by an offload; no training flow had"),
        (counts.hosts, "hosts are in memory"),
        (counts.hosts_forgotten, "hosts were evicted from memory (more fit with --hosts-max)"),
        (
            counts.unfollowed,
            "flows were not tracked, as the table was full (more fit with \
                             --waiting-max)",
        ),
        (
            counts.of(Cause::Full),
            "flows could not wait (more can with --waiting-max): the last model used decided",
        ),
        (
            counts.of(Cause::Unanswered),
            "flows were not answered by workers in time, or by a model that failed: the last \
             model used decided",
        ),
    ] {
        if count > 0 {
            let _ = writeln!(text, "classify: {count} {what}");
        }
    }
    text.push_str(&failing::lines(counts));
    text.push_str(&latencies(counts));
    text
}

fn latencies(counts: &Counts) -> String {
    let latencies = &counts.latencies;
    let quantile = |per_mille| latencies.quantile_ns(per_mille).map(microseconds);
    let (Some(median), Some(p99)) = (quantile(500), quantile(990)) else { return String::new() };
    let largest = microseconds(latencies.largest_ns());
    format!(
        "classify: latency of {} verdicts decided by a frame: p50 {median}, p99 {p99}, max \
         {largest}\n",
        latencies.total()
    )
}

#[allow(clippy::cast_precision_loss)]
fn microseconds(ns: u64) -> String {
    format!("{:.1} µs", ns as f64 / 1e3)
}
