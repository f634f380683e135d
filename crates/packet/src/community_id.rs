//! Community ID, version 1: the name of a flow that Zeek, Suricata, Wireshark
//! and others give it too (<https://github.com/corelight/community-id-spec>).
//!
//! `"1:" + base64(sha1(seed, low address, high address, protocol, 0, ports))`.
//! The order of the endpoints and what stands in for the ports of ICMP are
//! those of [`FlowKey`]. Ports are hashed for TCP, UDP, SCTP, ICMP and
//! `ICMPv6` only, as the specification has it: UDP-Lite and DCCP are keyed by
//! port here, but named by addresses and protocol. The specification says
//! nothing of fragments; one that carries no ports is named with ports 0 and 0.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::flow_key::FlowKey;
use crate::layers::Protocol;

/// The flow's Community ID. `seed` separates domains that must not be joined;
/// everybody's default is 0.
#[must_use]
pub fn community_id(key: &FlowKey, seed: u16) -> String {
    let mut hash = Sha1::new();
    hash.update(seed.to_be_bytes());
    for endpoint in [key.low(), key.high()] {
        match endpoint.address {
            IpAddr::V4(address) => hash.update(address.octets()),
            IpAddr::V6(address) => hash.update(address.octets()),
        }
    }
    hash.update([key.protocol().0, 0]);
    if has_ports(key.protocol()) {
        hash.update(key.low_port().to_be_bytes());
        hash.update(key.high_port().to_be_bytes());
    }
    let mut id = String::from("1:");
    STANDARD.encode_string(hash.finalize(), &mut id);
    id
}

const fn has_ports(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::ICMP | Protocol::ICMPV6
    )
}
