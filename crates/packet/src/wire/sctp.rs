//! SCTP (RFC 9260): a common header of source port, destination port,
//! verification tag and CRC-32c, then chunks of type, flags, length and value,
//! each padded to four bytes.

use std::fmt;

use crate::malformed::Malformed;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const VERIFICATION_TAG: usize = 4;
    pub(super) const CHECKSUM: usize = 8;
}

/// Bytes of the common header.
pub const HEADER_LEN: usize = 12;
/// Bytes of a chunk's header.
pub const CHUNK_HEADER_LEN: usize = 4;

/// An SCTP packet, common header checked.
#[derive(Clone, Copy, Debug)]
pub struct Sctp<'a> {
    header: &'a [u8; HEADER_LEN],
    chunks: &'a [u8],
}

/// One chunk of an SCTP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SctpChunk<'a> {
    /// Chunk type: 0 is DATA, 1 INIT, 3 SACK and so on.
    pub chunk_type: u8,
    /// Flags, whose meaning the type gives.
    pub flags: u8,
    /// The value, padding excluded.
    pub value: &'a [u8],
}

/// The chunks of a packet in order. Ends at the first chunk that does not lie
/// whole within the bytes; [`rest`](Self::rest) is empty where none was left.
#[derive(Clone, Debug)]
pub struct SctpChunkIter<'a> {
    rest: &'a [u8],
}

impl<'a> Sctp<'a> {
    /// Reads the common header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed::SctpHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, chunks) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::SctpHeaderShort)?;
        Ok(Self { header, chunks })
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    #[inline]
    fn bytes_at(&self, at: usize) -> [u8; 4] {
        [self.header[at], self.header[at + 1], self.header[at + 2], self.header[at + 3]]
    }

    /// Source port.
    #[inline]
    #[must_use]
    pub fn source_port(&self) -> u16 {
        self.u16_at(field::SOURCE_PORT)
    }

    /// Destination port.
    #[inline]
    #[must_use]
    pub fn destination_port(&self) -> u16 {
        self.u16_at(field::DESTINATION_PORT)
    }

    /// Verification tag; 0 in a packet that carries INIT.
    #[inline]
    #[must_use]
    pub fn verification_tag(&self) -> u32 {
        u32::from_be_bytes(self.bytes_at(field::VERIFICATION_TAG))
    }

    /// The CRC as a number: RFC 9260 appendix A sends it low byte first.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u32 {
        u32::from_le_bytes(self.bytes_at(field::CHECKSUM))
    }

    /// The chunks in order.
    #[inline]
    #[must_use]
    pub fn chunks(&self) -> SctpChunkIter<'a> {
        SctpChunkIter { rest: self.chunks }
    }

    /// Captured bytes behind the common header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.chunks
    }
}

impl<'a> SctpChunkIter<'a> {
    /// Bytes not read yet, or that are no chunk.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for SctpChunkIter<'a> {
    type Item = SctpChunk<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&[chunk_type, flags, high, low], rest) =
            self.rest.split_first_chunk::<CHUNK_HEADER_LEN>()?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        let (value, rest) = rest.split_at_checked(len.checked_sub(CHUNK_HEADER_LEN)?)?;
        // The last chunk's padding may be missing, as receivers allow.
        let padding_len = len.next_multiple_of(4) - len;
        self.rest = rest.get(padding_len..).unwrap_or_default();
        Some(SctpChunk { chunk_type, flags, value })
    }
}

impl SctpChunk<'_> {
    /// The name RFC 9260 gives the type.
    #[must_use]
    pub const fn name(&self) -> Option<&'static str> {
        Some(match self.chunk_type {
            0 => "DATA",
            1 => "INIT",
            2 => "INIT ACK",
            3 => "SACK",
            4 => "HB REQ",
            5 => "HB ACK",
            6 => "ABORT",
            7 => "SHUTDOWN",
            8 => "SHUTDOWN ACK",
            9 => "OP ERR",
            10 => "COOKIE ECHO",
            11 => "COOKIE ACK",
            14 => "SHUTDOWN COMPLETE",
            _ => return None,
        })
    }
}

/// An SCTP common header as a value. The checksum is no part of it: it
/// depends on the chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SctpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Verification tag.
    pub verification_tag: u32,
}

impl SctpRepr {
    /// The value of a header.
    ///
    /// # Errors
    /// None; the signature is that of every protocol.
    pub fn parse(sctp: &Sctp<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            source_port: sctp.source_port(),
            destination_port: sctp.destination_port(),
            verification_tag: sctp.verification_tag(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        HEADER_LEN
    }

    /// Appends the header with a checksum of 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.verification_tag.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }

    /// Appends header and chunks, checksum included. A value longer than a
    /// chunk's length field can tell is cut at that length.
    pub fn emit_packet(&self, chunks: &[SctpChunk<'_>], out: &mut Vec<u8>) {
        let start = out.len();
        self.emit(out);
        for chunk in chunks {
            let len = u16::try_from(chunk.value.len().saturating_add(CHUNK_HEADER_LEN))
                .unwrap_or(u16::MAX);
            let value_len = usize::from(len) - CHUNK_HEADER_LEN;
            let value = chunk.value.get(..value_len).unwrap_or_default();
            out.extend_from_slice(&[chunk.chunk_type, chunk.flags]);
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(value);
            let padding_len = usize::from(len).next_multiple_of(4) - usize::from(len);
            out.extend_from_slice(&[0; 3][..padding_len]);
        }
        let crc = crc32c(out.get(start..).unwrap_or_default());
        if let Some(target) = out.get_mut(start + field::CHECKSUM..start + HEADER_LEN) {
            target.copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// CRC-32c (RFC 9260 appendix A), one bit at a time: emitters serve tests and
/// synthetic traffic, where a table's speed buys nothing.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL_REFLECTED: u32 = 0x82f6_3b78;
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            let is_carry = crc & 1 == 1;
            crc = (crc >> 1) ^ if is_carry { POLYNOMIAL_REFLECTED } else { 0 };
        }
    }
    !crc
}

/// `5000 > 5001: sctp (1) [INIT], tag 0`
impl fmt::Display for Sctp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}: sctp", self.source_port(), self.destination_port())?;
        for (index, chunk) in self.chunks().enumerate() {
            match chunk.name() {
                Some(name) => write!(f, " ({}) [{name}]", index + 1)?,
                None => write!(f, " ({}) [type {}]", index + 1, chunk.chunk_type)?,
            }
        }
        write!(f, ", tag {}", self.verification_tag())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// DATA with "hello" and COOKIE ACK; crafted with Scapy 2.6, CRC found good by TShark.
    const BYTES: [u8; 40] = [
        0x13, 0x88, 0x13, 0x89, 0xde, 0xad, 0xbe, 0xef, 0x3f, 0xc9, 0x4d, 0xf3, 0x00, 0x03, 0x00,
        0x15, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x68, 0x65, 0x6c, 0x6c, 0x6f, 0, 0, 0, 0x0b,
        0x00, 0x00, 0x04,
    ];

    #[test]
    fn reads_and_tells() {
        let sctp = Sctp::new(&BYTES).unwrap();
        assert_eq!((sctp.source_port(), sctp.destination_port()), (5000, 5001));
        assert_eq!(sctp.verification_tag(), 0xdead_beef);
        // TShark shows the bytes in the order in which they are sent.
        assert_eq!(sctp.checksum().swap_bytes(), 0x3fc9_4df3);
        let chunks: Vec<_> = sctp.chunks().collect();
        assert_eq!(chunks.len(), 2);
        assert_eq!((chunks[0].chunk_type, chunks[0].flags), (0, 3));
        assert_eq!(&chunks[0].value[12..], b"hello");
        assert_eq!((chunks[1].chunk_type, chunks[1].value.len()), (11, 0));
        assert_eq!(
            sctp.to_string(),
            "5000 > 5001: sctp (1) [DATA] (2) [COOKIE ACK], tag 3735928559"
        );
    }

    #[test]
    fn emits_the_same_bytes_with_the_crc_tshark_wants() {
        let sctp = Sctp::new(&BYTES).unwrap();
        let chunks: Vec<_> = sctp.chunks().collect();
        let mut out = vec![1, 2, 3];
        SctpRepr::parse(&sctp).unwrap().emit_packet(&chunks, &mut out);
        assert_eq!(out[3..], BYTES);
    }

    #[test]
    fn crc_of_rfc_3720() {
        // Appendix B.4: 32 bytes of zeros, of ones, and rising from 0.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(
            crc32c(&std::array::from_fn::<u8, 32, _>(|i| u8::try_from(i).unwrap())),
            0x46dd_794e
        );
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Sctp::new(&BYTES[..11]).unwrap_err(), Malformed::SctpHeaderShort);
    }

    #[test]
    fn chunks_end_at_what_is_no_chunk() {
        let mut bytes = BYTES;
        bytes[39] = 3;
        let mut chunks = Sctp::new(&bytes).unwrap().chunks();
        assert_eq!(chunks.by_ref().count(), 1);
        assert_eq!(chunks.rest(), [0x0b, 0, 0, 3]);
        bytes[39] = 5;
        assert_eq!(Sctp::new(&bytes).unwrap().chunks().count(), 1);
        let unpadded = &BYTES[..33];
        assert_eq!(Sctp::new(unpadded).unwrap().chunks().count(), 1);
    }

    #[test]
    fn a_value_too_long_for_its_length_field_is_cut() {
        let value = vec![7; 70_000];
        let mut out = Vec::new();
        let chunk = SctpChunk { chunk_type: 9, flags: 0, value: &value };
        SctpRepr::default().emit_packet(&[chunk], &mut out);
        let lens: Vec<_> = Sctp::new(&out).unwrap().chunks().map(|c| c.value.len()).collect();
        assert_eq!(lens, [65_531]);
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            source_port: u16, destination_port: u16, verification_tag: u32,
            values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..4),
        ) {
            let value = SctpRepr { source_port, destination_port, verification_tag };
            let chunks: Vec<_> = values
                .iter()
                .map(|value| SctpChunk { chunk_type: 13, flags: 5, value })
                .collect();
            let mut bytes = Vec::new();
            value.emit_packet(&chunks, &mut bytes);
            let sctp = Sctp::new(&bytes).unwrap();
            prop_assert_eq!(SctpRepr::parse(&sctp), Ok(value));
            prop_assert_eq!(sctp.chunks().collect::<Vec<_>>(), chunks);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            if let Ok(sctp) = Sctp::new(&bytes) {
                prop_assert!(sctp.chunks().count() * 4 <= bytes.len());
                let _ = (sctp.to_string(), sctp.payload(), sctp.checksum());
            }
        }
    }
}
