//! The hellos of a capture, found by tshark; their fingerprints are put together here from its
//! fields, by other code than the crate's.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use ring::digest::{SHA256, digest};

use crate::reading::HelloRow;

const FIELDS: [&str; 10] = [
    "tcp.srcport",
    "udp.srcport",
    "tls.handshake.extensions_server_name",
    "tls.handshake.version",
    "tls.handshake.extensions.supported_version",
    "tls.handshake.ciphersuite",
    "tls.handshake.extension.type",
    "tls.handshake.sig_hash_alg",
    "tls.handshake.sig_hash_alg_len",
    "tls.handshake.extensions_alpn_str",
];

/// Whether a capture is worth tshark's time although nothing was found in it.
pub(crate) fn is_about_hellos(name: &str) -> bool {
    ["tls", "ssl", "quic", "https"].iter().any(|word| name.contains(word))
}

pub(crate) fn hellos(path: &Path) -> BTreeSet<HelloRow> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-n", "-Y", "tls.handshake.type==1", "-T", "fields"]);
    command.args(["-E", "separator=|", "-E", "aggregator=,"]);
    command.args(FIELDS.iter().flat_map(|field| ["-e", field]));
    let output = command.output().expect("tshark is wanted");
    String::from_utf8_lossy(&output.stdout).lines().filter_map(seen).collect()
}

fn seen(line: &str) -> Option<HelloRow> {
    let fields: Vec<Vec<&str>> = line.split('|').map(|field| field.split(',').collect()).collect();
    let [tcp, udp, name, version, versions, suites, kinds, algorithms, lens, alpn] = &fields[..]
    else {
        return None;
    };
    let (letter, port) = if tcp[0].is_empty() { ("q", udp) } else { ("t", tcp) };
    // The innermost headers come last.
    let source_port = port.last()?.parse().ok()?;
    let highest = list(versions).max();
    let version = highest.or(number(version[0])).unwrap_or(0);
    let version = match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        _ => "00",
    };
    let (mut suites, mut kinds): (Vec<_>, Vec<_>) = (list(suites).collect(), list(kinds).collect());
    let algorithms = signature_algorithms(&kinds, algorithms, lens)?;
    suites.sort_unstable();
    kinds.sort_unstable();
    let named = if kinds.contains(&0) { "d" } else { "i" };
    let (suite_count, kind_count) = (suites.len().min(99), kinds.len().min(99));
    let alpn = match (alpn[0].chars().next(), alpn[0].chars().last()) {
        (Some(first), Some(last)) => format!("{first}{last}"),
        _ => "00".to_owned(),
    };
    kinds.retain(|&kind| kind != 0 && kind != 16);
    let mut text = digits(&kinds);
    if !algorithms.is_empty() {
        text = format!("{text}_{}", digits(&algorithms));
    }
    let (suites, rest) = (hash(&digits(&suites)), hash(&text));
    let head = format!("{letter}{version}{named}{suite_count:02}{kind_count:02}{alpn}");
    let ja4 = format!("{head}_{suites}_{rest}");
    Some(HelloRow { source_port, server_name: name[0].to_owned(), ja4 })
}

/// The algorithms of extension 13. tshark puts those of delegated credentials (34) and of
/// certificates (50) into the same field, in the order of the extensions.
fn signature_algorithms(kinds: &[u16], all: &[&str], lens: &[&str]) -> Option<Vec<u16>> {
    let mut start = 0;
    for (kind, len) in kinds.iter().filter(|kind| [13, 34, 50].contains(kind)).zip(lens) {
        let end = start + len.parse::<usize>().ok()? / 2;
        if *kind == 13 {
            return Some(list(all.get(start..end)?).collect());
        }
        start = end;
    }
    Some(Vec::new())
}

/// The numbers of a field, without GREASE.
fn list<'a>(field: &'a [&str]) -> impl Iterator<Item = u16> + use<'a> {
    let numbers = field.iter().filter_map(|text| number(text));
    numbers.filter(|value| value & 0x0f0f != 0x0a0a || value >> 8 != value & 0xff)
}

fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn digits(values: &[u16]) -> String {
    let texts: Vec<_> = values.iter().map(|value| format!("{value:04x}")).collect();
    texts.join(",")
}

fn hash(text: &str) -> String {
    if text.is_empty() {
        return "000000000000".to_owned();
    }
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
