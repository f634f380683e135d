//! The columns of a compact block: each field of all packets in a stream of its own, so that zstd
//! sees bytes of one kind together.

use std::io;

use zstd::bulk::{Compressor, decompress_to_buffer};

/// What a stream holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Column {
    /// Which lengths, identification and options differ from what is predicted.
    Flags,
    /// Which fields of TCP do, and whether a checksum is given.
    TransportFlags,
    /// Numbers of flows that are not the predicted ones.
    Flow,
    /// Steps of the timestamp.
    Time,
    /// Lengths.
    Length,
    /// Steps of the IPv4 identification.
    Identification,
    /// Steps of TCP's sequence number.
    Sequence,
    /// Steps of TCP's acknowledgement number.
    Acknowledgement,
    /// Steps of TCP's window.
    Window,
    /// Steps of TCP's timestamps.
    TcpTime,
    /// Checksums that are not computed.
    Checksum,
    /// Other bytes that differ: how many, then place and value of each.
    Patch,
    /// Headers of new flows, as differences from one of the same length.
    Header,
    /// Bytes behind the headers.
    Payload,
    /// Options of blocks.
    Option,
}

pub(super) const COLUMN_COUNT: usize = Column::Option as usize + 1;
/// Bytes of the lengths of all streams.
pub(super) const LENGTHS_LEN: usize = COLUMN_COUNT * 8;

/// Streams that are written.
#[derive(Debug, Default)]
pub(super) struct Columns {
    streams: [Vec<u8>; COLUMN_COUNT],
}

impl Columns {
    pub(super) fn clear(&mut self) {
        self.streams.iter_mut().for_each(Vec::clear);
    }

    #[inline(always)]
    pub(super) fn of(&mut self, column: Column) -> &mut Vec<u8> {
        // The array has a place for each column.
        &mut self.streams[column as usize]
    }

    /// A number, seven bits a byte.
    #[inline(always)]
    pub(super) fn put(&mut self, column: Column, mut value: u64) {
        let stream = self.of(column);
        while value >= 0x80 {
            stream.push(value as u8 | 0x80);
            value >>= 7;
        }
        stream.push(value as u8);
    }

    /// Appends the lengths of all streams, then the streams, each compressed where that helps.
    pub(super) fn pack(&self, zstd: &mut Compressor<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let lengths = out.len();
        out.resize(lengths + LENGTHS_LEN, 0);
        for (index, stream) in self.streams.iter().enumerate() {
            let start = out.len();
            out.resize(start + stream.len(), 0);
            // What is not smaller does not fit, and is stored as it is.
            let place = out.get_mut(start..).unwrap_or_default();
            let packed = match stream.len() {
                0 => 0,
                len => zstd.compress_to_buffer(stream, place).unwrap_or(len).min(len),
            };
            if packed == stream.len() {
                place.copy_from_slice(stream);
            }
            out.truncate(start + packed);
            let words = [stream.len() as u32, packed as u32].map(u32::to_le_bytes);
            let at = lengths + index * 8;
            if let Some(place) = out.get_mut(at..at + 8) {
                place.copy_from_slice(words.as_flattened());
            }
        }
        Ok(())
    }
}

/// Streams that are read.
#[derive(Debug)]
pub(super) struct Reader {
    streams: [(Vec<u8>, usize); COLUMN_COUNT],
}

impl Reader {
    /// Reads what [`Columns::pack`] wrote; `None` where it is not that, or where its streams have
    /// more than `len_max` bytes together.
    pub(super) fn unpack(bytes: &[u8], len_max: usize) -> Option<Self> {
        let (lengths, mut rest) = bytes.split_at_checked(LENGTHS_LEN)?;
        let (words, _) = lengths.as_chunks::<4>();
        let mut streams = std::array::from_fn(|_| (Vec::new(), 0));
        let mut room = len_max;
        for (pair, (stream, _)) in words.chunks_exact(2).zip(&mut streams) {
            let [len, packed_len] = <[[u8; 4]; 2]>::try_from(pair).ok()?.map(u32::from_le_bytes);
            room = room.checked_sub(len as usize)?;
            let (packed, behind) = rest.split_at_checked(packed_len as usize)?;
            rest = behind;
            if len == packed_len {
                stream.extend_from_slice(packed);
            } else {
                stream.resize(len as usize, 0);
                let got = decompress_to_buffer(packed, &mut stream[..]).ok()?;
                if got != len as usize {
                    return None;
                }
            }
        }
        Some(Self { streams })
    }

    #[inline(always)]
    pub(super) fn byte(&mut self, column: Column) -> Option<u8> {
        let (stream, at) = &mut self.streams[column as usize];
        let byte = *stream.get(*at)?;
        *at += 1;
        Some(byte)
    }

    #[inline(always)]
    pub(super) fn number(&mut self, column: Column) -> Option<u64> {
        let mut value = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte(column)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// The next `len` bytes of a stream.
    pub(super) fn bytes(&mut self, column: Column, len: usize) -> Option<&[u8]> {
        let (stream, at) = &mut self.streams[column as usize];
        let start = *at;
        let bytes = stream.get(start..start.checked_add(len)?)?;
        *at = start + len;
        Some(bytes)
    }

    /// Bytes of a stream that were read already.
    pub(super) fn again(&self, column: Column, start: usize, len: usize) -> Option<&[u8]> {
        self.streams[column as usize].0.get(start..start.checked_add(len)?)
    }

    /// Where the next byte of a stream is.
    pub(super) fn place(&self, column: Column) -> usize {
        self.streams[column as usize].1
    }
}

/// Signed differences as small numbers: 0, -1, 1, -2, …
#[inline(always)]
pub(super) const fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

#[inline(always)]
pub(super) const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}
