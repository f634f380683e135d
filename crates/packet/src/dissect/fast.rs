//! Ethernet, at most one VLAN tag, IP without options or extension headers,
//! TCP or UDP, all headers captured, nothing wrong. `false` and `None` mean "ask
//! [`walk`](super::walk)", never "nothing found".

use super::DissectOptions;
use crate::layers::{Layers, Network, Protocol, Tunnel};
use crate::wire::ethernet::{self, ether_type};
use crate::wire::{geneve, gtpu, ipv4, ipv6, tcp, tcp_options, udp, vlan, vxlan};

/// Where the network header lies and what the link said of it.
#[derive(Clone, Copy)]
struct Link {
    network_offset: u16,
    ether_type: u16,
    vlan_id: u16,
}

/// What IP carries: protocol, offset, and length as IP gives it.
#[derive(Clone, Copy)]
struct Carried {
    network: Network,
    protocol: Protocol,
    offset: u16,
    len: usize,
}

/// Fills `layers` and says so; on `false` they are as they were.
#[inline]
pub(super) fn dissect(
    frame: &[u8],
    wire_len: u32,
    options: DissectOptions,
    layers: &mut Layers,
) -> bool {
    plain_ipv4(frame, wire_len, options, layers) || find(frame, wire_len, options, layers).is_some()
}

/// The commonest frame of all, with every header at a constant offset: one
/// check of the length serves all loads, and two compares settle what it is.
#[inline(always)]
fn plain_ipv4(frame: &[u8], wire_len: u32, options: DissectOptions, layers: &mut Layers) -> bool {
    const NETWORK: u16 = ethernet::HEADER_LEN as u16;
    const TRANSPORT: u16 = NETWORK + ipv4::HEADER_LEN as u16;
    const LEN_MIN: usize = TRANSPORT as usize + udp::HEADER_LEN;
    let Some(head) = frame.first_chunk::<LEN_MIN>() else { return false };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    // EtherType IPv4, version 4, five words of header; neither fragment bit nor offset.
    let kind = u32::from_be_bytes([head[12], head[13], head[14], 0]);
    let fragment = word(20) & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET);
    let total_len = word(16);
    let wire_end = frame.len().max(wire_len as usize);
    if kind != 0x0800_4500
        || fragment != 0
        || total_len < ipv4::HEADER_LEN as u16
        || usize::from(NETWORK) + usize::from(total_len) > wire_end
    {
        return false;
    }
    let len = usize::from(total_len) - ipv4::HEADER_LEN;
    let protocol = Protocol(head[23]);
    let lens = match protocol {
        Protocol::TCP if options.transport => match frame.get(usize::from(TRANSPORT)..) {
            Some(bytes) => tcp(bytes, len),
            None => None,
        },
        Protocol::TCP => Some((0, len as u32)),
        Protocol::UDP => match udp(&head[usize::from(TRANSPORT)..], len, options.decapsulate) {
            Some(lens) if options.transport => Some(lens),
            Some(_) => Some((0, len as u32)),
            None => None,
        },
        _ => None,
    };
    let Some((header_len, payload_len)) = lens else { return false };
    *layers = Layers {
        network_offset: NETWORK,
        outer_network_offset: NETWORK,
        transport_offset: TRANSPORT,
        payload_offset: TRANSPORT + header_len,
        payload_len,
        ether_type: ether_type::IPV4,
        vlan_id: Layers::NO_VLAN,
        network: Network::Ipv4,
        outer_network: Network::Ipv4,
        protocol,
        flags: if options.transport { Layers::TRANSPORT } else { 0 },
        tunnel: Tunnel::None,
        fault: None,
    };
    true
}

#[inline]
fn find(frame: &[u8], wire_len: u32, options: DissectOptions, layers: &mut Layers) -> Option<()> {
    const UNTAGGED: u16 = ethernet::HEADER_LEN as u16;
    const TAGGED: u16 = (ethernet::HEADER_LEN + vlan::HEADER_LEN) as u16;
    // Whatever carries IP is longer than a tag, so that one check serves both.
    let head: &[u8; TAGGED as usize] = frame.first_chunk()?;
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let link = match word(12) {
        ether_type::VLAN | ether_type::SERVICE_VLAN => Link {
            network_offset: TAGGED,
            ether_type: word(16),
            vlan_id: word(14) & vlan::IDENTIFIER_MAX,
        },
        ether_type => Link { network_offset: UNTAGGED, ether_type, vlan_id: Layers::NO_VLAN },
    };
    let wire_end = frame.len().max(wire_len as usize);
    let carried = match link.ether_type {
        ether_type::IPV4 => ipv4(frame, link.network_offset, wire_end)?,
        ether_type::IPV6 => ipv6(frame, link.network_offset, wire_end)?,
        _ => return None,
    };
    let (header_len, payload_len) = transport(frame, carried, options)?;
    *layers = Layers {
        network_offset: link.network_offset,
        outer_network_offset: link.network_offset,
        transport_offset: carried.offset,
        payload_offset: carried.offset + header_len,
        payload_len,
        ether_type: link.ether_type,
        vlan_id: link.vlan_id,
        network: carried.network,
        outer_network: carried.network,
        protocol: carried.protocol,
        flags: if options.transport { Layers::TRANSPORT } else { 0 },
        ..Layers::default()
    };
    Some(())
}

#[inline]
fn ipv4(frame: &[u8], offset: u16, wire_end: usize) -> Option<Carried> {
    const PLAIN: u8 = 0x45;
    let header: &[u8; ipv4::HEADER_LEN] = frame.get(usize::from(offset)..)?.first_chunk()?;
    let total_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if header[0] != PLAIN
        || fragment & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0
        || usize::from(offset) + total_len > wire_end
    {
        return None;
    }
    Some(Carried {
        network: Network::Ipv4,
        protocol: Protocol(header[9]),
        offset: offset + ipv4::HEADER_LEN as u16,
        len: total_len.checked_sub(ipv4::HEADER_LEN)?,
    })
}

#[inline]
fn ipv6(frame: &[u8], offset: u16, wire_end: usize) -> Option<Carried> {
    let header: &[u8; ipv6::HEADER_LEN] = frame.get(usize::from(offset)..)?.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if header[0] >> 4 != 6 || len == 0 || usize::from(offset) + ipv6::HEADER_LEN + len > wire_end {
        return None;
    }
    Some(Carried {
        network: Network::Ipv6,
        protocol: Protocol(header[6]),
        offset: offset + ipv6::HEADER_LEN as u16,
        len,
    })
}

/// Bytes of the transport header that was read, and of what it carries.
#[inline]
fn transport(frame: &[u8], carried: Carried, options: DissectOptions) -> Option<(u16, u32)> {
    match carried.protocol {
        Protocol::TCP if !options.transport => Some((0, carried.len as u32)),
        Protocol::TCP => tcp(frame.get(usize::from(carried.offset)..)?, carried.len),
        Protocol::UDP if !options.transport && !options.decapsulate => {
            Some((0, carried.len as u32))
        }
        Protocol::UDP => {
            let bytes = frame.get(usize::from(carried.offset)..)?;
            let lens = udp(bytes, carried.len, options.decapsulate)?;
            Some(if options.transport { lens } else { (0, carried.len as u32) })
        }
        _ => None,
    }
}

#[inline]
fn tcp(bytes: &[u8], len: usize) -> Option<(u16, u32)> {
    let header: &[u8; tcp::HEADER_LEN] = bytes.first_chunk()?;
    let header_len = usize::from(header[12] >> 4) * 4;
    let payload_len = len.checked_sub(header_len)?;
    let options = bytes.get(tcp::HEADER_LEN..header_len)?;
    tcp_options::check(options).ok()?;
    Some((header_len as u16, payload_len as u32))
}

#[inline]
fn udp(bytes: &[u8], len: usize, decapsulate: bool) -> Option<(u16, u32)> {
    let header: &[u8; udp::HEADER_LEN] = bytes.first_chunk()?;
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (source_port, destination_port) = (word(0), word(2));
    let datagram_len = usize::from(word(4));
    let is_tunnel = destination_port == vxlan::PORT
        || destination_port == geneve::PORT
        || source_port == gtpu::PORT
        || destination_port == gtpu::PORT;
    if datagram_len > len || decapsulate && is_tunnel {
        return None;
    }
    let payload_len = datagram_len.checked_sub(udp::HEADER_LEN)?;
    Some((udp::HEADER_LEN as u16, payload_len as u32))
}
