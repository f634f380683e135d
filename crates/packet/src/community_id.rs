//! Community ID, version 1: the name of a flow that Zeek, Suricata, Wireshark
//! and others give it too (<https://github.com/corelight/community-id-spec>).
//!
//! `"1:" + base64(sha1(seed, low address, high address, protocol, 0, ports))`.
//! The order of the endpoints and what stands in for the ports of ICMP are
//! those of [`FlowKey`]. Ports are hashed for TCP, UDP, SCTP, ICMP and
//! `ICMPv6` only, as the specification has it: UDP-Lite and DCCP are keyed by
//! port here, but named by addresses and protocol. The specification says
//! nothing of fragments; one that carries no ports is named with ports 0 and 0.

use std::fmt;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

use crate::flow_key::FlowKey;
use crate::layers::Protocol;

/// Bytes of SHA-1.
pub const DIGEST_LEN: usize = 20;

/// The flow's Community ID. `seed` separates domains that must not be joined;
/// the usual default is 0.
#[must_use]
pub fn community_id(key: &FlowKey, seed: u16) -> String {
    String::from(CommunityIdText::new(key, seed).as_str())
}

/// Bytes of a Community ID: its version, and 20 bytes in base64.
const TEXT_LEN: usize = 30;

/// A Community ID as text that needs no memory of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommunityIdText([u8; TEXT_LEN]);

impl CommunityIdText {
    /// The flow's Community ID, as [`community_id`] has it.
    #[must_use]
    pub fn new(key: &FlowKey, seed: u16) -> Self {
        let mut text = [b'='; TEXT_LEN];
        let (version, id) = text.split_at_mut(2);
        version.copy_from_slice(b"1:");
        // There is room: 20 bytes are 28 in base64.
        let written = STANDARD.encode_slice(community_digest(key, seed), id);
        debug_assert_eq!(written, Ok(TEXT_LEN - 2));
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl AsRef<str> for CommunityIdText {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

/// The hash that [`community_id`] writes as text.
#[must_use]
pub fn community_digest(key: &FlowKey, seed: u16) -> [u8; DIGEST_LEN] {
    // Two addresses of 16 bytes and eight more at most, which are hashed in one go.
    let mut message = [0; 40];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        if let Some(place) = message.get_mut(len..len + bytes.len()) {
            place.copy_from_slice(bytes);
        }
        len += bytes.len();
    };
    put(&seed.to_be_bytes());
    for endpoint in [key.low(), key.high()] {
        match endpoint.address {
            IpAddr::V4(address) => put(&address.octets()),
            IpAddr::V6(address) => put(&address.octets()),
        }
    }
    put(&[key.protocol().0, 0]);
    if has_ports(key.protocol()) {
        put(&key.low_port().to_be_bytes());
        put(&key.high_port().to_be_bytes());
    }
    Sha1::digest(message.get(..len).unwrap_or_default()).into()
}

/// The hash that a Community ID of version 1 holds; `None` where `text` is none.
#[must_use]
pub fn parse_community_id(text: &str) -> Option<[u8; DIGEST_LEN]> {
    STANDARD.decode(text.strip_prefix("1:")?).ok()?.try_into().ok()
}

/// A flow's Community ID under seed 0, computed when it is written: most never are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CommunityId(pub FlowKey);

impl fmt::Display for CommunityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(CommunityIdText::new(&self.0, 0).as_str())
    }
}

const fn has_ports(protocol: Protocol) -> bool {
    matches!(
        protocol,
        Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::ICMP | Protocol::ICMPV6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One tuple: protocol, source, destination, their ports, and the Community
    /// IDs under seeds 0 and 1.
    type Vector = (u8, &'static str, &'static str, u16, u16, &'static str, &'static str);

    /// The reference data of the specification: `baseline_deflt.json` and
    /// `baseline_seed1.json` in `corelight/community-id-spec/baseline`,
    /// commit c4ec2bc, all 23 tuples in their order.
    #[rustfmt::skip]
    const BASELINE: [Vector; 23] = [
        (58, "fe80::200:86ff:fe05:80da", "fe80::260:97ff:fe07:69ea", 135, 136, "1:dGHyGvjMfljg6Bppwm3bg0LO8TY=", "1:kHa1FhMYIT6Ym2Vm2AOtoOARDzY="),
        (58, "fe80::260:97ff:fe07:69ea", "fe80::200:86ff:fe05:80da", 136, 135, "1:dGHyGvjMfljg6Bppwm3bg0LO8TY=", "1:kHa1FhMYIT6Ym2Vm2AOtoOARDzY="),
        (58, "fe80::260:97ff:fe07:69ea", "fe80::200:86ff:fe05:80da", 135, 136, "1:zavyT/cezQr1fmImYCwYnMXbgck=", "1:2hSqmsDZ2kdcY9kbiUzOEBic0iM="),
        (58, "fe80::200:86ff:fe05:80da", "fe80::260:97ff:fe07:69ea", 136, 135, "1:zavyT/cezQr1fmImYCwYnMXbgck=", "1:2hSqmsDZ2kdcY9kbiUzOEBic0iM="),
        (58, "3ffe:501:1800:2345::2", "3ffe:507:0:1:200:86ff:fe05:80da", 3, 0, "1:2ObVBgIn28oZvibYZhZMBgh7WdQ=", "1:lVEtCZpYu84Xqaa++3lXFyuu2n4="),
        (58, "3ffe:501:410:0:2c0:dfff:fe47:33e", "3ffe:507:0:1:200:86ff:fe05:80da", 1, 4, "1:hLZd0XGWojozrvxqE0dWB1iM6R0=", "1:W8MHwXpWzpoSTD+cGcaJr4u0ys8="),
        (58, "3ffe:507:0:1:200:86ff:fe05:80da", "3ffe:501:0:1001::2", 128, 129, "1:+TW+HtLHvV1xnGhV1lv7XoJrqQg=", "1:GfZxjAkDk2MkegpBYHV6tadtFXQ="),
        (58, "3ffe:501:0:1001::2", "3ffe:507:0:1:200:86ff:fe05:80da", 129, 128, "1:+TW+HtLHvV1xnGhV1lv7XoJrqQg=", "1:GfZxjAkDk2MkegpBYHV6tadtFXQ="),
        (58, "fe80::200:86ff:fe05:80da", "ff02::2", 133, 134, "1:hO+sN4H+MG5MY/8hIrXPqc4ZQz0=", "1:L7Ka0ZMYu+J3bL4ulW2PrqyXNo8="),
        (58, "fe80::260:97ff:fe07:69ea", "ff02::1", 134, 133, "1:pkvHqCL88/tg1k4cPigmZXUtL00=", "1:K/ee5UCqAMAQXDorP5nSa2CGLjc="),
        (1, "192.168.0.89", "192.168.0.1", 8, 0, "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=", "1:03g6IloqVBdcZlPyX8r0hgoE7kA="),
        (1, "192.168.0.1", "192.168.0.89", 0, 8, "1:X0snYXpgwiv9TZtqg64sgzUn6Dk=", "1:03g6IloqVBdcZlPyX8r0hgoE7kA="),
        (1, "10.0.0.1", "10.0.0.2", 11, 0, "1:YHxtAirCG//0OzkcVAukqKQN9xM=", "1:XjUibYHaafLQ3pxQeiMI8g25q20="),
        (6, "2001:470:e5bf:dead:4957:2174:e82c:4887", "2607:f8b0:400c:c03::1a", 63943, 25, "1:/qFaeAR+gFe1KYjMzVDsMv+wgU4=", "1:eJYTW6AOzFLlSUoESovMjnu7rMw="),
        (6, "2607:f8b0:400c:c03::1a", "2001:470:e5bf:dead:4957:2174:e82c:4887", 25, 63943, "1:/qFaeAR+gFe1KYjMzVDsMv+wgU4=", "1:eJYTW6AOzFLlSUoESovMjnu7rMw="),
        (132, "192.168.170.8", "192.168.170.56", 7, 7, "1:MP2EtRCAUIZvTw6MxJHLV7N7JDs=", "1:5w3ZRjeKBzqT3zsaEECDGjUbYeg="),
        (132, "192.168.170.56", "192.168.170.8", 7, 7, "1:MP2EtRCAUIZvTw6MxJHLV7N7JDs=", "1:5w3ZRjeKBzqT3zsaEECDGjUbYeg="),
        (6, "128.232.110.120", "66.35.250.204", 34855, 80, "1:LQU9qZlK+B5F3KDmev6m5PMibrg=", "1:3V71V58M3Ksw/yuFALMcW0LAHvc="),
        (6, "66.35.250.204", "128.232.110.120", 80, 34855, "1:LQU9qZlK+B5F3KDmev6m5PMibrg=", "1:3V71V58M3Ksw/yuFALMcW0LAHvc="),
        (17, "192.168.1.52", "8.8.8.8", 54585, 53, "1:d/FP5EW3wiY1vCndhwleRRKHowQ=", "1:Q9We8WO3piVF8yEQBNJF4uiSVrI="),
        (17, "8.8.8.8", "192.168.1.52", 53, 54585, "1:d/FP5EW3wiY1vCndhwleRRKHowQ=", "1:Q9We8WO3piVF8yEQBNJF4uiSVrI="),
        (46, "10.1.12.1", "10.1.12.2", 0, 0, "1:KHlLkgoJW7ifUTyTSgyVfkFHzKw=", "1:rYir8gphR31noO9iDRQmF/BteEI="),
        (46, "10.1.12.2", "10.1.12.1", 0, 0, "1:KHlLkgoJW7ifUTyTSgyVfkFHzKw=", "1:rYir8gphR31noO9iDRQmF/BteEI="),
    ];

    /// What the baseline leaves out, as `communityid` 1.5.0 from PyPI (the
    /// specification's reference implementation) computes it.
    #[rustfmt::skip]
    const COMPUTED: [Vector; 5] = [
        (132, "2001:db8::1", "2001:db8::2", 5000, 5001, "1:iPLZ9BqGpIp8jEHuc6JMr5tGntM=", "1:YeEadeygVBgH4BUWSppsaA1bokQ="),
        (17, "2001:db8::2", "2001:db8::1", 53, 50000, "1:PMePuOGtLlgrRYD1p7s1h2+2em8=", "1:ZbRMOXH/ejkYTuPVKdWcRVZDU00="),
        (1, "10.0.0.2", "10.0.0.1", 3, 4, "1:kY+xobftfPiLMVs2DaUekxsQ9Ns=", "1:0nuZ1o2BwI00d5DEOWZ+GOHh9Gc="),
        (47, "2001:db8::2", "2001:db8::1", 0, 0, "1:RgLHDf67jKnjcEaiCVvPAVCpfSc=", "1:1sDne7NvAd4TvnDHqEiw/pRDxJ8="),
        (6, "127.0.0.1", "127.0.0.1", 5001, 5000, "1:UvbGOU6lWI7jC2ZupzaGKwAB7z8=", "1:ciEDoppjuNIPhxTEkOgkiA5uAC8="),
    ];

    fn key(vector: &Vector) -> FlowKey {
        let &(protocol, source, destination, source_port, destination_port, ..) = vector;
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        let protocol = Protocol(protocol);
        FlowKey::from_tuple(source, destination, source_port, destination_port, protocol).0
    }

    #[test]
    fn agrees_with_the_published_vectors() {
        for vector in BASELINE.iter().chain(&COMPUTED) {
            assert_eq!(community_id(&key(vector), 0), vector.5, "{vector:?}");
            assert_eq!(community_id(&key(vector), 1), vector.6, "{vector:?}");
        }
    }

    #[test]
    fn an_id_gives_its_hash_back_and_what_is_none_does_not() {
        for vector in &BASELINE {
            assert_eq!(parse_community_id(vector.5), Some(community_digest(&key(vector), 0)));
        }
        for text in ["", "1:", "2:dGHyGvjMfljg6Bppwm3bg0LO8TY=", "1:dGHyGvjMfljg6Bppwm3bg0LO8T"] {
            assert_eq!(parse_community_id(text), None, "{text}");
        }
    }

    #[test]
    fn one_id_is_one_key_in_the_baseline() {
        for one in &BASELINE {
            for other in &BASELINE {
                assert_eq!(one.5 == other.5, key(one) == key(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn ports_of_udp_lite_and_dccp_are_not_hashed() {
        for protocol in [Protocol::UDP_LITE, Protocol::DCCP] {
            let id = |port| {
                let (a, b) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
                community_id(&FlowKey::from_tuple(a, b, port, port, protocol).0, 0)
            };
            assert_eq!(id(0), id(1));
        }
    }
}
