//! Capture files decoded in every way that must give the same answer.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};

use packet::file::{Decoder, FrameHeader, Item, Magic, Stop, TakeFrame};

use crate::promises::assert_one_line;

/// Longest stretch in which a record is looked for.
const STRETCH_LEN_MAX: usize = 1 << 14;

/// What was decoded: each item's length, what it is, and a hash of its frame's
/// bytes and options.
#[derive(PartialEq, Debug)]
struct Decoded {
    items: Vec<(usize, Item, u64)>,
    stop: Stop,
}

/// `bytes` as a file of the wanted kind: where they are something else, the
/// first bytes are written over with `prefix`.
#[must_use]
pub fn as_file<'a>(bytes: &'a [u8], wanted: Magic, prefix: &[(usize, &[u8])]) -> Cow<'a, [u8]> {
    if Magic::detect(bytes) == Some(wanted) {
        return Cow::Borrowed(bytes);
    }
    let mut file = bytes.to_vec();
    for (at, magic) in prefix {
        if let Some(target) = file.get_mut(*at..at + magic.len()) {
            target.copy_from_slice(magic);
        }
    }
    Cow::Owned(file)
}

/// The frames of a file that has no damage.
///
/// # Panics
/// Where it has.
#[must_use]
pub fn frame_count(bytes: &[u8]) -> u64 {
    let (mut decoder, mut at) = Decoder::new(bytes).expect("the head of a file");
    let mut count = 0;
    loop {
        match decoder.next(&bytes[at..]) {
            Ok((item, len)) => {
                count += u64::from(matches!(item, Item::Frame(_)));
                at += len;
            }
            Err(Stop::NeedMore(_)) if at == bytes.len() => return count,
            Err(stop) => panic!("at {at}: {stop:?}"),
        }
    }
}

/// Decodes a whole file, in pieces, and in two parts, and looks for records.
pub fn check_file(bytes: &[u8]) {
    let (decoder, start) = match Decoder::new(bytes) {
        Ok(opened) => opened,
        Err(fault) => return assert_one_line(&fault),
    };
    let mut whole = decoder.clone();
    let decoded = decode(&mut whole, bytes, start);
    for extra in [0, 1, 61] {
        let mut pieces = decoder.clone();
        assert_eq!(decode_in_pieces(&mut pieces, bytes, start, extra), decoded);
        assert_same(&pieces, &whole);
    }
    for batch_len in [1, 2, 5, usize::MAX] {
        let mut batches = decoder.clone();
        check_batches(&mut batches, bytes, start, &decoded, batch_len);
        assert_same(&batches, &whole);
    }
    check_parts(&decoder, bytes, start, &decoded, &whole);
    let from = bytes.len() / 3;
    let stretch = &bytes[from..bytes.len().min(from + STRETCH_LEN_MAX)];
    for (decoder, chain_len) in [(&decoder, 1), (&whole, 3), (&whole, 64)] {
        let found = decoder.find_boundary(stretch, chain_len);
        assert!(found.is_none_or(|offset| offset < stretch.len()));
    }
}

/// Takes frames until it has enough, and none after that.
struct Batch {
    room: usize,
    frames: Vec<(usize, FrameHeader)>,
}

impl TakeFrame for Batch {
    fn take(&mut self, item: &[u8], frame: FrameHeader, at: usize) -> bool {
        assert!(self.frames.len() < self.room, "a frame more than was wanted");
        assert!(frame.data_range().end <= item.len());
        self.frames.push((at, frame));
        self.frames.len() < self.room
    }
}

/// Reads in batches, which pause at the middle too, what was decoded one by one.
fn check_batches(
    decoder: &mut Decoder,
    bytes: &[u8],
    start: usize,
    decoded: &Decoded,
    batch_len: usize,
) {
    let mut offset = start;
    let mut expected = decoded.items.iter().filter_map(|(len, item, _)| {
        let at = offset;
        offset += len;
        if let Item::Frame(frame) = item { Some((at, *frame)) } else { None }
    });
    let mut at = start;
    for end in [bytes.len() / 2, bytes.len()] {
        while at < end {
            let mut batch = Batch { room: batch_len, frames: Vec::new() };
            let (next, stop) = decoder.read(bytes, at, end, &mut batch);
            assert!(next > at || stop.is_some(), "stands still at {at}");
            at = next;
            for frame in batch.frames {
                assert_eq!(Some(frame), expected.next());
            }
            if let Some(stop) = stop {
                assert_eq!((stop, expected.next()), (decoded.stop, None));
                return;
            }
        }
    }
    assert_eq!((at, expected.next()), (bytes.len(), None));
}

/// Takes up at the item in the middle with a fork, and joins the two.
fn check_parts(decoder: &Decoder, bytes: &[u8], start: usize, decoded: &Decoded, whole: &Decoder) {
    let middle = decoded.items.len() / 2;
    let (first, second) = decoded.items.split_at(middle);
    let cut = start + first.iter().map(|(len, ..)| len).sum::<usize>();
    let mut joined = decoder.clone();
    let part = decode(&mut joined, &bytes[..cut], start);
    assert_eq!((&part.items[..], cut), (first, start + lens(&part)));
    let mut fork = joined.fork();
    let rest = decode(&mut fork, bytes, cut);
    assert_eq!((&rest.items[..], &rest.stop), (second, &decoded.stop));
    joined.join(fork);
    assert_same(&joined, whole);
}

fn lens(decoded: &Decoded) -> usize {
    decoded.items.iter().map(|(len, ..)| len).sum()
}

fn assert_same(one: &Decoder, other: &Decoder) {
    assert_eq!(one.format(), other.format());
    assert_eq!(one.counts(), other.counts());
    assert_eq!(one.interfaces(), other.interfaces());
    assert_eq!(one.sections(), other.sections());
    assert_eq!(one.structure_version(), other.structure_version());
}

/// Decodes from `start` on, all bytes at hand.
fn decode(decoder: &mut Decoder, bytes: &[u8], start: usize) -> Decoded {
    let (mut items, mut at) = (Vec::new(), start);
    loop {
        let rest = &bytes[at..];
        match decoder.next(rest) {
            Ok((item, len)) => {
                items.push(checked(decoder, rest, item, len));
                at += len;
            }
            Err(stop) => {
                assert_eq!(decoder.next(rest), Err(stop), "a stop left its mark");
                check_stop(stop, rest.len());
                return Decoded { items, stop };
            }
        }
    }
}

/// Decodes giving what was asked for and `extra` bytes.
fn decode_in_pieces(decoder: &mut Decoder, bytes: &[u8], start: usize, extra: usize) -> Decoded {
    let (mut items, mut at, mut given) = (Vec::new(), start, 0);
    loop {
        let rest = &bytes[at..];
        match decoder.next(&rest[..given]) {
            Ok((item, len)) => {
                items.push(checked(decoder, &rest[..given], item, len));
                at += len;
                given = 0;
            }
            Err(Stop::NeedMore(wanted)) if given < rest.len() => {
                assert!(wanted > given, "asks for {wanted} bytes and has {given}");
                given = rest.len().min(wanted.saturating_add(extra));
            }
            // What is wrong is known before all bytes are: the whole agrees.
            Err(stop) => return Decoded { items, stop },
        }
    }
}

fn check_stop(stop: Stop, given: usize) {
    match stop {
        Stop::NeedMore(wanted) => assert!(wanted > given),
        Stop::Fault(fault) => assert_one_line(&fault),
    }
}

/// An item whose offsets lie within it.
fn checked(decoder: &Decoder, bytes: &[u8], item: Item, len: usize) -> (usize, Item, u64) {
    assert!((8..=bytes.len()).contains(&len), "{item:?} takes {len} bytes");
    let mut hash = DefaultHasher::new();
    if let Item::Frame(frame) = item {
        assert!(frame.data_range().end <= len && frame.options_range().end <= len, "{frame:?}");
        assert!(usize::from(frame.interface) < decoder.interfaces().len());
        hash.write(&bytes[frame.data_range()]);
        let options = decoder.frame_options(bytes, &frame);
        options.for_each(|option| hash.write(option.value));
        options.comments().for_each(|comment| hash.write(comment.as_bytes()));
    }
    (len, item, hash.finish())
}
