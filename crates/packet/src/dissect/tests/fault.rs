//! Every cause, and what is left of a frame that has it.

use super::build::*;
use crate::dissect::{DissectOptions, dissect};
use crate::layers::{Layers, Network, Protocol, Tunnel};
use crate::link::LinkType;
use crate::malformed::Malformed::{self, *};
use crate::wire::ethernet::ether_type::*;
use crate::wire::wlan::WlanRepr;

/// A copy with some bytes written over.
fn changed(frame: &[u8], changes: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for &(at, value) in changes {
        frame[at] = value;
    }
    frame
}

const AGGREGATE: WlanRepr = WlanRepr {
    distribution: (true, false),
    is_protected: false,
    more_fragments: false,
    fragment_number: 0,
    qos: Some((true, false)),
};

#[test]
fn below_the_network() {
    let cases: [(LinkType, Vec<u8>, Malformed); 29] = [
        (LinkType::ETHERNET, vec![0; 13], EthernetHeaderShort),
        (LinkType::ETHERNET, ethernet(VLAN, &[0; 3]), VlanTagShort),
        (LinkType::ETHERNET, ethernet(2, &[0xaa; 46]), LlcHeaderShort),
        (LinkType::ETHERNET, ethernet(7, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]), LlcHeaderShort),
        (LinkType::ETHERNET, ethernet(MPLS, &mpls(16, false, &[0; 3])), MplsStackShort),
        (LinkType::ETHERNET, ethernet(PPPOE_SESSION, &[0x11; 5]), PppoeHeaderShort),
        (LinkType::ETHERNET, ethernet(PPPOE_SESSION, &[0x12; 8]), PppoeVersionWrong),
        (LinkType::ETHERNET, ethernet(PPPOE_SESSION, &pppoe(&[0])), PppHeaderShort),
        (LinkType::PPP, vec![0xff, 3], PppHeaderShort),
        (LinkType::LINUX_SLL, vec![0; 15], CookedHeaderShort),
        (LinkType::LINUX_SLL2, vec![0; 19], CookedHeaderShort),
        (LinkType::NULL, vec![0; 3], LoopbackHeaderShort),
        (LinkType::NFLOG, vec![2, 0, 0], NflogHeaderShort),
        (LinkType::NFLOG, vec![2, 0, 0, 0, 3, 0, 9, 0], NflogAttributeWrong),
        (LinkType::IEEE802_11_RADIOTAP, vec![0, 0, 9, 0, 2, 0, 0, 0], RadiotapHeaderShort),
        (LinkType::IEEE802_11_RADIOTAP, vec![1, 0, 8, 0, 0, 0, 0, 0], RadiotapHeaderWrong),
        (LinkType::IEEE802_11_PRISM, vec![0x44; 143], PrismHeaderShort),
        (LinkType::IEEE802_11_AVS, vec![0x80, 0x21, 0x10, 1, 0, 0, 0, 9], PrismHeaderShort),
        (LinkType::PPI, vec![0, 0, 9, 0, 105, 0, 0, 0], PpiHeaderShort),
        (LinkType::IEEE802_11, vec![0x08], WlanHeaderShort),
        (LinkType::IEEE802_11, vec![0x08; 23], WlanHeaderShort),
        (LinkType::IEEE802_11, wlan(AGGREGATE, &[0; 13]), WlanHeaderShort),
        (LinkType::ETHERNET, ethernet(MACSEC, &[0x20; 13]), MacsecTagShort),
        (LinkType::ETHERNET, ethernet(MACSEC, &[0; 17]), MacsecTagShort),
        (LinkType::ETHERNET, ethernet(MACSEC, &[0x80; 46]), MacsecVersionWrong),
        (LinkType::RAW, vec![], RawVersionWrong),
        (LinkType::RAW, vec![0x50; 40], RawVersionWrong),
        (LinkType::ETHERNET, ethernet(MPLS, &[0; 80]), HeadersTooDeep),
        (LinkType::ETHERNET, ethernet(ARP, &[0, 1, 8, 0, 6, 4, 0, 1, 0]), ArpShort),
    ];
    for (link, frame, cause) in cases {
        let layers = read(link, &frame);
        assert_eq!((layers.fault, layers.network), (Some(cause), Network::None), "{frame:02x?}");
        assert!(!layers.is_cut());
    }
}

#[test]
fn the_network_header() {
    let packet = ipv4(Protocol::TCP, &tcp(&[], b"hello"));
    let six = ipv6(Protocol::TCP, &tcp(&[], b"hello"));
    let lost: [(LinkType, Vec<u8>, Malformed); 8] = [
        (LinkType::IPV4, packet[..19].to_vec(), Ipv4HeaderShort),
        (LinkType::IPV4, changed(&packet, &[(0, 0x65)]), Ipv4VersionWrong),
        (LinkType::IPV4, changed(&packet, &[(0, 0x44)]), Ipv4HeaderLengthSmall),
        (LinkType::IPV4, changed(&packet[..40], &[(0, 0x4f)]), Ipv4HeaderLengthLong),
        (LinkType::IPV4, changed(&packet, &[(3, 19)]), Ipv4TotalLengthSmall),
        (LinkType::IPV4, changed(&packet[..20], &[(3, 0)]), Ipv4TotalLengthSmall),
        (LinkType::IPV6, six[..39].to_vec(), Ipv6HeaderShort),
        (LinkType::IPV6, changed(&six, &[(0, 0x45)]), Ipv6VersionWrong),
    ];
    for (link, frame, cause) in lost {
        // A total length that is too long is told as well, but later.
        let frame = if cause == Ipv4HeaderLengthLong { changed(&frame, &[(3, 60)]) } else { frame };
        let layers = read(link, &frame);
        assert_eq!((layers.fault, layers.network), (Some(cause), Network::None), "{frame:02x?}");
    }
    let option = ipv4_with_options([7, 1, 0, 0], Protocol::TCP, &tcp(&[], b""));
    let kept: [(LinkType, Vec<u8>, Malformed); 3] = [
        (LinkType::IPV4, changed(&packet, &[(2, 1)]), Ipv4TotalLengthLong),
        (LinkType::IPV6, changed(&six, &[(4, 1)]), Ipv6PayloadLengthLong),
        (LinkType::IPV4, option, Ipv4OptionWrong),
    ];
    for (link, frame, cause) in kept {
        let layers = read(link, &frame);
        assert_eq!(layers.fault, Some(cause));
        assert!(layers.is_ip() && layers.has(Layers::TRANSPORT), "{cause}: the walk goes on");
    }
}

#[test]
fn extension_headers() {
    let options = [Protocol::IPV6_OPTIONS.0, 0, 1, 4, 0, 0, 0, 0];
    let short = read(LinkType::RAW, &ipv6(Protocol::HOP_BY_HOP, &[6, 1, 0, 0, 0, 0, 0, 0]));
    assert_eq!(short.fault, Some(Ipv6ExtensionShort));
    assert_eq!((short.network, short.protocol), (Network::Ipv6, Protocol::HOP_BY_HOP));
    let shorter = read(LinkType::RAW, &ipv6(Protocol::IPV6_OPTIONS, &[6]));
    assert_eq!(shorter.fault, Some(Ipv6ExtensionShort));
    let no_check_value = read(LinkType::RAW, &ipv4(Protocol::AH, &[6, 0, 0, 0, 0, 0, 0, 0]));
    assert_eq!(no_check_value.fault, Some(Ipv6ExtensionShort));
    let many = read(LinkType::RAW, &ipv6(Protocol::IPV6_OPTIONS, &options.repeat(20)));
    assert_eq!((many.fault, many.network), (Some(Ipv6ExtensionsTooMany), Network::Ipv6));
}

#[test]
fn the_transport_header() {
    let cases: [(Protocol, Vec<u8>, Malformed); 9] = [
        (Protocol::TCP, vec![0; 19], TcpHeaderShort),
        (Protocol::TCP, changed(&tcp(&[], b""), &[(12, 0x40)]), TcpDataOffsetSmall),
        (Protocol::TCP, changed(&tcp(&[], b""), &[(12, 0x60)]), TcpDataOffsetLong),
        (Protocol::UDP, vec![0; 7], UdpHeaderShort),
        (Protocol::UDP, changed(&udp(1, 2, b""), &[(5, 7)]), UdpLengthSmall),
        (Protocol::UDP, changed(&udp(1, 2, b""), &[(5, 9)]), UdpLengthLong),
        (Protocol::ICMP, vec![0; 7], IcmpHeaderShort),
        (Protocol::ICMPV6, vec![0; 3], Icmpv6HeaderShort),
        (Protocol::SCTP, vec![0; 11], SctpHeaderShort),
    ];
    for (protocol, segment, cause) in cases {
        for packet in [ipv4(protocol, &segment), ipv6(protocol, &segment)] {
            let layers = read(LinkType::RAW, &packet);
            assert_eq!(layers.fault, Some(cause));
            assert!(layers.is_ip() && !layers.has(Layers::TRANSPORT));
            assert_eq!(layers.payload_offset, layers.transport_offset);
            assert_eq!(layers.payload_len as usize, segment.len());
            let options = DissectOptions { transport: false, decapsulate: true };
            let unread = dissect(LinkType::RAW, &packet, 0, options);
            assert_eq!((unread.fault, unread.protocol), (None, protocol));
        }
    }
    let options = read(LinkType::RAW, &ipv4(Protocol::TCP, &tcp(&[2, 1, 0, 0], b"hello")));
    assert_eq!((options.fault, options.flags), (Some(TcpOptionWrong), Layers::TRANSPORT));
    assert_eq!(options.payload_len, 5);
    // RFC 2675 §4: a UDP length of 0 means that the datagram fills the packet.
    let jumbo = changed(&udp(1, 2, b"hello"), &[(5, 0)]);
    let jumbo = read(LinkType::RAW, &ipv6(Protocol::UDP, &jumbo));
    assert_eq!((jumbo.fault, jumbo.payload_len), (None, 5));
}

#[test]
fn in_a_tunnel_the_outer_headers_hold() {
    let inner = ipv4(Protocol::TCP, &tcp(&[], b"hello"));
    let cases: [(Protocol, Vec<u8>, Malformed); 11] = [
        (Protocol::GRE, vec![0x20, 0, 8, 0, 1], GreHeaderShort),
        (Protocol::GRE, gre(IPV4, &inner[..10]), Ipv4HeaderShort),
        (Protocol::IPV4, changed(&inner, &[(0, 0x65)]), Ipv4VersionWrong),
        (Protocol::UDP, udp(1, 4789, &[8, 0, 0]), VxlanHeaderShort),
        (Protocol::UDP, vxlan(&[0; 13]), EthernetHeaderShort),
        (Protocol::UDP, udp(1, 6081, &[1, 0, 8, 0, 0, 0, 0, 0, 1]), GeneveHeaderShort),
        (Protocol::UDP, geneve(IPV4, &[1, 8, 1, 1], &inner), GeneveOptionWrong),
        (Protocol::GRE, erspan_ii(&[])[..15].to_vec(), ErspanHeaderShort),
        (Protocol::GRE, changed(&erspan_ii(&plain()), &[(8, 0x30)]), ErspanVersionWrong),
        (Protocol::UDP, udp(2152, 2152, &[0x30, 255, 0]), GtpuHeaderShort),
        (Protocol::UDP, gtpu(&changed(&inner, &[(0, 0x41)])), Ipv4HeaderLengthSmall),
    ];
    for (protocol, content, cause) in cases {
        let layers = read(LinkType::RAW, &ipv6(protocol, &content));
        assert_eq!(layers.fault, Some(cause));
        assert_eq!((layers.network, layers.tunnel), (Network::Ipv6, Tunnel::None), "{cause}");
        assert_eq!((layers.network_offset, layers.protocol), (0, protocol));
        assert_eq!(layers.has(Layers::TRANSPORT), protocol == Protocol::UDP, "{cause}");
    }
    // The inner transport is wrong, the inner network header holds.
    let layers = read(LinkType::RAW, &ipv6(Protocol::IPV4, &ipv4(Protocol::UDP, &[0; 7])));
    assert_eq!((layers.fault, layers.network), (Some(UdpHeaderShort), Network::Ipv4));
    assert_eq!((layers.tunnel, layers.network_offset), (Tunnel::IpInIp, 40));
}

#[test]
fn too_deep() {
    let mut packet = ipv4(Protocol::TCP, &tcp(&[], b""));
    for _ in 0..20 {
        packet = ipv4(Protocol::IPV4, &packet);
    }
    let layers = read(LinkType::RAW, &packet);
    assert_eq!((layers.fault, layers.tunnel), (Some(HeadersTooDeep), Tunnel::IpInIp));
}

#[test]
fn what_was_not_captured_is_not_malformed() {
    let frames = [
        plain(),
        ethernet(IPV4, &ipv4(Protocol::TCP, &tcp(&[1, 1, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0], b"x"))),
        ethernet(IPV4, &ipv4_with_options([148, 4, 0, 0], Protocol::UDP, &udp(1, 2, b"x"))),
        ethernet(VLAN, &vlan(5, IPV6, &ipv6(Protocol::UDP, &gtpu(&plain()[14..])))),
        ethernet(IPV4, &ipv4(Protocol::UDP, &vxlan(&plain()))),
        ethernet(IPV4, &ipv4(Protocol::GRE, &gre(TRANSPARENT_ETHERNET, &plain()))),
        ethernet(IPV4, &ipv4(Protocol::GRE, &gre(ERSPAN, &plain()))),
        ethernet(IPV4, &ipv4(Protocol::GRE, &erspan_ii(&plain()))),
        ethernet(IPV4, &ipv4(Protocol::GRE, &erspan_iii(true, 0, &plain()))),
        ethernet(IPV4, &ipv4(Protocol::UDP, &geneve(IPV4, &[1, 8, 1, 0], &plain()[14..]))),
        ethernet(MACSEC, &macsec(0, IPV4, &plain()[14..])),
        ethernet(MPLS, &mpls(1, true, &raw(&[0; 4], &plain()))),
        ethernet(PPPOE_SESSION, &pppoe(&raw(&[0, 0x21], &plain()[14..]))),
        ethernet(
            IPV6,
            &ipv6(Protocol::HOP_BY_HOP, &raw(&[17, 0, 1, 4, 0, 0, 0, 0], &udp(1, 2, b"x"))),
        ),
    ];
    for frame in frames {
        let whole = read(LinkType::ETHERNET, &frame);
        assert_eq!((whole.fault, whole.is_cut()), (None, false));
        let wire_len = u32::try_from(frame.len()).unwrap();
        for captured_len in 0..frame.len() {
            let captured = &frame[..captured_len];
            let layers = dissect(LinkType::ETHERNET, captured, wire_len, DissectOptions::default());
            assert_eq!(layers.fault, None, "{captured_len} of {frame:02x?}");
            if captured_len >= usize::from(whole.payload_offset) {
                assert_eq!(layers, whole);
            } else if !layers.has(Layers::MPLS) {
                assert!(layers.is_cut(), "{captured_len} of {frame:02x?}");
            }
        }
    }
}

#[test]
fn what_may_be_no_tunnel_is_not_malformed_when_cut() {
    // Shorter than the tunnel's header, and by its second or fourth byte none: it stays UDP.
    for (port, content, needed) in [(2152, [0x30, 1, 0, 0], 2), (6081, [0, 0, 5, 0xff], 4)] {
        let frame = ipv4(Protocol::UDP, &udp(port, port, &content));
        let wire_len = u32::try_from(frame.len()).unwrap();
        assert_eq!(read(LinkType::RAW, &frame).fault, None);
        for captured_len in 28..frame.len() {
            let captured = &frame[..captured_len];
            let layers = dissect(LinkType::RAW, captured, wire_len, DissectOptions::default());
            assert_eq!(layers.fault, None, "{captured_len} bytes");
            assert_eq!(layers.is_cut(), captured_len < 28 + needed, "{captured_len} bytes");
        }
    }
}

#[test]
fn a_short_header_that_is_wrong_as_well_is_short_however_it_is_cut() {
    let cases = [
        (LinkType::IEEE802_11_RADIOTAP, vec![0x9c; 3], RadiotapHeaderShort),
        (LinkType::ETHERNET, ethernet(MACSEC, &[0x80; 5]), MacsecTagShort),
        (LinkType::RAW, ipv4(Protocol::GRE, &erspan_ii(&[])[..12]), ErspanHeaderShort),
    ];
    for (link, mut frame, cause) in cases {
        *frame.last_mut().unwrap() |= 0xf0;
        let wire_len = u32::try_from(frame.len()).unwrap();
        assert_eq!(read(link, &frame).fault, Some(cause));
        for cut in 1..3 {
            let captured = &frame[..frame.len() - cut];
            let layers = dissect(link, captured, wire_len, DissectOptions::default());
            assert_eq!(layers.fault, Some(cause));
        }
    }
}

#[test]
fn link_types_that_count_as_decoded_are_those_whose_headers_are_read() {
    // Too short for any header: whoever reads one says so.
    let of = |link| dissect(link, &[], 0, DissectOptions::default());
    let nothing = of(LinkType(147));
    for link in (0..=u16::MAX).map(LinkType) {
        assert_eq!(of(link) != nothing, link.is_decoded(), "{link}");
    }
}

#[test]
fn a_packet_of_netfilters_log_is_cut_where_the_capture_is() {
    let packet = ipv4(Protocol::TCP, &tcp(&[], b"hello"));
    let mut frame = vec![2, 0, 0, 0, 8, 0, 1, 0, 8, 0, 1, 0];
    frame.extend([4 + packet.len() as u8, 0, 9, 0]);
    frame.extend(&packet);
    let whole = read(LinkType::NFLOG, &frame);
    assert_eq!((whole.network, whole.fault, whole.is_cut()), (Network::Ipv4, None, false));
    assert_eq!(whole.network_offset, 16);
    for len in [4, 10, 12, 18] {
        let layers =
            dissect(LinkType::NFLOG, &frame[..len], frame.len() as u32, DissectOptions::default());
        assert_eq!((layers.is_cut(), layers.fault), (true, None), "{len}");
    }
}
