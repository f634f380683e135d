//! A recorder's status as counts, and in Prometheus' text format.

use std::fmt::Write as _;

use packetlog::manager::Shortage;
use serde_json::Value;
use store::{Count, CountKind};

/// Classes that have series of their own; there are few, and a model may be anyone's.
const CLASSES_MAX: usize = 64;

use CountKind::{Counter, Gauge};

/// Each count: its name, kind, help, and where it stands in the status.
const COUNTS: &[(&str, CountKind, &str, &str)] = &[
    ("packets_seen", Counter, "Packets received.", "/packets/seen"),
    (
        "packets_kept",
        Counter,
        "Packets written to the log, in full or truncated; those of files that others deleted are \
         lost packets as well.",
        "/log/packets_written",
    ),
    ("packets_waiting", Gauge, "Packets that wait to be written.", "/packets/waiting"),
    ("packets_passed_over", Counter, "Packets skipped by the mode.", "/packets/passed_over"),
    (
        "packets_lost",
        Counter,
        "Packets that should be stored and are not in the log.",
        "/packets/lost",
    ),
    (
        "packets_ring_lost",
        Counter,
        "Packets dropped because the ring buffer was full.",
        "/packets/ring_lost",
    ),
    (
        "hindsight_waiting_packets",
        Gauge,
        "Packets that wait in memory before they are truncated.",
        "/hindsight/waiting",
    ),
    ("hindsight_bytes", Gauge, "Memory of waiting packets.", "/hindsight/bytes"),
    (
        "hindsight_raised_packets",
        Counter,
        "Packets stored at greater length because of another packet of their flow or host.",
        "/hindsight/raised",
    ),
    (
        "hindsight_early_packets",
        Counter,
        "Packets that waited for less than the time because memory was full.",
        "/hindsight/early",
    ),
    (
        "calibration_periods",
        Counter,
        "Periods whose packets were compared with the calibration.",
        "/calibration/periods",
    ),
    (
        "calibration_drifted_periods",
        Counter,
        "Of these, periods with other scores than calibrated.",
        "/calibration/drifted",
    ),
    (
        "calibration_over_budget_periods",
        Counter,
        "Of these, periods with more packets marked than the budget.",
        "/calibration/over_budget",
    ),
    (
        "calibration_psi",
        Gauge,
        "Population stability index of the scores in the latest period.",
        "/calibration/psi",
    ),
    (
        "calibration_marked_ratio",
        Gauge,
        "Fraction of packets marked in the latest period.",
        "/calibration/marked",
    ),
    (
        "reasons",
        Counter,
        "Reasons of marked hosts and flows stored in the log.",
        "/log/reasons/written",
    ),
    (
        "reasons_omitted",
        Counter,
        "Marked packets that were not examined for a reason because of the limits.",
        "/log/reasons/omitted",
    ),
    ("reasons_lost", Counter, "Reasons that could not be stored.", "/log/reasons/lost"),
    (
        "reasons_evicted",
        Counter,
        "Marked hosts and flows forgotten to make room for others.",
        "/log/reasons/evicted",
    ),
    ("seen_bytes", Counter, "Bytes on the wire of received packets.", "/bytes/seen"),
    ("kept_bytes", Counter, "Stored bytes of packets.", "/bytes/kept"),
    ("mode_switches", Counter, "Changes of mode.", "/switches"),
    ("events_lost", Counter, "Events that could not be written.", "/events_lost"),
    (
        "events_deleted",
        Counter,
        "Events deleted as their file in the log's folder was full again.",
        "/events_deleted",
    ),
    ("files_overwritten", Counter, "Files deleted to make room.", "/log/files_overwritten"),
    ("files_gone", Counter, "Files deleted by others.", "/log/files_gone"),
    (
        "kernel_packets",
        Counter,
        "Packets that the program in the kernel has seen.",
        "/log/kernel/seen",
    ),
    (
        "kernel_classified_packets",
        Counter,
        "Packets classified in the kernel.",
        "/log/kernel/classified",
    ),
    (
        "kernel_classified_bytes",
        Counter,
        "Bytes of these packets as they came.",
        "/log/kernel/classified_bytes",
    ),
    (
        "kernel_truncated_bytes",
        Counter,
        "Of these, bytes that were truncated before they came to user space.",
        "/log/kernel/truncated_bytes",
    ),
    (
        "kernel_refused_keys",
        Counter,
        "Flows and hosts for which the kernel's sketches had no place.",
        "/log/kernel/refused_keys",
    ),
    ("written_bytes", Counter, "Bytes written to the disk.", "/log/bytes_written"),
    ("log_bytes", Gauge, "Bytes of the log's files.", "/log/bytes"),
    ("disk_free_bytes", Gauge, "Bytes free on the log's disk.", "/log/disk_free_bytes"),
    ("disk_bytes", Gauge, "Size of the log's disk.", "/log/disk_bytes"),
    ("disk_free_ratio", Gauge, "Free fraction of the log's disk budget.", "/disk_free"),
    ("queue_ratio", Gauge, "Fraction of the blocks that wait for the disk.", "/queue"),
    ("copy_ratio", Gauge, "Bytes copied, as a fraction of the disk's throughput.", "/copy"),
    ("busy_ratio", Gauge, "Fraction of time that the packet thread is busy.", "/busy"),
];

/// What is counted, as far as the status says it.
pub(super) fn counts(status: &Value) -> Vec<Count> {
    let of = |&(name, kind, about, place): &(&'static str, CountKind, &'static str, &str)| {
        let value = status.pointer(place)?.as_f64()?;
        Some(Count { kind, ..Count::gauge(name, about, value) })
    };
    let mut counts: Vec<_> = COUNTS.iter().filter_map(of).collect();
    for (name, about, place) in [
        (
            "lost_packets",
            "Packets that should be stored and are not in the log, by cause.",
            "/log/lost",
        ),
        (
            "write_errors",
            "Writes and synchronisations that failed, repeated tries included, by cause.",
            "/log/write_errors",
        ),
    ] {
        let causes = status.pointer(place).and_then(Value::as_object);
        for (cause, count) in causes.into_iter().flatten() {
            let count = Count::total(name, about, count.as_u64().unwrap_or_default());
            counts.push(count.with("cause", cause.as_str()));
        }
    }
    let classes = status["classes"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (what, about, key) in [
        ("class_packets_judged", "Packets by class, as they are judged.", "judged"),
        ("class_packets_seen", "Packets by class, once their block is in the log.", "seen"),
        ("class_packets_kept", "Of these, packets in the log.", "kept"),
    ] {
        for class in classes.iter().take(CLASSES_MAX) {
            let name = class["class"].as_str().unwrap_or_default();
            let count = Count::total(what, about, class[key].as_u64().unwrap_or_default());
            counts.push(count.with("class", name));
        }
    }
    let mode = status["mode"].as_str().unwrap_or_default();
    counts.push(Count::gauge("mode_info", "The mode in force.", 1.0).with("mode", mode));
    let short = status["shortages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for shortage in Shortage::ALL {
        let is_short = short.iter().any(|name| name == shortage.name());
        let about = "Whether a resource is under pressure.";
        let count = Count::gauge("shortage", about, f64::from(u8::from(is_short)));
        counts.push(count.with("resource", shortage.name()));
    }
    counts
}

/// The text.
pub(super) fn text(status: &Value) -> String {
    let mut text = String::new();
    let mut last = "";
    for Count { name, about, kind, labels, value, .. } in &counts(status) {
        let (suffix, kind) = match kind {
            Counter => ("_total", "counter"),
            _ => ("", "gauge"),
        };
        // Writing to a string cannot fail.
        if *name != last {
            let _ = writeln!(text, "# HELP wirelens_packetlog_{name}{suffix} {about}");
            let _ = writeln!(text, "# TYPE wirelens_packetlog_{name}{suffix} {kind}");
            last = name;
        }
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels =
            if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "wirelens_packetlog_{name}{suffix}{labels} {value}");
    }
    text
}

/// A label's value, as the text format wants it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_line_is_a_sample_or_about_one() {
        let status = json!({
            "mode": "default", "switches": 3, "shortages": ["disk"],
            "packets": {"seen": 10}, "disk_free": 0.25,
            "log": {"write_errors": {"disk_full": 2}},
            "classes": [{"class": "a\"b", "seen": 7, "kept": 2}, {"class": "c", "seen": 1}],
        });
        let text = text(&status);
        assert!(text.contains("\nwirelens_packetlog_packets_seen_total 10\n"), "{text}");
        assert!(text.contains("wirelens_packetlog_class_packets_seen_total{class=\"a\\\"b\"} 7\n"));
        let types = text.lines().filter(|line| line.starts_with("# TYPE"));
        let mut names: Vec<_> = types.clone().collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), types.count(), "a name has one type, and all its samples together");
        assert!(text.contains("wirelens_packetlog_disk_free_ratio 0.25\n"));
        let errors = "wirelens_packetlog_write_errors_total{cause=\"disk_full\"} 2\n";
        assert!(text.contains(errors), "{text}");
        assert!(text.contains("wirelens_packetlog_shortage{resource=\"disk\"} 1\n"));
        assert!(text.contains("wirelens_packetlog_shortage{resource=\"busy\"} 0\n"));
        assert!(!text.contains("queue_ratio"), "what is not known is not told");
    }
}
