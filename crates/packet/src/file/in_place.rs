//! Frames of pcapng written into a buffer that is already there.
//!
//! [`PcapngEncoder::frame`](super::PcapngEncoder::frame) appends to a `Vec` and serves every case;
//! a recorder that writes millions of frames a second into blocks of one size needs neither the
//! growth nor the questions: measured, a header-only frame takes a third of the time.

use super::option::code;
use super::pcapng::{PACKET_HEADER_LEN, block_type};
use crate::record::Direction;

/// What [`put_frame`] writes of a frame besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameFields<'a> {
    /// Its interface's number within the section.
    pub interface: u32,
    /// Nanoseconds since 1970: the interface's clock must tick in them.
    pub ticks: u64,
    /// Bytes that were on the wire.
    pub wire_len: u32,
    /// Which way it passed.
    pub direction: Direction,
    /// Options besides the direction, each padded to 4 bytes, without the end of options.
    pub options: &'a [u8],
}

/// Bytes of the flags option.
const FLAGS_LEN: usize = 8;
/// Bytes of the option that ends options.
const END_LEN: usize = 4;

/// Bytes that [`put_frame`] writes for a frame of which `kept_len` bytes are kept.
#[inline]
#[must_use]
pub const fn frame_block_len(kept_len: usize, direction: Direction, options_len: usize) -> usize {
    let flags_len = if matches!(direction, Direction::Unknown) { 0 } else { FLAGS_LEN };
    let options_len = options_len.saturating_add(flags_len);
    let end_len = if options_len == 0 { 0 } else { END_LEN };
    let frame_len = kept_len.saturating_add(3) & !3;
    (PACKET_HEADER_LEN + 4)
        .saturating_add(frame_len)
        .saturating_add(options_len)
        .saturating_add(end_len)
}

/// Writes `kept` as an enhanced packet block at the start of `out` and returns how many bytes that
/// took; `None`, and nothing written, where `out` is too short.
#[inline]
pub fn put_frame(out: &mut [u8], fields: &FrameFields<'_>, kept: &[u8]) -> Option<usize> {
    let total = frame_block_len(kept.len(), fields.direction, fields.options.len());
    let block_len = u32::try_from(total).ok()?.to_le_bytes();
    let out = out.get_mut(..total)?;
    let (header, rest) = out.split_first_chunk_mut::<PACKET_HEADER_LEN>()?;
    let words = [
        block_type::ENHANCED_PACKET,
        total as u32,
        fields.interface,
        (fields.ticks >> 32) as u32,
        fields.ticks as u32,
        kept.len() as u32,
        fields.wire_len,
    ];
    for (place, word) in header.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let (frame, rest) = rest.split_at_mut_checked(kept.len())?;
    frame.copy_from_slice(kept);
    let (padding, rest) = rest.split_at_mut_checked(kept.len().wrapping_neg() & 3)?;
    padding.fill(0);
    let (options, end) = rest.split_last_chunk_mut::<4>()?;
    *end = block_len;
    if options.is_empty() {
        return Some(total);
    }
    let (given, rest) = options.split_at_mut_checked(fields.options.len())?;
    given.copy_from_slice(fields.options);
    let flags: u8 = match fields.direction {
        Direction::Unknown => 0,
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    if let Some((place, _)) = rest.split_first_chunk_mut::<FLAGS_LEN>() {
        let [low, high] = code::PACKET_FLAGS.to_le_bytes();
        *place = [low, high, 4, 0, flags, 0, 0, 0];
    }
    rest.last_chunk_mut::<END_LEN>().map(|place| *place = [0; END_LEN])?;
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Decoder, FrameNote, Interface, Item, PcapngEncoder, Section, custom_option};
    use crate::link::LinkType;
    use crate::time::Timestamp;

    /// A section with one interface.
    fn head(encoder: &mut PcapngEncoder) -> Vec<u8> {
        let mut out = Vec::new();
        encoder.section(&mut out, &Section::default());
        let interface = Interface { link: LinkType::ETHERNET, ..Interface::default() };
        encoder.interface(&mut out, &interface).unwrap();
        out
    }

    #[test]
    fn in_place_and_appended_are_the_same_bytes() {
        for direction in [Direction::Unknown, Direction::Inbound, Direction::Outbound] {
            for len in 0..9_usize {
                let mut encoder = PcapngEncoder::new();
                let mut appended = head(&mut encoder);
                let start = appended.len();
                let bytes: Vec<u8> = (0..len as u8).collect();
                let timestamp = Timestamp::from_ns(1_795_253_400_000_000_123);
                let note =
                    FrameNote { timestamp, wire_len: 1500, direction, ..FrameNote::default() };
                encoder.frame(&mut appended, &note, &bytes).unwrap();
                let fields = FrameFields {
                    interface: 0,
                    ticks: timestamp.as_ns().cast_unsigned(),
                    wire_len: 1500,
                    direction,
                    options: &[],
                };
                let mut slot = [0xa5; 80];
                let put = put_frame(&mut slot, &fields, &bytes).unwrap();
                assert_eq!(slot[..put], appended[start..], "{direction:?} {len}");
                assert!(slot[put..].iter().all(|&byte| byte == 0xa5));
            }
        }
    }

    #[test]
    fn options_are_read_back_and_a_short_slot_is_left_alone() {
        let mut options = Vec::new();
        assert!(custom_option(&mut options, 32_473, &[1, 2, 3, 4, 5]));
        assert!(!custom_option(&mut Vec::new(), 1, &[0; 65_532]), "longer than an option");
        let fields = FrameFields {
            interface: 0,
            ticks: 7,
            wire_len: 9,
            direction: Direction::Inbound,
            options: &options,
        };
        let mut file = head(&mut PcapngEncoder::new());
        let start = file.len();
        let len = frame_block_len(3, Direction::Inbound, options.len());
        let mut short = vec![0x5a; len - 1];
        assert_eq!(put_frame(&mut short, &fields, &[1, 2, 3]), None);
        assert!(short.iter().all(|&byte| byte == 0x5a));
        file.resize(start + len, 0);
        assert_eq!(put_frame(&mut file[start..], &fields, &[1, 2, 3]), Some(len));
        let (mut decoder, _) = Decoder::new(&file).unwrap();
        let mut at = 0;
        let frame = loop {
            let (item, consumed) = decoder.next(&file[at..]).unwrap();
            if let Item::Frame(frame) = item {
                break frame;
            }
            at += consumed;
        };
        assert_eq!(frame.direction, Direction::Inbound);
        assert_eq!((frame.captured_len, frame.wire_len), (3, 9));
        let values: Vec<_> = decoder.frame_options(&file[at..], &frame).custom(32_473).collect();
        assert_eq!(values, [[1, 2, 3, 4, 5]]);
        assert_eq!(decoder.frame_options(&file[at..], &frame).custom(1).count(), 0);
    }
}
