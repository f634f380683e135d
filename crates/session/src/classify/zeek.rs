//! Verdicts as Zeek writes its logs: tab-separated, under a header that names and types columns.
//!
//! The first columns are those of `conn.log`, so that both join by address and port; `#open` and
//! `#close` tell event time, as everything here does.

use std::fmt::Write as _;

use classify::{Cascade, Label, Verdict};
use packet::community_id::CommunityId;
use packet::{Protocol, Timestamp};

use crate::exports::text::{epoch_seconds, flow_id, seconds, uid};
use crate::exports::zeek;
pub use crate::exports::zeek::push_end;
use zeek::escaped;

/// Names and types of the columns.
const COLUMNS: [(&str, &str); 19] = [
    ("ts", "time"),
    ("uid", "string"),
    ("id.orig_h", "addr"),
    ("id.orig_p", "port"),
    ("id.resp_h", "addr"),
    ("id.resp_p", "port"),
    ("proto", "enum"),
    ("community_id", "string"),
    ("label", "string"),
    ("confidence", "double"),
    ("guess", "string"),
    ("guess_confidence", "double"),
    ("stage", "string"),
    ("packets_used", "count"),
    ("wait", "interval"),
    ("latency", "interval"),
    ("cause", "string"),
    ("model", "string"),
    ("other_segmentation", "bool"),
];

/// Appends the header of a log that begins at this time.
pub fn push_head(text: &mut String, open: Timestamp) {
    zeek::push_head(text, "classification", &COLUMNS, open);
}

/// Appends a line.
pub fn push(text: &mut String, cascade: &Cascade, verdict: &Verdict) {
    let (source, destination) = verdict.key.endpoints(verdict.direction);
    let protocol = match verdict.key.protocol() {
        Protocol::TCP => "tcp",
        Protocol::UDP => "udp",
        Protocol::ICMP | Protocol::ICMPV6 => "icmp",
        _ => "unknown_transport",
    };
    let community_id = CommunityId(verdict.key).to_string();
    let latency = verdict.latency_ns.map_or_else(|| String::from("-"), seconds);
    let confidence = match verdict.label {
        Label::Unknown(_) => String::from("-"),
        _ => verdict.confidence.to_string(),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}\t{}\t{}\t{}\t{}\t{}\t{protocol}\t{}\t{}\t{confidence}\t{}\t{}\t{}\t{}\t{}\t{latency}\t{}\t{}\t{}",
        time(verdict.first),
        uid(flow_id(&community_id, verdict.first)),
        source.address,
        source.port,
        destination.address,
        destination.port,
        community_id,
        escaped(&verdict.label.name(cascade)),
        escaped(&verdict.label.guess(cascade)),
        verdict.confidence,
        verdict.stage_name(),
        verdict.packets_used,
        seconds(verdict.wait_ns()),
        verdict.cause.name(),
        cascade.id(),
        if verdict.other_segmentation { 'T' } else { 'F' },
    );
}

/// Seconds since the epoch, with microseconds.
fn time(stamp: Timestamp) -> String {
    if stamp == Timestamp::UNKNOWN {
        return String::from("-");
    }
    epoch_seconds(stamp.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_names_as_many_types_as_columns() {
        let mut text = String::new();
        push_head(&mut text, Timestamp::from_ns(0));
        let widths: Vec<_> = text.lines().skip(6).map(|line| line.split('\t').count()).collect();
        assert_eq!(widths, [20, 20]);
    }
}
