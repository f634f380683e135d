//! Packets of a chunk in one compact block: headers as differences from the packet before in the
//! flow, each field in a column of its own, columns compressed.
//!
//! ```text
//!  0 type 0x0bad: custom block       28 timestamps are multiples of this, ns
//!  4 total length                    32 lengths of 15 columns, in full and packed, 8 bytes each
//!  8 enterprise number              152 the columns, as they are or as a frame of zstd
//! 12 "WLPACK01"                         zeros up to a multiple of 4
//! 20 bytes that it stands for        -4 total length
//! 24 CRC-32 of these; 28 packets
//! ```
//!
//! The block stands for a run of enhanced packet blocks. [`expand`] gives these back byte by byte,
//! so that whatever reads chunks reads compact ones: queries, statistics, recovery. In a chunk
//! the block is covered by the trailer's checksum like any other; its own is that of what it
//! stands for. Blocks are independent of each other: one that is damaged loses its packets alone.

mod decode;
mod encode;
mod flow;
mod streams;
#[cfg(test)]
mod tests;

use crate::index::{ChunkFault, ENTERPRISE};

pub(crate) use encode::Encoder;

/// Type of a custom block that may be copied.
const CUSTOM_BLOCK: u32 = 0x0bad;
const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const MAGIC: &[u8; 8] = b"WLPACK01";
/// Bytes before the columns.
const HEAD_LEN: usize = 36;
/// The most bytes that a block stands for: those of the longest chunk.
const PLAIN_LEN_MAX: usize = packet::file::BLOCK_LEN_MAX as usize;
/// Flows that are known at a time.
const FLOW_COUNT_MAX: usize = 1 << 16;

/// Bits of [`Column::Flags`](streams::Column::Flags).
mod flag {
    /// The first packet of a flow; its headers are given.
    pub(super) const NEW: u8 = 1;
    /// Not the flow that followed last time: its number is given.
    pub(super) const FLOW: u8 = 2;
    pub(super) const TOTAL: u8 = 4;
    pub(super) const WIRE: u8 = 8;
    pub(super) const KEPT: u8 = 16;
    pub(super) const IDENTIFICATION: u8 = 32;
    pub(super) const PATCH: u8 = 64;
    pub(super) const OPTIONS: u8 = 128;
}

/// Bits of [`Column::TransportFlags`](streams::Column::TransportFlags).
mod transport_flag {
    pub(super) const SEQUENCE: u8 = 1;
    pub(super) const ACKNOWLEDGEMENT: u8 = 2;
    pub(super) const WINDOW: u8 = 4;
    pub(super) const TIME: u8 = 8;
    pub(super) const ECHO: u8 = 16;
    pub(super) const CHECKSUM: u8 = 32;
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// The place and length of the first block of `chunk` for which `is_wanted`, before `end`.
fn block_of(
    chunk: &[u8],
    end: usize,
    mut is_wanted: impl FnMut(u32, &[u8]) -> bool,
) -> Option<(usize, usize)> {
    let mut at = 0;
    while at < end {
        let len = word(chunk, at + 4)? as usize;
        let block = chunk.get(at..at.checked_add(len)?).filter(|_| len >= 12)?;
        if at + len > end {
            return None;
        }
        if is_wanted(word(block, 0)?, block) {
            return Some((at, len));
        }
        at += len;
    }
    None
}

/// Puts the packets of a chunk, whose blocks end at `end`, into a compact block, where that is
/// shorter; returns where its blocks end then. What is behind that is undefined.
pub(crate) fn compact(chunk: &mut [u8], end: usize, encoder: &mut Encoder) -> usize {
    let Some((start, _)) = block_of(chunk, end, |kind, _| kind == 6) else { return end };
    let Some(run) = chunk.get(start..end) else { return end };
    let Ok((count, run_len, ticks_unit)) = encoder.run(run) else { return end };
    let Some(run) = run.get(..run_len) else { return end };
    let padding = encoder.packed.len().wrapping_neg() & 3;
    let len = HEAD_LEN + encoder.packed.len() + padding + 4;
    if len >= run_len {
        return end;
    }
    let (crc, total) = (crc32fast::hash(run), (len as u32).to_le_bytes());
    let words = [run_len as u32, crc, count, ticks_unit as u32].map(u32::to_le_bytes);
    let head: [&[u8]; 5] = [
        &CUSTOM_BLOCK.to_le_bytes(),
        &total,
        &ENTERPRISE.to_le_bytes(),
        MAGIC,
        words.as_flattened(),
    ];
    let mut at = start;
    let zeros = [0; 3];
    let filling = zeros.get(..padding).unwrap_or_default();
    for part in head.into_iter().chain([&encoder.packed[..], filling, &total]) {
        if let Some(place) = chunk.get_mut(at..at + part.len()) {
            place.copy_from_slice(part);
        }
        at += part.len();
    }
    chunk.copy_within(start + run_len..end, at);
    at + end - (start + run_len)
}

fn is_compact(kind: u32, block: &[u8]) -> bool {
    kind == CUSTOM_BLOCK
        && word(block, 8) == Some(ENTERPRISE)
        && block.get(12..20) == Some(MAGIC.as_slice())
}

/// Where the compact block ends that the section at the start of `bytes` has, if all of it is
/// there.
pub(crate) fn compact_end(bytes: &[u8]) -> Option<usize> {
    let mut sections = 0;
    let is_wanted = |kind: u32, block: &[u8]| {
        sections += usize::from(kind == SECTION_HEADER);
        // Those of a later section are none of this chunk's.
        sections > 1 || is_compact(kind, block)
    };
    let (start, len) = block_of(bytes, bytes.len(), is_wanted)?;
    is_compact(CUSTOM_BLOCK, bytes.get(start..start + len)?).then_some(start + len)
}

/// Replaces the compact block of a chunk, if it has one, by the packets that it stands for;
/// returns where the chunk's blocks end then, which was `end`. What is behind them is gone.
///
/// # Errors
/// The block is none that [`compact`] wrote.
pub(crate) fn expand(chunk: &mut Vec<u8>, end: usize) -> Result<usize, ChunkFault> {
    let Some((start, len)) = block_of(chunk, end, is_compact) else { return Ok(end) };
    let block = chunk.get(start..start + len).ok_or(ChunkFault::Nonsense)?;
    let mut plain = chunk.get(..start).unwrap_or_default().to_vec();
    expand_block(block, &mut plain).ok_or(ChunkFault::Nonsense)?;
    plain.extend_from_slice(chunk.get(start + len..end).unwrap_or_default());
    *chunk = plain;
    Ok(chunk.len())
}

/// Appends what a block stands for.
fn expand_block(block: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let [len, crc, count, ticks_unit] = [20, 24, 28, 32].map(|at| word(block, at));
    let (len, crc, count) = (len? as usize, crc?, count?);
    let packed = block.get(HEAD_LEN..block.len().checked_sub(4)?)?;
    if len > PLAIN_LEN_MAX {
        return None;
    }
    out.reserve(len);
    decode::decode(packed, count, ticks_unit?.into(), len, out)?;
    let plain = out.get(start..)?;
    (plain.len() == len && crc32fast::hash(plain) == crc).then_some(())
}
