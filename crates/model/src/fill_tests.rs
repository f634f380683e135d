use packet::dissect::{DissectOptions, dissect};
use packet::{Frame, LinkType, Record};
use proptest::prelude::*;

use super::*;

const MACS: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&MACS, &ether_type.to_be_bytes()[..], payload].concat()
}

/// An IPv4 packet; `fragment` is the field of flags and offset.
fn ipv4(protocol: u8, options: &[u8], fragment: u16, payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total_len = u16::try_from(header_len + payload.len()).unwrap().to_be_bytes();
    let first = 0x40 | u8::try_from(header_len / 4).unwrap();
    let [high, low] = fragment.to_be_bytes();
    let head = [first, 1, total_len[0], total_len[1], 0, 7, high, low, 64, protocol, 0, 0];
    [&head[..], &[192, 0, 2, 1, 198, 51, 100, 2], options, payload].concat()
}

fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [0x60, 0, 0, 5, len[0], len[1], next_header, 64];
    [&head[..], &[0x20; 16], &[0x30; 16], payload].concat()
}

fn tcp(words: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let head = [200, 1, 1, 187, 0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x18, 2, 0, 9, 9, 0, 0];
    [&head[..], options, payload].concat()
}

const UDP: [u8; 12] = [200, 1, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4];

fn record_of(frame: &[u8]) -> Record {
    let len = u32::try_from(frame.len()).unwrap();
    let layers = dissect(LinkType::ETHERNET, frame, 1514.max(len), DissectOptions::default());
    Record { captured_len: len, layers, ..Record::default() }
}

fn filled(layout: Layout, frame: &[u8]) -> Option<Vec<u8>> {
    let record = record_of(frame);
    let mut bits = vec![0xff; layout.record_len()];
    layout.fill(&Frame::new(frame, &record), &mut bits).then_some(bits)
}

/// The bytes of a block that are there; they are never interrupted.
fn block(layout: Layout, bits: &[u8], block: Block) -> Vec<u8> {
    let is_there = |index: usize| bits[layout.data_len() + index / 8] >> (7 - index % 8) & 1 == 1;
    let (start, len) = (layout.offset(block), usize::from(layout.len(block)));
    let there: Vec<_> = (start..start + len).filter(|&index| is_there(index)).collect();
    assert!(there.iter().enumerate().all(|(place, &index)| index == start + place));
    assert!((start..start + len).all(|index| is_there(index) || bits[index] == 0));
    there.into_iter().map(|index| bits[index]).collect()
}

fn all() -> Layout {
    Layout::new(&Block::ALL, 6)
}

/// What a frame has of each block: IPv4, IPv6, TCP, UDP, ICMP, payload.
fn blocks(frame: &[u8]) -> [Vec<u8>; 6] {
    let bits = filled(all(), frame).unwrap();
    Block::ALL.map(|which| block(all(), &bits, which))
}

#[test]
fn headers_with_options_are_copied_whole() {
    let options = [1, 1, 1, 0];
    let segment = tcp(6, &[1, 1, 1, 0], b"hello world");
    let ip = ipv4(6, &options, 0x4000, &segment);
    let [v4, v6, tcp, udp, icmp, payload] = blocks(&ethernet(0x0800, &ip));
    assert_eq!((v4.as_slice(), tcp.as_slice()), (&ip[..24], &segment[..24]));
    assert_eq!(payload, b"hello ");
    assert!(v6.is_empty() && udp.is_empty() && icmp.is_empty());
}

#[test]
fn vlan_tags_are_passed_and_ipv6_has_its_fixed_header() {
    let ip = ipv6(17, &UDP);
    let tagged = [&[0, 5, 0x86, 0xdd][..], &ip].concat();
    let [v4, v6, _, udp, _, payload] = blocks(&ethernet(0x8100, &tagged));
    assert!(v4.is_empty());
    assert_eq!((v6.as_slice(), udp.as_slice()), (&ip[..40], &UDP[..8]));
    assert_eq!(payload, [1, 2, 3, 4]);
}

#[test]
fn transport_lies_behind_extension_headers() {
    let hop_by_hop = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &UDP].concat();
    let [.., udp, _, payload] = blocks(&ethernet(0x86dd, &ipv6(0, &hop_by_hop)));
    assert_eq!((udp.as_slice(), payload.as_slice()), (&UDP[..8], &UDP[8..]));
}

#[test]
fn padding_of_the_link_is_no_header_and_no_payload() {
    let mut frame = ethernet(0x0800, &ipv4(17, &[], 0, &UDP));
    frame.extend([0xee; 20]);
    assert_eq!(blocks(&frame)[5], [1, 2, 3, 4]);
    // Says 32 bytes of TCP and has 20: its options would be padding.
    let mut frame = ethernet(0x0800, &ipv4(6, &[], 0, &tcp(8, &[], &[])));
    frame.extend([0xee; 20]);
    assert_eq!(blocks(&frame)[2].len(), 20);
}

#[test]
fn a_tcp_header_shows_its_fixed_part_however_short_it_says_it_is() {
    let segment = tcp(0, &[], b"data");
    let [_, _, tcp, _, _, payload] = blocks(&ethernet(0x0800, &ipv4(6, &[], 0, &segment)));
    assert_eq!(tcp, segment[..20]);
    assert!(payload.is_empty(), "malformed: nobody knows where it begins");
}

#[test]
fn what_the_capture_cut_off_is_absent() {
    let frame = ethernet(0x0800, &ipv4(6, &[], 0, &tcp(8, &[1; 12], b"data")));
    for len in 34..frame.len() {
        let [v4, _, tcp, _, _, payload] = blocks(&frame[..len]);
        assert_eq!(v4, frame[14..34]);
        assert_eq!(tcp, frame[34..len.min(66)]);
        assert_eq!(payload, frame[len.min(66)..len]);
    }
    assert_eq!(filled(all(), &frame[..33]), None, "no IP header that can be read");
}

#[test]
fn in_a_tunnel_the_headers_are_those_that_the_record_tells() {
    let inner = ipv6(17, &UDP);
    let outer = ipv4(41, &[], 0, &inner);
    let frame = ethernet(0x0800, &outer);
    let [v4, v6, _, udp, ..] = blocks(&frame);
    assert_eq!((v4.len(), v6.as_slice(), udp.as_slice()), (0, &inner[..40], &UDP[..8]));
    let options = DissectOptions { decapsulate: false, transport: true };
    let len = u32::try_from(frame.len()).unwrap();
    let layers = dissect(LinkType::ETHERNET, &frame, len, options);
    let record = Record { captured_len: len, layers, ..Record::default() };
    let mut bits = vec![0; all().record_len()];
    assert!(all().fill(&Frame::new(&frame, &record), &mut bits));
    assert_eq!(block(all(), &bits, Block::Ipv4), outer[..20]);
    let others = [Block::Ipv6, Block::Tcp, Block::Udp, Block::Icmp, Block::Payload];
    assert!(others.iter().all(|&which| block(all(), &bits, which).is_empty()));
}

#[test]
fn fragments_have_what_they_carry() {
    let first = blocks(&ethernet(0x0800, &ipv4(17, &[], 0x2000, &UDP)));
    assert_eq!((first[3].as_slice(), first[5].as_slice()), (&UDP[..8], &UDP[8..]));
    let later = blocks(&ethernet(0x0800, &ipv4(17, &[], 1, &UDP)));
    assert_eq!(later[0].len(), 20);
    assert!(later[1..].iter().all(Vec::is_empty));
}

#[test]
fn icmp_is_protocol_1_alone() {
    let echo = [8, 0, 1, 2, 0, 3, 0, 4, b'a', b'b'];
    let [.., icmp, payload] = blocks(&ethernet(0x0800, &ipv4(1, &[], 0, &echo)));
    assert_eq!((icmp.as_slice(), payload.as_slice()), (&echo[..8], &b"ab"[..]));
    let [_, v6, _, _, icmp, _] = blocks(&ethernet(0x86dd, &ipv6(58, &echo)));
    assert_eq!((v6.len(), icmp.len()), (40, 0));
}

#[test]
fn a_frame_without_ip_has_nothing() {
    for layout in [Layout::default(), all()] {
        assert_eq!(filled(layout, &ethernet(0x0806, &[0; 28])), None);
        let record = record_of(&[]);
        let mut bits = vec![0xff; layout.record_len()];
        assert!(!layout.fill(&Frame::new(&[], &record), &mut bits));
        assert!(bits.iter().all(|&byte| byte == 0));
        let mut other = vec![0xff; 7];
        assert!(!layout.fill(&Frame::new(&[], &record), &mut other));
    }
}

/// Frames of every kind, cut anywhere, and bytes without sense.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let options = || prop::sample::select(vec![0usize, 4, 12, 40]);
    let made = (any::<u16>(), options(), options(), any::<u8>(), 0..200usize, 0..8u8).prop_map(
        |(fragment, ip_options, tcp_options, words, cut, kind)| {
            let segment = tcp(words >> 4, &vec![1; tcp_options], b"payload");
            let fragment = if fragment % 3 == 0 { fragment } else { 0x4000 };
            let packet = match kind {
                0 => ethernet(0x86dd, &ipv6(6, &segment)),
                1 => ethernet(0x86dd, &ipv6(17, &UDP)),
                2 => ethernet(0x0800, &ipv4(17, &vec![1; ip_options], fragment, &UDP)),
                3 => ethernet(0x0800, &ipv4(1, &[], fragment, &UDP)),
                _ => ethernet(0x0800, &ipv4(6, &vec![1; ip_options], fragment, &segment)),
            };
            let len = if cut < 60 { packet.len() } else { packet.len().min(cut) };
            packet[..len].to_vec()
        },
    );
    prop_oneof![made, prop::collection::vec(any::<u8>(), 0..120)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_plain_way_and_the_other_agree(frame in any_frame()) {
        let plain = Layout::default();
        let record = record_of(&frame);
        let frame = Frame::new(&frame, &record);
        let (mut one, mut other) = ([0xaa; PLAIN_RECORD_LEN], [0x55; PLAIN_RECORD_LEN]);
        let is_filled = plain.fill(&frame, &mut one);
        prop_assert_eq!(is_filled, plain.fill_any(&frame, &mut other));
        prop_assert_eq!(one, other);
    }

    /// Layers that say anything at all, such as of another frame.
    #[test]
    fn any_layers_are_safe(
        bytes in prop::collection::vec(any::<u8>(), 0..150), offsets: [u8; 3], payload_len: u32,
        flags: u8, protocol in prop::sample::select(vec![1u8, 6, 17, 58, 0]), is_v6: bool,
    ) {
        let [network, transport, payload] = offsets.map(u16::from);
        let layers = Layers {
            network_offset: network, transport_offset: transport, payload_offset: payload,
            payload_len, flags, protocol: Protocol(protocol),
            network: if is_v6 { Network::Ipv6 } else { Network::Ipv4 },
            ..Layers::default()
        };
        let captured_len = u32::try_from(bytes.len()).unwrap();
        let record = Record { captured_len, layers, ..Record::default() };
        for layout in [Layout::default(), all()] {
            let mut bits = vec![0; layout.record_len()];
            prop_assert!(layout.fill(&Frame::new(&bytes, &record), &mut bits));
            Block::ALL.iter().for_each(|&which| drop(block(layout, &bits, which)));
        }
    }
}
