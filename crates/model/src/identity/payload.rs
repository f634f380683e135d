//! Payload without what identifies units and networks.
//!
//! Which protocol it is of is decided by a registered port of either side, or by how it begins.

use packet::Protocol;

use super::{View, dhcp, dns, http, part, tls};

/// What a payload is taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Dhcp,
    Dhcpv6,
    Dns { names: dns::Names, at: usize },
    NetBios,
    Ntp,
    Quic,
    Stun,
    Coap,
    Mqtt,
    Tls,
    Http,
}

const STUN_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];

impl Kind {
    fn of(protocol: Protocol, ports: Option<(u16, u16)>, bytes: &[u8]) -> Option<Self> {
        let is_of = |port: u16| ports.is_some_and(|(one, other)| one == port || other == port);
        let dns = |names, at| Self::Dns { names, at };
        match protocol {
            Protocol::UDP if is_of(67) || is_of(68) => Some(Self::Dhcp),
            Protocol::UDP if is_of(546) || is_of(547) => Some(Self::Dhcpv6),
            Protocol::UDP if is_of(53) => Some(dns(dns::Names::Public, 0)),
            Protocol::UDP if is_of(5353) => Some(dns(dns::Names::Services, 0)),
            Protocol::UDP if is_of(5355) => Some(dns(dns::Names::None, 0)),
            Protocol::UDP if is_of(137) => Some(Self::NetBios),
            Protocol::UDP if is_of(123) => Some(Self::Ntp),
            Protocol::UDP if is_of(5683) => Some(Self::Coap),
            Protocol::UDP if part(bytes, 4, 4) == STUN_COOKIE => Some(Self::Stun),
            Protocol::UDP if is_of(443) => Some(Self::Quic),
            Protocol::TCP if is_of(53) => Some(dns(dns::Names::Public, 2)),
            Protocol::TCP if is_of(1883) => Some(Self::Mqtt),
            Protocol::TCP if tls::is_record(bytes) => Some(Self::Tls),
            Protocol::TCP | Protocol::UDP if http::is_message(bytes) => Some(Self::Http),
            _ => None,
        }
    }
}

/// What is listed of a packet's payload; `transport` is its transport header.
pub(crate) fn put(
    view: &mut View<'_>,
    protocol: Protocol,
    ports: Option<(u16, u16)>,
    transport: &[u8],
    bytes: &[u8],
) {
    if matches!(protocol, Protocol::ICMP | Protocol::ICMPV6) {
        // Type and code, of the header; echoed data, targets and options of neighbours go.
        return view.keep(part(transport, 0, 2));
    }
    match Kind::of(protocol, ports, bytes) {
        Some(Kind::Dhcp) => dhcp::v4(view, bytes),
        Some(Kind::Dhcpv6) => dhcp::v6(view, bytes),
        Some(Kind::Dns { names, at }) => {
            dns::message(view, bytes.get(at..).unwrap_or_default(), names);
        }
        Some(Kind::NetBios) => {
            view.hide(2);
            view.keep(part(bytes, 2, 10));
        }
        // Leap, version and mode; stratum, interval, precision. Stamps and references go.
        Some(Kind::Ntp) => view.keep(part(bytes, 0, 4)),
        Some(Kind::Quic) => quic(view, bytes),
        Some(Kind::Stun) => view.keep(part(bytes, 0, 2)),
        Some(Kind::Coap) => {
            if let [first, code, ..] = *bytes {
                view.keep(&[first & 0xf0, code]);
            }
        }
        Some(Kind::Mqtt) => mqtt(view, bytes),
        Some(Kind::Tls) => tls::records(view, bytes),
        Some(Kind::Http) => http::message(view, bytes),
        None => {}
    }
}

/// Of a long header form and version; a short one begins with an id.
fn quic(view: &mut View<'_>, bytes: &[u8]) {
    let Some(&first) = bytes.first() else { return };
    view.keep(&[first & 0xc0]);
    if first & 0x80 != 0 {
        view.keep(part(bytes, 1, 4));
    }
}

/// The kind of packet; of one that connects protocol, level, flags and interval.
fn mqtt(view: &mut View<'_>, bytes: &[u8]) {
    const CONNECT: u8 = 0x10;
    let Some(&first) = bytes.first() else { return };
    view.keep(&[first]);
    // A length of one byte has no bit for another.
    let len_len = part(bytes, 1, 4).iter().take_while(|&&byte| byte & 0x80 != 0).count() + 1;
    let rest = part(bytes, 1 + len_len, bytes.len());
    let is_named = matches!(rest, [0, 4, b'M', b'Q', b'T', b'T', ..]);
    if first == CONNECT && is_named {
        view.keep(part(rest, 0, 10));
    }
}
