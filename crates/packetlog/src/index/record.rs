//! One record of `.idx`: where a chunk lies and what is in it.

use std::fmt;

use super::bytes::Numbers;
use super::rows::ClassRow;
use super::trailer::Trailer;

const MAGIC: &[u8; 4] = b"WLX1";
/// Bytes of a record before its rows.
const INDEX_HEAD_LEN: usize = 96;
/// A record with more rows is not believed.
const ROW_COUNT_MAX: u16 = 4096;
/// The flag of lists that do not hold everything.
const KEYS_INCOMPLETE: u8 = 1;

/// Where the hashes of a chunk lie in `.keys`: first the hosts', then the flows', four bytes each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keys {
    /// Where they begin.
    pub offset: u64,
    /// Hosts.
    pub host_count: u32,
    /// Flows.
    pub flow_count: u32,
    /// CRC-32 of the hosts.
    pub hosts_crc: u32,
    /// CRC-32 of the flows.
    pub flows_crc: u32,
    /// There were more hosts or flows than are listed: the chunk may hold any.
    pub are_incomplete: bool,
}

/// Hashes of a chunk that are believed: several times what one of 16 MiB can have.
const KEY_COUNT_MAX: u32 = 1 << 21;

impl Keys {
    /// Whether the hashes can be in a file of so many bytes.
    pub(crate) fn is_within(&self, keys_len: u64) -> bool {
        let words = u64::from(self.host_count) + u64::from(self.flow_count);
        let end = self.offset.checked_add(words * 4);
        self.host_count <= KEY_COUNT_MAX
            && self.flow_count <= KEY_COUNT_MAX
            && end.is_some_and(|end| end <= keys_len)
    }
}

/// Where a chunk lies and what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexRecord {
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes.
    pub len: u32,
    /// Where its frame begins in the compressed file, and its bytes; 0 where there is none.
    pub compressed_offset: u64,
    /// See there.
    pub compressed_len: u32,
    /// Its hosts and flows.
    pub keys: Keys,
    /// What it says of itself.
    pub trailer: Trailer,
}

/// Why bytes are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IndexFault {
    /// They end before the record does.
    Cut,
    /// They do not begin like one.
    NoRecord,
    /// They are not those that were written.
    Checksum,
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cut => "the last record is truncated",
            Self::NoRecord => "not an index record",
            Self::Checksum => "a record whose checksum is wrong",
        })
    }
}

impl std::error::Error for IndexFault {}

impl IndexRecord {
    /// Appends the record.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let trailer = &self.trailer;
        let keys = &self.keys;
        let row_count = trailer.rows.len().min(ROW_COUNT_MAX.into());
        let len = (INDEX_HEAD_LEN + row_count * ClassRow::LEN + 4) as u32;
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&self.compressed_len.to_le_bytes());
        out.extend_from_slice(&self.compressed_offset.to_le_bytes());
        out.extend_from_slice(&keys.offset.to_le_bytes());
        for number in [keys.host_count, keys.flow_count, keys.hosts_crc, keys.flows_crc] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&trailer.sequence.to_le_bytes());
        out.extend_from_slice(&trailer.first_ns.to_le_bytes());
        out.extend_from_slice(&trailer.last_ns.to_le_bytes());
        out.extend_from_slice(&trailer.packet_count.to_le_bytes());
        out.push(trailer.priority);
        out.push(u8::from(trailer.is_repaired));
        out.push(if keys.are_incomplete { KEYS_INCOMPLETE } else { 0 });
        out.push(0);
        out.extend_from_slice(&(row_count as u16).to_le_bytes());
        out.extend_from_slice(&[0; 6]);
        for row in trailer.rows.iter().take(row_count) {
            row.put(out);
        }
        let sum = crc32fast::hash(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&sum.to_le_bytes());
    }

    /// The record that `bytes` begin with, and its length.
    ///
    /// # Errors
    /// They begin with none that is whole.
    pub fn read(bytes: &[u8]) -> Result<(Self, usize), IndexFault> {
        let Some(magic) = bytes.first_chunk::<4>() else { return Err(IndexFault::Cut) };
        if magic != MAGIC {
            return Err(IndexFault::NoRecord);
        }
        let mut numbers = Numbers::new(bytes.get(4..).unwrap_or_default());
        let len = numbers.u32().ok_or(IndexFault::Cut)? as usize;
        let rows_len = len.checked_sub(INDEX_HEAD_LEN + 4).ok_or(IndexFault::NoRecord)?;
        if !rows_len.is_multiple_of(ClassRow::LEN)
            || rows_len / ClassRow::LEN > ROW_COUNT_MAX.into()
        {
            return Err(IndexFault::NoRecord);
        }
        let record = bytes.get(..len).ok_or(IndexFault::Cut)?;
        let Some((before, sum)) = record.split_last_chunk::<4>() else {
            return Err(IndexFault::Cut);
        };
        if crc32fast::hash(before) != u32::from_le_bytes(*sum) {
            return Err(IndexFault::Checksum);
        }
        let record = Self::read_fields(&mut numbers).ok_or(IndexFault::NoRecord)?;
        if record.trailer.rows.len() * ClassRow::LEN != rows_len {
            return Err(IndexFault::NoRecord);
        }
        Ok((record, len))
    }

    fn read_fields(numbers: &mut Numbers<'_>) -> Option<Self> {
        let mut record = Self {
            offset: numbers.u64()?,
            len: numbers.u32()?,
            compressed_len: numbers.u32()?,
            compressed_offset: numbers.u64()?,
            keys: Keys {
                offset: numbers.u64()?,
                host_count: numbers.u32()?,
                flow_count: numbers.u32()?,
                hosts_crc: numbers.u32()?,
                flows_crc: numbers.u32()?,
                are_incomplete: false,
            },
            trailer: Trailer {
                sequence: numbers.u64()?,
                first_ns: numbers.i64()?,
                last_ns: numbers.i64()?,
                packet_count: numbers.u32()?,
                priority: numbers.u8()?,
                is_repaired: numbers.u8()? != 0,
                rows: Vec::new(),
            },
        };
        record.keys.are_incomplete = numbers.u8()? & KEYS_INCOMPLETE != 0;
        numbers.u8()?;
        let row_count = numbers.u16()?;
        numbers.u16()?;
        numbers.u32()?;
        for _ in 0..row_count {
            record.trailer.rows.push(ClassRow::read(numbers)?);
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rows: u16) -> IndexRecord {
        let keys = Keys {
            offset: 1,
            host_count: 2,
            flow_count: 3,
            hosts_crc: 4,
            flows_crc: 5,
            are_incomplete: rows == 1,
        };
        let rows = (0..rows)
            .map(|class| ClassRow { class, overwritten_bytes: 8, ..ClassRow::default() })
            .collect();
        let trailer = Trailer {
            sequence: 6,
            first_ns: -7,
            last_ns: 8,
            packet_count: 9,
            priority: 10,
            is_repaired: false,
            rows,
        };
        let (offset, len) = (11 << 40, 4096);
        IndexRecord { offset, len, compressed_offset: 12, compressed_len: 13, keys, trailer }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        for rows in 0..3 {
            record(rows).put(&mut bytes);
        }
        let mut at = 0;
        for rows in 0..3 {
            let (read, len) = IndexRecord::read(&bytes[at..]).unwrap();
            assert_eq!(read, record(rows));
            assert_eq!(len, INDEX_HEAD_LEN + usize::from(rows) * ClassRow::LEN + 4);
            at += len;
        }
        assert_eq!(IndexRecord::read(&bytes[at..]), Err(IndexFault::Cut));
    }

    #[test]
    fn a_cut_and_a_changed_record_are_refused() {
        let mut bytes = Vec::new();
        record(2).put(&mut bytes);
        for len in 0..bytes.len() {
            assert_eq!(IndexRecord::read(&bytes[..len]), Err(IndexFault::Cut), "{len}");
        }
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(IndexRecord::read(&bytes).is_err(), "{at}");
            bytes[at] ^= 1;
        }
    }
}
