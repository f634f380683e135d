//! Classic pcap.

use super::{decode, words};
use crate::file::{Decoder, FileFault, Format, FrameHeader, PcapEncoder, Resolution, TakeFrame};
use crate::link::LinkType;
use crate::record::Direction;
use crate::time::Timestamp;

fn header(big: bool, magic: u32, version: (u16, u16), snaplen: u32, link: u32) -> Vec<u8> {
    let version = match big {
        true => u32::from(version.0) << 16 | u32::from(version.1),
        false => u32::from(version.1) << 16 | u32::from(version.0),
    };
    words(big, &[magic, version, 0, 0, snaplen, link])
}

#[test]
fn both_orders_and_both_resolutions() {
    for big in [false, true] {
        for (magic, scale) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            let mut file = header(big, magic, (2, 4), 65_535, 113);
            file.extend(words(big, &[4_000_000_000, 999_999, 3, 60]));
            file.extend([7, 8, 9]);
            let decoded = decode(&file);
            assert_eq!(decoded.fault, None);
            let (frame, bytes) = &decoded.frames[0];
            assert_eq!(frame.timestamp, Timestamp::from_parts(4_000_000_000, 999_999 * scale));
            assert_eq!((frame.captured_len, frame.wire_len, frame.data_offset), (3, 60, 16));
            assert_eq!(frame.link, LinkType::LINUX_SLL);
            assert_eq!(bytes, &[7, 8, 9]);
            let interface = &decoded.decoder.interfaces()[0];
            assert_eq!((interface.snaplen, interface.fcs_len), (65_535, None));
        }
    }
}

#[test]
fn the_upper_bits_of_the_link_type_are_the_check_sequence() {
    let file = header(false, 0xa1b2_c3d4, (2, 4), 0, 0x2400_0001);
    let (decoder, consumed) = Decoder::new(&file).unwrap();
    assert_eq!(consumed, 24);
    assert_eq!(decoder.interfaces()[0].link, LinkType::ETHERNET);
    assert_eq!(decoder.interfaces()[0].fcs_len, Some(4));
    let file = header(false, 0xa1b2_c3d4, (2, 4), 0, 0x46c5_e1f2);
    let fault = FileFault::LinkTypeUnknown { link: 0x02c5_e1f2 };
    assert_eq!(Decoder::new(&file).unwrap_err(), fault);
}

#[test]
fn old_versions_have_their_lengths_the_other_way_round() {
    let cases =
        [((2, 2), [60, 3], 1), ((2, 3), [60, 3], 1), ((2, 3), [3, 60], 0), ((2, 4), [3, 60], 0)];
    for (version, [first, second], swapped) in cases {
        let mut file = header(false, 0xa1b2_c3d4, version, 96, 1);
        file.extend(words(false, &[1, 2, first, second]));
        file.extend([0; 3]);
        let decoded = decode(&file);
        assert_eq!(decoded.fault, None, "{version:?}");
        assert_eq!((decoded.frames[0].0.captured_len, decoded.frames[0].0.wire_len), (3, 60));
        assert_eq!(decoded.decoder.counts().lengths_swapped, swapped);
    }
    for (major, minor) in [(1, 4), (542, 0), (3, 0)] {
        let file = header(true, 0xa1b2_c3d4, (major, minor), 96, 1);
        let fault = FileFault::PcapVersionUnsupported { major, minor };
        assert_eq!(Decoder::new(&file).unwrap_err(), fault);
    }
}

#[test]
fn the_modified_form_has_longer_record_headers() {
    let mut file = header(false, 0xa1b2_cd34, (2, 4), 96, 1);
    for packet_type in [0, 4, 9] {
        file.extend(words(false, &[1, 2, 2, 60, 3, 0x0800 | packet_type << 16]));
        file.extend([5, 6]);
    }
    let decoded = decode(&file);
    assert_eq!(decoded.fault, None);
    let directions: Vec<_> = decoded.frames.iter().map(|(frame, _)| frame.direction).collect();
    assert_eq!(directions, [Direction::Inbound, Direction::Outbound, Direction::Unknown]);
    assert!(decoded.frames.iter().all(|(_, bytes)| bytes == &[5, 6]));
    let Format::Pcap { modified, resolution, .. } = decoded.decoder.format() else { panic!() };
    assert_eq!((modified, resolution), (true, Resolution::MICROSECONDS));
}

#[test]
fn odd_records_are_data_and_impossible_ones_are_faults() {
    let mut file = header(false, 0xa1b2_c3d4, (2, 4), 2, 1);
    // Microseconds above a second, more captured than on the wire and than the snaplen.
    file.extend(words(false, &[1, u32::MAX, 3, 1]));
    file.extend([0; 3]);
    let whole = file.len();
    let decoded = decode(&file);
    assert_eq!(decoded.fault, None);
    let stamp = Timestamp::from_ns(1_000_000_000 + i64::from(u32::MAX) * 1_000);
    assert_eq!(decoded.frames[0].0.timestamp, stamp);
    assert_eq!(decoded.decoder.counts().subseconds_above_second, 1);

    file.extend(words(false, &[1, 0, 262_144, 262_144]));
    let wanted = FileFault::TruncatedRecord { wanted: 262_160, got: 16 };
    assert_eq!(decode(&file).fault, Some(wanted));
    file[whole + 8] = 1;
    let fault = decode(&file).fault.unwrap();
    assert_eq!(fault.to_string(), "record claims 262145 captured bytes; the maximum is 262144");
    // The same length is believed of a D-Bus message.
    file[20] = 231;
    assert_eq!(decode(&file).fault.unwrap().name(), "truncated_record");
}

#[test]
fn the_encoder_bends_what_the_format_cannot_say() {
    let mut encoder = PcapEncoder::microseconds(LinkType::RAW, 4);
    let mut file = Vec::new();
    encoder.header(&mut file);
    encoder.frame(&mut file, Timestamp::from_ns(1_999_999), 9, &[1, 2, 3, 4, 5]);
    encoder.frame(&mut file, Timestamp::from_ns(-1), 1, &[1]);
    encoder.frame(&mut file, Timestamp::MAX, 1, &[1]);
    assert_eq!((encoder.frames_cut(), encoder.timestamps_clamped()), (1, 2));
    let frames = decode(&file).frames;
    assert_eq!(frames[0].0.timestamp, Timestamp::from_ns(1_999_000));
    assert_eq!((frames[0].0.wire_len, &frames[0].1[..]), (9, &[1, 2, 3, 4][..]));
    assert_eq!(frames[1].0.timestamp, Timestamp::from_ns(0));
    assert_eq!(frames[2].0.timestamp, Timestamp::from_parts(u32::MAX.into(), 999_999_000));
}

/// Takes so many frames and notes where they begin.
struct Few {
    len: usize,
    offsets: Vec<usize>,
}

impl TakeFrame for Few {
    fn take(&mut self, _item: &[u8], _frame: FrameHeader, at: usize) -> bool {
        assert!(self.offsets.len() < self.len, "offered a frame when no more were wanted");
        self.offsets.push(at);
        self.offsets.len() < self.len
    }
}

#[test]
fn no_frame_is_lost_where_a_batch_ends_with_an_odd_one() {
    let mut file = header(false, 0xa1b2_c3d4, (2, 4), 0, 1);
    // The second stamp has a whole second below the second: legal, but odd.
    for subsecond in [0, 1_000_000, 0, 0] {
        file.extend(words(false, &[1, subsecond, 0, 0]));
    }
    for len in 1..=4 {
        let (mut decoder, mut at) = Decoder::new(&file).unwrap();
        let mut offsets = Vec::new();
        while at < file.len() {
            let mut few = Few { len, offsets: Vec::new() };
            at = decoder.read(&file, at, file.len(), &mut few).0;
            offsets.extend(few.offsets);
        }
        assert_eq!(offsets, [24, 40, 56, 72], "{len} at a time");
    }
}
