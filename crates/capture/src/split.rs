//! One mapped capture in parts, so that several threads can read it.
//!
//! A capture file has no index: where a record begins is known only from the
//! record before it. So the place to cut is guessed, by a chain of plausible
//! records, and the guess is verified afterwards: each part must end exactly
//! where the next one began, and nothing in it may have changed how later
//! blocks are read. Where that does not hold, the caller reads the file again
//! in one part. Guessing costs nothing when it is right, and a wrong guess
//! costs time, never a wrong result.

use packet::file::Item;

use crate::mapped::MappedSource;
use crate::open::FileSource;

/// Parts are no smaller: below this a thread costs more than it saves.
const PART_LEN_MIN: usize = 4 << 20;

/// Records in a row that must be plausible.
const CHAIN_LEN: usize = 64;

/// Bytes in which a record start is looked for.
const SEARCH_LEN_MAX: usize = 1 << 20;

/// Bytes of blocks before the first frame that are read before giving up.
const PREAMBLE_LEN_MAX: usize = 1 << 20;

/// Splits a capture into at most `part_count` parts; anything that cannot be
/// split stays whole.
#[must_use]
pub fn split(source: FileSource, part_count: usize) -> Vec<FileSource> {
    match source {
        FileSource::Mapped(mapped) => {
            let parts = split_mapped(&mapped, part_count);
            if parts.len() < 2 {
                return vec![FileSource::Mapped(mapped)];
            }
            parts.into_iter().map(|part| FileSource::Mapped(Box::new(part))).collect()
        }
        other => vec![other],
    }
}

/// Whether parts, read to their ends, fit together without gap or overlap.
#[must_use]
pub fn parts_agree(parts: &[FileSource]) -> bool {
    parts.windows(2).all(|pair| match pair {
        [FileSource::Mapped(part), FileSource::Mapped(next)] => {
            part.position() == next.start()
                && part.report().damage.is_none()
                && part.decoder().structure_version() == next.initial_structure_version()
        }
        _ => false,
    })
}

fn split_mapped(source: &MappedSource, part_count: usize) -> Vec<MappedSource> {
    let bytes = source.bytes();
    let part_count = part_count.min(bytes.len() / PART_LEN_MIN);
    if part_count < 2 {
        return Vec::new();
    }
    let Some(preamble) = read_preamble(source) else { return Vec::new() };
    let mut starts = vec![source.start()];
    for index in 1..part_count {
        let wanted = bytes.len() / part_count * index;
        let end = wanted.saturating_add(SEARCH_LEN_MAX).min(bytes.len());
        let stretch = bytes.get(wanted..end).unwrap_or_default();
        if let Some(offset) = preamble.decoder().find_boundary(stretch, CHAIN_LEN) {
            let start = wanted + offset;
            if starts.last().is_some_and(|&last| start > last) {
                starts.push(start);
            }
        }
    }
    let stops = starts.iter().skip(1).copied().chain([bytes.len()]);
    let mut parts: Vec<_> =
        starts.iter().zip(stops).map(|(&start, stop)| preamble.part(start, stop)).collect();
    // The first part reads the preamble itself and must end in the state that
    // the others began with.
    if let Some(first) = parts.first_mut() {
        let stop = first.stop();
        *first = source.part(source.start(), stop);
    }
    parts
}

/// A reader that knows what stands before the first frame: interfaces above all. It has counted
/// that frame as well; parts of it count from zero.
pub(crate) fn read_preamble(source: &MappedSource) -> Option<MappedSource> {
    let bytes = source.bytes();
    let mut reader = source.part(source.start(), bytes.len());
    let mut at = source.start();
    while at < source.start() + PREAMBLE_LEN_MAX {
        // In place: a decoder that knows tens of thousands of interfaces is dear to copy.
        match reader.decoder_mut().next(bytes.get(at..)?) {
            Ok((Item::Meta(_), consumed)) => at += consumed,
            Ok((Item::Frame(_), _)) => return Some(reader),
            Err(_) => return None,
        }
    }
    None
}
