//! What a column says, in words: `flows begun by the source 41 (> 6.5)`.
//!
//! By name and not by column, as a log may be of another version's model.

use super::Evidence;

/// How the values of a column are read.
#[derive(Clone, Copy)]
enum Unit {
    Number,
    Bytes,
    /// Squares of bytes, shown as their root.
    SquareBytes,
    Nanoseconds,
    /// Squares of nanoseconds, shown as their root.
    SquareNanoseconds,
    Seconds,
    Percent,
    /// Values are names, which no threshold says more about: the two texts are of 1 and of 0.
    Yes(&'static str, &'static str),
    Name(fn(i32) -> Option<&'static str>),
    TcpFlags,
}

use Unit::{
    Bytes, Name, Nanoseconds, Number, Percent, Seconds, SquareBytes, SquareNanoseconds, TcpFlags,
    Yes,
};

/// Columns of a packet and of states, in words.
const WORDS: &[(&str, &str, Unit)] = &[
    ("wire_bytes", "frame length", Bytes),
    ("ip_bytes", "IP packet length", Bytes),
    ("payload_bytes", "payload length", Bytes),
    ("network", "network layer", Name(network)),
    ("protocol", "protocol", Name(protocol)),
    ("ip_header_bytes", "IP header length", Bytes),
    ("transport_header_bytes", "transport header length", Bytes),
    ("source_port", "source port", Number),
    ("destination_port", "destination port", Number),
    ("lower_port", "smaller port", Number),
    ("higher_port", "larger port", Number),
    ("tcp_flags", "TCP flags", TcpFlags),
    ("tcp_fin", "", Yes("FIN", "no FIN")),
    ("tcp_syn", "", Yes("SYN", "no SYN")),
    ("tcp_rst", "", Yes("RST", "no RST")),
    ("tcp_psh", "", Yes("PSH", "no PSH")),
    ("tcp_ack", "", Yes("ACK", "no ACK")),
    ("tcp_urg", "", Yes("URG", "no URG")),
    ("tcp_ece", "", Yes("ECE", "no ECE")),
    ("tcp_cwr", "", Yes("CWR", "no CWR")),
    ("tcp_window", "TCP window", Number),
    ("is_fragment", "", Yes("IP fragment", "not a fragment")),
    ("dont_fragment", "", Yes("DF set", "DF not set")),
    ("ecn", "ECN", Name(ecn)),
    ("icmp_type", "ICMP type", Number),
    ("icmp_code", "ICMP code", Number),
    ("arp_operation", "ARP", Name(arp)),
    ("arp_gratuitous", "", Yes("gratuitous ARP", "ARP for another address")),
    ("is_malformed", "", Yes("malformed header", "no malformed header")),
    ("flow_is_from_client", "", Yes("sent by the client", "sent by the server")),
    ("flow_handshake", "TCP handshake", Name(handshake)),
    (
        "flow_is_unsolicited",
        "",
        Yes("flow began with an answer", "flow did not begin with an answer"),
    ),
    ("flow_is_answered", "", Yes("flow was answered", "flow was not answered")),
    ("flow_age_s", "age of the flow", Seconds),
    ("flow_idle_s", "flow was idle for", Seconds),
    ("flow_client_packets", "packets of the client", Number),
    ("flow_server_packets", "packets of the server", Number),
    ("flow_client_payload_bytes", "payload of the client", Bytes),
    ("flow_server_payload_bytes", "payload of the server", Bytes),
    ("flow_first_request_bytes", "payload of the first request", Bytes),
    ("flow_first_response_bytes", "payload of the first response", Bytes),
    ("flow_asymmetry", "asymmetry of the flow's payload", Number),
    ("flow_turns", "changes of direction", Number),
    ("flow_payload_per_turn_bytes", "payload per change of direction", Bytes),
    ("flow_request_gap_s", "mean gap between requests", Seconds),
    ("flow_request_variation", "variation of gaps between requests", Number),
    ("pair_age_s", "since the first contact of client and server", Seconds),
    ("pair_flows", "flows of client and server", Number),
    ("pair_flows_per_s", "flows per second of client and server", Number),
    ("pair_unanswered_fraction", "unanswered flows of client and server", Percent),
    ("pair_refused_fraction", "refused flows of client and server", Percent),
    ("pair_half_open_fraction", "half-open flows of client and server", Percent),
    ("pair_asymmetry", "asymmetry of the payload of client and server", Number),
    ("pair_gap_s", "gap since the flow before of client and server", Seconds),
    ("pair_gap_variation", "variation of gaps between flows of client and server", Number),
    ("pair_client_payload_per_flow_bytes", "payload of the client per flow", Bytes),
    ("pair_server_payload_per_flow_bytes", "payload of the server per flow", Bytes),
    ("client_flows", "flows begun by the client in 30 to 60 s", Number),
    ("client_servers", "distinct servers of the client", Number),
    ("client_ports", "distinct server ports of the client", Number),
    ("client_new_pairs_fraction", "flows of the client to new servers or ports", Percent),
    ("client_unanswered_fraction", "unanswered flows of the client", Percent),
    ("client_half_open_fraction", "half-open flows of the client", Percent),
    ("client_refused_fraction", "refused flows of the client", Percent),
    ("client_unsolicited", "unsolicited answers to the client", Number),
    ("server_flows", "flows to the server in 30 to 60 s", Number),
    ("server_clients", "distinct clients of the server", Number),
    ("server_unanswered_fraction", "unanswered flows to the server", Percent),
    ("server_half_open_fraction", "half-open flows to the server", Percent),
    ("server_refused_fraction", "refused flows to the server", Percent),
];

/// Sums of a flow, a source or a destination; `{}` is which.
const SUMS: &[(&str, &str, Unit)] = &[
    ("packets", "packets of the {}", Number),
    ("packets_same_way", "packets of the {} in this direction", Number),
    ("flows", "flows begun {}", Number),
    ("size_sum_bytes", "bytes of the {}", Bytes),
    ("size_max_bytes", "largest packet of the {}", Bytes),
    ("size_min_bytes", "smallest packet of the {}", Bytes),
    ("size_mean_bytes", "mean packet size of the {}", Bytes),
    ("size_variance_bytes2", "standard deviation of packet sizes of the {}", SquareBytes),
    ("gap_sum_ns", "time since the first packet of the {}", Nanoseconds),
    ("gap_max_ns", "longest gap between packets of the {}", Nanoseconds),
    ("gap_min_ns", "shortest gap between packets of the {}", Nanoseconds),
    ("gap_mean_ns", "mean gap between packets of the {}", Nanoseconds),
    ("gap_variance_ns2", "standard deviation of gaps of the {}", SquareNanoseconds),
];

/// A column that decided: what it is, its value, and the threshold that the value passed.
#[must_use]
pub fn words(name: &str, evidence: &Evidence) -> String {
    let (what, unit) = named(name);
    let value = evidence.value;
    if value < 0.0 && !name.ends_with("asymmetry") {
        // Of a packet or flow without such a thing.
        let what =
            if what.is_empty() { name.trim_start_matches("tcp_").to_uppercase() } else { what };
        return format!("no {}", what.trim_end_matches(" length"));
    }
    let whole = value as i32;
    let text = match unit {
        Yes(yes, no) => return if value > 0.5 { yes } else { no }.to_owned(),
        TcpFlags => return format!("{what} {}", tcp_flags(whole)),
        Name(of) => match of(whole) {
            Some(text) => return format!("{what} {text}"),
            None => number(value.into()),
        },
        _ => shown(value, unit),
    };
    let relation = if evidence.is_above() { ">" } else { "≤" };
    format!("{what} {text} ({relation} {})", shown(evidence.threshold, unit))
}

fn named(name: &str) -> (String, Unit) {
    if let Some(&(_, what, unit)) = WORDS.iter().find(|(known, ..)| *known == name) {
        return (what.to_owned(), unit);
    }
    let of_key = ["flow", "source", "destination"].iter().find_map(|key| {
        let rest = name.strip_prefix(key)?.strip_prefix('_')?;
        let &(_, what, unit) = SUMS.iter().find(|(known, ..)| *known == rest)?;
        let key = match (rest, *key) {
            ("flows", "source") => "by the source",
            ("flows", _) => "to the destination",
            (_, key) => key,
        };
        Some((what.replace("{}", key), unit))
    });
    of_key.unwrap_or_else(|| (name.to_owned(), Number))
}

fn shown(value: f32, unit: Unit) -> String {
    let value = f64::from(value);
    match unit {
        Bytes => format!("{} bytes", number(value)),
        SquareBytes => format!("{} bytes", number(value.max(0.0).sqrt())),
        Nanoseconds => time(value),
        SquareNanoseconds => time(value.max(0.0).sqrt()),
        Seconds => time(value * 1e9),
        Percent => format!("{} %", number(value * 100.0)),
        _ => number(value),
    }
}

/// Three digits, or all that are before the point.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        below if below < 1.0 => 3,
        below if below < 10.0 => 2,
        below if below < 1000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

fn time(ns: f64) -> String {
    let (factor, unit) = match ns {
        below if below < 1e3 => (1.0, "ns"),
        below if below < 1e6 => (1e3, "µs"),
        below if below < 1e9 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{} {unit}", number(ns / factor))
}

fn tcp_flags(value: i32) -> String {
    const NAMES: [&str; 9] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR", "AE"];
    let set = NAMES.iter().enumerate().filter(|(bit, _)| value >> bit & 1 == 1);
    let set: Vec<_> = set.map(|(_, name)| *name).collect();
    if set.is_empty() { String::from("none") } else { set.join("+") }
}

const fn network(value: i32) -> Option<&'static str> {
    match value {
        0 => Some("other than IP and ARP"),
        1 => Some("ARP"),
        4 => Some("IPv4"),
        6 => Some("IPv6"),
        _ => None,
    }
}

fn protocol(value: i32) -> Option<&'static str> {
    packet::Protocol(u8::try_from(value).ok()?).name()
}

const fn ecn(value: i32) -> Option<&'static str> {
    match value {
        0 => Some("none"),
        1 => Some("ECT(1)"),
        2 => Some("ECT(0)"),
        3 => Some("CE"),
        _ => None,
    }
}

const fn arp(value: i32) -> Option<&'static str> {
    match value {
        1 => Some("request"),
        2 => Some("reply"),
        _ => None,
    }
}

const fn handshake(value: i32) -> Option<&'static str> {
    match value {
        1 => Some("without SYN"),
        2 => Some("SYN"),
        3 => Some("SYN answered"),
        4 => Some("established"),
        5 => Some("refused"),
        6 => Some("FIN"),
        7 => Some("RST"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::{Column, FeatureOptions, Key};

    fn said(name: &str, value: f32, threshold: f32) -> String {
        words(name, &Evidence { value, threshold, ..Evidence::default() })
    }

    #[test]
    fn columns_are_said_in_words_with_units() {
        for (name, value, threshold, wanted) in [
            ("source_flows", 41.0, 6.5, "flows begun by the source 41 (> 6.5)"),
            ("destination_flows", 1.0, 1.5, "flows begun to the destination 1 (≤ 1.5)"),
            (
                "flow_size_mean_bytes",
                40.0,
                43.125,
                "mean packet size of the flow 40 bytes (≤ 43.1 bytes)",
            ),
            (
                "source_gap_mean_ns",
                1_250_000.0,
                2e6,
                "mean gap between packets of the source 1.25 ms (≤ 2 ms)",
            ),
            (
                "flow_size_variance_bytes2",
                400.0,
                100.0,
                "standard deviation of packet sizes of the flow 20 bytes (> 10 bytes)",
            ),
            ("flow_gap_min_ns", -1.0, 5.0, "no shortest gap between packets of the flow"),
            ("transport_header_bytes", -1.0, 13.5, "no transport header"),
            ("tcp_flags", 2.0, 3.5, "TCP flags SYN"),
            ("tcp_flags", 0.0, 3.5, "TCP flags none"),
            ("tcp_flags", 18.0, 3.5, "TCP flags SYN+ACK"),
            ("tcp_ack", 0.0, 0.5, "no ACK"),
            ("tcp_ack", -1.0, -0.5, "no ACK"),
            ("protocol", 17.0, 11.5, "protocol udp"),
            ("client_refused_fraction", 0.5, 0.25, "refused flows of the client 50 % (> 25 %)"),
            ("flow_idle_s", 0.25, 2.0, "flow was idle for 250 ms (≤ 2 s)"),
            ("of_another_version", 3.0, 2.0, "of_another_version 3 (> 2)"),
        ] {
            assert_eq!(said(name, value, threshold), wanted);
        }
    }

    #[test]
    fn every_column_has_words() {
        let options = FeatureOptions {
            keys: Key::ALL.to_vec(),
            states: 1 << 16,
            ..FeatureOptions::default()
        };
        for column in Column::all(&options) {
            let name = column.to_string();
            assert!(!said(&name, 5.0, 1.0).contains('_'), "{name}");
        }
    }
}
