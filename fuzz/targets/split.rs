//! A mapped capture in parts: where the parts agree, they are the whole.
//!
//! Parts have at least 4 MiB, so the bytes that the engine makes up are written
//! over a stretch of a prepared file, around the place where it will be cut.
//!
//! Input: format and contents of the prepared file, number of parts, offset
//! from the cut in 16 bits, then the bytes.
#![no_main]

use std::cell::RefCell;

use capture::split::{parts_agree, split};
use capture::{FileSource, ReadOptions, open};
use fuzz::capture_file::{Frames, MemoryFile, read};
use fuzz::input::Input;
use libfuzzer_sys::fuzz_target;
use packet::file::{Decoder, FrameNote, Interface, PcapEncoder, PcapngEncoder, Section};
use packet::{LinkType, Timestamp};

/// Three parts of the least size and some more.
const FILE_LEN: usize = (12 << 20) + 12_345;
/// As long as can be, so that frames are few: what is looked at for a cut holds
/// a chain of 64 records and not much more.
const FRAME_LEN: usize = 16_000;
const PART_COUNT_MAX: usize = 3;

struct Prepared {
    bytes: Vec<u8>,
    file: MemoryFile,
}

thread_local! {
    static PREPARED: RefCell<[Option<Prepared>; 4]> = const { RefCell::new([const { None }; 4]) };
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let part_count = 2 + usize::from(input.u8()) % (PART_COUNT_MAX - 1);
    PREPARED.with_borrow_mut(|prepared| {
        let index = usize::from(choice & 3);
        let Prepared { bytes, file } =
            prepared[index].get_or_insert_with(|| prepare(choice & 1 != 0, choice & 2 != 0));
        let cut = bytes.len() / part_count * (1 + usize::from(choice >> 2) % (part_count - 1));
        let offset = usize::from(input.u16());
        let at = if choice & 128 == 0 { cut + offset } else { cut - offset };
        let patch = input.rest();
        let end = (at + patch.len()).min(bytes.len());
        let patch = &patch[..end - at];
        file.write_at(patch, at).expect("a file in memory");
        check(file, part_count, patch.is_empty() && choice & 2 == 0);
        file.write_at(&bytes[at..end], at).expect("a file in memory");
    });
});

fn check(file: &MemoryFile, part_count: usize, is_sound: bool) {
    let open = || open(&file.input(), &ReadOptions::default()).expect("a capture");
    let mut whole = open();
    let expected = read(&mut whole);
    let mut parts = split(open(), part_count);
    assert!((1..=part_count).contains(&parts.len()));
    let read: Vec<Frames> = parts.iter_mut().map(read).collect();
    let agree = parts_agree(&parts);
    assert!(agree || !is_sound, "a sound file was not split in {part_count}");
    if !agree {
        return;
    }
    let frames: Vec<_> = read.iter().flat_map(|part| &part.frames).collect();
    assert!(frames.iter().copied().eq(&expected.frames), "parts agree and read other frames");
    let damage = read.last().and_then(|part| part.damage.as_ref());
    let place = |(offset, _, cause): &(u64, _, _)| (*offset, format!("{cause:?}"));
    assert_eq!(damage.map(place), expected.damage.as_ref().map(place));
    let joined = joined(&parts);
    assert_eq!(joined.counts(), whole.decoder().counts());
    assert_eq!(joined.interfaces(), whole.decoder().interfaces());
}

fn joined(parts: &[FileSource]) -> Decoder {
    let (first, rest) = parts.split_first().expect("at least one part");
    let mut joined = first.decoder().clone();
    rest.iter().for_each(|part| joined.join(part.decoder().clone()));
    joined
}

/// A capture of large frames. Where they hold captures themselves, every one of
/// them is full of places that look like the start of a record.
fn prepare(is_pcapng: bool, is_nested: bool) -> Prepared {
    let frame = if is_nested { frames(is_pcapng, &[7; 24], FRAME_LEN) } else { vec![0; FRAME_LEN] };
    let bytes = frames(is_pcapng, &frame, FILE_LEN);
    let file = MemoryFile::new(&bytes).expect("a file in memory");
    Prepared { bytes, file }
}

/// A capture of at least `len` bytes, all frames the same.
fn frames(is_pcapng: bool, frame: &[u8], len: usize) -> Vec<u8> {
    let (mut file, stamp, wire_len) =
        (Vec::new(), Timestamp::from_parts(1_700_000_000, 0), frame.len() as u32);
    if is_pcapng {
        let mut encoder = PcapngEncoder::new();
        let interface = Interface { link: LinkType::ETHERNET, ..Interface::default() };
        encoder.section(&mut file, &Section::default());
        encoder.interface(&mut file, &interface).expect("a first interface");
        let note = FrameNote { timestamp: stamp, wire_len, ..FrameNote::default() };
        while file.len() < len {
            encoder.frame(&mut file, &note, frame).expect("a known interface");
        }
    } else {
        let mut encoder = PcapEncoder::nanoseconds(LinkType::ETHERNET, 0);
        encoder.header(&mut file);
        while file.len() < len {
            encoder.frame(&mut file, stamp, wire_len, frame);
        }
    }
    file
}
