//! The packets of a datagram (RFC 9000 §17.2), as far as they are in the clear.

use std::fmt;

use packet::wire::quic::{VERSION_1, VERSION_2};

use super::Fault;

mod field {
    pub(super) const VERSION_LEN: usize = 4;
    /// Bytes of the packet number that are assumed where the sample is taken (RFC 9001 §5.4.2).
    pub(super) const NUMBER_LEN_MAX: usize = 4;
    pub(super) const SAMPLE_LEN: usize = 16;
}

const IS_LONG: u8 = 1 << 7;
/// The authentication tag that ends a Retry packet.
const RETRY_TAG_LEN: usize = 16;

/// The longest connection identifier of the versions that are read.
pub const CONNECTION_ID_LEN_MAX: usize = 20;

/// A version whose Initial packets can be read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Version {
    /// RFC 9000; drafts 33 and 34 protect their packets the same way.
    V1,
    /// RFC 9369.
    V2,
    /// Drafts 29 to 32, in which HTTP/3 was first widely used: version 1 with another salt. Also
    /// reserved versions (RFC 9000 §15), by which a client asks for a list of versions: no rule
    /// says how it protects their packets, and those of this time did it like this.
    Draft29,
    /// Drafts 23 to 28, and mvfst's of that time.
    Draft23,
    /// Drafts 21 and 22, and mvfst's of that time.
    Draft21,
}

impl Version {
    /// The version that a long header has; `None` for one that cannot be read.
    #[inline]
    #[must_use]
    pub const fn of(version: u32) -> Option<Self> {
        match version {
            VERSION_1 | 0xff00_0021 | 0xff00_0022 => Some(Self::V1),
            VERSION_2 => Some(Self::V2),
            0xff00_001d..=0xff00_0020 => Some(Self::Draft29),
            0xff00_0017..=0xff00_001c | 0xface_b002 | 0xface_b00e => Some(Self::Draft23),
            0xff00_0015 | 0xff00_0016 | 0xface_b001 => Some(Self::Draft21),
            _ if version & 0x0f0f_0f0f == 0x0a0a_0a0a => Some(Self::Draft29),
            _ => None,
        }
    }

    /// The kind of a long header by its two type bits, which version 2 numbers otherwise.
    const fn kind(self, first: u8) -> Kind {
        let bits = first >> 4 & 3;
        let bits = if matches!(self, Self::V2) { bits.wrapping_sub(1) & 3 } else { bits };
        match bits {
            0 => Kind::Initial,
            3 => Kind::Retry,
            _ => Kind::Other,
        }
    }
}

enum Kind {
    Initial,
    Retry,
    /// 0-RTT and Handshake, which have a length like Initial.
    Other,
}

/// One packet of a datagram.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// One that can be decrypted.
    Initial(Initial<'a>),
    /// A server's wish that the client begins again: the client's next Initial packets are sent
    /// to the identifier `scid`, and their keys are derived from it.
    Retry {
        /// The server's new identifier.
        scid: &'a [u8],
    },
    /// A server's list of the versions that it speaks.
    VersionNegotiation,
    /// 0-RTT or Handshake, of keys that only the endpoints have.
    Other,
    /// A short header: all that remains of the datagram.
    Short,
    /// A long header of a version that is not read: all that remains of the datagram.
    VersionUnknown(u32),
}

/// An Initial packet, still protected.
#[derive(Clone, Copy, Debug)]
pub struct Initial<'a> {
    pub(super) version: Version,
    pub(super) dcid: &'a [u8],
    scid: &'a [u8],
    token: &'a [u8],
    /// From the first byte of the header to the last one of the tag.
    pub(super) bytes: &'a [u8],
    /// Where the packet number begins; the sample for header protection lies within `bytes`.
    pub(super) number_start: usize,
}

impl<'a> Initial<'a> {
    /// The version by whose rules it is protected.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The receiver's connection identifier.
    #[inline]
    #[must_use]
    pub fn dcid(&self) -> &'a [u8] {
        self.dcid
    }

    /// The sender's connection identifier.
    #[inline]
    #[must_use]
    pub fn scid(&self) -> &'a [u8] {
        self.scid
    }

    /// The token of a client that a server or its Retry gave one; empty from servers.
    #[inline]
    #[must_use]
    pub fn token(&self) -> &'a [u8] {
        self.token
    }

    /// Bytes of the packet.
    #[inline]
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// What the header protection is computed from.
    #[inline]
    pub(super) fn sample(&self) -> &'a [u8] {
        let start = self.number_start + field::NUMBER_LEN_MAX;
        self.bytes.get(start..start + field::SAMPLE_LEN).unwrap_or_default()
    }
}

/// The packets that share a datagram (RFC 9000 §12.2), in their order. Ends after the first
/// fault, because where the next packet would begin is not known, and with bytes that are no
/// packet, which some clients pad their datagrams with.
#[derive(Clone, Debug)]
pub struct Datagram<'a> {
    rest: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// Reads a UDP datagram's payload.
    #[inline]
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn read(&mut self) -> Result<Packet<'a>, Fault> {
        let packet = std::mem::take(&mut self.rest);
        let mut rest = Rest(packet);
        let first = rest.u8()?;
        if first & IS_LONG == 0 {
            return Ok(Packet::Short);
        }
        let version = rest.split(field::VERSION_LEN)?;
        let version = version.first_chunk().map_or(0, |&bytes| u32::from_be_bytes(bytes));
        if version == 0 {
            return Ok(Packet::VersionNegotiation);
        }
        let Some(known) = Version::of(version) else { return Ok(Packet::VersionUnknown(version)) };
        let (dcid, scid) = (rest.connection_id()?, rest.connection_id()?);
        let kind = known.kind(first);
        let token = match kind {
            Kind::Retry if rest.0.len() < RETRY_TAG_LEN => return Err(Fault::HeaderShort),
            Kind::Retry => return Ok(Packet::Retry { scid }),
            Kind::Initial => {
                let len = rest.varint().ok_or(Fault::HeaderShort)?;
                rest.split(usize::try_from(len).unwrap_or(usize::MAX))?
            }
            Kind::Other => &[],
        };
        let len = rest.varint().ok_or(Fault::HeaderShort)?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let number_start = packet.len() - rest.0.len();
        let (_, behind) = rest.0.split_at_checked(len).ok_or(Fault::LengthPastEnd)?;
        self.rest = behind;
        if matches!(kind, Kind::Other) {
            return Ok(Packet::Other);
        }
        if len < field::NUMBER_LEN_MAX + field::SAMPLE_LEN {
            return Err(Fault::PacketShort);
        }
        let bytes = packet.get(..number_start + len).unwrap_or_default();
        Ok(Packet::Initial(Initial { version: known, dcid, scid, token, bytes, number_start }))
    }
}

impl<'a> Iterator for Datagram<'a> {
    type Item = Result<Packet<'a>, Fault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // A first byte of zero begins no packet of any version: padding outside of packets.
        if self.rest.first().is_none_or(|&first| first == 0) {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

impl std::iter::FusedIterator for Datagram<'_> {}

/// What is left to read.
#[derive(Clone, Copy)]
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    #[inline]
    fn u8(&mut self) -> Result<u8, Fault> {
        let (&byte, rest) = self.0.split_first().ok_or(Fault::HeaderShort)?;
        self.0 = rest;
        Ok(byte)
    }

    #[inline]
    fn split(&mut self, len: usize) -> Result<&'a [u8], Fault> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Fault::HeaderShort)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn connection_id(&mut self) -> Result<&'a [u8], Fault> {
        let len = usize::from(self.u8()?);
        if len > CONNECTION_ID_LEN_MAX {
            return Err(Fault::ConnectionIdLong);
        }
        self.split(len)
    }

    /// A variable-length integer (RFC 9000 §16): the first two bits say how many bytes it has.
    #[inline]
    pub(super) fn varint(&mut self) -> Option<u64> {
        let (&first, _) = self.0.split_first()?;
        let len = 1_usize << (first >> 6);
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        let start = u64::from(first & 0x3f);
        Some(bytes.iter().skip(1).fold(start, |value, &byte| value << 8 | u64::from(byte)))
    }
}

/// `quic initial, 1,200 bytes to 8394c8f03e515708`, without the comma in the number.
impl fmt::Display for Initial<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quic initial, {} bytes to ", self.bytes.len())?;
        self.dcid.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
