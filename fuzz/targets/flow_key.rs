//! Flow keys and Community IDs: both directions are one key, a key gives its
//! tuple back, and a frame has the key of the tuple that its headers tell.
//!
//! Input: flags, protocol, Community ID seed, ports, addresses in 16 bytes
//! each, then an Ethernet frame.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fuzz::input::Input;
use fuzz::promises::assert_one_line;
use libfuzzer_sys::fuzz_target;
use packet::community_id::community_id;
use packet::dissect::{DissectOptions, dissect};
use packet::wire::{icmp, icmpv6, ipv4::Ipv4, ipv6::Ipv6};
use packet::wire::{sctp::Sctp, tcp::Tcp, udp::Udp};
use packet::{FlowDirection, FlowKey, Frame, HashSeed, KeyHash, Layers, LinkType, Network};
use packet::{Protocol, Record};

/// Addresses, what stands in for ports, and protocol.
type Tuple = (IpAddr, IpAddr, u16, u16, Protocol);

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let (flags, protocol, id_seed) = (input.u8(), Protocol(input.u8()), input.u16());
    let (source_port, destination_port) = (input.u16(), input.u16());
    let source = address(input.array(), flags & 1 != 0);
    let destination = address(input.array(), flags & 2 != 0);
    check_tuple((source, destination, source_port, destination_port, protocol), id_seed);
    check_frame(input.rest(), id_seed);
});

fn address(bytes: [u8; 16], is_ipv6: bool) -> IpAddr {
    let [a, b, c, d, ..] = bytes;
    if is_ipv6 { Ipv6Addr::from(bytes).into() } else { Ipv4Addr::new(a, b, c, d).into() }
}

/// The type that answers a message; `None` for what has no types.
fn counterpart(port: u16, protocol: Protocol) -> Option<u8> {
    let kind = u8::try_from(port).ok()?;
    match protocol {
        Protocol::ICMP => icmp::counterpart(kind),
        Protocol::ICMPV6 => icmpv6::counterpart(kind),
        _ => None,
    }
}

fn check_tuple(tuple: Tuple, id_seed: u16) -> (FlowKey, FlowDirection) {
    let (source, destination, source_port, destination_port, protocol) = tuple;
    let (key, direction) =
        FlowKey::from_tuple(source, destination, source_port, destination_port, protocol);
    let seed = HashSeed::new(u64::from(id_seed));
    let id = community_id(&key, id_seed);
    assert!(id.starts_with("1:") && id.len() == 30 && id.is_ascii(), "{id}");
    assert_one_line(&key);
    let is_message = matches!(protocol, Protocol::ICMP | Protocol::ICMPV6);
    let answer = counterpart(source_port, protocol);
    let is_one_way = is_message && answer.is_none();
    let (low, high) = (key.low(), key.high());
    assert!(is_one_way || (low.address, low.port) <= (high.address, high.port));
    // What the key says of the tuple is the tuple.
    let (from, to) = key.endpoints(direction);
    if source.is_ipv4() == destination.is_ipv4() {
        assert_eq!((from.address, to.address), (source, destination));
    }
    assert_eq!((from.port, key.protocol()), (source_port, protocol));
    let again = FlowKey::from_tuple(from.address, to.address, from.port, to.port, protocol);
    assert_eq!(again, (key, direction));
    // The way back, unless nobody answers.
    if !is_one_way {
        let (back_source_port, back_destination_port) = match answer {
            Some(answer) => (u16::from(answer), source_port),
            None => (destination_port, source_port),
        };
        let (back, back_direction) = FlowKey::from_tuple(
            destination,
            source,
            back_source_port,
            back_destination_port,
            protocol,
        );
        assert_eq!((back, back.key_hash(seed)), (key, key.key_hash(seed)));
        assert_eq!(community_id(&back, id_seed), id);
        if low != high {
            assert_eq!(back_direction, direction.opposite());
        }
    }
    (key, direction)
}

fn check_frame(bytes: &[u8], id_seed: u16) {
    let layers = dissect(LinkType::ETHERNET, bytes, bytes.len() as u32, DissectOptions::default());
    let captured_len = bytes.len() as u32;
    let record = Record { captured_len, layers, ..Record::default() };
    let found = FlowKey::from_frame(&Frame::new(bytes, &record));
    assert_eq!(found.is_some(), layers.is_ip(), "{layers:?}");
    if let Some(tuple) = tuple_of(bytes, layers) {
        assert_eq!(found, Some(check_tuple(tuple, id_seed)), "{layers:?}");
    }
}

/// The tuple of a frame whose transport header was read, from views alone. The
/// ports of UDP-Lite and DCCP stand where those of UDP do.
fn tuple_of(bytes: &[u8], layers: Layers) -> Option<Tuple> {
    let is_like_udp = matches!(layers.protocol, Protocol::UDP_LITE | Protocol::DCCP)
        && !layers.has(Layers::LATER_FRAGMENT)
        && layers.payload_len >= 8
        && usize::from(layers.transport_offset) + 8 <= bytes.len();
    if !layers.is_ip() || !(layers.has(Layers::TRANSPORT) || is_like_udp) {
        return None;
    }
    let network = &bytes[usize::from(layers.network_offset)..];
    let (source, destination) = match layers.network {
        Network::Ipv4 => {
            let view = Ipv4::new(network).expect("an IPv4 header that was read");
            (view.source().into(), view.destination().into())
        }
        _ => {
            let view = Ipv6::new(network).expect("an IPv6 header that was read");
            (view.source().into(), view.destination().into())
        }
    };
    let transport = &bytes[usize::from(layers.transport_offset)..];
    let was_read = "a transport header that was read";
    let (source_port, destination_port) = match layers.protocol {
        Protocol::TCP => {
            let view = Tcp::new(transport).expect(was_read);
            (view.source_port(), view.destination_port())
        }
        Protocol::UDP | Protocol::UDP_LITE | Protocol::DCCP => {
            let view = Udp::new(transport).expect(was_read);
            (view.source_port(), view.destination_port())
        }
        Protocol::SCTP => {
            let view = Sctp::new(transport).expect(was_read);
            (view.source_port(), view.destination_port())
        }
        Protocol::ICMP => {
            let view = icmp::Icmp::new(transport).expect(was_read);
            (u16::from(view.message_type()), u16::from(view.code()))
        }
        Protocol::ICMPV6 => {
            let view = icmpv6::Icmpv6::new(transport).expect(was_read);
            (u16::from(view.message_type()), u16::from(view.code()))
        }
        _ => return None,
    };
    Some((source, destination, source_port, destination_port, layers.protocol))
}
