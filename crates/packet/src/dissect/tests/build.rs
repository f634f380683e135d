//! Frames from the inside out: each function puts one header before `inner`.

use crate::dissect::{DissectOptions, dissect};
use crate::layers::{Layers, Protocol};
use crate::link::LinkType;
use crate::wire::erspan::ErspanRepr;
use crate::wire::ethernet::{EthernetRepr, MacAddress, ether_type};
use crate::wire::geneve::GeneveRepr;
use crate::wire::ipv4::Ipv4Repr;
use crate::wire::ipv6::Ipv6Repr;
use crate::wire::mpls::MplsRepr;
use crate::wire::pppoe::PppoeRepr;
use crate::wire::radiotap::RadiotapRepr;
use crate::wire::vlan::VlanRepr;
use crate::wire::wlan::WlanRepr;

pub(super) fn read(link: LinkType, frame: &[u8]) -> Layers {
    let wire_len = u32::try_from(frame.len()).unwrap();
    dissect(link, frame, wire_len, DissectOptions::default())
}

fn with(emit: impl FnOnce(&mut Vec<u8>), inner: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    emit(&mut out);
    out.extend_from_slice(inner);
    out
}

fn len(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap()
}

pub(super) fn raw(header: &[u8], inner: &[u8]) -> Vec<u8> {
    [header, inner].concat()
}

pub(super) fn ethernet(type_or_length: u16, inner: &[u8]) -> Vec<u8> {
    let header = EthernetRepr {
        destination: MacAddress([2, 0, 0, 0, 0, 1]),
        source: MacAddress([2, 0, 0, 0, 0, 2]),
        type_or_length,
    };
    with(|out| header.emit(out), inner)
}

pub(super) fn vlan(identifier: u16, type_or_length: u16, inner: &[u8]) -> Vec<u8> {
    let header = VlanRepr { identifier, priority: 0, drop_eligible: false, type_or_length };
    with(|out| header.emit(out), inner)
}

pub(super) fn mpls(label: u32, is_bottom: bool, inner: &[u8]) -> Vec<u8> {
    let header = MplsRepr { label, traffic_class: 0, is_bottom, time_to_live: 64 };
    with(|out| header.emit(out), inner)
}

pub(super) fn pppoe(inner: &[u8]) -> Vec<u8> {
    let header = PppoeRepr { code: 0, session_id: 17, length: len(inner.len()) };
    with(|out| header.emit(out), inner)
}

pub(super) fn ipv4_header(protocol: Protocol, payload_len: usize) -> Ipv4Repr {
    Ipv4Repr {
        type_of_service: 0,
        total_length: len(20 + payload_len),
        identification: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        time_to_live: 64,
        protocol,
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 0, 2].into(),
        options: Vec::new(),
    }
}

pub(super) fn ipv4(protocol: Protocol, inner: &[u8]) -> Vec<u8> {
    with(|out| ipv4_header(protocol, inner.len()).emit(out), inner)
}

/// IPv4 with 4 bytes of options.
pub(super) fn ipv4_with_options(options: [u8; 4], protocol: Protocol, inner: &[u8]) -> Vec<u8> {
    let mut header = ipv4_header(protocol, inner.len() + 4);
    header.options = options.to_vec();
    with(|out| header.emit(out), inner)
}

pub(super) fn ipv4_fragment(offset: u16, more: bool, protocol: Protocol, inner: &[u8]) -> Vec<u8> {
    let mut header = ipv4_header(protocol, inner.len());
    header.fragment_offset = offset;
    header.more_fragments = more;
    with(|out| header.emit(out), inner)
}

pub(super) fn ipv6(next_header: Protocol, inner: &[u8]) -> Vec<u8> {
    let header = Ipv6Repr {
        traffic_class: 0,
        flow_label: 0,
        payload_length: len(inner.len()),
        next_header,
        hop_limit: 64,
        source: 1.into(),
        destination: 2.into(),
    };
    with(|out| header.emit(out), inner)
}

pub(super) fn udp(source_port: u16, destination_port: u16, inner: &[u8]) -> Vec<u8> {
    let words = [source_port, destination_port, len(8 + inner.len()), 0];
    raw(&words.map(u16::to_be_bytes).concat(), inner)
}

/// TCP; `options` of a multiple of 4 bytes.
pub(super) fn tcp(options: &[u8], inner: &[u8]) -> Vec<u8> {
    let words = u8::try_from(5 + options.len() / 4).unwrap();
    let mut header = vec![0x30, 0x39, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x10, 1, 0];
    header.extend([0, 0, 0, 0]);
    raw(&[&header, options].concat(), inner)
}

pub(super) fn gre(protocol_type: u16, inner: &[u8]) -> Vec<u8> {
    raw(&[[0, 0], protocol_type.to_be_bytes()].concat(), inner)
}

pub(super) fn vxlan(inner: &[u8]) -> Vec<u8> {
    udp(50_000, 4789, &raw(&[8, 0, 0, 0, 0, 0, 42, 0], inner))
}

pub(super) fn gtpu(inner: &[u8]) -> Vec<u8> {
    let [high, low] = len(inner.len()).to_be_bytes();
    udp(2152, 2152, &raw(&[0x30, 255, high, low, 0, 0, 0, 1], inner))
}

/// Geneve with options, whole ones.
pub(super) fn geneve(protocol_type: u16, options: &[u8], inner: &[u8]) -> Vec<u8> {
    let options = options.to_vec();
    let header = GeneveRepr { protocol_type, vni: 42, options, ..GeneveRepr::default() };
    udp(50_000, 6081, &with(|out| header.emit(out), inner))
}

/// GRE with a sequence number, and ERSPAN of type II.
pub(super) fn erspan_ii(inner: &[u8]) -> Vec<u8> {
    raw(&[0x10, 0, 0x88, 0xbe, 0, 0, 0, 9, 0x10, 7, 0, 1, 0, 0, 0, 0], inner)
}

/// GRE with a sequence number, and ERSPAN of type III.
pub(super) fn erspan_iii(has_subheader: bool, frame_type: u8, inner: &[u8]) -> Vec<u8> {
    let third = Some((frame_type, has_subheader));
    let header = ErspanRepr { vlan: 7, session_id: 1, is_truncated: false, third };
    let inner = with(|out| header.emit(out), inner);
    raw(&[0x10, 0, 0x22, 0xeb, 0, 0, 0, 9], &inner)
}

/// MACsec behind its EtherType, with integrity alone and the check value's 16 bytes.
pub(super) fn macsec(short_length: u8, ether_type: u16, inner: &[u8]) -> Vec<u8> {
    let head = [&[0x01, short_length, 0, 0, 0, 7][..], &ether_type.to_be_bytes()].concat();
    raw(&raw(&head, inner), &[0x5a; 16])
}

pub(super) fn snap(ether_type: u16, inner: &[u8]) -> Vec<u8> {
    raw(&raw(&[0xaa, 0xaa, 3, 0, 0, 0], &ether_type.to_be_bytes()), inner)
}

/// A data frame of 802.11.
pub(super) fn wlan(header: WlanRepr, inner: &[u8]) -> Vec<u8> {
    with(|out| header.emit(out), inner)
}

pub(super) fn radiotap(flags: u8, inner: &[u8]) -> Vec<u8> {
    with(|out| RadiotapRepr { flags }.emit(out), inner)
}

/// Ethernet, IPv4, TCP and 5 bytes.
pub(super) fn plain() -> Vec<u8> {
    ethernet(ether_type::IPV4, &ipv4(Protocol::TCP, &tcp(&[], b"hello")))
}
