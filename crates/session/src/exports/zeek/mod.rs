//! Flows as Zeek's logs: `conn.log`, `ssl.log` and `dns.log` in one folder.
//!
//! Columns are those of Zeek, in its order; what is not measured here is unset. Verdicts have
//! columns of their own behind them and are never in `service`, which is what the payload shows.

mod log;

use std::collections::HashMap;
use std::path::Path;

use files::FileMode;
use names::dns::RecordType;
use packet::Timestamp;
use sink::OutputError;

use log::{Cell, Log};
pub use log::{Column, escaped, push_end, push_head};

use super::Records;
use super::file::TextFile;
use super::row::{FlowRow, VerdictRow};
use super::text::{epoch_seconds, flow_id, seconds, uid};
use crate::outlet::RowsError;

const IDENTITY: [Column; 6] = [
    ("ts", "time"),
    ("uid", "string"),
    ("id.orig_h", "addr"),
    ("id.orig_p", "port"),
    ("id.resp_h", "addr"),
    ("id.resp_p", "port"),
];

const CONN: [Column; 18] = [
    ("proto", "enum"),
    ("service", "string"),
    ("duration", "interval"),
    ("orig_bytes", "count"),
    ("resp_bytes", "count"),
    ("conn_state", "string"),
    ("local_orig", "bool"),
    ("local_resp", "bool"),
    ("missed_bytes", "count"),
    ("history", "string"),
    ("orig_pkts", "count"),
    ("orig_ip_bytes", "count"),
    ("resp_pkts", "count"),
    ("resp_ip_bytes", "count"),
    ("tunnel_parents", "set[string]"),
    ("ip_proto", "count"),
    ("vlan", "int"),
    ("community_id", "string"),
];

/// What Zeek's policy `mac-logging` adds to `conn.log`.
const MACS: [Column; 2] = [("orig_l2_addr", "string"), ("resp_l2_addr", "string")];

/// What a model says: of `conn.log`, where there is one.
const VERDICT: [Column; 7] = [
    ("wirelens_label", "string"),
    ("wirelens_confidence", "double"),
    ("wirelens_guess", "string"),
    ("wirelens_guess_confidence", "double"),
    ("wirelens_stage", "string"),
    ("wirelens_packets", "count"),
    ("wirelens_model", "string"),
];

/// `ssl.log`, of TLS over TCP and in QUIC. The server's side is not read.
const SSL: [Column; 14] = [
    ("version", "string"),
    ("cipher", "string"),
    ("curve", "string"),
    ("server_name", "string"),
    ("resumed", "bool"),
    ("last_alert", "string"),
    ("next_protocol", "string"),
    ("established", "bool"),
    ("ssl_history", "string"),
    ("community_id", "string"),
    ("ja4", "string"),
    ("version_offered", "string"),
    ("alpn_offered", "string"),
    ("ech_offered", "bool"),
];

const DNS: [Column; 19] = [
    ("proto", "enum"),
    ("trans_id", "count"),
    ("rtt", "interval"),
    ("query", "string"),
    ("qclass", "count"),
    ("qclass_name", "string"),
    ("qtype", "count"),
    ("qtype_name", "string"),
    ("rcode", "count"),
    ("rcode_name", "string"),
    ("AA", "bool"),
    ("TC", "bool"),
    ("RD", "bool"),
    ("RA", "bool"),
    ("Z", "count"),
    ("answers", "vector[string]"),
    ("TTLs", "vector[interval]"),
    ("rejected", "bool"),
    ("community_id", "string"),
];

/// Record types with a name lie below this.
const NAMED_TYPES: u16 = 300;

/// What `conn.log` has after Zeek's own columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExtraColumns {
    pub(super) has_macs: bool,
    pub(super) has_verdict: bool,
}

/// The logs on their way into files.
pub(super) struct Zeek {
    conn: Log,
    ssl: Log,
    dns: Log,
    added: ExtraColumns,
    types: HashMap<String, u16>,
    protocols: HashMap<String, u8>,
}

impl Zeek {
    /// Begins the logs in a folder, which is made where it is not there.
    pub(super) fn create(
        folder: &Path,
        is_json: bool,
        force: bool,
        added: ExtraColumns,
    ) -> Result<Self, RowsError> {
        files::create_folder(folder, FileMode::asked())
            .map_err(|source| OutputError::Create { path: folder.to_owned(), source })?;
        let log = |path, own: &[Column]| -> Result<Log, RowsError> {
            let columns = IDENTITY.iter().chain(own).copied().collect();
            let file = TextFile::create(&folder.join(format!("{path}.log")), force)?;
            Ok(Log::new(path, columns, is_json, file))
        };
        let macs = MACS.iter().filter(|_| added.has_macs);
        let verdict = VERDICT.iter().filter(|_| added.has_verdict);
        let of_conn: Vec<_> = CONN.iter().chain(macs).chain(verdict).copied().collect();
        Ok(Self {
            conn: log("conn", &of_conn)?,
            ssl: log("ssl", &SSL)?,
            dns: log("dns", &DNS)?,
            added,
            types: (0..NAMED_TYPES).map(|n| (RecordType(n).to_string(), n)).collect(),
            protocols: super::protocol_numbers(),
        })
    }

    fn conn(&mut self, flow: &FlowRow<'_>, identity: &[Cell<'_>]) -> Result<(), RowsError> {
        let has_payload = flow.payload_bytes.map(Some);
        let protocol = self.protocols.get(flow.protocol).copied();
        let [local_orig, local_resp] =
            flow.sides.map(|side| side.is_local.map_or(Cell::Unset, Cell::Bool));
        let mut cells = identity.to_vec();
        cells.extend([
            Cell::Text(proto(flow.protocol)),
            Cell::text(flow.names.app_protocol.and_then(service)),
            Cell::number(flow.duration_ns().map(seconds)),
            Cell::number(has_payload[0]),
            Cell::number(has_payload[1]),
            Cell::Text(conn_state(flow)),
            local_orig,
            local_resp,
            Cell::Unset,
            Cell::text(Some(flow.tcp_history).filter(|history| !history.is_empty())),
            Cell::number(Some(flow.packets[0])),
            Cell::number(Some(flow.ip_bytes[0])),
            Cell::number(Some(flow.packets[1])),
            Cell::number(Some(flow.ip_bytes[1])),
            Cell::Unset,
            Cell::number(protocol),
            Cell::number(flow.vlan),
            Cell::Text(flow.community_id),
        ]);
        if self.added.has_macs {
            cells.extend(flow.macs.map(Cell::text));
        }
        if self.added.has_verdict {
            cells.extend(verdict(&flow.verdict.unwrap_or_default()));
        }
        self.conn.put(time(flow), &cells)
    }

    fn ssl(&mut self, flow: &FlowRow<'_>, identity: &[Cell<'_>]) -> Result<(), RowsError> {
        let names = &flow.names;
        let mut cells = identity.to_vec();
        cells.extend([Cell::Unset, Cell::Unset, Cell::Unset]);
        cells.push(Cell::text(names.server_name));
        cells.extend([Cell::Unset, Cell::Unset, Cell::Unset, Cell::Unset, Cell::Unset]);
        cells.extend([
            Cell::Text(flow.community_id),
            Cell::text(names.ja4),
            Cell::text(names.tls_version),
            Cell::text(names.alpn),
            names.ech_offered.map_or(Cell::Unset, Cell::Bool),
        ]);
        self.ssl.put(time(flow), &cells)
    }

    fn dns(&mut self, flow: &FlowRow<'_>, identity: &[Cell<'_>]) -> Result<(), RowsError> {
        let names = &flow.names;
        let kind = names.dns_query_type.and_then(|name| self.types.get(name)).copied();
        let mut cells = identity.to_vec();
        cells.extend([
            Cell::Text(proto(flow.protocol)),
            Cell::Unset,
            Cell::Unset,
            Cell::text(names.dns_query),
            Cell::Unset,
            Cell::Unset,
            Cell::number(kind),
            Cell::text(names.dns_query_type),
        ]);
        cells.resize(IDENTITY.len() + DNS.len() - 1, Cell::Unset);
        cells.push(Cell::Text(flow.community_id));
        self.dns.put(time(flow), &cells)
    }

    fn logs(&mut self) -> [&mut Log; 3] {
        [&mut self.conn, &mut self.ssl, &mut self.dns]
    }
}

impl Records for Zeek {
    fn put(&mut self, flow: &FlowRow<'_>) -> Result<(), RowsError> {
        let number = uid(flow_id(flow.community_id, flow.first()));
        let [source, destination] = flow.ips;
        let identity = [
            Cell::number(flow.first_ns.map(epoch_seconds)),
            Cell::Text(&number),
            Cell::Text(source),
            Cell::number(Some(flow.ports[0])),
            Cell::Text(destination),
            Cell::number(Some(flow.ports[1])),
        ];
        match flow.names.app_protocol {
            Some("tls" | "quic") => self.ssl(flow, &identity)?,
            Some("dns" | "mdns" | "llmnr") if flow.names.dns_query.is_some() => {
                self.dns(flow, &identity)?;
            }
            _ => {}
        }
        self.conn(flow, &identity)
    }

    fn size_bytes(&self) -> u64 {
        [&self.conn, &self.ssl, &self.dns]
            .map(|log| log.file.size_bytes())
            .into_iter()
            .fold(0, u64::max)
    }

    fn write_out(&mut self) -> Result<(), RowsError> {
        self.logs().into_iter().try_for_each(|log| log.file.write_out())
    }

    fn reopen(&mut self) -> Result<(), RowsError> {
        self.logs().into_iter().try_for_each(Log::reopen)
    }

    fn finish(self: Box<Self>) -> Result<String, RowsError> {
        let Self { conn, ssl, dns, .. } = *self;
        // Where one cannot get its name, the others do.
        let finished = [conn, ssl, dns].map(Log::finish);
        finished.into_iter().collect::<Result<(), _>>()?;
        Ok(String::new())
    }
}

fn time(flow: &FlowRow<'_>) -> Timestamp {
    flow.last_ns.map_or(Timestamp::from_ns(0), Timestamp::from_ns)
}

fn proto(protocol: &str) -> &str {
    match protocol {
        "tcp" | "udp" => protocol,
        "icmp" | "ipv6-icmp" => "icmp",
        _ => "unknown_transport",
    }
}

/// The application protocol under the name that Zeek has for it.
fn service(name: &str) -> Option<&'static str> {
    const SAME: [&str; 15] = [
        "dns",
        "http",
        "ssh",
        "smtp",
        "ftp",
        "imap",
        "mqtt",
        "mysql",
        "postgresql",
        "rdp",
        "smb",
        "sip",
        "ntp",
        "dhcp",
        "snmp",
    ];
    match name {
        "tls" => Some("ssl"),
        "quic" => Some("quic,ssl"),
        "mdns" | "llmnr" => Some("dns"),
        "vnc" => Some("rfb"),
        "socks" => Some("socks"),
        "irc" => Some("irc"),
        "pop3" => Some("pop3"),
        "ldap" => Some("ldap_tcp"),
        "redis" => Some("redis"),
        "modbus" => Some("modbus"),
        name => SAME.into_iter().find(|same| *same == name),
    }
}

fn verdict<'a>(of: &VerdictRow<'a>) -> [Cell<'a>; 7] {
    [
        Cell::Text(of.label),
        Cell::number(of.confidence),
        Cell::Text(of.guess),
        Cell::number(Some(of.guess_confidence)),
        Cell::Text(of.stage),
        Cell::number(Some(of.packets_used)),
        Cell::Text(of.model),
    ]
}

/// What one side of a TCP connection has come to, by the letters of the history.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Its beginning was not seen.
    Inactive,
    /// It sent a SYN that nobody answered.
    SynSent,
    /// Its SYN was answered, or it answered one.
    Established,
    /// It sent FIN.
    Closed,
    /// It sent RST.
    Reset,
}

/// By the rules of Zeek's `conn_state`.
fn conn_state(flow: &FlowRow<'_>) -> &'static str {
    let [sent, answered] = flow.packets.map(|count| count > 0);
    match flow.protocol {
        "udp" if answered => "SF",
        "udp" if sent => "S0",
        "tcp" => tcp_state(flow),
        _ => "OTH",
    }
}

fn tcp_state(flow: &FlowRow<'_>) -> &'static str {
    let has = |letter: char| flow.tcp_history.contains(letter);
    let is_answered = has('h');
    // After FIN of both sides an RST closes nothing.
    let resets = flow.end_reason != "fin";
    let source = match () {
        () if resets && has('R') => Side::Reset,
        () if has('F') => Side::Closed,
        () if has('S') && is_answered => Side::Established,
        () if has('S') => Side::SynSent,
        () => Side::Inactive,
    };
    let destination = match () {
        () if resets && has('r') => Side::Reset,
        () if has('f') => Side::Closed,
        () if is_answered => Side::Established,
        () => Side::Inactive,
    };
    let carried = flow.payload_bytes.iter().any(|&bytes| bytes > 0);
    // Of a side that was closed the history says whether it had begun.
    let (has_begun, has_answered) = (has('S'), is_answered);
    match (source, destination) {
        (Side::SynSent, Side::Reset) => "REJ",
        (Side::Reset, Side::Reset) if !carried && !has_answered => "REJ",
        (_, Side::Reset) if !has_begun => "RSTRH",
        (_, Side::Reset) => "RSTR",
        (Side::Reset, _) if has_answered => "RSTO",
        (Side::Reset, _) if has_begun => "RSTOS0",
        (Side::Reset, _) => "OTH",
        (Side::Closed, Side::Closed) => "SF",
        (Side::Closed, _) if !has_answered => "SH",
        (Side::Closed, _) => "S2",
        (_, Side::Closed) if !has_begun => "SHR",
        (_, Side::Closed) => "S3",
        (Side::SynSent, Side::Inactive) => "S0",
        (Side::Established, Side::Established) => "S1",
        _ => "OTH",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(history: &str, end_reason: &str) -> &'static str {
        let carried = u64::from(history.to_ascii_lowercase().contains('d'));
        let tcp_history = history;
        conn_state(&FlowRow {
            protocol: "tcp",
            packets: [1, 1],
            payload_bytes: [carried, carried],
            tcp_history,
            end_reason,
            ..FlowRow::default()
        })
    }

    #[test]
    fn states_are_those_of_zeek() {
        for (history, end_reason, wanted) in [
            ("S", "idle", "S0"),
            ("ShADad", "end", "S1"),
            ("ShADadFf", "fin", "SF"),
            ("ShADadFfR", "fin", "SF"),
            ("ShADadF", "idle", "S2"),
            ("ShADadf", "idle", "S3"),
            ("Sr", "rst", "REJ"),
            ("ShADadR", "rst", "RSTO"),
            ("ShADadr", "rst", "RSTR"),
            ("SR", "rst", "RSTOS0"),
            ("hr", "rst", "RSTRH"),
            ("SF", "idle", "SH"),
            ("hf", "idle", "SHR"),
            ("DadA", "end", "OTH"),
            ("DadAR", "rst", "OTH"),
        ] {
            assert_eq!(state(history, end_reason), wanted, "{history} {end_reason}");
        }
    }

    #[test]
    fn a_log_that_cannot_get_its_name_takes_no_other_with_it() {
        let home = tempfile::tempdir().unwrap();
        let added = ExtraColumns { has_macs: false, has_verdict: false };
        let mut zeek = Box::new(Zeek::create(home.path(), false, false, added).unwrap());
        zeek.put(&FlowRow { protocol: "tcp", packets: [1, 0], ..FlowRow::default() }).unwrap();
        std::fs::remove_file(home.path().join("conn.log.partial")).unwrap();
        assert!(zeek.finish().unwrap_err().to_string().contains("is gone"));
        let mut names: Vec<_> = std::fs::read_dir(home.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["dns.log", "ssl.log"]);
    }

    #[test]
    fn of_datagrams_it_counts_whether_the_other_side_answers() {
        let of = |packets| conn_state(&FlowRow { protocol: "udp", packets, ..FlowRow::default() });
        assert_eq!([of([1, 0]), of([1, 1])], ["S0", "SF"]);
        assert_eq!(conn_state(&FlowRow { protocol: "icmp", ..FlowRow::default() }), "OTH");
    }
}
