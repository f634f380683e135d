//! A place that a crash left half written becomes a chunk again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use packet::file::{ByteOrder, Decoder, Item, PREFIX_LEN, PcapngEncoder, Section, section_order};

use super::decode::packets;
use crate::compact::{compact_end, expand};
use crate::index::{ALIGNMENT, ClassRow, Trailer, add_row};

/// Bytes read of a place at a time: no chunk is longer.
const PIECE_LEN: u64 = 16 << 20;
/// Bytes of a chunk without anything, at most: what a trailer can fill.
const VOID_LEN: usize = 15 * ALIGNMENT;

/// What was made of a place.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Repair {
    /// Packets before the tear.
    pub(super) packets: u64,
    /// Bytes behind it, which said nothing any more.
    pub(super) bytes_lost: u64,
    /// Where the file continues.
    pub(super) end: u64,
}

/// Makes chunks of the bytes of `file` from `start` to `end`, neither of which a whole chunk
/// covers: the packets before the tear stay where they are, what is behind it becomes the end of
/// the chunk. At the end of a file (`is_tail`) as few bytes as possible are kept. Packets that are
/// counted as lost (`is_lost`) are not kept.
///
/// What was there is overwritten only behind the packets, so that a second crash does no harm.
pub(super) fn mend(
    file: &File,
    start: u64,
    end: u64,
    is_tail: bool,
    is_lost: bool,
    like: &Trailer,
) -> io::Result<Repair> {
    let mut mended = Repair { end: start, ..Repair::default() };
    let mut at = start;
    while at < end {
        let len = (end - at).min(PIECE_LEN);
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at)?;
        let nothing = (Trailer::default(), 0);
        let (mut trailer, mut packets_end) = if is_lost { nothing } else { before_tear(&bytes) };
        if !is_tail && trailer.chunk_len(packets_end) > bytes.len() {
            // No room for a trailer before the next chunk: the last packets go.
            let room = bytes.len().saturating_sub(ALIGNMENT);
            (trailer, packets_end) = before_tear(bytes.get(..room).unwrap_or_default());
            if trailer.chunk_len(packets_end) > bytes.len() {
                (trailer, packets_end) = (Trailer::default(), 0);
            }
        }
        let is_void = trailer.packet_count == 0;
        if is_tail && is_void {
            break;
        }
        (trailer.sequence, trailer.priority) = (like.sequence.wrapping_add(1), like.priority);
        trailer.is_repaired = true;
        let used = if is_void { void_section(&mut bytes) } else { packets_end };
        let wanted = trailer.chunk_len(used);
        // The next piece begins where this one's packets end, or where it is full.
        let chunk_len = if is_void { bytes.len().min(VOID_LEN) } else { wanted };
        bytes.resize(chunk_len, 0);
        if !trailer.seal(&mut bytes, used, &mut Vec::new()) {
            break;
        }
        file.write_all_at(&bytes, at)?;
        mended.packets += u64::from(trailer.packet_count);
        at += chunk_len as u64;
        mended.end = at;
        if is_tail {
            break;
        }
    }
    mended.bytes_lost = end.saturating_sub(mended.end);
    if is_tail {
        file.set_len(mended.end)?;
    }
    file.sync_data()?;
    Ok(mended)
}

/// A section without anything at the start of `bytes`; where it ends.
fn void_section(bytes: &mut [u8]) -> usize {
    let mut head = Vec::new();
    PcapngEncoder::new().section(&mut head, &Section::default());
    let Some(place) = bytes.get_mut(..head.len()) else { return 0 };
    place.copy_from_slice(&head);
    head.len()
}

/// What the whole packets at the start of `bytes` say, and where they end.
fn before_tear(bytes: &[u8]) -> (Trailer, usize) {
    // Packets of a file of another kind, or of a section that recorders do not write, would become
    // a chunk that the next search does not find.
    if section_order(bytes) != Some(ByteOrder::Little) {
        return (Trailer::default(), 0);
    }
    // A compact block that is there to its end holds its packets, whatever is torn behind it.
    if let Some(end) = compact_end(bytes) {
        let mut plain = bytes.get(..end).unwrap_or_default().to_vec();
        if let Ok(plain_end) = expand(&mut plain, end) {
            let (trailer, whole) = packets_before(&plain, plain_end);
            return if whole == plain_end { (trailer, end) } else { (Trailer::default(), 0) };
        }
    }
    packets_before(bytes, sections_end(bytes))
}

/// What the whole packets of `bytes` before `end` say, and where they end.
fn packets_before(bytes: &[u8], end: usize) -> (Trailer, usize) {
    let nothing = (Trailer::default(), 0);
    let mut trailer = Trailer { first_ns: i64::MAX, last_ns: i64::MIN, ..Trailer::default() };
    let decoded = packets(bytes, end, |packet| {
        let record = &packet.record;
        trailer.packet_count += 1;
        trailer.first_ns = trailer.first_ns.min(record.timestamp.as_ns());
        trailer.last_ns = trailer.last_ns.max(record.timestamp.as_ns());
        let row = ClassRow {
            class: packet.note.class,
            seen_packets: 1,
            seen_bytes: record.wire_len.into(),
            stored_packets: 1,
            stored_bytes: record.wire_len.into(),
            kept_bytes: record.captured_len.into(),
            ..ClassRow::default()
        };
        add_row(&mut trailer.rows, &row);
        true
    });
    match decoded {
        Ok((_, at)) if trailer.packet_count > 0 => (trailer, at),
        _ => nothing,
    }
}

/// Where the first section of `bytes` ends: before another, before what is none of its packets,
/// at the latest at the tear.
fn sections_end(bytes: &[u8]) -> usize {
    let prefix = bytes.get(..PREFIX_LEN).unwrap_or(bytes);
    let Ok((mut decoder, mut at)) = Decoder::new(prefix) else { return 0 };
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let Ok((item, len)) = decoder.next(rest) else { break };
        match item {
            Item::Meta(packet::file::BlockKind::Section) if at > 0 => break,
            Item::Meta(packet::file::BlockKind::Custom) => break,
            _ => at += len,
        }
    }
    at
}
