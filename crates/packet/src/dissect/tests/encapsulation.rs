//! Every encapsulation leads to the same datagram.

use super::build::*;
use crate::dissect::{DissectOptions, dissect};
use crate::layers::{Layers, Network, Protocol, Tunnel};
use crate::link::LinkType;
use crate::wire::ethernet::ether_type::*;
use crate::wire::wlan::WlanRepr;

const PAYLOAD: &[u8] = b"payload";

fn datagram() -> Vec<u8> {
    udp(1000, 53, PAYLOAD)
}

fn inner4() -> Vec<u8> {
    ipv4(Protocol::UDP, &datagram())
}

fn inner6() -> Vec<u8> {
    ipv6(Protocol::UDP, &datagram())
}

/// The datagram was found at the end of `frame`.
fn assert_found(link: LinkType, frame: &[u8], network: Network) -> Layers {
    let layers = read(link, frame);
    assert_eq!((layers.fault, layers.network), (None, network), "{frame:02x?}");
    assert!(layers.has(Layers::TRANSPORT) && !layers.is_cut());
    assert_eq!(layers.protocol, Protocol::UDP);
    assert_eq!(usize::from(layers.payload_offset), frame.len() - PAYLOAD.len());
    assert_eq!(layers.payload_offset - layers.transport_offset, 8);
    assert_eq!(layers.payload_len, 7);
    layers
}

#[test]
fn plain_tcp_field_by_field() {
    let expected = Layers {
        network_offset: 14,
        outer_network_offset: 14,
        transport_offset: 34,
        payload_offset: 54,
        payload_len: 5,
        ether_type: IPV4,
        vlan_id: Layers::NO_VLAN,
        network: Network::Ipv4,
        outer_network: Network::Ipv4,
        protocol: Protocol::TCP,
        flags: Layers::TRANSPORT,
        tunnel: Tunnel::None,
        fault: None,
    };
    assert_eq!(read(LinkType::ETHERNET, &plain()), expected);
    let padded = raw(&plain(), &[0; 9]);
    assert_eq!(read(LinkType::ETHERNET, &padded), expected, "padding is nobody's payload");
}

#[test]
fn links_without_ethernet() {
    let (four, six) = (inner4(), inner6());
    let cooked =
        |protocol: u16| raw(&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0], &protocol.to_be_bytes());
    let cooked_v2 = |protocol: u16| raw(&protocol.to_be_bytes(), &[0; 18]);
    let cases: [(LinkType, Vec<u8>, Vec<u8>); 11] = [
        (LinkType::RAW, vec![], vec![]),
        (LinkType::RAW_OLD_12, vec![], vec![]),
        (LinkType::RAW_OLD_14, vec![], vec![]),
        (LinkType::NULL, vec![2, 0, 0, 0], vec![30, 0, 0, 0]),
        (LinkType::NULL, vec![0, 0, 0, 2], vec![0, 0, 0, 24]),
        (LinkType::LOOP, vec![0, 0, 0, 2], vec![0, 0, 0, 28]),
        (LinkType::PPP, vec![0xff, 3, 0, 0x21], vec![0, 0x57]),
        (LinkType::PPP_HDLC, vec![0x21], vec![0xff, 3, 0x57]),
        (LinkType::C_HDLC, vec![0x0f, 0, 8, 0], vec![0x8f, 0, 0x86, 0xdd]),
        (LinkType::LINUX_SLL, cooked(IPV4), cooked(IPV6)),
        (LinkType::LINUX_SLL2, cooked_v2(IPV4), cooked_v2(IPV6)),
    ];
    for (link, before4, before6) in cases {
        let layers = assert_found(link, &raw(&before4, &four), Network::Ipv4);
        assert_eq!(usize::from(layers.network_offset), before4.len(), "{link}");
        assert_found(link, &raw(&before6, &six), Network::Ipv6);
    }
    assert_found(LinkType::IPV4, &four, Network::Ipv4);
    assert_found(LinkType::IPV6, &six, Network::Ipv6);
    assert_found(LinkType::PPP_ETHER, &pppoe(&raw(&[0, 0x21], &four)), Network::Ipv4);
    let unknown = read(LinkType(147), &four);
    assert_eq!((unknown.network, unknown.fault), (Network::None, None));
}

#[test]
fn within_ethernet() {
    let snap = raw(&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &inner4());
    let length = u16::try_from(snap.len()).unwrap();
    assert_found(LinkType::ETHERNET, &ethernet(length, &snap), Network::Ipv4);

    let tagged = vlan(7, IPV6, &inner6());
    for outer in [VLAN, SERVICE_VLAN, STACKED_VLAN_OLD] {
        let frame = ethernet(outer, &vlan(100, VLAN, &tagged));
        let layers = assert_found(LinkType::ETHERNET, &frame, Network::Ipv6);
        assert_eq!((layers.vlan(), layers.ether_type), (Some(100), IPV6));
    }

    let frame = ethernet(VLAN, &vlan(9, PPPOE_SESSION, &pppoe(&raw(&[0, 0x57], &inner6()))));
    let layers = assert_found(LinkType::ETHERNET, &frame, Network::Ipv6);
    assert!(layers.has(Layers::PPPOE));
    assert_eq!(layers.vlan(), Some(9));
}

#[test]
fn below_labels() {
    let cases = [
        (inner4(), Network::Ipv4),
        (inner6(), Network::Ipv6),
        (ethernet(IPV4, &inner4()), Network::Ipv4),
        (raw(&[0; 4], &ethernet(IPV6, &inner6())), Network::Ipv6),
    ];
    for (inner, network) in cases {
        let frame = ethernet(MPLS, &mpls(16, false, &mpls(17, true, &inner)));
        let layers = assert_found(LinkType::ETHERNET, &frame, network);
        assert!(layers.has(Layers::MPLS));
    }
    // Addresses whose first byte looks like a version, without a control word.
    for first in [0x40, 0x44, 0x48, 0x4c, 0x60, 0x64, 0x68, 0x6c] {
        for (kind, inner, network) in
            [(IPV4, inner4(), Network::Ipv4), (IPV6, inner6(), Network::Ipv6)]
        {
            let mut carried = ethernet(kind, &inner);
            carried[..6].copy_from_slice(&[first, 0xa8, 0x42, 0x91, 7, 0x3c]);
            let frame = ethernet(MPLS, &mpls(17, true, &carried));
            assert_found(LinkType::ETHERNET, &frame, network);
        }
    }
    let frame = ethernet(MPLS, &mpls(16, true, &[0x10, 0, 0, 0]));
    let layers = read(LinkType::ETHERNET, &frame);
    assert_eq!((layers.network, layers.fault, layers.ether_type), (Network::None, None, MPLS));
}

#[test]
fn behind_extension_headers() {
    let options = |next: Protocol| raw(&[next.0, 0, 1, 4], &[0; 4]);
    let chain = [
        options(Protocol::IPV6_ROUTE),
        options(Protocol::IPV6_OPTIONS),
        options(Protocol::AH),
        raw(&[Protocol::IPV6_FRAGMENT.0, 1, 0, 0], &[0; 8]),
        // An atomic fragment is the whole packet.
        raw(&[Protocol::MOBILITY.0, 0, 0, 0], &[0; 4]),
        options(Protocol::UDP),
        datagram(),
    ];
    let frame = ethernet(IPV6, &ipv6(Protocol::HOP_BY_HOP, &chain.concat()));
    let layers = assert_found(LinkType::ETHERNET, &frame, Network::Ipv6);
    assert!(!layers.has(Layers::FRAGMENT));
    // Where nothing follows, the mobility header is what the packet is about.
    let frame = ipv6(Protocol::MOBILITY, &options(Protocol::IPV6_NO_NEXT));
    assert_eq!(read(LinkType::IPV6, &frame).protocol, Protocol::MOBILITY);
    // IPv4 has one extension header.
    let ah = raw(&[Protocol::UDP.0, 1, 0, 0], &[0; 8]);
    let frame = ipv4(Protocol::AH, &raw(&ah, &datagram()));
    assert_found(LinkType::IPV4, &frame, Network::Ipv4);
    let alert = ipv4_with_options([148, 4, 0, 0], Protocol::UDP, &datagram());
    assert_found(LinkType::RAW, &alert, Network::Ipv4);
}

#[test]
fn fragments() {
    let first = read(LinkType::RAW, &ipv4_fragment(0, true, Protocol::UDP, &udp(1, 2, &[0; 16])));
    assert_eq!(first.flags, Layers::TRANSPORT | Layers::FRAGMENT);
    // The length is the whole datagram's; this frame has 4 bytes of it.
    let mut head = udp(1, 2, &[0; 64]);
    head.truncate(12);
    let first = read(LinkType::RAW, &ipv4_fragment(0, true, Protocol::UDP, &head));
    assert_eq!((first.fault, first.payload_len), (None, 4));
    let later = ipv4_fragment(16, false, Protocol::UDP, &[1; 5]);
    let later = read(LinkType::RAW, &later);
    assert_eq!(later.flags, Layers::FRAGMENT | Layers::LATER_FRAGMENT);
    assert_eq!((later.protocol, later.payload_len, later.fault), (Protocol::UDP, 5, None));

    let later = raw(&[Protocol::TCP.0, 0, 0, 8, 0, 0, 0, 9], &[1; 5]);
    let later = read(LinkType::RAW, &ipv6(Protocol::IPV6_FRAGMENT, &later));
    assert_eq!(later.flags, Layers::FRAGMENT | Layers::LATER_FRAGMENT);
    assert_eq!((later.protocol, later.transport_offset), (Protocol::TCP, 48));
}

#[test]
fn tunnels_open_and_stay_closed() {
    let carried = ethernet(IPV4, &inner4());
    let pptp = raw(&[0x30, 0x01, 0x88, 0x0b, 0, 20, 0, 1, 0, 0, 0, 1, 0xff, 3, 0, 0x21], &inner4());
    let extended_gtpu = raw(&[0x34, 255, 0, 43, 0, 0, 0, 1, 0, 0, 0, 0x85, 1, 0, 9, 0], &inner4());
    let cases: [(Vec<u8>, Tunnel, Network, Network); 12] = [
        (ipv4(Protocol::IPV4, &inner4()), Tunnel::IpInIp, Network::Ipv4, Network::Ipv4),
        (ipv4(Protocol::IPV6, &inner6()), Tunnel::IpInIp, Network::Ipv4, Network::Ipv6),
        (ipv6(Protocol::IPV4, &inner4()), Tunnel::IpInIp, Network::Ipv6, Network::Ipv4),
        (ipv6(Protocol::IPV6, &inner6()), Tunnel::IpInIp, Network::Ipv6, Network::Ipv6),
        (ipv4(Protocol::GRE, &gre(IPV4, &inner4())), Tunnel::Gre, Network::Ipv4, Network::Ipv4),
        (ipv6(Protocol::GRE, &gre(IPV6, &inner6())), Tunnel::Gre, Network::Ipv6, Network::Ipv6),
        (
            ipv4(Protocol::GRE, &gre(TRANSPARENT_ETHERNET, &carried)),
            Tunnel::Gre,
            Network::Ipv4,
            Network::Ipv4,
        ),
        (
            ipv4(Protocol::GRE, &gre(MPLS, &mpls(16, true, &inner6()))),
            Tunnel::Gre,
            Network::Ipv4,
            Network::Ipv6,
        ),
        (ipv4(Protocol::GRE, &pptp), Tunnel::Gre, Network::Ipv4, Network::Ipv4),
        (ipv4(Protocol::UDP, &vxlan(&carried)), Tunnel::Vxlan, Network::Ipv4, Network::Ipv4),
        (ipv4(Protocol::UDP, &gtpu(&inner6())), Tunnel::Gtpu, Network::Ipv4, Network::Ipv6),
        (
            ipv6(Protocol::UDP, &udp(9, 2152, &extended_gtpu)),
            Tunnel::Gtpu,
            Network::Ipv6,
            Network::Ipv4,
        ),
    ];
    for (packet, tunnel, outer, inner) in cases {
        assert_opens_and_stays_closed(&packet, tunnel, outer, inner);
    }
}

#[test]
fn tunnels_of_what_mirrors_open_and_stay_closed() {
    let carried = ethernet(IPV4, &inner4());
    let options = [1, 8, 1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1, 8, 3, 0];
    let type_i = gre(ERSPAN, &ethernet(IPV6, &inner6()));
    let third = |has_subheader| erspan_iii(has_subheader, 0, &carried);
    let cases: [(Vec<u8>, Tunnel, Network, Network); 8] = [
        (
            ipv4(Protocol::UDP, &geneve(TRANSPARENT_ETHERNET, &[], &carried)),
            Tunnel::Geneve,
            Network::Ipv4,
            Network::Ipv4,
        ),
        (
            ipv6(Protocol::UDP, &geneve(IPV4, &options, &inner4())),
            Tunnel::Geneve,
            Network::Ipv6,
            Network::Ipv4,
        ),
        (
            ipv4(Protocol::UDP, &geneve(IPV6, &options, &inner6())),
            Tunnel::Geneve,
            Network::Ipv4,
            Network::Ipv6,
        ),
        (ipv4(Protocol::GRE, &type_i), Tunnel::Erspan, Network::Ipv4, Network::Ipv6),
        (ipv6(Protocol::GRE, &erspan_ii(&carried)), Tunnel::Erspan, Network::Ipv6, Network::Ipv4),
        (ipv4(Protocol::GRE, &third(false)), Tunnel::Erspan, Network::Ipv4, Network::Ipv4),
        (ipv4(Protocol::GRE, &third(true)), Tunnel::Erspan, Network::Ipv4, Network::Ipv4),
        (
            ipv4(Protocol::GRE, &erspan_iii(false, 2, &inner6())),
            Tunnel::Erspan,
            Network::Ipv4,
            Network::Ipv6,
        ),
    ];
    for (packet, tunnel, outer, inner) in cases {
        assert_opens_and_stays_closed(&packet, tunnel, outer, inner);
    }
}

fn assert_opens_and_stays_closed(packet: &[u8], tunnel: Tunnel, outer: Network, inner: Network) {
    let frame = raw(&ethernet(if outer == Network::Ipv4 { IPV4 } else { IPV6 }, &[]), packet);
    let layers = assert_found(LinkType::ETHERNET, &frame, inner);
    assert_eq!((layers.tunnel, layers.outer_network), (tunnel, outer));
    assert_eq!(layers.outer_network_offset, 14);
    let wire_len = u32::try_from(frame.len()).unwrap();
    for transport in [false, true] {
        let options = DissectOptions { decapsulate: false, transport };
        let closed = dissect(LinkType::ETHERNET, &frame, wire_len, options);
        assert_eq!((closed.tunnel, closed.network), (Tunnel::None, outer));
        assert_eq!((closed.network_offset, closed.fault), (14, None));
        let options = DissectOptions { decapsulate: true, transport };
        let open = dissect(LinkType::ETHERNET, &frame, wire_len, options);
        assert_eq!((open.tunnel, open.network_offset), (tunnel, layers.network_offset));
        assert_eq!(open.has(Layers::TRANSPORT), transport);
    }
}

#[test]
fn at_a_tunnel_port_but_no_tunnel() {
    let contents = [
        udp(1, 4789, &[0; 8]),
        udp(1, 4789, &[]),
        // Another version; no EtherType; options alone; and a source port alone.
        udp(1, 6081, &[0x40; 9]),
        udp(1, 6081, b"\0\0\0\x20\0\0\0"),
        geneve(IPV4, &[], &[]),
        udp(6081, 1, &[0, 0, 8, 0, 0, 0, 0, 0, 0x45]),
        udp(4789, 1, &[8, 0, 0, 0, 0, 0, 42, 0]),
        udp(2152, 1, &[0x10, 255, 0, 0]),
        udp(2152, 2152, &[0x30, 1, 0, 0, 0, 0, 0, 0]),
        udp(2152, 2152, &[0x30, 255, 0, 1, 0, 0, 0, 0, 0x99]),
    ];
    for content in contents {
        let layers = read(LinkType::RAW, &ipv4(Protocol::UDP, &content));
        assert_eq!((layers.tunnel, layers.fault), (Tunnel::None, None), "{content:02x?}");
        assert!(layers.has(Layers::TRANSPORT));
    }
}

#[test]
fn arp_is_found_and_unknown_protocols_are_named() {
    let arp = raw(&[0, 1, 8, 0, 6, 4, 0, 1], &[0; 20]);
    let layers = read(LinkType::ETHERNET, &ethernet(ARP, &raw(&arp, &[0; 18])));
    assert_eq!((layers.network, layers.fault, layers.payload_len), (Network::Arp, None, 0));
    let lldp = read(LinkType::ETHERNET, &ethernet(0x88cc, &[0; 46]));
    assert_eq!((lldp.network, lldp.ether_type, lldp.fault), (Network::None, 0x88cc, None));
    // What the tunnel carries is no IP: the outer header goes on being told.
    let packet = ipv4(Protocol::UDP, &vxlan(&ethernet(0x88cc, &[0; 46])));
    let layers = read(LinkType::RAW, &packet);
    assert_eq!((layers.network, layers.tunnel), (Network::Ipv4, Tunnel::None));
    assert!(layers.has(Layers::TRANSPORT));
}

#[test]
fn lengths_that_the_interface_will_write() {
    let mut frame = plain();
    frame[16..18].fill(0);
    let layers = read(LinkType::ETHERNET, &frame);
    assert_eq!((layers.fault, layers.payload_len), (None, 5));
    let mut frame = ethernet(IPV6, &ipv6(Protocol::TCP, &tcp(&[], b"hello")));
    frame[18..20].fill(0);
    let layers = read(LinkType::ETHERNET, &frame);
    assert_eq!((layers.fault, layers.payload_len), (None, 5));
}

#[test]
fn data_frames_of_a_radio() {
    let llc = snap(IPV4, &inner4());
    let data = WlanRepr::default();
    let subframe = raw(&[0; 12], &raw(&u16::try_from(llc.len()).unwrap().to_be_bytes(), &llc));
    let qos = |is_aggregate, has_ht_control| WlanRepr {
        qos: Some((is_aggregate, has_ht_control)),
        ..data
    };
    let both_ways = WlanRepr { distribution: (true, true), ..qos(false, true) };
    let mut mesh = wlan(WlanRepr { distribution: (true, true), ..qos(false, false) }, &[]);
    mesh[31] = 1;
    let frames = [
        wlan(data, &llc),
        wlan(qos(false, false), &llc),
        wlan(both_ways, &llc),
        wlan(qos(true, false), &subframe),
        raw(&mesh, &raw(&[1; 12], &llc)),
        // The bit of mesh control, and no mesh control.
        raw(&mesh, &llc),
    ];
    for frame in frames {
        assert_found(LinkType::IEEE802_11, &frame, Network::Ipv4);
        for (link, header) in [
            (LinkType::IEEE802_11_RADIOTAP, radiotap(0, &[])),
            (LinkType::IEEE802_11_PRISM, vec![0x44; 144]),
            (LinkType::IEEE802_11_PRISM, raw(&[0x80, 0x21, 0x10, 1, 0, 0, 0, 20], &[0; 12])),
            (LinkType::IEEE802_11_AVS, raw(&[0x80, 0x21, 0x10, 2, 0, 0, 0, 9], &[0])),
            (LinkType::PPI, vec![0, 0, 9, 0, 105, 0, 0, 0, 7]),
        ] {
            assert_found(link, &raw(&header, &frame), Network::Ipv4);
        }
    }
    let six = wlan(qos(false, false), &raw(&[0, 0], &snap(IPV6, &inner6())));
    let padded = assert_found(LinkType::IEEE802_11_RADIOTAP, &radiotap(0x20, &six), Network::Ipv6);
    assert_eq!(padded.network_offset, 9 + 28 + 8);
    let wrapped = raw(&[0, 0, 8, 0, 1, 0, 0, 0], &ethernet(IPV4, &inner4()));
    assert_found(LinkType::PPI, &wrapped, Network::Ipv4);
}

#[test]
fn a_check_sequence_at_the_end_is_no_payload() {
    let mut offloaded = ipv4(Protocol::UDP, &datagram());
    offloaded[2..4].fill(0);
    for (flags, sequence) in [(0, &[][..]), (0x10, &[1, 2, 3, 4])] {
        let frame = wlan(WlanRepr::default(), &raw(&snap(IPV4, &offloaded), sequence));
        let layers = read(LinkType::IEEE802_11_RADIOTAP, &radiotap(flags, &frame));
        assert_eq!((layers.fault, layers.payload_len), (None, 7));
    }
}

#[test]
fn what_a_radio_or_a_switch_encrypted_has_no_network_and_no_fault() {
    let is_protected = WlanRepr { is_protected: true, ..WlanRepr::default() };
    let inner = snap(IPV4, &inner4());
    let mut sealed = macsec(0, IPV4, &inner4());
    sealed[0] |= 0x0c;
    let cases = [
        (LinkType::IEEE802_11, wlan(is_protected, &[7; 40])),
        (LinkType::IEEE802_11, wlan(is_protected, &inner)),
        (LinkType::ETHERNET, ethernet(MACSEC, &sealed)),
        (LinkType::ETHERNET, ethernet(VLAN, &vlan(5, MACSEC, &sealed))),
    ];
    for (link, frame) in cases {
        let layers = read(link, &frame);
        assert_eq!((layers.network, layers.fault), (Network::None, None));
        assert!(layers.has(Layers::ENCRYPTED) && !layers.is_cut());
    }
    let fragment = |number, more| WlanRepr {
        fragment_number: number,
        more_fragments: more,
        ..WlanRepr::default()
    };
    let first = read(LinkType::IEEE802_11, &wlan(fragment(0, true), &inner[..40]));
    assert_eq!((first.network, first.fault), (Network::Ipv4, None));
    let later = read(LinkType::IEEE802_11, &wlan(fragment(1, false), &inner));
    assert_eq!((later.network, later.flags), (Network::None, 0));
    for control in [0x0080, 0x00d4, 0x0148, 0x0009_u16] {
        let other = read(LinkType::IEEE802_11, &raw(&control.to_le_bytes(), &[0; 30]));
        assert_eq!((other.network, other.fault, other.flags), (Network::None, None, 0));
    }
}

#[test]
fn behind_a_tag_of_macsec_with_integrity_alone() {
    for short_length in [0, u8::try_from(inner4().len()).unwrap() + 2] {
        let frame = ethernet(MACSEC, &macsec(short_length, IPV4, &inner4()));
        let layers = read(LinkType::ETHERNET, &frame);
        assert_eq!((layers.network, layers.fault), (Network::Ipv4, None));
        assert_eq!((layers.payload_len, layers.network_offset), (7, 22));
    }
    let mut with_channel = raw(&[0x21, 0, 0, 0, 0, 7], &[2; 8]);
    with_channel.extend(raw(&VLAN.to_be_bytes(), &vlan(9, IPV6, &inner6())));
    let frame = ethernet(MACSEC, &raw(&with_channel, &[0; 16]));
    let layers = read(LinkType::ETHERNET, &frame);
    assert_eq!((layers.network, layers.vlan(), layers.fault), (Network::Ipv6, Some(9), None));
}

#[test]
fn what_the_mirroring_switch_cut_is_not_malformed() {
    let carried = ethernet(IPV4, &ipv4(Protocol::UDP, &udp(1, 2, &[0; 400])));
    let mut packet = erspan_ii(&carried[..60]);
    let layers = read(LinkType::RAW, &ipv4(Protocol::GRE, &packet));
    assert_eq!(layers.fault, Some(crate::Malformed::Ipv4TotalLengthLong));
    packet[10] |= 0x04;
    let layers = read(LinkType::RAW, &ipv4(Protocol::GRE, &packet));
    assert_eq!((layers.fault, layers.tunnel), (None, Tunnel::Erspan));
}
