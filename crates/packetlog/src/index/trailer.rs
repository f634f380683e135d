//! The block that ends a chunk: what is in it, and whether it is whole.
//!
//! ```text
//!  0 type 4: names, of which there are none    44 latest stamp, ns
//!  4 total length                              52 packets
//!  8 end of names                              56 priority; 57 flags; 58 count of rows
//! 12 option 19373, its length                  60 rows, 72 bytes each; then zeros
//! 16 enterprise number                        -12 CRC-32 of the chunk before it
//! 20 "WLCHUNK1"                                -8 end of options
//! 28 sequence number                           -4 total length
//! 36 earliest stamp, ns
//! ```

use std::fmt;

use packet::file::{ByteOrder, PrivateBlock, section_len, set_section_len};

use super::bytes::Numbers;
use super::rows::ClassRow;
use super::{ALIGNMENT, ENTERPRISE};

const MAGIC: &[u8; 8] = b"WLCHUNK1";
/// Bytes of the block before its rows.
const HEAD_LEN: usize = 60;
/// CRC, end of options and total length.
const END_LEN: usize = 12;
/// The one flag: a chunk made of what was before a tear.
const REPAIRED: u8 = 1;

/// What a chunk says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trailer {
    /// Its number within its stream, over all files.
    pub sequence: u64,
    /// Earliest stamp of its packets, in nanoseconds since 1970; 0 where there are none.
    pub first_ns: i64,
    /// Latest stamp.
    pub last_ns: i64,
    /// Packets in it.
    pub packet_count: u32,
    /// Priority of its stream.
    pub priority: u8,
    /// Whether it was made, at a later start, of the packets before a tear.
    pub is_repaired: bool,
    /// The outcome of packets, by class.
    pub rows: Vec<ClassRow>,
}

/// Why bytes are no whole chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkFault {
    /// They do not begin with a section header that gives its length.
    NoSection,
    /// They end before the section does.
    Cut {
        /// Bytes of the chunk, as its head gives them.
        wanted: u64,
        /// Bytes there are.
        got: u64,
    },
    /// The section does not end with one of our trailers.
    NoTrailer,
    /// The bytes are not those that were written.
    Checksum {
        /// What the trailer says.
        wanted: u32,
        /// What the bytes give.
        got: u32,
    },
    /// The checksum holds, and the trailer or a block makes no sense.
    Nonsense,
    /// Records of the index are damaged, or say what cannot be.
    Index {
        /// How many.
        records: u64,
    },
    /// Hashes of hosts and flows are where the index does not say, or are not those written.
    Keys {
        /// Of how many chunks.
        chunks: u64,
    },
    /// Reasons of marked packets are damaged.
    Reasons {
        /// At how many places.
        places: u64,
    },
    /// The account of the log is damaged.
    Account,
    /// A name of the log's that is a link, a pipe or a folder.
    NoFile,
}

impl fmt::Display for ChunkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSection => f.write_str("not the section header of a chunk"),
            Self::Cut { wanted, got } => write!(f, "{got} of {wanted} bytes"),
            Self::NoTrailer => f.write_str("no trailer at the section's end"),
            Self::Checksum { wanted, got } => {
                write!(f, "checksum {got:08x}, and {wanted:08x} was written")
            }
            Self::Index { records } => write!(f, "{records} damaged records"),
            Self::Keys { chunks } => write!(f, "damaged hashes of {chunks} blocks"),
            Self::Reasons { places } => write!(f, "{places} damaged places"),
            Self::Account => f.write_str("neither of its two slots is intact"),
            Self::NoFile => f.write_str("a link, a pipe or a folder"),
            Self::Nonsense => f.write_str("its checksum is correct, its contents are invalid"),
        }
    }
}

impl std::error::Error for ChunkFault {}

impl Trailer {
    /// Bytes of a trailer with this many rows, without what fills the chunk up.
    pub(crate) const fn len(row_count: usize) -> usize {
        HEAD_LEN + row_count * ClassRow::LEN + END_LEN
    }

    /// Bytes of the chunk whose packets end at `end`.
    pub(crate) const fn chunk_len(&self, end: usize) -> usize {
        (end + Self::len(self.rows.len())).next_multiple_of(ALIGNMENT)
    }

    /// Ends `chunk`, whose packets end at `end` and which is [`Self::chunk_len`] long: writes the
    /// length of its section, the trailer and the checksum. False where that does not fit.
    #[must_use]
    pub(crate) fn seal(&self, chunk: &mut [u8], end: usize, scratch: &mut Vec<u8>) -> bool {
        let header_len = Numbers::new(chunk.get(4..).unwrap_or_default()).u32().unwrap_or(0);
        let section_len = (chunk.len() as u64).saturating_sub(u64::from(header_len));
        set_section_len(chunk, section_len);
        scratch.clear();
        scratch.extend_from_slice(MAGIC);
        scratch.extend_from_slice(&self.sequence.to_le_bytes());
        scratch.extend_from_slice(&self.first_ns.to_le_bytes());
        scratch.extend_from_slice(&self.last_ns.to_le_bytes());
        scratch.extend_from_slice(&self.packet_count.to_le_bytes());
        scratch.push(self.priority);
        scratch.push(if self.is_repaired { REPAIRED } else { 0 });
        scratch.extend_from_slice(&(self.rows.len() as u16).to_le_bytes());
        for row in &self.rows {
            row.put(scratch);
        }
        let Some(block) = chunk.get_mut(end..) else { return false };
        if block.len() < Self::len(self.rows.len()) {
            return false;
        }
        let Some((data, zeros)) = block
            .get_mut(PrivateBlock::DATA_OFFSET..)
            .and_then(|from| from.split_at_mut_checked(scratch.len()))
        else {
            return false;
        };
        data.copy_from_slice(scratch);
        zeros.fill(0);
        if !PrivateBlock::frame(block, ENTERPRISE) {
            return false;
        }
        let Some((before, checksum)) = chunk.split_last_chunk_mut::<END_LEN>() else {
            return false;
        };
        let sum = crc32fast::hash(before);
        if let Some(place) = checksum.first_chunk_mut::<4>() {
            *place = sum.to_le_bytes();
        }
        true
    }

    /// Reads the trailer of the chunk that `bytes` begin with, which may be followed by others;
    /// and where in it the trailer begins and how long the chunk is.
    ///
    /// # Errors
    /// The chunk is not whole.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize, usize), ChunkFault> {
        let (header_len, section_len) = section_len(bytes).ok_or(ChunkFault::NoSection)?;
        let wanted = section_len.saturating_add(header_len as u64);
        let got = bytes.len() as u64;
        if !wanted.is_multiple_of(ALIGNMENT as u64) || wanted > packet::file::BLOCK_LEN_MAX.into() {
            return Err(ChunkFault::NoSection);
        }
        let chunk = bytes.get(..wanted as usize).ok_or(ChunkFault::Cut { wanted, got })?;
        let Some((before, end)) = chunk.split_last_chunk::<END_LEN>() else {
            return Err(ChunkFault::NoSection);
        };
        let mut numbers = Numbers::new(end);
        let (Some(wanted), Some(0), Some(block_len)) =
            (numbers.u32(), numbers.u32(), numbers.u32())
        else {
            return Err(ChunkFault::NoTrailer);
        };
        let start = chunk.len().checked_sub(block_len as usize).ok_or(ChunkFault::NoTrailer)?;
        let block = PrivateBlock::read(chunk.get(start..).unwrap_or_default(), ByteOrder::Little);
        let data = block
            .filter(|block| block.enterprise == ENTERPRISE && block.data.starts_with(MAGIC))
            .ok_or(ChunkFault::NoTrailer)?
            .data;
        let got = crc32fast::hash(before);
        if got != wanted {
            return Err(ChunkFault::Checksum { wanted, got });
        }
        let trailer = Self::read_data(data).ok_or(ChunkFault::Nonsense)?;
        Ok((trailer, start, chunk.len()))
    }

    fn read_data(data: &[u8]) -> Option<Self> {
        let mut numbers = Numbers::new(data.get(MAGIC.len()..)?);
        let mut trailer = Self {
            sequence: numbers.u64()?,
            first_ns: numbers.i64()?,
            last_ns: numbers.i64()?,
            packet_count: numbers.u32()?,
            priority: numbers.u8()?,
            is_repaired: numbers.u8()? & REPAIRED != 0,
            rows: Vec::new(),
        };
        for _ in 0..numbers.u16()? {
            trailer.rows.push(ClassRow::read(&mut numbers)?);
        }
        Some(trailer)
    }
}

#[cfg(test)]
mod tests {
    use packet::file::{PcapngEncoder, Section};

    use super::*;

    fn chunk(rows: usize) -> (Trailer, Vec<u8>) {
        let mut bytes = Vec::new();
        PcapngEncoder::new().section(&mut bytes, &Section::default());
        let rows = (0..rows as u16)
            .map(|class| ClassRow { class, seen_packets: 9, ..ClassRow::default() })
            .collect();
        let trailer = Trailer {
            sequence: 7,
            first_ns: -3,
            last_ns: 8,
            packet_count: 2,
            priority: 1,
            is_repaired: true,
            rows,
        };
        let end = bytes.len();
        bytes.resize(trailer.chunk_len(end), 0xee);
        assert!(trailer.seal(&mut bytes, end, &mut Vec::new()));
        (trailer, bytes)
    }

    #[test]
    fn a_chunk_says_what_it_was_told() {
        for rows in [0, 1, 60] {
            let (trailer, bytes) = chunk(rows);
            assert!(bytes.len().is_multiple_of(ALIGNMENT));
            let (read, start, len) = Trailer::read(&[&bytes[..], &[1; 9]].concat()).unwrap();
            assert_eq!((read, start, len), (trailer, 28, bytes.len()));
        }
    }

    #[test]
    fn every_byte_that_changes_is_noticed() {
        let (_, bytes) = chunk(2);
        let mut changed = bytes.clone();
        for at in (0..bytes.len()).step_by(3).chain(bytes.len() - 12..bytes.len()) {
            changed[at] ^= 0x10;
            assert!(Trailer::read(&changed).is_err(), "{at}");
            changed[at] = bytes[at];
        }
        for len in [0, 11, 30, 4095] {
            assert!(Trailer::read(&bytes[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_trailer_that_does_not_fit_is_refused() {
        let trailer = Trailer { rows: vec![ClassRow::default(); 60], ..Trailer::default() };
        assert!(!trailer.seal(&mut [0; 4096], 0, &mut Vec::new()));
        assert!(!trailer.seal(&mut [0; 4096], 5000, &mut Vec::new()));
    }
}
