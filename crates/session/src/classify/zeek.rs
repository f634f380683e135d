//! Verdicts as Zeek writes its logs: tab-separated, under a header that names and types columns.
//!
//! The first columns are those of `conn.log`, so that both join by address and port; `#open` and
//! `#close` tell event time, as everything here does.

use std::fmt::Write as _;

use classify::{Cascade, Label, Verdict};
use packet::community_id::CommunityId;
use packet::{Protocol, Timestamp};

use super::eve::flow_id;

const NS_PER_SECOND: i64 = 1_000_000_000;

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
    text.push_str("#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n");
    let _ = writeln!(text, "#path\tclassification\n#open\t{}", day(open));
    for (title, column) in [("#fields", 0), ("#types", 1)] {
        text.push_str(title);
        for (name, kind) in COLUMNS {
            text.push('\t');
            text.push_str(if column == 0 { name } else { kind });
        }
        text.push('\n');
    }
}

/// Appends the last line of a log.
pub fn push_end(text: &mut String, close: Timestamp) {
    let _ = writeln!(text, "#close\t{}", day(close));
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
        uid(flow_id(verdict)),
        source.address,
        source.port,
        destination.address,
        destination.port,
        CommunityId(verdict.key),
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
    let ns = stamp.as_ns();
    let (whole, rest) = (ns.div_euclid(NS_PER_SECOND), ns.rem_euclid(NS_PER_SECOND));
    format!("{whole}.{:06}", rest / 1000)
}

fn seconds(ns: u64) -> String {
    let per_second = NS_PER_SECOND.unsigned_abs();
    format!("{}.{:09}", ns / per_second, ns % per_second)
}

/// `2026-11-21-22-11-54`.
fn day(stamp: Timestamp) -> String {
    let text = stamp.to_string();
    text.get(..19).unwrap_or(&text).replace(['T', ':'], "-")
}

/// As Zeek's own begin, with `C` and digits of base 62.
fn uid(number: u64) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut rest = number;
    let mut text = String::from("C");
    while rest > 0 {
        let digit = DIGITS.get((rest % 62) as usize);
        text.push(digit.copied().map_or('0', char::from));
        rest /= 62;
    }
    text
}

/// A text that holds neither a tab nor what the header gives a meaning.
fn escaped(text: &str) -> String {
    match text {
        "-" | "(empty)" => text.bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        _ => text
            .chars()
            .map(|letter| match letter {
                '\\' => String::from("\\\\"),
                letter if letter.is_ascii_control() => format!("\\x{:02x}", u32::from(letter)),
                letter => String::from(letter),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_are_as_zeek_writes_them() {
        let stamp = Timestamp::from_ns(951_782_400_000_001_999);
        assert_eq!(time(stamp), "951782400.000001");
        assert_eq!(day(stamp), "2000-02-29-00-00-00");
        assert_eq!(seconds(1_000_000_007), "1.000000007");
        assert_eq!(uid(61 + 62), "Cz1");
        assert_eq!([escaped("a\tb"), escaped("-")], ["a\\x09b", "\\x2d"]);
    }

    #[test]
    fn a_header_names_as_many_types_as_columns() {
        let mut text = String::new();
        push_head(&mut text, Timestamp::from_ns(0));
        let widths: Vec<_> = text.lines().skip(6).map(|line| line.split('\t').count()).collect();
        assert_eq!(widths, [20, 20]);
    }
}
