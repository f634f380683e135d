//! The packets of a chunk.

use packet::dissect::{DissectOptions, dissect};
use packet::file::{Decoder, Item, PREFIX_LEN, Stop};
use packet::{Frame, Record};

use crate::index::{ChunkFault, ENTERPRISE, Note};

/// A packet of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct StoredPacket {
    /// What is known of it; `offset` counts in the chunk, `interface` within its section.
    pub record: Record,
    /// What was found of it.
    pub note: Note,
}

impl StoredPacket {
    /// Finds its headers, as far as they were kept.
    pub fn dissect(&mut self, chunk: &[u8]) {
        let frame = Frame::new(chunk, &self.record);
        let (link, wire_len) = (self.record.link, self.record.wire_len);
        self.record.layers = dissect(link, frame.bytes, wire_len, DissectOptions::default());
    }
}

/// Hands the packets of a chunk, whose trailer begins at `end`, to `take` until it says that it
/// has enough. Returns the decoder, which knows the interfaces, and where what was not decoded
/// begins: `end`, unless a block makes no sense.
pub(super) fn packets(
    chunk: &[u8],
    end: usize,
    mut take: impl FnMut(StoredPacket) -> bool,
) -> Result<(Decoder, usize), ChunkFault> {
    let prefix = chunk.get(..PREFIX_LEN).unwrap_or(chunk);
    let (mut decoder, mut at) = Decoder::new(prefix).map_err(|_| ChunkFault::NoSection)?;
    while at < end {
        let item = chunk.get(at..end).unwrap_or_default();
        match decoder.next(item) {
            Ok((Item::Frame(frame), len)) => {
                let note = if frame.options_len == 0 {
                    Note::FIRST_CLASS
                } else {
                    let options = decoder.frame_options(item, &frame);
                    let ours = options.custom(ENTERPRISE).find_map(Note::read);
                    let text = || options.comments().find_map(|text| Note::from_text(&text));
                    ours.or_else(text).unwrap_or(Note::FIRST_CLASS)
                };
                let record = Record {
                    timestamp: frame.timestamp,
                    offset: (at as u32).saturating_add(frame.data_offset),
                    captured_len: frame.captured_len,
                    wire_len: frame.wire_len,
                    interface: frame.interface,
                    link: frame.link,
                    segments: 1,
                    direction: frame.direction,
                    ..Record::default()
                };
                at += len;
                if !take(StoredPacket { record, note }) {
                    break;
                }
            }
            Ok((Item::Meta(_), len)) => at += len,
            Err(Stop::NeedMore(_) | Stop::Fault(_)) => break,
        }
    }
    Ok((decoder, at))
}
