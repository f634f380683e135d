//! What holds for every file.

use proptest::prelude::*;

use super::{decode, decode_from};
use crate::file::{
    Comments, Decoder, FrameNote, Interface, InterfaceStatistics, PcapEncoder, PcapngEncoder,
    Resolution, Section, Stop,
};
use crate::link::LinkType;
use crate::record::Direction;
use crate::time::Timestamp;

fn text() -> impl Strategy<Value = String> {
    // Zero ends a text in files.
    "[^\0]{0,20}"
}

fn comments() -> impl Strategy<Value = Comments> {
    prop::collection::vec(text(), 0..4).prop_map(|texts| Comments { texts, omitted_count: 0 })
}

prop_compose! {
    fn interface()(
        link in any::<u16>(),
        texts in prop::array::uniform5(text()),
        comments in comments(),
        numbers in any::<(Option<u8>, Option<u64>)>(),
        offset_seconds in prop_oneof![Just(0), -1_000_000_i64..1_000_000],
    ) -> Interface {
        let [name, description, filter, os, hardware] = texts;
        Interface {
            link: LinkType(link), snaplen: 0, resolution: Resolution::NANOSECONDS,
            offset_seconds, fcs_len: numbers.0, speed: numbers.1,
            name, description, filter, os, hardware, comments, statistics: None,
        }
    }
}

#[derive(Clone, Debug)]
struct Packet {
    timestamp: Timestamp,
    interface: usize,
    wire_len: u32,
    direction: Direction,
    comments: Vec<String>,
    bytes: Vec<u8>,
}

prop_compose! {
    fn packet()(
        // From the latest offset of `interface` on, so that no stamp is clamped.
        ns in 1_000_000_000_000_000_i64..i64::MAX,
        interface in any::<prop::sample::Index>(),
        wire_len in any::<u32>(),
        direction in prop::sample::select(vec![
            Direction::Unknown, Direction::Inbound, Direction::Outbound,
        ]),
        comments in prop::collection::vec(text(), 0..3),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) -> Packet {
        let timestamp = Timestamp::from_ns(ns);
        Packet { timestamp, interface: interface.index(3), wire_len, direction, comments, bytes }
    }
}

fn statistics() -> impl Strategy<Value = InterfaceStatistics> {
    (any::<[Option<u64>; 5]>(), 1 << 60_i64..i64::MAX).prop_map(|(counters, ns)| {
        let [received, dropped, filter_accepted, os_dropped, delivered] = counters;
        let timestamp = Timestamp::from_ns(ns);
        let (start, end) = (received.map(|_| timestamp), Some(timestamp));
        InterfaceStatistics {
            timestamp,
            start,
            end,
            received,
            dropped,
            filter_accepted,
            os_dropped,
            delivered,
        }
    })
}

fn encode(
    section: &Section,
    interfaces: &[Interface],
    packets: &[Packet],
    statistics: Option<InterfaceStatistics>,
) -> Vec<u8> {
    let (mut encoder, mut file) = (PcapngEncoder::new(), Vec::new());
    encoder.section(&mut file, section);
    for interface in interfaces {
        encoder.interface(&mut file, interface).unwrap();
    }
    for packet in packets {
        let comments: Vec<&str> = packet.comments.iter().map(String::as_str).collect();
        let note = FrameNote {
            timestamp: packet.timestamp,
            interface: packet.interface as u32,
            wire_len: packet.wire_len,
            direction: packet.direction,
            comments: &comments,
        };
        encoder.frame(&mut file, &note, &packet.bytes).unwrap();
    }
    if let Some(statistics) = statistics {
        encoder.statistics(&mut file, 1, &statistics).unwrap();
    }
    assert_eq!((encoder.frames_cut(), encoder.timestamps_clamped()), (0, 0));
    file
}

fn pcap_of(packets: &[Packet]) -> Vec<u8> {
    let (mut encoder, mut file) = (PcapEncoder::nanoseconds(LinkType::ETHERNET, 0), Vec::new());
    encoder.header(&mut file);
    for packet in packets {
        encoder.frame(&mut file, packet.timestamp, packet.wire_len, &packet.bytes);
    }
    file
}

/// Decodes giving no more bytes than were asked for.
fn decode_in_pieces(bytes: &[u8]) -> (Decoder, Vec<(usize, String)>) {
    let (mut decoder, mut at) = Decoder::new(bytes).unwrap();
    let (mut items, mut given) = (Vec::new(), 0);
    while at < bytes.len() {
        match decoder.next(&bytes[at..at + given]) {
            Ok((item, consumed)) => {
                items.push((consumed, format!("{item:?}")));
                at += consumed;
                given = 0;
            }
            Err(Stop::NeedMore(wanted)) if at + wanted <= bytes.len() => {
                assert!(wanted > given, "asks for more than it was given");
                given = wanted;
            }
            Err(_) => break,
        }
    }
    (decoder, items)
}

fn decode_at_once(bytes: &[u8]) -> (Decoder, Vec<(usize, String)>) {
    let (mut decoder, mut at) = Decoder::new(bytes).unwrap();
    let mut items = Vec::new();
    while let Ok((item, consumed)) = decoder.next(&bytes[at..]) {
        items.push((consumed, format!("{item:?}")));
        at += consumed;
    }
    (decoder, items)
}

/// A valid file with a few bytes changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let parts = (
        prop::collection::vec(interface(), 3),
        prop::collection::vec(packet(), 0..6),
        prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        any::<bool>(),
    );
    parts.prop_map(|(interfaces, packets, changes, classic)| {
        let section = Section::default();
        let statistics = Some(InterfaceStatistics::default());
        let interfaces: Vec<_> =
            interfaces.into_iter().map(|one| Interface { offset_seconds: 0, ..one }).collect();
        let mut file = match classic {
            true => pcap_of(&packets),
            false => encode(&section, &interfaces, &packets, statistics),
        };
        for (index, byte) in changes {
            // The magic stays, so that there is something to decode.
            let at = 12 + index.index(file.len() - 12);
            file[at] = byte;
        }
        file
    })
}

proptest! {
    #[test]
    fn pcapng_decodes_to_what_was_encoded(
        texts in prop::array::uniform3(text()),
        section_comments in comments(),
        interfaces in prop::collection::vec(interface(), 3),
        packets in prop::collection::vec(packet(), 0..8),
        statistics in statistics(),
    ) {
        let [hardware, os, application] = texts;
        let section = Section { hardware, os, application, comments: section_comments };
        let decoded = decode(&encode(&section, &interfaces, &packets, Some(statistics)));
        prop_assert_eq!(decoded.fault, None);
        prop_assert_eq!(decoded.decoder.sections(), &[section][..]);
        let mut expected = interfaces;
        expected[1].statistics = Some(statistics);
        prop_assert_eq!(decoded.decoder.interfaces(), &expected[..]);
        prop_assert_eq!(decoded.frames.len(), packets.len());
        for ((packet, (frame, bytes)), comments) in
            packets.iter().zip(&decoded.frames).zip(&decoded.comments)
        {
            prop_assert_eq!(frame.timestamp, packet.timestamp);
            prop_assert_eq!(usize::from(frame.interface), packet.interface);
            prop_assert_eq!(frame.link, expected[packet.interface].link);
            prop_assert_eq!(frame.wire_len, packet.wire_len);
            prop_assert_eq!(frame.direction, packet.direction);
            prop_assert_eq!(bytes, &packet.bytes);
            prop_assert_eq!(comments, &packet.comments);
        }
        let counts = decoded.decoder.counts();
        prop_assert_eq!(counts.options_malformed + counts.option_values_malformed, 0);
    }

    #[test]
    fn pcap_decodes_to_what_was_encoded(packets in prop::collection::vec(packet(), 0..8)) {
        let (mut encoder, mut file) = (PcapEncoder::nanoseconds(LinkType(7), 0), Vec::new());
        encoder.header(&mut file);
        for packet in &packets {
            let stamp = Timestamp::from_ns(packet.timestamp.as_ns() / 4);
            encoder.frame(&mut file, stamp, packet.wire_len, &packet.bytes);
        }
        let decoded = decode(&file);
        prop_assert_eq!((decoded.fault, decoded.frames.len()), (None, packets.len()));
        prop_assert_eq!(encoder.timestamps_clamped(), 0);
        for (packet, (frame, bytes)) in packets.iter().zip(&decoded.frames) {
            prop_assert_eq!(frame.timestamp.as_ns(), packet.timestamp.as_ns() / 4);
            prop_assert_eq!(frame.wire_len, packet.wire_len);
            prop_assert_eq!(bytes, &packet.bytes);
        }
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_stand_still(
        kind in 0_usize..8,
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let starts: [&[u8]; 8] = [
            &[], b"\xd4\xc3\xb2\xa1\x02\0\x04\0", b"\xa1\xb2\x3c\x4d\0\x02\0\x02",
            b"\x34\xcd\xb2\xa1\x02\0\x03\0", b"\n\r\r\n", b"\n\r\r\n\0\0\0\x1c\x1a\x2b\x3c\x4d",
            b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\0\0\0\0\0\0\0\0\x1c\0\0\0",
            b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\0\0\0\0\0\0\0\0\x1c\0\0\0\
              \x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x14\0\0\0\x06\0\0\0",
        ];
        let file = [starts[kind], &bytes].concat();
        if Decoder::new(&file).is_ok() {
            let decoded = decode(&file);
            let _ = decoded.decoder.find_boundary(&bytes, 4);
            if let Some(fault) = decoded.fault {
                prop_assert!(!fault.to_string().is_empty());
            }
        }
    }

    #[test]
    fn pieces_decode_as_the_whole(file in damaged()) {
        if Decoder::new(&file).is_ok() {
            let (pieces, whole) = (decode_in_pieces(&file), decode_at_once(&file));
            prop_assert_eq!(pieces.1, whole.1);
            prop_assert_eq!(pieces.0.counts(), whole.0.counts());
            prop_assert_eq!(pieces.0.interfaces(), whole.0.interfaces());
            decode(&file);
        }
    }

    #[test]
    fn boundaries_are_found_from_anywhere(
        interfaces in prop::collection::vec(interface(), 3),
        mut packets in prop::collection::vec(packet(), 40..60),
        place in any::<prop::sample::Index>(),
        classic in any::<bool>(),
    ) {
        for (index, packet) in packets.iter_mut().enumerate() {
            packet.timestamp = Timestamp::from_parts(1_700_000_000 + index as i64, 5);
            packet.bytes.push(1);
            packet.wire_len = packet.bytes.len() as u32;
        }
        let file = match classic {
            true => pcap_of(&packets),
            false => encode(&Section::default(), &interfaces, &packets, None),
        };
        let whole = decode(&file);
        let last = whole.boundaries.len() - 8;
        let first = whole.boundaries[whole.boundaries.len() - packets.len()];
        let from = first + place.index(whole.boundaries[last] - first);
        let found = whole.decoder.find_boundary(&file[from..], 8).map(|offset| from + offset);
        let next = whole.boundaries.iter().copied().find(|&boundary| boundary >= from);
        prop_assert_eq!(found, next);
        // A fork that starts there reads the rest as the whole did.
        let rest = decode_from(whole.decoder.fork(), &file, next.unwrap());
        let skipped = whole.frames.len() - rest.frames.len();
        prop_assert_eq!(&rest.frames[..], &whole.frames[skipped..]);
    }
}
