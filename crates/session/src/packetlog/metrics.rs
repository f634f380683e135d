//! A recorder's status in Prometheus' text format.

use std::fmt::Write as _;

use serde_json::Value;

/// Each metric: its name, kind, help, and where it stands in the status.
const METRICS: &[(&str, &str, &str, &str)] = &[
    ("packets_seen_total", "counter", "Packets received.", "/packets/seen"),
    ("packets_kept_total", "counter", "Packets in the log, in full or truncated.", "/packets/kept"),
    ("packets_waiting", "gauge", "Packets that wait to be written.", "/packets/waiting"),
    (
        "packets_passed_over_total",
        "counter",
        "Packets that the mode keeps nothing of.",
        "/packets/passed_over",
    ),
    (
        "packets_lost_total",
        "counter",
        "Packets that were to be kept and are not in the log.",
        "/packets/lost",
    ),
    (
        "packets_ring_lost_total",
        "counter",
        "Packets lost because the capture's ring had no room.",
        "/packets/ring_lost",
    ),
    ("seen_bytes_total", "counter", "Bytes on the wire of received packets.", "/bytes/seen"),
    ("kept_bytes_total", "counter", "Bytes of packets that were kept.", "/bytes/kept"),
    ("mode_switches_total", "counter", "Changes of mode.", "/switches"),
    ("events_lost_total", "counter", "Events that could not be written.", "/events_lost"),
    ("disk_free_ratio", "gauge", "Free fraction of what the log may fill.", "/disk_free"),
    ("queue_ratio", "gauge", "Fraction of the blocks that wait for the disk.", "/queue"),
    ("copy_ratio", "gauge", "Bytes copied, as a fraction of what the disk takes.", "/copy"),
    ("busy_ratio", "gauge", "Fraction of time that the packets' thread is busy.", "/busy"),
];

/// The text.
pub(super) fn text(status: &Value) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (name, kind, help, place) in METRICS {
        let Some(number) = status.pointer(place).and_then(Value::as_f64) else { continue };
        let _ = writeln!(text, "# HELP wirelens_packetlog_{name} {help}");
        let _ = writeln!(text, "# TYPE wirelens_packetlog_{name} {kind}");
        let _ = writeln!(text, "wirelens_packetlog_{name} {number}");
    }
    let mode = status["mode"].as_str().unwrap_or_default();
    let _ = writeln!(text, "# HELP wirelens_packetlog_mode_info The mode in force.");
    let _ = writeln!(text, "# TYPE wirelens_packetlog_mode_info gauge");
    let _ = writeln!(text, "wirelens_packetlog_mode_info{{mode=\"{mode}\"}} 1");
    let _ =
        writeln!(text, "# HELP wirelens_packetlog_shortage Whether a resource is under pressure.");
    let _ = writeln!(text, "# TYPE wirelens_packetlog_shortage gauge");
    let short = status["shortages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for shortage in packetlog::manager::Shortage::ALL {
        let is_short = short.iter().any(|name| name == shortage.name());
        let value = u8::from(is_short);
        let _ = writeln!(text, "wirelens_packetlog_shortage{{resource=\"{shortage}\"}} {value}");
    }
    text
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
        });
        let text = text(&status);
        assert!(text.contains("\nwirelens_packetlog_packets_seen_total 10\n"), "{text}");
        assert!(text.contains("wirelens_packetlog_disk_free_ratio 0.25\n"));
        assert!(text.contains("wirelens_packetlog_shortage{resource=\"disk\"} 1\n"));
        assert!(text.contains("wirelens_packetlog_shortage{resource=\"busy\"} 0\n"));
        assert!(!text.contains("queue_ratio"), "what is not known is not told");
    }
}
