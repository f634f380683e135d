//! Verdicts as Suricata writes events (EVE): a JSON object a line.
//!
//! What Suricata has a name for is under that name, with its units; what it has none for is in an
//! object of our own, `classification`, which is also the type of the event.

use std::fmt::Write as _;

use classify::{Cascade, Verdict};
use packet::community_id::CommunityId;
use packet::{HashSeed, KeyHash as _, Protocol, Timestamp};

/// Bits of a flow's number: what JavaScript's numbers hold.
const FLOW_ID_BITS: u32 = 53;

/// Appends an event, with the capture it is from where several are read.
pub fn push(text: &mut String, cascade: &Cascade, verdict: &Verdict, capture: Option<&str>) {
    let (source, destination) = verdict.key.endpoints(verdict.direction);
    let protocol = verdict.key.protocol();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{{\"timestamp\":\"{}\",\"flow_id\":{},\"event_type\":\"classification\",\
         \"src_ip\":\"{}\",\"dest_ip\":\"{}\"",
        time(verdict.decided),
        flow_id(verdict),
        source.address,
        destination.address,
    );
    if let Some(name) = capture {
        let _ = write!(text, ",\"pcap_filename\":{}", quoted(name));
    }
    let (first, second) = match protocol {
        Protocol::ICMP | Protocol::ICMPV6 => ("icmp_type", "icmp_code"),
        _ => ("src_port", "dest_port"),
    };
    let _ = write!(text, ",\"{first}\":{},\"{second}\":{}", source.port, destination.port);
    let name = match protocol {
        Protocol::ICMPV6 => String::from("IPv6-ICMP"),
        other => other.name().map_or_else(|| other.to_string(), str::to_uppercase),
    };
    let _ = write!(
        text,
        ",\"proto\":{},\"community_id\":\"{}\",\"classification\":{{\"label\":{},\
         \"guess\":{},\"guess_confidence\":{},\"stage\":\"{}\",\"packets_used\":{},\
         \"flow_start\":\"{}\",\"wait_ns\":{},\"cause\":\"{}\",\"model\":\"{}\"",
        quoted(&name),
        CommunityId(verdict.key),
        quoted(&verdict.label.name(cascade)),
        quoted(&verdict.label.guess(cascade)),
        verdict.confidence,
        verdict.stage_name(),
        verdict.packets_used,
        time(verdict.first),
        verdict.wait_ns(),
        verdict.cause.name(),
        cascade.id(),
    );
    if !verdict.label.is_unknown() {
        let _ = write!(text, ",\"confidence\":{}", verdict.confidence);
    }
    if let Some(ns) = verdict.latency_ns {
        let _ = write!(text, ",\"latency_ns\":{ns}");
    }
    if verdict.other_segmentation {
        text.push_str(",\"other_segmentation\":true");
    }
    text.push_str("}}\n");
}

/// Suricata's stamps have microseconds.
fn time(stamp: Timestamp) -> String {
    const MICROSECONDS_END: usize = "2026-11-21T09:30:00.000000".len();
    let text = stamp.to_string();
    format!("{}+0000", text.get(..MICROSECONDS_END).unwrap_or(&text))
}

/// A number that the events of one flow share, the same in every run.
pub(super) fn flow_id(verdict: &Verdict) -> u64 {
    let first = verdict.first.as_ns().cast_unsigned();
    let hash = verdict.key.key_hash(HashSeed::new(first));
    hash >> (u64::BITS - FLOW_ID_BITS)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_cut_to_microseconds() {
        let stamp = Timestamp::from_ns(951_782_400_000_001_999);
        assert_eq!(time(stamp), "2000-02-29T00:00:00.000001+0000");
    }
}
