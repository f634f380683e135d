//! Chunks that no record of the index names.

use std::io;
use std::os::unix::fs::FileExt as _;

use packet::file::section_len;

use super::error::LogFault;
use super::file::LogFile;
use crate::index::{ALIGNMENT, ChunkFault, IndexRecord, Keys, Trailer};

/// Bytes read at a time of a compressed file.
const WINDOW_LEN: usize = 4 << 20;
/// The longest chunk, and with it the longest frame, that is believed.
const CHUNK_LEN_MAX: usize = packet::file::BLOCK_LEN_MAX as usize;

/// Looks at the places of a plain file that the index leaves out: chunks that are whole, and what
/// is none.
pub(super) fn gaps(file: &LogFile) -> io::Result<(Vec<IndexRecord>, Vec<LogFault>)> {
    let mut chunks = Vec::new();
    let mut faults = Vec::new();
    let mut at = 0;
    let ends =
        file.chunks.iter().map(|record| (record.offset, record.offset + u64::from(record.len)));
    let mut gaps = Vec::new();
    for (start, end) in ends.chain([(file.len, file.len)]) {
        if at < start {
            gaps.push((at, start));
        }
        at = end;
    }
    for (start, end) in gaps {
        gap(file, start, end, &mut chunks, &mut faults)?;
    }
    Ok((chunks, faults))
}

fn gap(
    file: &LogFile,
    start: u64,
    end: u64,
    chunks: &mut Vec<IndexRecord>,
    faults: &mut Vec<LogFault>,
) -> io::Result<()> {
    let mut at = start;
    // Where what is no chunk began, and why it is none.
    let mut wrong: Option<(u64, ChunkFault)> = None;
    let mut bytes = Vec::new();
    let mut note = |wrong: &mut Option<(u64, ChunkFault)>, at: u64| {
        if let Some((offset, fault)) = wrong.take() {
            faults.push(LogFault { path: file.path.clone(), offset, len: at - offset, fault });
        }
    };
    while at < end {
        match chunk_at(file, at, end, &mut bytes)? {
            Ok((trailer, len)) => {
                note(&mut wrong, at);
                chunks.push(unnamed(trailer, at, len as u32));
                at += len as u64;
            }
            Err(fault) => {
                if fault != ChunkFault::NoSection {
                    // A chunk began here: what was before it is a fault of its own.
                    note(&mut wrong, at);
                }
                wrong.get_or_insert((at, fault));
                at += ALIGNMENT as u64;
            }
        }
    }
    note(&mut wrong, end);
    Ok(())
}

/// The chunk that begins at `at` and ends before `end`.
fn chunk_at(
    file: &LogFile,
    at: u64,
    end: u64,
    bytes: &mut Vec<u8>,
) -> io::Result<Result<(Trailer, usize), ChunkFault>> {
    let room = end - at;
    bytes.clear();
    bytes.resize(room.min(ALIGNMENT as u64) as usize, 0);
    file.data.read_exact_at(bytes, at)?;
    let Some((header_len, len)) = section_len(bytes) else {
        return Ok(Err(ChunkFault::NoSection));
    };
    let wanted = len.saturating_add(header_len as u64);
    if wanted > CHUNK_LEN_MAX as u64 {
        return Ok(Err(ChunkFault::NoSection));
    }
    if wanted > room {
        return Ok(Err(ChunkFault::Cut { wanted, got: room }));
    }
    bytes.resize(wanted as usize, 0);
    file.data.read_exact_at(bytes, at)?;
    Ok(Trailer::read(bytes).map(|(trailer, _, len)| (trailer, len)))
}

/// A record of a chunk whose hosts and flows are not known.
fn unnamed(trailer: Trailer, offset: u64, len: u32) -> IndexRecord {
    let keys = Keys { are_incomplete: true, ..Keys::default() };
    IndexRecord { offset, len, compressed_offset: 0, compressed_len: 0, keys, trailer }
}

/// Looks through a compressed file whose index is not whole.
pub(super) fn compressed(file: &LogFile) -> io::Result<(Vec<IndexRecord>, Vec<LogFault>)> {
    let mut chunks = Vec::new();
    let mut faults = Vec::new();
    let known = file
        .chunks
        .iter()
        .fold(0, |sum: u64, record| sum.saturating_add(record.compressed_len.into()));
    if known == file.len && !file.index_is_wrong {
        return Ok((chunks, faults));
    }
    let is_known = |at: u64| {
        let place = file.chunks.binary_search_by_key(&at, |record| record.compressed_offset);
        place.ok().and_then(|place| file.chunks.get(place))
    };
    let (mut at, mut plain_at) = (0_u64, 0_u64);
    let mut window = Vec::new();
    while at < file.len {
        if let Some(record) = is_known(at) {
            // Both were held against lengths that are far from where numbers end.
            at = at.saturating_add(record.compressed_len.into());
            plain_at = record.offset.saturating_add(record.len.into());
            continue;
        }
        let Some(frame_len) = frame_at(file, at, &mut window)? else {
            let (offset, len, fault) = (plain_at, file.len - at, ChunkFault::NoSection);
            faults.push(LogFault { path: file.path.clone(), offset, len, fault });
            break;
        };
        let frame = window.get(..frame_len).unwrap_or_default();
        let plain = zstd::bulk::decompress(frame, CHUNK_LEN_MAX).unwrap_or_default();
        match Trailer::read(&plain) {
            Ok((trailer, _, len)) => {
                let mut record = unnamed(trailer, plain_at, len as u32);
                (record.compressed_offset, record.compressed_len) = (at, frame_len as u32);
                chunks.push(record);
            }
            Err(fault) => {
                let (offset, len) = (plain_at, plain.len() as u64);
                faults.push(LogFault { path: file.path.clone(), offset, len, fault });
            }
        }
        plain_at = plain_at.saturating_add(plain.len() as u64);
        at += frame_len as u64;
    }
    Ok((chunks, faults))
}

/// Bytes of the frame that begins at `at`, which `window` holds afterwards.
fn frame_at(file: &LogFile, at: u64, window: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let left = file.len - at;
    let mut wanted = WINDOW_LEN;
    loop {
        let len = left.min(wanted as u64) as usize;
        window.clear();
        window.resize(len, 0);
        file.data.read_exact_at(window, at)?;
        match zstd::zstd_safe::find_frame_compressed_size(window) {
            Ok(len) if len > 0 => return Ok(Some(len)),
            _ if wanted > 2 * CHUNK_LEN_MAX || len as u64 == left => return Ok(None),
            _ => wanted *= 2,
        }
    }
}

/// Whether the frame that a record names is one of that length.
pub(super) fn is_frame(file: &LogFile, record: &IndexRecord, window: &mut Vec<u8>) -> bool {
    let len = frame_at(file, record.compressed_offset, window);
    matches!(len, Ok(Some(len)) if len == record.compressed_len as usize)
}

/// Whether a whole chunk begins where a record says that another is, or within it.
pub(super) fn hides_chunk(file: &LogFile, record: &IndexRecord) -> bool {
    let end = record.offset.saturating_add(record.len.into());
    let mut chunks = Vec::new();
    let begins = chunk_at(file, record.offset, file.len, &mut Vec::new());
    matches!(begins, Ok(Ok(_)))
        || gap(file, record.offset, end, &mut chunks, &mut Vec::new()).is_ok() && !chunks.is_empty()
}

/// Whether a place that is no chunk would be one if the records behind it were not there.
pub(super) fn is_cut_by_index(file: &LogFile) -> bool {
    file.faults
        .iter()
        .any(|fault| matches!(chunk_at(file, fault.offset, file.len, &mut Vec::new()), Ok(Ok(_))))
}
