//! A chunk that is being filled.

use std::io;
use std::time::Duration;

use packet::file::{FrameFields, put_frame};

use super::options::Encoding;
use crate::cause::Cause;
use crate::compact::{Encoder, compact};
use crate::index::{ALIGNMENT, ClassRow, KeyLists, Trailer, add_row};
use crate::reasons::Reason;

/// Rows that a trailer and what fills its chunk up have room for.
const ROW_COUNT_MAX: usize = 840;
/// Bytes of a reason, about, and of what else belongs to a chunk.
const REASON_LEN: usize = 160;
const SIDE_LEN: usize = 2 << 10;
/// Level of zstd for the columns of compact blocks: higher ones cost more than they save.
const COLUMN_LEVEL: i32 = 1;

/// Bytes that begin at a multiple of [`ALIGNMENT`], as direct writes want them.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
    /// Its number among the recorder's blocks, by which the kernel may know it.
    pub(crate) number: u16,
}

impl Block {
    /// The number of a block that is none of the recorder's.
    pub(crate) const UNNUMBERED: u16 = u16::MAX;

    /// A block of `len` zeros. Its bytes never move: nothing makes the vector grow.
    pub(crate) fn new(len: usize, number: u16) -> Self {
        let bytes = vec![0; len + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { bytes, start, len, number }
    }

    /// Stands in for a block that is on its way.
    pub(crate) const fn empty() -> Self {
        Self { bytes: Vec::new(), start: 0, len: 0, number: Self::UNNUMBERED }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.len).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }
}

/// A chunk that is being filled, or on its way to the disk.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) block: Block,
    /// Where the next packet goes.
    pub(super) end: usize,
    /// Where packets must stop, so that statistics and trailer fit.
    pub(super) limit: usize,
    /// Interfaces described in it.
    pub(super) interfaces: u32,
    pub(super) packets: u32,
    pub(super) first_ns: i64,
    pub(super) last_ns: i64,
    /// Of hosts and flows of its packets.
    pub(super) keys: KeyLists,
    /// The outcome of packets while it was filled; given at its end.
    pub(super) rows: Vec<ClassRow>,
    /// Packets that found no room while it was filled, by cause.
    pub(super) lost: [u64; Cause::ALL.len()],
    /// Why packets were marked while it was filled.
    pub(super) reasons: Vec<Reason>,
    /// When it was begun.
    pub(super) opened: Duration,
    /// Index of its stream.
    pub(super) stream: usize,
}

impl Chunk {
    pub(super) fn new(len: usize, number: u16) -> Self {
        Self {
            block: Block::new(len, number),
            end: 0,
            limit: 0,
            interfaces: 0,
            packets: 0,
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            keys: KeyLists::new(),
            rows: Vec::new(),
            lost: [0; Cause::ALL.len()],
            reasons: Vec::new(),
            opened: Duration::ZERO,
            stream: 0,
        }
    }

    /// Begins it with a section header and interfaces.
    pub(super) fn begin(&mut self, head: &[u8], interfaces: u32, tail_len: usize) {
        self.end = 0;
        self.limit = self.block.len.saturating_sub(tail_len);
        self.packets = 0;
        (self.first_ns, self.last_ns) = (i64::MAX, i64::MIN);
        self.keys.clear();
        self.rows.clear();
        self.reasons.clear();
        self.lost = [0; Cause::ALL.len()];
        self.interfaces = interfaces;
        self.append(head);
    }

    /// Appends blocks that are encoded already; false where there is no room.
    pub(super) fn append(&mut self, blocks: &[u8]) -> bool {
        let place = self.block.bytes_mut().get_mut(self.end..self.end + blocks.len());
        let Some(place) = place else { return false };
        place.copy_from_slice(blocks);
        self.end += blocks.len();
        true
    }

    /// Appends a packet; false where there is no room.
    #[inline]
    pub(super) fn put(&mut self, fields: &FrameFields<'_>, kept: &[u8], ns: i64) -> bool {
        let (end, limit) = (self.end, self.limit);
        let Some(place) = self.block.bytes_mut().get_mut(end..limit) else { return false };
        let Some(len) = put_frame(place, fields, kept) else { return false };
        self.end += len;
        self.packets += 1;
        self.first_ns = self.first_ns.min(ns);
        self.last_ns = self.last_ns.max(ns);
        true
    }

    /// Bytes that its hashes, its record, its reasons and their file's head take at most, and the
    /// account of its log.
    pub(super) fn side_len(&self) -> u64 {
        let hashes = self.keys.hosts.len() + self.keys.flows.len();
        (hashes * size_of::<u32>() + self.reasons.len() * REASON_LEN + SIDE_LEN) as u64
    }

    /// Puts its packets into a compact block, where the log is to have those.
    pub(super) fn encode(&mut self, encoder: Option<&mut Encoder>) {
        if let Some(encoder) = encoder {
            self.end = compact(self.block.bytes_mut(), self.end, encoder);
        }
    }
}

/// What encodes the packets of chunks, where they are to be compact.
pub(super) fn encoder_of(encoding: Encoding) -> io::Result<Option<Encoder>> {
    (encoding == Encoding::Compact).then(|| Encoder::new(COLUMN_LEVEL)).transpose()
}

/// Adds what is owed to the rows of a chunk, as far as its trailer has room; what has none is put
/// together under the unknown class.
pub(super) fn settle_owed(
    rows: &mut Vec<ClassRow>,
    owed: &[ClassRow],
    chunk_len: usize,
    end: usize,
) {
    for row in owed {
        let is_known = rows.iter().any(|known| known.class == row.class);
        let fits = rows.len() < ROW_COUNT_MAX && Trailer::len(rows.len() + 2) + end <= chunk_len;
        if is_known || fits {
            add_row(rows, row);
        } else {
            add_row(rows, &ClassRow { class: ClassRow::UNKNOWN, ..*row });
        }
    }
}
