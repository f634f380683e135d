//! The encoders: what was written is what is read, in both formats, and what
//! the format cannot say is bent as promised, and counted.
//!
//! Input: flags, link type, section texts, interfaces, then frames to the end.
#![no_main]

use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::file::{
    Comments, Decoder, FrameHeader, FrameNote, Interface, InterfaceStatistics, Item, PcapEncoder,
    PcapngEncoder, Resolution, Section, Stop,
};
use packet::record::Direction;
use packet::time::NS_PER_SECOND;
use packet::{LinkType, Timestamp};

/// Frames made of one input: below, an engine in love with small frames gets slow.
const FRAME_COUNT_MAX: usize = 64;
/// Seconds by which an interface's clock may be off: beyond, sums of it and a
/// stamp leave the range of both, and the nearest stamp is read.
const OFFSET_SECONDS_MAX: i64 = 1 << 31;

struct Frame<'a> {
    timestamp: Timestamp,
    interface: usize,
    wire_len: u32,
    direction: Direction,
    comments: Vec<String>,
    bytes: &'a [u8],
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let flags = input.u8();
    let link = LinkType(input.u16());
    let section = section(&mut input);
    let interface_count = 1 + usize::from(flags & 3);
    let interfaces: Vec<_> = (0..interface_count).map(|_| interface(&mut input, link)).collect();
    let statistics = (flags & 4 != 0).then(|| statistics(&mut input));
    let mut frames = Vec::new();
    while !input.is_empty() && frames.len() < FRAME_COUNT_MAX {
        frames.push(frame(&mut input, interface_count));
    }
    let snaplen = if flags & 8 == 0 { 0 } else { 60 };
    check_pcap(link, snaplen, flags & 16 != 0, &frames);
    check_pcapng(&section, &interfaces, statistics, &frames);
});

fn section(input: &mut Input<'_>) -> Section {
    Section {
        hardware: input.text(),
        os: input.text(),
        application: input.text(),
        comments: comments(input),
    }
}

fn comments(input: &mut Input<'_>) -> Comments {
    let count = input.u8() % 4;
    Comments { texts: (0..count).map(|_| input.text()).collect(), omitted_count: 0 }
}

fn interface(input: &mut Input<'_>, link: LinkType) -> Interface {
    let flags = input.u8();
    Interface {
        link,
        snaplen: if flags & 1 == 0 { 0 } else { input.u32() },
        resolution: Resolution::NANOSECONDS,
        offset_seconds: if flags & 2 == 0 { 0 } else { input.i64() % OFFSET_SECONDS_MAX },
        fcs_len: (flags & 4 != 0).then(|| input.u8()),
        speed: input.optional_u64(),
        name: input.text(),
        description: input.text(),
        filter: input.text(),
        os: input.text(),
        hardware: input.text(),
        comments: comments(input),
        statistics: None,
    }
}

fn statistics(input: &mut Input<'_>) -> InterfaceStatistics {
    InterfaceStatistics {
        // Behind every offset, so that none is clamped.
        timestamp: Timestamp::from_parts(OFFSET_SECONDS_MAX, i64::from(input.u32())),
        start: None,
        // Behind every offset too, and not so far that the sum leaves the range.
        end: input.optional_u64().map(|ns| Timestamp::from_ns((ns >> 3 | 1 << 61).cast_signed())),
        received: input.optional_u64(),
        dropped: input.optional_u64(),
        filter_accepted: input.optional_u64(),
        os_dropped: input.optional_u64(),
        delivered: input.optional_u64(),
    }
}

fn frame<'a>(input: &mut Input<'a>, interface_count: usize) -> Frame<'a> {
    let flags = input.u8();
    let directions = [Direction::Unknown, Direction::Inbound, Direction::Outbound];
    Frame {
        timestamp: Timestamp::from_ns(input.i64()),
        interface: usize::from(flags & 3) % interface_count,
        wire_len: input.u32(),
        direction: directions[usize::from(flags >> 2) % directions.len()],
        comments: comments(input).texts,
        bytes: {
            let len = usize::from(input.u8());
            input.bytes(len)
        },
    }
}

fn check_pcap(link: LinkType, snaplen: u32, in_microseconds: bool, frames: &[Frame<'_>]) {
    let mut file = Vec::new();
    let mut encoder = match in_microseconds {
        true => PcapEncoder::microseconds(link, snaplen),
        false => PcapEncoder::nanoseconds(link, snaplen),
    };
    let ns_per_tick = if in_microseconds { 1_000 } else { 1 };
    encoder.header(&mut file);
    for frame in frames {
        encoder.frame(&mut file, frame.timestamp, frame.wire_len, frame.bytes);
    }
    let (decoder, decoded) = decode(&file);
    assert_eq!(decoder.interfaces()[0].link, link);
    assert_eq!(decoded.len(), frames.len());
    let len_max = if snaplen == 0 { usize::MAX } else { snaplen as usize };
    let (mut clamped, mut cut) = (0, 0);
    for (frame, (header, bytes)) in frames.iter().zip(decoded) {
        let end_ns = (i64::from(u32::MAX) + 1) * NS_PER_SECOND - 1;
        let ns = frame.timestamp.as_ns();
        clamped += u64::from(!(0..=end_ns).contains(&ns));
        cut += u64::from(frame.bytes.len() > len_max);
        let ns = ns.clamp(0, end_ns) / ns_per_tick * ns_per_tick;
        assert_eq!(header.timestamp.as_ns(), ns);
        assert_eq!((header.wire_len, header.link), (frame.wire_len, link));
        assert_eq!(bytes, &frame.bytes[..frame.bytes.len().min(len_max)]);
    }
    assert_eq!((encoder.timestamps_clamped(), encoder.frames_cut()), (clamped, cut));
}

fn check_pcapng(
    section: &Section,
    interfaces: &[Interface],
    statistics: Option<InterfaceStatistics>,
    frames: &[Frame<'_>],
) {
    let (mut encoder, mut file) = (PcapngEncoder::new(), Vec::new());
    encoder.section(&mut file, section);
    for (index, interface) in interfaces.iter().enumerate() {
        let number = encoder.interface(&mut file, interface).expect("few interfaces");
        assert_eq!(number as usize, index);
    }
    for frame in frames {
        let comments: Vec<&str> = frame.comments.iter().map(String::as_str).collect();
        let note = FrameNote {
            timestamp: frame.timestamp,
            interface: frame.interface as u32,
            wire_len: frame.wire_len,
            direction: frame.direction,
            comments: &comments,
        };
        encoder.frame(&mut file, &note, frame.bytes).expect("a known interface");
    }
    if let Some(statistics) = &statistics {
        encoder.statistics(&mut file, 0, statistics).expect("a known interface");
    }
    assert_eq!(encoder.texts_cut(), 0);
    let (decoder, decoded) = decode(&file);
    let mut expected = interfaces.to_vec();
    expected[0].statistics = statistics;
    assert_eq!((decoder.sections(), decoder.interfaces()), (&[section.clone()][..], &expected[..]));
    let counts = decoder.counts();
    assert_eq!(counts.options_malformed + counts.option_values_malformed + counts.texts_cut, 0);
    assert_eq!(decoded.len(), frames.len());
    for (frame, (header, bytes)) in frames.iter().zip(decoded) {
        let interface = &interfaces[frame.interface];
        assert_eq!(header.timestamp, bent(frame.timestamp, interface.offset_seconds));
        let len_max = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        assert_eq!(bytes, &frame.bytes[..frame.bytes.len().min(len_max as usize)]);
        assert_eq!((header.wire_len, header.direction), (frame.wire_len, frame.direction));
        assert_eq!(usize::from(header.interface), frame.interface);
    }
}

/// A stamp as an interface with this offset can say it, and as it is read.
fn bent(timestamp: Timestamp, offset_seconds: i64) -> Timestamp {
    // Ticks have 64 bits without a sign: past 2262 by themselves, the offset brings them back.
    let offset_ns = i128::from(offset_seconds) * i128::from(NS_PER_SECOND);
    let ns = i128::from(timestamp.as_ns()).max(offset_ns);
    Timestamp::from_ns(ns as i64)
}

/// All frames of a file that was encoded here, so that nothing is wrong with it.
fn decode(file: &[u8]) -> (Decoder, Vec<(FrameHeader, &[u8])>) {
    let (mut decoder, mut at) = Decoder::new(file).expect("a file header of our own");
    let mut frames = Vec::new();
    loop {
        let rest = &file[at..];
        match decoder.next(rest) {
            Ok((item, len)) => {
                if let Item::Frame(frame) = item {
                    frames.push((frame, &rest[frame.data_range()]));
                }
                at += len;
            }
            Err(Stop::NeedMore(_)) if rest.is_empty() => return (decoder, frames),
            Err(stop) => panic!("an encoded file cannot be read: {stop:?}"),
        }
    }
}
