//! Which flows are followed: those to an address, a network or a port.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use packet::flow_key::Endpoint;
use serde::{Deserialize, Deserializer};

use crate::written;

/// Where named flows go: `192.0.2.1`, `192.0.2.0/24:443`, `[2001:db8::1]:443` or `*:443`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// A network and the length of its prefix; none for any address.
    network: Option<(IpAddr, u8)>,
    /// None for any port.
    port: Option<u16>,
}

/// Text that names no target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetError(String);

const WANTED: &str = "wanted ADDRESS[/LEN][:PORT], such as 192.0.2.1, 192.0.2.0/24:443, \
                      [2001:db8::1]:443 or *:443";

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seen) = self;
        write!(f, "`{seen}`: {WANTED}")
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Whether packets to this end are of a named flow.
    #[must_use]
    pub fn takes(&self, destination: Endpoint) -> bool {
        self.port.is_none_or(|port| port == destination.port)
            && self.network.is_none_or(|network| is_in(destination.address, network))
    }
}

fn is_in(address: IpAddr, (network, len): (IpAddr, u8)) -> bool {
    let same = |one: u128, other: u128, bits: u32| {
        let shift = bits - u32::from(len);
        one.checked_shr(shift) == other.checked_shr(shift)
    };
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            same(address.to_bits().into(), network.to_bits().into(), 32)
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            same(address.to_bits(), network.to_bits(), 128)
        }
        _ => false,
    }
}

/// Reads `192.0.2.1` or `192.0.2.0/24`.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = match text.split_once('/') {
        Some((address, len)) => (address, Some(len.parse().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let len = len.unwrap_or(most);
    (len <= most).then_some((address, len))
}

fn read(text: &str) -> Option<Target> {
    if let Some(whole) = network(text) {
        return Some(Target { network: Some(whole), port: None });
    }
    let (address, port) = match text.rsplit_once(':') {
        Some((address, port)) if !port.contains(']') => (address, Some(port.parse().ok()?)),
        _ => (text, None),
    };
    if address == "*" {
        return port.map(|port| Target { network: None, port: Some(port) });
    }
    let in_brackets = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let network = network(in_brackets.unwrap_or(address))?;
    // Without brackets nobody knows where an IPv6 address ends.
    let is_clear = network.0.is_ipv4() == in_brackets.is_none();
    is_clear.then_some(Target { network: Some(network), port })
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        read(text).ok_or_else(|| TargetError(text.to_owned()))
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        written::text(from, "where flows go, such as \"192.0.2.1:443\"", |text| {
            text.parse().map_err(|error: TargetError| error.to_string())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_named_by_where_they_go() {
        let takes = |target: &str, address: &str, port| {
            let address = address.parse().unwrap();
            target.parse::<Target>().unwrap().takes(Endpoint { address, port })
        };
        for (target, address, port, wanted) in [
            ("192.0.2.1", "192.0.2.1", 80, true),
            ("192.0.2.1", "192.0.2.2", 80, false),
            ("192.0.2.1:443", "192.0.2.1", 443, true),
            ("192.0.2.1:443", "192.0.2.1", 80, false),
            ("192.0.2.0/24:443", "192.0.2.77", 443, true),
            ("192.0.2.0/24", "192.0.3.1", 443, false),
            ("0.0.0.0/0", "198.51.100.1", 1, true),
            ("0.0.0.0/0", "2001:db8::1", 1, false),
            ("::/0", "2001:db8::1", 1, true),
            ("2001:db8::/32", "2001:db8::1", 1, true),
            ("2001:db8::/32", "2001:db9::1", 1, false),
            ("[2001:db8::1]:443", "2001:db8::1", 443, true),
            ("[2001:db8::/32]:443", "2001:db8::9", 80, false),
            ("*:443", "2001:db8::9", 443, true),
            ("*:443", "192.0.2.1", 80, false),
        ] {
            assert_eq!(takes(target, address, port), wanted, "{target} {address} {port}");
        }
    }

    #[test]
    fn what_names_no_target_is_refused_with_an_example() {
        for text in [
            "",
            "*",
            "tcp port 443",
            "192.0.2.1:http",
            "192.0.2.1/33",
            "192.0.2.1:443:1",
            "host",
            "[192.0.2.1]:443",
            "[2001:db8::1",
            "192.0.2.1:70000",
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}`: wanted ADDRESS")), "{error}");
        }
    }
}
