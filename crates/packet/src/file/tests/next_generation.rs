//! pcapng, by blocks written out by hand.

use super::{decode, decode_from, words};
use crate::file::{
    BlockKind, Decoder, FileFault, FrameNote, Interface, InterfaceStatistics, Item, PcapngEncoder,
    Resolution, Section, Stop, TEXT_LEN_MAX,
};
use crate::link::LinkType;
use crate::record::Direction;
use crate::time::Timestamp;

fn block(big: bool, block_type: u32, body: &[u8]) -> Vec<u8> {
    assert!(body.len().is_multiple_of(4));
    let len = body.len() as u32 + 12;
    [words(big, &[block_type, len]), body.to_vec(), words(big, &[len])].concat()
}

fn section(big: bool) -> Vec<u8> {
    let version = if big { 1 << 16 } else { 1 };
    block(big, 0x0a0d_0d0a, &words(big, &[0x1a2b_3c4d, version, u32::MAX, u32::MAX]))
}

fn half(big: bool, value: u16) -> [u8; 2] {
    if big { value.to_be_bytes() } else { value.to_le_bytes() }
}

fn option(big: bool, code: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [half(big, code), half(big, value.len() as u16)].concat();
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn interface(big: bool, link: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
    let mut body = [half(big, link), [0; 2]].concat();
    body.extend(words(big, &[snaplen]));
    body.extend(options);
    block(big, 1, &body)
}

/// An enhanced packet of four bytes.
fn packet(big: bool, interface: u32, ticks: u64, options: &[u8]) -> Vec<u8> {
    let stamp = [(ticks >> 32) as u32, ticks as u32];
    let mut body = words(big, &[interface, stamp[0], stamp[1], 4, 60]);
    body.extend([1, 2, 3, 4]);
    body.extend(options);
    block(big, 6, &body)
}

#[test]
fn sections_of_either_order_follow_one_another() {
    let mut file = Vec::new();
    for big in [true, false, true] {
        file.extend(section(big));
        file.extend(interface(big, 1, 0, &option(big, 9, &[9])));
        file.extend(packet(big, 0, 1 << 60, &option(big, 2, &words(big, &[2]))));
    }
    let decoded = decode(&file);
    assert_eq!(decoded.fault, None);
    assert_eq!(decoded.frames.len(), 3);
    for (index, (frame, bytes)) in decoded.frames.iter().enumerate() {
        assert_eq!(usize::from(frame.interface), index, "numbered over all sections");
        assert_eq!(frame.timestamp, Timestamp::from_ns(1 << 60));
        assert_eq!(frame.direction, Direction::Outbound);
        assert_eq!(bytes, &[1, 2, 3, 4]);
    }
    assert_eq!(decoded.decoder.sections().len(), 3);
    assert_eq!(decoded.decoder.structure_version(), 6);
}

#[test]
fn each_interface_has_its_own_clock() {
    let offset = option(false, 14, &(-5_i64).to_le_bytes());
    let clocks: [(&[u8], u64, i64); 6] = [
        (&[], 2_000_001, 2_000_001_000),
        (&option(false, 9, &[3]), 2_001, 2_001_000_000),
        (&option(false, 9, &[12]), 2_999, 2),
        (&option(false, 9, &[0x80 | 32]), 3 << 31, 1_500_000_000),
        (&[option(false, 9, &[9]), offset].concat(), 1, -4_999_999_999),
        (&option(false, 9, &[6]), u64::MAX, i64::MAX),
    ];
    let mut file = section(false);
    for (options, ..) in clocks {
        file.extend(interface(false, 1, 0, options));
    }
    for (index, (_, ticks, _)) in clocks.iter().enumerate() {
        file.extend(packet(false, index as u32, *ticks, &[]));
    }
    let decoded = decode(&file);
    let stamps: Vec<_> = decoded.frames.iter().map(|(frame, _)| frame.timestamp.as_ns()).collect();
    assert_eq!(stamps, clocks.map(|(.., ns)| ns));
    assert_eq!(decoded.decoder.counts().timestamps_saturated, 1);
    assert_eq!(decoded.decoder.interfaces()[3].resolution, Resolution::Binary(32));
    assert_eq!(decoded.decoder.interfaces()[4].offset_seconds, -5);
}

#[test]
fn stamps_outside_of_64_bits_are_clamped_and_counted() {
    let offset = |seconds: i64| option(false, 14, &seconds.to_le_bytes());
    let of = |power: u8, seconds| [option(false, 9, &[power]), offset(seconds)].concat();
    let far = 40_000_000_000;
    let (max, min) = (i64::MAX, i64::MIN + 1);
    let clocks: [(Vec<u8>, u64, i64, u64); 10] = [
        // Ticks alone, and an offset that brings them over or under.
        (of(9, 0), u64::MAX, max, 1),
        (of(9, 9_000_000_000), 1_000_000_000_000_000_000, max, 1),
        (of(9, -9_300_000_000), 1, min, 1),
        (of(0, i64::MAX), u64::MAX, max, 1),
        (of(6, i64::MIN), 0, min, 1),
        // An offset of no 64 bits of nanoseconds that ticks make good.
        (of(6, -far), (40_000_000_000 + 7) * 1_000_000, 7_000_000_000, 0),
        (of(0, -far), 40_000_000_000 - 3, -3_000_000_000, 0),
        (of(12, far), 0, max, 1),
        // Ticks too short to be told apart.
        (of(127, 5), u64::MAX, 5_000_000_000, 0),
        (of(0xff, -5), u64::MAX, -5_000_000_000, 0),
    ];
    for (options, ticks, ns, clamped) in clocks {
        let mut file = section(false);
        file.extend(interface(false, 1, 0, &options));
        file.extend(packet(false, 0, ticks, &[]));
        let decoded = decode(&file);
        assert_eq!(decoded.frames[0].0.timestamp.as_ns(), ns, "{options:?} {ticks}");
        assert_eq!(decoded.decoder.counts().timestamps_saturated, clamped, "{options:?} {ticks}");
    }
}

#[test]
fn simple_and_obsolete_packets_are_frames() {
    for big in [false, true] {
        let mut file = section(big);
        file.extend(interface(big, 1, 3, &[]));
        file.extend(block(big, 3, &[words(big, &[60]), vec![1, 2, 3, 0]].concat()));
        let mut obsolete = [half(big, 0), half(big, 7)].concat();
        obsolete.extend(words(big, &[0, 5, 1, 2, 0x0900_0009]));
        obsolete.extend(option(big, 2, &words(big, &[1])));
        file.extend(block(big, 2, &obsolete));
        let decoded = decode(&file);
        assert_eq!(decoded.fault, None);
        let [(simple, simple_bytes), (obsolete, _)] = &decoded.frames[..] else { panic!() };
        assert_eq!((simple.captured_len, simple.wire_len, simple.has_timestamp), (3, 60, false));
        assert_eq!(simple_bytes, &[1, 2, 3]);
        assert_eq!((obsolete.captured_len, obsolete.wire_len), (1, 2));
        assert_eq!(obsolete.timestamp, Timestamp::from_ns(5_000));
        assert_eq!(obsolete.direction, Direction::Inbound);
        let counts = decoded.decoder.counts();
        assert_eq!((counts.packets_dropped, counts.simple_packet_blocks), (7, 1));
    }
}

#[test]
fn blocks_without_frames_are_told_and_counted() {
    let kinds = [
        (4, BlockKind::Names),
        (9, BlockKind::Journal),
        (10, BlockKind::Secrets),
        (0xbad, BlockKind::Custom),
        (0x4000_0bad, BlockKind::Custom),
        (0x0203, BlockKind::Unknown(0x0203)),
    ];
    let (mut decoder, _) = Decoder::new(&section(false)).unwrap();
    assert_eq!(decoder.next(&section(false)), Ok((Item::Meta(BlockKind::Section), 28)));
    for (block_type, kind) in kinds {
        let bytes = block(false, block_type, &[0; 8]);
        assert_eq!(decoder.next(&bytes), Ok((Item::Meta(kind), 20)));
    }
    let total: u64 = decoder.counts().iter().map(|(_, count)| count).sum();
    assert_eq!(total, 7);
}

#[test]
fn statistics_belong_to_an_interface_and_the_last_word_stands() {
    let number = |code, value: u64| option(false, code, &value.to_le_bytes());
    let statistics = |id, received| {
        let options = [number(4, received), number(5, 2), option(false, 8, &[0; 4])].concat();
        block(false, 5, &[words(false, &[id, 0, 9]), options].concat())
    };
    let file = [section(false), interface(false, 1, 0, &[]), statistics(0, 10)].concat();
    let file = [file, statistics(0, 11), statistics(3, 12)].concat();
    let decoded = decode(&file);
    assert_eq!(decoded.fault, None);
    let expected = InterfaceStatistics {
        timestamp: Timestamp::from_ns(9_000),
        received: Some(11),
        dropped: Some(2),
        ..InterfaceStatistics::default()
    };
    assert_eq!(decoded.decoder.interfaces()[0].statistics, Some(expected));
    let counts = decoded.decoder.counts();
    assert_eq!((counts.statistics_without_interface, counts.option_values_malformed), (1, 2));
}

#[test]
fn clamped_stamps_of_statistics_are_not_counted_as_those_of_frames() {
    let never = words(false, &[u32::MAX, u32::MAX]);
    let options = [option(false, 2, &never), option(false, 3, &never)].concat();
    let statistics = block(false, 5, &[words(false, &[0, u32::MAX, u32::MAX]), options].concat());
    let decoded = decode(&[section(false), interface(false, 1, 0, &[]), statistics].concat());
    assert_eq!(decoded.fault, None);
    let statistics = decoded.decoder.interfaces()[0].statistics.unwrap();
    assert_eq!((statistics.timestamp, statistics.end), (Timestamp::MAX, Some(Timestamp::MAX)));
    assert_eq!(decoded.decoder.counts().timestamps_saturated, 0);
}

#[test]
fn a_malformed_option_ends_the_options_and_the_block_stands() {
    let options = [option(false, 2, b"eth0"), vec![3, 0, 200, 0]].concat();
    let mut file = section(false);
    file.extend(interface(false, 1, 0, &options));
    file.extend(packet(false, 0, 1, &[1, 0, 200, 0]));
    let decoded = decode(&file);
    assert_eq!((decoded.fault, decoded.frames.len()), (None, 1));
    assert_eq!(decoded.decoder.interfaces()[0].name, "eth0");
    assert_eq!(decoded.decoder.counts().options_malformed, 2);
}

#[test]
fn what_is_kept_of_texts_is_bounded() {
    let comment = option(false, 1, &[b'x'; 60_000]);
    let mut file = section(false);
    for _ in 0..100 {
        file.extend(interface(false, 1, 0, &comment.repeat(70)));
    }
    let decoded = decode(&file);
    assert_eq!(decoded.fault, None);
    let interfaces = decoded.decoder.interfaces();
    let kept: usize = interfaces.iter().flat_map(|one| &one.comments.texts).map(String::len).sum();
    assert!(kept <= crate::file::TEXT_TOTAL_MAX);
    assert_eq!(interfaces[0].comments.texts[0].len(), TEXT_LEN_MAX);
    let omitted: u64 = interfaces.iter().map(|one| one.comments.omitted_count).sum();
    let texts: u64 = interfaces.iter().map(|one| one.comments.texts.len() as u64).sum();
    assert_eq!((omitted + texts, decoded.decoder.counts().texts_cut), (7_000, 7_000));
}

#[test]
fn every_fault_of_a_block_is_named() {
    let start = [section(false), interface(false, 1, 0, &[])].concat();
    let good = packet(false, 0, 1, &[]);
    // Which word of the packet block to set to what, and what that is called.
    let cases: [(usize, u32, FileFault); 8] = [
        (1, 28, FileFault::BlockLengthSmall { block_type: 6, block_len: 28, block_len_min: 32 }),
        (1, 38, FileFault::BlockLengthUnaligned { block_type: 6, block_len: 38 }),
        (
            1,
            (16 << 20) + 4,
            FileFault::BlockLengthLong {
                block_type: 6,
                block_len: (16 << 20) + 4,
                block_len_max: 16 << 20,
            },
        ),
        (2, 1, FileFault::InterfaceUnknown { interface: 1, interface_count: 1 }),
        (5, 5, FileFault::FrameLongerThanBlock { captured_len: 5, room: 4 }),
        (
            5,
            u32::MAX,
            FileFault::RecordTooLong { captured_len: u32::MAX, captured_len_max: 262_144 },
        ),
        (8, 40, FileFault::BlockLengthMismatch { leading: 36, trailing: 40 }),
        (1, 40, FileFault::TruncatedRecord { wanted: 40, got: 36 }),
    ];
    for (word, value, fault) in cases {
        let mut bytes = good.clone();
        bytes[word * 4..word * 4 + 4].copy_from_slice(&value.to_le_bytes());
        let decoded = decode(&[start.clone(), bytes].concat());
        assert_eq!(decoded.fault, Some(fault), "word {word}");
        let sentence = fault.to_string();
        assert!(sentence.chars().any(|c| c.is_ascii_digit()), "{sentence}");
    }
    let mut version = section(false);
    version[12] = 2;
    let fault = FileFault::SectionVersionUnsupported { major: 2, minor: 0 };
    assert_eq!(decode(&version).fault, Some(fault));
    let simple = block(false, 3, &words(false, &[1]));
    let fault = FileFault::InterfaceUnknown { interface: 0, interface_count: 0 };
    assert_eq!(decode(&[section(false), simple].concat()).fault, Some(fault));
}

#[test]
fn more_interfaces_than_a_record_can_number_are_a_fault() {
    let one = interface(false, 1, 0, &[]);
    let file = [section(false), one.repeat(65_536)].concat();
    let decoded = decode(&file);
    assert_eq!((decoded.fault, decoded.decoder.interfaces().len()), (None, 65_536));
    let mut decoder = decoded.decoder;
    let fault = FileFault::InterfacesTooMany { interface_count_max: 65_536 };
    assert_eq!(decoder.next(&one), Err(Stop::Fault(fault)));
}

#[test]
fn a_fork_reads_another_part_and_joins_again() {
    let mut encoder = PcapngEncoder::new();
    let mut file = Vec::new();
    encoder.section(&mut file, &Section::default());
    let described = Interface { link: LinkType::ETHERNET, ..Interface::default() };
    encoder.interface(&mut file, &described).unwrap();
    let note = FrameNote::default();
    encoder.frame(&mut file, &note, &[1; 60]).unwrap();
    let middle = file.len();
    let late = Interface { name: "late".into(), ..described };
    let number = encoder.interface(&mut file, &late).unwrap();
    let note = FrameNote { interface: number, ..note };
    encoder.frame(&mut file, &note, &[2; 60]).unwrap();
    let statistics = InterfaceStatistics { received: Some(1), ..Default::default() };
    encoder.statistics(&mut file, 0, &statistics).unwrap();

    let whole = decode(&file);
    let mut first = decode(&file[..middle]).decoder;
    let second = decode_from(first.fork(), &file, middle);
    assert_ne!(first.structure_version(), second.decoder.structure_version());
    first.join(second.decoder);
    assert_eq!(first.counts(), whole.decoder.counts());
    assert_eq!(first.interfaces(), whole.decoder.interfaces());
    assert_eq!(first.structure_version(), whole.decoder.structure_version());
    assert!(encoder.frame(&mut file, &FrameNote { interface: 2, ..note }, &[]).is_err());
}

#[test]
fn packets_lost_are_summed_alike_in_one_part_and_in_two() {
    let lost = |count: u64| option(false, 4, &count.to_le_bytes());
    let head = [section(false), interface(false, 1, 0, &[])].concat();
    let first = [head, packet(false, 0, 0, &lost(u64::MAX))].concat();
    let file = [&first[..], &packet(false, 0, 0, &lost(5))].concat();
    let whole = decode(&file);
    assert_eq!((whole.frames.len(), whole.decoder.counts().packets_dropped), (2, u64::MAX));
    let mut joined = decode(&first).decoder;
    let second = decode_from(joined.fork(), &file, first.len());
    joined.join(second.decoder);
    assert_eq!(joined.counts(), whole.decoder.counts());
}
