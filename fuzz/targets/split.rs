//! A mapped capture in parts: where the parts agree, they are the whole.
//!
//! Parts have at least 4 MiB, so the bytes that the engine makes up are written
//! over a stretch of a prepared file, around the place where it will be cut.
//!
//! Input: format and contents of the prepared file, which cut, and whether the
//! bytes stand where an item does; number of parts; offset from the cut in 16
//! bits; then the bytes.
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
/// When all frames were seen.
const SECONDS: u32 = 1_700_000_000;

struct Prepared {
    bytes: Vec<u8>,
    file: MemoryFile,
    is_pcapng: bool,
    /// Where the first frame's item begins, and how long each of them is.
    start: usize,
    item_len: usize,
}

thread_local! {
    static PREPARED: RefCell<[Option<Prepared>; 4]> = const { RefCell::new([const { None }; 4]) };
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let choice = input.u8();
    let part_count = 2 + usize::from(input.u8()) % (PART_COUNT_MAX - 1);
    let (is_pcapng, is_nested) = (choice & 1 != 0, choice & 2 != 0);
    let (cut_index, is_fitted) = (1 + usize::from(choice >> 2 & 1), choice & 8 != 0);
    PREPARED.with_borrow_mut(|prepared| {
        let prepared = &mut prepared[usize::from(choice & 3)];
        let prepared = prepared.get_or_insert_with(|| prepare(is_pcapng, is_nested));
        let cut = prepared.bytes.len() / part_count * cut_index.min(part_count - 1);
        let offset = usize::from(input.u16());
        let at = if choice & 128 == 0 { cut + offset } else { cut - offset };
        let (at, patch) = match is_fitted {
            true => prepared.fitted(at, input.rest()),
            false => (at, input.rest().to_vec()),
        };
        let end = (at + patch.len()).min(prepared.bytes.len());
        let patch = &patch[..end - at];
        prepared.file.write_at(patch, at).expect("a file in memory");
        check(&prepared.file, part_count, patch.is_empty() && !is_nested);
        prepared.file.write_at(&prepared.bytes[at..end], at).expect("a file in memory");
    });
});

impl Prepared {
    /// `patch` as it stands between whole items: moved to where one begins, and
    /// with an item behind it that fills the gap up to the next.
    fn fitted(&self, at: usize, patch: &[u8]) -> (usize, Vec<u8>) {
        const GAP_LEN_MIN: usize = 16;
        let mut patch = patch.to_vec();
        patch.resize(patch.len().next_multiple_of(4), 0);
        let at = self.start + (at - self.start) / self.item_len * self.item_len;
        let gap_len = self.item_len - (patch.len() + GAP_LEN_MIN) % self.item_len + GAP_LEN_MIN;
        let words = match self.is_pcapng {
            true => [0xbad, gap_len as u32, 32_473, 0],
            false => [SECONDS, 0, gap_len as u32 - 16, gap_len as u32 - 16],
        };
        patch.extend(words.map(u32::to_le_bytes).concat());
        patch.resize(patch.len() + gap_len - GAP_LEN_MIN, 0);
        if self.is_pcapng {
            let trailing = patch.len() - 4;
            patch[trailing..].copy_from_slice(&(gap_len as u32).to_le_bytes());
        }
        (at, patch)
    }
}

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
/// them is full of places that look like the start of an item.
fn prepare(is_pcapng: bool, is_nested: bool) -> Prepared {
    let inner = if is_nested { items(is_pcapng, &[7; 24], FRAME_LEN).0 } else { vec![0] };
    let mut frame = inner;
    frame.resize(FRAME_LEN, 0);
    let (bytes, start, item_len) = items(is_pcapng, &frame, FILE_LEN);
    let file = MemoryFile::new(&bytes).expect("a file in memory");
    Prepared { bytes, file, is_pcapng, start, item_len }
}

/// A capture of at least `len` bytes, all frames the same; where the first item
/// begins, and how long each is.
fn items(is_pcapng: bool, frame: &[u8], len: usize) -> (Vec<u8>, usize, usize) {
    let mut file = Vec::new();
    let (timestamp, wire_len) = (Timestamp::from_parts(i64::from(SECONDS), 0), frame.len() as u32);
    let start = if is_pcapng {
        let mut encoder = PcapngEncoder::new();
        let interface = Interface { link: LinkType::ETHERNET, ..Interface::default() };
        encoder.section(&mut file, &Section::default());
        encoder.interface(&mut file, &interface).expect("a first interface");
        let (start, note) = (file.len(), FrameNote { timestamp, wire_len, ..FrameNote::default() });
        while file.len() < len {
            encoder.frame(&mut file, &note, frame).expect("a known interface");
        }
        start
    } else {
        let mut encoder = PcapEncoder::nanoseconds(LinkType::ETHERNET, 0);
        encoder.header(&mut file);
        let start = file.len();
        while file.len() < len {
            encoder.frame(&mut file, timestamp, wire_len, frame);
        }
        start
    };
    let item_len = if is_pcapng { frame.len().next_multiple_of(4) + 32 } else { frame.len() + 16 };
    (file, start, item_len)
}
