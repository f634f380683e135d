//! Filter expressions that name no host.
//!
//! libpcap asks the resolver about every word it does not know, so an engine
//! that makes up words would ask the network about them. Words that are
//! neither known nor numbers are replaced here, chosen by their letters; all
//! else stays as the engine wrote it.

use std::net::Ipv4Addr;

/// Longest expression: libpcap's optimiser takes its time over long ones.
pub const EXPRESSION_LEN_MAX: usize = 128;

#[rustfmt::skip]
const WORDS: &[&str] = &[
    "and", "or", "not", "src", "dst", "host", "net", "port", "portrange", "mask", "less",
    "greater", "len", "proto", "protochain", "broadcast", "multicast", "gateway", "inbound",
    "outbound", "ether", "fddi", "tr", "wlan", "link", "ppp", "slip", "radio", "ip", "ip6", "arp",
    "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "igrp", "pim", "vrrp", "carp", "ah",
    "esp", "atalk", "aarp", "decnet", "lat", "sca", "moprc", "mopdl", "iso", "esis", "isis",
    "es-is", "is-is", "l1", "l2", "iih", "lsp", "snp", "csnp", "psnp", "clnp", "stp", "ipx",
    "netbeui", "vlan", "mpls", "pppoed", "pppoes", "geneve", "type", "subtype", "dir",
    "addr1", "addr2", "addr3", "addr4", "ifname", "rnr", "rulenum", "reason", "action", "rset",
    "on", "lane", "llc", "metac", "bcc", "sc", "ilmic", "oamf4ec", "oamf4sc", "oam", "oamf4",
    "connectmsg", "metaconnect", "vpi", "vci", "sio", "opc", "dpc", "sls", "fisu", "lssu", "msu",
    "icmptype", "icmp-echo", "tcpflags", "tcp-syn", "tcp-ack", "tcp-fin",
];

/// Put in whole for words that are not known.
#[rustfmt::skip]
const PHRASES: &[&str] = &[
    "fe80::1", "2001:db8::/32", "::ffff:1.2.3.4", "00:11:22:33:44:55", "proto \\tcp", "tcp[13]",
    "ip6[40:4]", "ether[0] & 1 != 0", "192.0.2.0/24", "portrange 1-65535", "0xffffffff", "<<",
    "len - 14", "vlan 100 and", "mpls 5 and", "icmp[icmptype] == icmp-echo", "type mgt",
    "host 192.0.2.1", "port 53",
];

/// `bytes` as an expression of at most [`EXPRESSION_LEN_MAX`] bytes.
#[must_use]
pub fn expression(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(EXPRESSION_LEN_MAX)];
    // A backslash makes a name of a known word.
    let text = String::from_utf8_lossy(bytes).replace('\\', " ");
    let mut safe = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |char: char| char.is_ascii_alphanumeric() || "._-".contains(char);
        let len = rest.find(|char| is_word(char) != is_word(first)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(len);
        let run = if is_word(first) { known(run) } else { run };
        // Whole, because a part of a known word may be an unknown one.
        if safe.len() + run.len() > EXPRESSION_LEN_MAX {
            break;
        }
        safe.push_str(run);
        rest = behind;
    }
    safe
}

/// The word itself where it names nothing, else one that does not.
fn known(word: &str) -> &str {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = word.strip_prefix("0x").unwrap_or_default();
    let is_hexadecimal =
        !hexadecimal.is_empty() && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_operator = word.bytes().all(|byte| byte == b'-');
    let is_address = word.parse::<Ipv4Addr>().is_ok();
    if is_number || is_hexadecimal || is_operator || is_address || WORDS.contains(&word) {
        return word;
    }
    let sum: usize = word.bytes().map(usize::from).sum();
    let index = sum % (WORDS.len() + PHRASES.len());
    WORDS.get(index).or_else(|| PHRASES.get(index - WORDS.len())).copied().unwrap_or("ip")
}
