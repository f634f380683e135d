//! Flows as Suricata's events (EVE): a JSON object a line.
//!
//! A flow is a `flow` event, and before it a `tls`, `quic` or `dns` event where its payload shows
//! one; they share `flow_id`. Fields have Suricata's meaning or are left out. What Suricata has no
//! field for is in one object, `wirelens`: without it events are valid by Suricata's own schema.
//! A model's verdict is in that object and never in `app_proto`.
//!
//! Alerts are `alert` events in a file of their own ([`alert_line`]), with the `flow_id` of the
//! flow that they are about.

use std::net::IpAddr;

use alerts::{Alert, AlertFlow, State};
use packet::Timestamp;

use super::Records;
use super::file::TextFile;
use super::row::{FlowRow, SideRow, VerdictRow};
use super::text::{Object, flow_id, suricata_time};
use crate::outlet::RowsError;

/// What every event begins with.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// When it happened.
    pub time: Timestamp,
    /// When its flow began.
    pub first: Timestamp,
    /// Its kind.
    pub event_type: &'a str,
    /// Community ID.
    pub community_id: &'a str,
    /// The capture, where several are read.
    pub capture: Option<&'a str>,
    /// Outermost VLAN.
    pub vlan: Option<u16>,
    /// Source and destination.
    pub ips: [&'a str; 2],
    /// Their ports; of ICMP the type, and the counterpart's type or the code.
    pub ports: [u16; 2],
    /// IP protocol by name, or its number.
    pub protocol: &'a str,
}

/// Writes what every event begins with.
pub fn head(event: &mut Object<'_>, head: &Head<'_>) {
    event.text("timestamp", &suricata_time(known(head.time)));
    event.raw("flow_id", flow_id(head.community_id, head.first));
    event.text_if_any("pcap_filename", head.capture);
    event.text("event_type", head.event_type);
    if let Some(vlan) = head.vlan {
        event.raw("vlan", format_args!("[{vlan}]"));
    }
    let [source, destination] = head.ips;
    let [source_port, destination_port] = head.ports;
    event.text("src_ip", source);
    if has_ports(head.protocol) {
        event.raw("src_port", source_port);
    }
    event.text("dest_ip", destination);
    if has_ports(head.protocol) {
        event.raw("dest_port", destination_port);
    }
    event.text("proto", &protocol(head.protocol));
    if matches!(head.protocol, "icmp" | "ipv6-icmp") {
        icmp(event, head.protocol, head.ports);
    }
    event.text("community_id", head.community_id);
}

/// Rules of the site itself have numbers from here on, for a million, as Suricata keeps it.
const LOCAL_RULES: u32 = 1_000_000;

/// An alert as an event. Its resolution is none: Suricata has no such thing.
#[must_use]
pub fn alert_line(alert: &Alert) -> Option<String> {
    if alert.state == State::Resolved {
        return None;
    }
    let mut text = String::new();
    let mut event = Object::begin(&mut text);
    match (&alert.flow, &alert.community_id) {
        (Some(flow), Some(community_id)) => {
            let AlertFlow { ips: [source, destination], ports, protocol, first } = &**flow;
            let (capture, vlan, ports) = (None, None, *ports);
            head(
                &mut event,
                &Head {
                    time: alert.time,
                    first: *first,
                    event_type: "alert",
                    community_id,
                    capture,
                    vlan,
                    ips: [source, destination],
                    ports,
                    protocol,
                },
            );
        }
        _ => {
            event.text("timestamp", &suricata_time(known(alert.time)));
            event.text("event_type", "alert");
            let host = alert.host.as_deref().filter(|host| host.parse::<IpAddr>().is_ok());
            event.text_if_any("src_ip", host);
            event.text_if_any("community_id", alert.community_id.as_deref());
        }
    }
    event.object("alert", |inner| {
        inner.text("action", "allowed");
        inner.raw("gid", 1);
        inner.raw("signature_id", LOCAL_RULES + signature(&alert.name));
        inner.raw("rev", 1);
        inner.text("signature", &alert.name);
        inner.text("category", &alert.table);
        inner.raw("severity", severity(&alert.severity));
    });
    event.object("wirelens", |inner| {
        inner.text("severity", &alert.severity);
        inner.text("text", &alert.text);
        if let Some(value) = alert.value.filter(|value| value.is_finite()) {
            inner.raw("value", value);
        }
        inner.raw("rows", alert.rows);
        for (name, of) in [("labels", &alert.labels), ("annotations", &alert.annotations)] {
            inner.object(name, |inner| of.iter().for_each(|(key, value)| inner.text(key, value)));
        }
    });
    event.end();
    Some(text)
}

/// A rule's number below a million, the same in every run: FNV-1a of its name.
fn signature(name: &str) -> u32 {
    let fnv = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, fnv) % LOCAL_RULES
}

/// Suricata's priorities: 1 is high, 2 medium, 3 low.
fn severity(label: &str) -> u8 {
    match label {
        "critical" | "page" | "emergency" | "error" | "high" => 1,
        "notice" | "info" | "low" | "debug" => 3,
        _ => 2,
    }
}

/// Suricata's events have a time each; that of one without any is the epoch.
fn known(time: Timestamp) -> Timestamp {
    if time == Timestamp::UNKNOWN { Timestamp::from_ns(0) } else { time }
}

fn has_ports(protocol: &str) -> bool {
    matches!(protocol, "tcp" | "udp" | "sctp" | "udplite" | "dccp")
}

/// Messages that ask are answered by another type, and have code 0; others have a code.
fn icmp(event: &mut Object<'_>, protocol: &str, [kind, other]: [u16; 2]) {
    let counterpart = u8::try_from(kind).ok().and_then(|kind| match protocol {
        "icmp" => packet::wire::icmp::counterpart(kind),
        _ => packet::wire::icmpv6::counterpart(kind),
    });
    event.raw("icmp_type", kind);
    match counterpart {
        Some(_) => event.raw("response_icmp_type", other),
        None => event.raw("icmp_code", other),
    }
}

/// In the letters of Suricata.
fn protocol(name: &str) -> String {
    match name {
        "ipv6-icmp" => String::from("IPv6-ICMP"),
        other => other.to_uppercase(),
    }
}

/// Writes what a model says, into the object `wirelens`.
pub fn verdict(wirelens: &mut Object<'_>, verdict: &VerdictRow<'_>) {
    wirelens.text("label", verdict.label);
    if let Some(confidence) = verdict.confidence {
        wirelens.raw("confidence", confidence);
    }
    wirelens.text("guess", verdict.guess);
    wirelens.raw("guess_confidence", verdict.guess_confidence);
    wirelens.text("stage", verdict.stage);
    wirelens.raw("packets_used", verdict.packets_used);
    wirelens.text("model", verdict.model);
}

/// Keys of [`side`].
const SOURCE: [&str; 5] = ["src_local", "src_asn", "src_as_org", "src_country", "src_mac_vendor"];
const DESTINATION: [&str; 5] =
    ["dst_local", "dst_asn", "dst_as_org", "dst_country", "dst_mac_vendor"];

/// Writes what is known of an address besides packets, into the object `wirelens`.
fn side(
    wirelens: &mut Object<'_>,
    of: &SideRow<'_>,
    [local, asn, as_org, country, mac_vendor]: [&str; 5],
) {
    if let Some(is_local) = of.is_local {
        wirelens.raw(local, is_local);
    }
    if let Some(number) = of.asn {
        wirelens.raw(asn, number);
    }
    wirelens.text_if_any(as_org, of.as_org);
    wirelens.text_if_any(country, of.country);
    wirelens.text_if_any(mac_vendor, of.mac_vendor);
}

/// The application protocol under the name that Suricata has for it.
fn app_proto(name: &str) -> Option<&'static str> {
    const SAME: [&str; 18] = [
        "tls", "quic", "dns", "http", "http2", "ssh", "smtp", "ftp", "imap", "mqtt", "rdp", "smb",
        "sip", "ntp", "dhcp", "snmp", "modbus", "ldap",
    ];
    match name {
        "vnc" => Some("rfb"),
        "postgresql" => Some("pgsql"),
        name => SAME.into_iter().find(|same| *same == name),
    }
}

/// Events on their way into a file.
pub(super) struct Eve(pub(super) TextFile);

impl Records for Eve {
    fn put(&mut self, flow: &FlowRow<'_>) -> Result<(), RowsError> {
        let text = &mut self.0.text;
        match flow.names.app_protocol {
            Some("tls") => hello(text, flow, "tls"),
            Some("quic") => hello(text, flow, "quic"),
            Some("dns") => dns(text, flow),
            _ => {}
        }
        ended(text, flow);
        self.0.write_if_full()
    }

    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn write_out(&mut self) -> Result<(), RowsError> {
        self.0.write_out()
    }

    fn reopen(&mut self) -> Result<(), RowsError> {
        self.0.reopen().map(|_| ())
    }

    fn finish(self: Box<Self>) -> Result<String, RowsError> {
        self.0.finish()?;
        Ok(String::new())
    }
}

fn begin<'t>(
    text: &'t mut String,
    flow: &FlowRow<'_>,
    event_type: &str,
    ns: Option<i64>,
) -> Object<'t> {
    let mut event = Object::begin(text);
    let time = ns.map_or(Timestamp::UNKNOWN, Timestamp::from_ns);
    let &FlowRow { community_id, capture, vlan, ips, ports, protocol, .. } = flow;
    let first = flow.first();
    let begins =
        Head { time, first, event_type, community_id, capture, vlan, ips, ports, protocol };
    head(&mut event, &begins);
    event
}

/// A ClientHello. The server's answer is not read, so neither the version nor what it chose is
/// written; what the client offers is in `wirelens`.
fn hello(text: &mut String, flow: &FlowRow<'_>, event_type: &str) {
    let names = &flow.names;
    let mut event = begin(text, flow, event_type, flow.first_ns);
    event.object(event_type, |hello| hello.text_if_any("sni", names.server_name));
    event.object("wirelens", |wirelens| {
        wirelens.text_if_any("ja4", names.ja4);
        wirelens.text_if_any("alpn_offered", names.alpn);
        wirelens.text_if_any("tls_version_offered", names.tls_version);
        if let Some(is_offered) = names.ech_offered {
            wirelens.raw("ech_offered", is_offered);
        }
    });
    event.end();
    text.push('\n');
}

/// The first question of a flow.
fn dns(text: &mut String, flow: &FlowRow<'_>) {
    let Some(name) = flow.names.dns_query else { return };
    let mut event = begin(text, flow, "dns", flow.first_ns);
    event.object("dns", |dns| {
        dns.raw("version", 2);
        dns.text("type", "query");
        dns.text("rrname", name);
        dns.text_if_any("rrtype", flow.names.dns_query_type);
    });
    event.end();
    text.push('\n');
}

/// A flow that has ended.
fn ended(text: &mut String, flow: &FlowRow<'_>) {
    let names = &flow.names;
    let mut event = begin(text, flow, "flow", flow.last_ns);
    event.text_if_any("app_proto", names.app_protocol.and_then(app_proto));
    if flow.macs.iter().any(Option::is_some) {
        // A flow of Suricata lists all addresses of a side; here it has the first.
        event.object("ether", |ether| {
            for (key, mac) in ["src_macs", "dest_macs"].into_iter().zip(flow.macs) {
                if let Some(mac) = mac {
                    ether.raw(key, format_args!("[\"{mac}\"]"));
                }
            }
        });
    }
    event.object("flow", |counts| {
        counts.raw("pkts_toserver", flow.packets[0]);
        counts.raw("pkts_toclient", flow.packets[1]);
        counts.raw("bytes_toserver", flow.bytes[0]);
        counts.raw("bytes_toclient", flow.bytes[1]);
        for (key, time) in [("start", flow.first_ns), ("end", flow.last_ns)] {
            if let Some(ns) = time {
                counts.text(key, &suricata_time(Timestamp::from_ns(ns)));
            }
        }
        if let Some(ns) = flow.duration_ns() {
            counts.raw("age", ns / 1_000_000_000);
        }
        counts.text("state", state(flow));
        counts.text("reason", reason(flow.end_reason));
    });
    if flow.protocol == "tcp" {
        let [to_server, to_client] = flow.tcp_flags;
        event.object("tcp", |tcp| {
            tcp.text("tcp_flags", &format!("{:02x}", to_server | to_client));
            tcp.text("tcp_flags_ts", &format!("{to_server:02x}"));
            tcp.text("tcp_flags_tc", &format!("{to_client:02x}"));
        });
    }
    event.object("wirelens", |wirelens| {
        wirelens.text("end_reason", flow.end_reason);
        wirelens.text_if_any("app_protocol", names.app_protocol);
        wirelens.text_if_any("server_name", names.server_name);
        wirelens.text_if_any("resolved_name", names.resolved_name);
        if let Some(of_flow) = &flow.verdict {
            verdict(wirelens, of_flow);
        }
        let [source, destination] = &flow.sides;
        side(wirelens, source, SOURCE);
        side(wirelens, destination, DESTINATION);
    });
    event.end();
    text.push('\n');
}

/// Suricata's words: `closed` is TCP's, `established` where both sides have sent.
fn state(flow: &FlowRow<'_>) -> &'static str {
    match flow.end_reason {
        "fin" | "rst" => "closed",
        _ if flow.packets.iter().all(|&count| count > 0) => "established",
        _ => "new",
    }
}

/// Suricata lets a closed flow time out as well; a table that was full `forced` it out, and at the
/// end of the input it was `shutdown`.
fn reason(end_reason: &str) -> &'static str {
    match end_reason {
        "emergency" | "evicted" => "forced",
        "end" => "shutdown",
        _ => "timeout",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_that_suricata_does_not_name_is_no_app_proto() {
        assert_eq!(app_proto("vnc"), Some("rfb"));
        assert_eq!(app_proto("tls"), Some("tls"));
        assert_eq!(app_proto("wireguard"), None);
    }

    #[test]
    fn every_end_has_a_reason_of_suricata() {
        for reason_here in engine::flow::EndReason::ALL {
            let word = reason(reason_here.name());
            assert!(["timeout", "forced", "shutdown"].contains(&word));
        }
    }
}
