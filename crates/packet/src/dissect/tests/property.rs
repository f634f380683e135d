//! Properties of all frames: the two paths agree, nothing panics, offsets lie where they can be
//! used.

use proptest::prelude::*;

use super::build::*;
use crate::dissect::{DissectOptions, dissect, dissect_slowly};
use crate::layers::{Layers, Network, Protocol};
use crate::link::LinkType;
use crate::wire::ethernet::ether_type::*;

const LINKS: [u16; 21] =
    [0, 1, 9, 12, 14, 50, 51, 101, 104, 105, 108, 113, 119, 127, 163, 192, 228, 229, 239, 276, 999];

fn all_options() -> [DissectOptions; 4] {
    [(false, false), (false, true), (true, false), (true, true)]
        .map(|(decapsulate, transport)| DissectOptions { decapsulate, transport })
}

fn segment() -> impl Strategy<Value = (Protocol, Vec<u8>)> {
    let payload = || prop::collection::vec(any::<u8>(), 0..40);
    let options = prop_oneof![
        Just(vec![]),
        Just(vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        Just(vec![2, 4, 5, 0xb4, 4, 2, 1, 1]),
        any::<[u8; 8]>().prop_map(Vec::from),
    ];
    let port = || prop_oneof![Just(4789), Just(2152), Just(6081), Just(443), any::<u16>()];
    prop_oneof![
        (options, payload()).prop_map(|(options, rest)| (Protocol::TCP, tcp(&options, &rest))),
        (port(), port(), payload()).prop_map(|(a, b, rest)| (Protocol::UDP, udp(a, b, &rest))),
        payload().prop_map(|rest| (Protocol::UDP, gtpu(&ipv4(Protocol::UDP, &udp(1, 2, &rest))))),
        payload().prop_map(|rest| (Protocol::UDP, vxlan(&raw(&plain(), &rest)))),
        payload().prop_map(|rest| (Protocol::UDP, geneve(IPV4, &[], &raw(&plain()[14..], &rest)))),
        payload().prop_map(|rest| (Protocol::GRE, erspan_ii(&raw(&plain(), &rest)))),
        payload().prop_map(|rest| (Protocol::GRE, erspan_iii(true, 0, &raw(&plain(), &rest)))),
        (any::<u8>().prop_map(Protocol), payload()),
    ]
}

fn frame() -> impl Strategy<Value = Vec<u8>> {
    (segment(), any::<bool>(), 0_u8..4, 0_usize..20).prop_map(|(segment, is_six, tags, padding)| {
        let (protocol, bytes) = segment;
        let (mut ether_type, mut inner) =
            if is_six { (IPV6, ipv6(protocol, &bytes)) } else { (IPV4, ipv4(protocol, &bytes)) };
        for (tag, identifier) in (0..tags / 2).zip(100..) {
            inner = vlan(identifier, ether_type, &inner);
            ether_type = if tag == 0 { VLAN } else { SERVICE_VLAN };
        }
        if tags == 3 {
            inner = macsec(0, ether_type, &inner);
            ether_type = MACSEC;
        }
        raw(&ethernet(ether_type, &inner), &vec![0; padding])
    })
}

/// Of data frames mostly, with every bit of their control.
fn wlan_header() -> impl Strategy<Value = Vec<u8>> {
    let control = prop_oneof![
        (0..16_u8, any::<u8>()).prop_map(|(subtype, flags)| [subtype << 4 | 8, flags]),
        any::<[u8; 2]>(),
    ];
    (control, prop::collection::vec(prop_oneof![Just(0), any::<u8>()], 22..40))
        .prop_map(|(control, rest)| raw(&control, &rest))
}

/// Bytes written over, mostly near the front, where the headers are.
fn mutations() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let value = prop_oneof![any::<u8>(), Just(0), Just(0x45), Just(6), Just(17), Just(0x60)];
    prop::collection::vec((0_usize..80, value), 0..4)
}

fn assert_usable(layers: Layers, frame: &[u8]) -> Result<(), TestCaseError> {
    let inside = |offset: u16, len| usize::from(offset) + len <= frame.len();
    let len = match layers.network {
        Network::Ipv4 => 20,
        Network::Ipv6 => 40,
        Network::Arp => 8,
        Network::None => 0,
    };
    prop_assert!(layers.network == Network::None || inside(layers.network_offset, len));
    prop_assert_eq!(layers.network == Network::None, layers.outer_network == Network::None);
    prop_assert!(layers.outer_network_offset <= layers.network_offset);
    prop_assert!(layers.network_offset <= layers.transport_offset);
    prop_assert!(layers.transport_offset <= layers.payload_offset);
    if layers.has(Layers::TRANSPORT) {
        prop_assert!(layers.is_ip() && inside(layers.payload_offset, 0));
        prop_assert!(!layers.has(Layers::LATER_FRAGMENT));
    } else {
        prop_assert_eq!(layers.transport_offset, layers.payload_offset);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_fast_path_answers_as_the_walk(
        mut frame in frame(), mutations in mutations(), cut in 0_usize..200, wire_more in 0_u32..3,
    ) {
        for (at, value) in mutations {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        let wire_len = u32::try_from(frame.len()).unwrap() + 10 * wire_more;
        frame.truncate(cut.max(1));
        for options in all_options() {
            // A capture may also claim fewer bytes on the wire than it has.
            for wire_len in [wire_len, 20] {
                let layers = dissect(LinkType::ETHERNET, &frame, wire_len, options);
                let slow = dissect_slowly(LinkType::ETHERNET, &frame, wire_len, options);
                prop_assert_eq!(layers, slow, "{:02x?} {} {:?}", &frame, wire_len, options);
                assert_usable(layers, &frame)?;
            }
        }
    }

    #[test]
    fn any_bytes_are_walked(
        bytes in prop::collection::vec(any::<u8>(), 0..200), wire_len in 0_u32..400,
    ) {
        for link in LINKS {
            for options in all_options() {
                let layers = dissect(LinkType(link), &bytes, wire_len, options);
                assert_usable(layers, &bytes)?;
            }
        }
    }

    #[test]
    fn any_frame_of_a_radio_is_walked(
        header in wlan_header(), (protocol, bytes) in segment(), flags: u8,
        mutations in mutations(), cut in 0_usize..200,
    ) {
        let mut frame = radiotap(flags, &raw(&header, &snap(IPV4, &ipv4(protocol, &bytes))));
        for (at, value) in mutations {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        let wire_len = u32::try_from(frame.len()).unwrap();
        let whole = dissect(LinkType::IEEE802_11_RADIOTAP, &frame, wire_len, all_options()[3]);
        assert_usable(whole, &frame)?;
        frame.truncate(cut);
        let cut = dissect(LinkType::IEEE802_11_RADIOTAP, &frame, wire_len, all_options()[3]);
        assert_usable(cut, &frame)?;
        prop_assert!(cut.fault.is_none() || cut.fault == whole.fault, "{cut:?} {whole:?}");
    }

    #[test]
    fn any_packet_is_walked_behind_any_link(
        (protocol, bytes) in segment(), link in prop::sample::select(&LINKS[..]),
        mutations in mutations(), cut in 0_usize..200,
    ) {
        let mut packet = ipv6(protocol, &bytes);
        for (at, value) in mutations {
            if let Some(byte) = packet.get_mut(at) {
                *byte = value;
            }
        }
        let wire_len = u32::try_from(packet.len()).unwrap();
        packet.truncate(cut);
        for options in all_options() {
            assert_usable(dissect(LinkType(link), &packet, wire_len, options), &packet)?;
        }
    }
}

#[test]
fn offsets_past_16_bits_are_too_deep() {
    let units = [Protocol::IPV6_OPTIONS.0, 255];
    let mut header = units.to_vec();
    header.resize(2048, 0);
    let mut inner = plain().split_off(14);
    // Nested jumbograms of 8 extension headers each: 16 KiB apiece.
    for level in 0..6 {
        let mut chain = header.repeat(8);
        chain[7 * 2048] = if level == 0 { Protocol::IPV4.0 } else { Protocol::IPV6.0 };
        let mut packet = ipv6(Protocol::IPV6_OPTIONS, &chain);
        packet[4..6].fill(0);
        packet.extend_from_slice(&inner);
        inner = packet;
    }
    let layers = read(LinkType::RAW, &inner);
    assert_eq!(layers.fault, Some(crate::Malformed::HeadersTooDeep));
    assert_eq!(layers.network, Network::Ipv6);
}
