//! GTP-U, the user plane of GPRS tunnelling, version 1 (3GPP TS 29.281 §5).
//!
//! ```text
//! | version 001 |PT| 0| E| S|PN| message type  |      length      |
//! |                tunnel endpoint identifier (TEID)              |
//! |  sequence number              |  N-PDU number | next extension|  if E, S or PN
//! |  length / 4   | ... extension ...             | next extension|  while not 0
//! ```
//!
//! `length` counts what follows the first eight bytes.

use std::fmt;

use crate::malformed::Malformed;

/// Bytes of a header without optional fields.
pub const HEADER_LEN: usize = 8;
/// The UDP port that IANA assigned.
pub const PORT: u16 = 2152;
/// Message type of a packet of the user (T-PDU).
pub const MESSAGE_GPDU: u8 = 255;

const VERSION_AND_PT_MASK: u8 = 0xf0;
const VERSION_1_GTP: u8 = 0x30;
const FLAG_EXTENSION: u8 = 0x04;
const FLAG_SEQUENCE: u8 = 0x02;
const FLAG_N_PDU: u8 = 0x01;
const FLAGS_OPTIONAL: u8 = FLAG_EXTENSION | FLAG_SEQUENCE | FLAG_N_PDU;
/// Sequence number, N-PDU number and next extension: there together or not at all.
const OPTIONAL_LEN: usize = 4;

/// A GTP-U message, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Gtpu<'a> {
    header: &'a [u8; HEADER_LEN],
    /// What follows the fixed part within the header.
    optional: &'a [u8],
    payload: &'a [u8],
}

/// One extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GtpuExtension<'a> {
    /// Extension header type; 0x85 is the PDU session container of 5G.
    pub extension_type: u8,
    /// The content, without length and next type.
    pub content: &'a [u8],
}

/// The extension headers of a message, in order.
#[derive(Clone, Debug)]
pub struct GtpuExtensionIter<'a> {
    next_type: u8,
    rest: &'a [u8],
}

impl<'a> Gtpu<'a> {
    /// Reads the header at the start of `bytes`, all extension headers
    /// included. Where [`is_user_plane`](Self::is_user_plane) says no, only the
    /// first eight bytes are read: other versions have another layout.
    ///
    /// # Errors
    /// [`Malformed::GtpuHeaderShort`], also where an extension reaches past
    /// the message's length or has a length of 0.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::GtpuHeaderShort)?;
        let flags = header[0];
        let is_plain = flags & VERSION_AND_PT_MASK != VERSION_1_GTP || flags & FLAGS_OPTIONAL == 0;
        let optional_len = if is_plain {
            0
        } else {
            let message_len = usize::from(u16::from_be_bytes([header[2], header[3]]));
            optional_len(flags, rest.get(..message_len).unwrap_or(rest))
                .ok_or(Malformed::GtpuHeaderShort)?
        };
        let (optional, payload) =
            rest.split_at_checked(optional_len).ok_or(Malformed::GtpuHeaderShort)?;
        Ok(Self { header, optional, payload })
    }

    /// Whether this is version 1 with PT set: GTP, not the charging protocol GTP'.
    #[inline]
    #[must_use]
    pub fn is_user_plane(&self) -> bool {
        self.header[0] & VERSION_AND_PT_MASK == VERSION_1_GTP
    }

    /// Version: the first three bits.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        self.header[0] >> 5
    }

    /// Bytes of the header, optional fields and extension headers included.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.optional.len()
    }

    /// Message type; [`MESSAGE_GPDU`] carries a user's packet.
    #[inline]
    #[must_use]
    pub fn message_type(&self) -> u8 {
        self.header[1]
    }

    /// Bytes behind the first eight, as the header gives them.
    #[inline]
    #[must_use]
    pub fn length(&self) -> u16 {
        u16::from_be_bytes([self.header[2], self.header[3]])
    }

    /// Tunnel endpoint identifier.
    #[inline]
    #[must_use]
    pub fn teid(&self) -> u32 {
        let [_, _, _, _, a, b, c, d] = *self.header;
        u32::from_be_bytes([a, b, c, d])
    }

    /// Sequence number, if present.
    #[must_use]
    pub fn sequence_number(&self) -> Option<u16> {
        let &[high, low] = self.optional.first_chunk().filter(|_| self.has(FLAG_SEQUENCE))?;
        Some(u16::from_be_bytes([high, low]))
    }

    /// N-PDU number, if present.
    #[must_use]
    pub fn n_pdu_number(&self) -> Option<u8> {
        self.optional.get(2).copied().filter(|_| self.has(FLAG_N_PDU))
    }

    /// The extension headers in order.
    #[must_use]
    pub fn extensions(&self) -> GtpuExtensionIter<'a> {
        let next_type = self.optional.get(3).copied().filter(|_| self.has(FLAG_EXTENSION));
        GtpuExtensionIter {
            next_type: next_type.unwrap_or_default(),
            rest: self.optional.get(OPTIONAL_LEN..).unwrap_or_default(),
        }
    }

    /// Captured bytes behind the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    #[inline]
    fn has(&self, flag: u8) -> bool {
        self.header[0] & flag != 0
    }
}

/// Bytes of the optional fields and of all extension headers at the start of
/// `message`. Bounded by the message: each extension takes at least four bytes.
fn optional_len(flags: u8, message: &[u8]) -> Option<usize> {
    let (&[_, _, _, next_type], extensions) = message.split_first_chunk::<OPTIONAL_LEN>()?;
    if flags & FLAG_EXTENSION == 0 {
        return Some(OPTIONAL_LEN);
    }
    let mut iter = GtpuExtensionIter { next_type, rest: extensions };
    iter.by_ref().for_each(drop);
    // A type left over is an extension that was promised and could not be read.
    (iter.next_type == 0).then(|| message.len() - iter.rest.len())
}

impl<'a> Iterator for GtpuExtensionIter<'a> {
    type Item = GtpuExtension<'a>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next_type == 0 {
            return None;
        }
        let len = usize::from(*self.rest.first()?) * 4;
        let (extension, rest) = self.rest.split_at_checked(len)?;
        let [_, content @ .., next_type] = extension else { return None };
        let extension_type = std::mem::replace(&mut self.next_type, *next_type);
        self.rest = rest;
        Some(GtpuExtension { extension_type, content })
    }
}

/// A GTP-U header as a value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GtpuRepr {
    /// Message type.
    pub message_type: u8,
    /// Tunnel endpoint identifier.
    pub teid: u32,
    /// Sequence number.
    pub sequence_number: Option<u16>,
    /// N-PDU number.
    pub n_pdu_number: Option<u8>,
    /// Extension headers in order.
    pub extensions: Vec<GtpuExtensionRepr>,
    /// Bytes of payload; what does not fit the length field is not counted.
    pub payload_len: u16,
}

/// An extension header as a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GtpuExtensionRepr {
    extension_type: u8,
    content: Vec<u8>,
}

impl GtpuExtensionRepr {
    /// An extension, or `None` where the type is 0 (which ends the chain) or
    /// the content does not fill words of four bytes with two left over.
    #[must_use]
    pub fn new(extension_type: u8, content: &[u8]) -> Option<Self> {
        let len = content.len().saturating_add(2);
        let is_valid = extension_type != 0 && len.is_multiple_of(4) && len <= 255 * 4;
        is_valid.then(|| Self { extension_type, content: content.to_vec() })
    }
}

impl GtpuRepr {
    /// The value of a header, or `None` where it is not version 1 with PT.
    #[must_use]
    pub fn parse(gtpu: &Gtpu<'_>) -> Option<Self> {
        let optional_len = u16::try_from(gtpu.optional.len()).ok()?;
        let extension = |extension: GtpuExtension<'_>| GtpuExtensionRepr {
            extension_type: extension.extension_type,
            content: extension.content.to_vec(),
        };
        gtpu.is_user_plane().then(|| Self {
            message_type: gtpu.message_type(),
            teid: gtpu.teid(),
            sequence_number: gtpu.sequence_number(),
            n_pdu_number: gtpu.n_pdu_number(),
            extensions: gtpu.extensions().map(extension).collect(),
            payload_len: gtpu.length().saturating_sub(optional_len),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        let extensions_len: usize =
            self.extensions.iter().map(|extension| extension.content.len() + 2).sum();
        let optional_len = if self.flags() == 0 { 0 } else { OPTIONAL_LEN };
        HEADER_LEN + optional_len + extensions_len
    }

    fn flags(&self) -> u8 {
        let mut flags = 0;
        if !self.extensions.is_empty() {
            flags |= FLAG_EXTENSION;
        }
        if self.sequence_number.is_some() {
            flags |= FLAG_SEQUENCE;
        }
        if self.n_pdu_number.is_some() {
            flags |= FLAG_N_PDU;
        }
        flags
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let flags = self.flags();
        let length = (self.header_len() - HEADER_LEN).saturating_add(usize::from(self.payload_len));
        let length = u16::try_from(length).unwrap_or(u16::MAX);
        out.extend_from_slice(&[VERSION_1_GTP | flags, self.message_type]);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.teid.to_be_bytes());
        if flags == 0 {
            return;
        }
        out.extend_from_slice(&self.sequence_number.unwrap_or_default().to_be_bytes());
        out.push(self.n_pdu_number.unwrap_or_default());
        let next_types = self.extensions.iter().map(|extension| extension.extension_type);
        let mut next_types = next_types.chain([0]);
        out.extend(next_types.next());
        for (extension, next_type) in self.extensions.iter().zip(next_types) {
            // At most 255: the extension's constructor sees to it.
            out.push(((extension.content.len() + 2) / 4).to_le_bytes()[0]);
            out.extend_from_slice(&extension.content);
            out.push(next_type);
        }
    }
}

/// `GTP-U, type 255, teid 0x1, seq 2, ext 0x85, length 84`
impl fmt::Display for Gtpu<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_user_plane() {
            return write!(f, "GTP version {}, flags {:#04x}", self.version(), self.header[0]);
        }
        write!(f, "GTP-U, type {}, teid {:#x}", self.message_type(), self.teid())?;
        if let Some(sequence) = self.sequence_number() {
            write!(f, ", seq {sequence}")?;
        }
        for extension in self.extensions() {
            write!(f, ", ext {:#04x}", extension.extension_type)?;
        }
        write!(f, ", length {}", self.length())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Crafted with Scapy 2.6, values as TShark shows them; the start of an
    /// IPv4 packet of 28 or 20 bytes follows.
    const SEQUENCED: [u8; 14] =
        [0x32, 0xff, 0x00, 0x20, 0x12, 0x34, 0x56, 0x78, 0x00, 0x09, 0x00, 0x00, 0x45, 0x00];
    const EXTENDED: [u8; 18] = [
        0x34, 0xff, 0x00, 0x24, 0x12, 0x34, 0x56, 0x78, 0x00, 0x00, 0x00, 0x85, 0x01, 0x10, 0x09,
        0x00, 0x45, 0x00,
    ];

    #[test]
    fn reads_and_tells() {
        let gtpu = Gtpu::new(&SEQUENCED).unwrap();
        assert!(gtpu.is_user_plane());
        assert_eq!((gtpu.message_type(), gtpu.teid()), (MESSAGE_GPDU, 0x1234_5678));
        assert_eq!((gtpu.header_len(), gtpu.length()), (12, 32));
        assert_eq!((gtpu.sequence_number(), gtpu.n_pdu_number()), (Some(9), None));
        assert_eq!(gtpu.payload(), [0x45, 0x00]);
        assert_eq!(gtpu.to_string(), "GTP-U, type 255, teid 0x12345678, seq 9, length 32");

        let gtpu = Gtpu::new(&EXTENDED).unwrap();
        let extension = GtpuExtension { extension_type: 0x85, content: &[0x10, 0x09] };
        assert_eq!(gtpu.extensions().collect::<Vec<_>>(), [extension]);
        assert_eq!((gtpu.header_len(), gtpu.sequence_number()), (16, None));
        assert_eq!(gtpu.to_string(), "GTP-U, type 255, teid 0x12345678, ext 0x85, length 36");
    }

    #[test]
    fn a_header_without_options_is_eight_bytes() {
        let gtpu = Gtpu::new(&[0x30, 0x01, 0, 4, 0, 0, 0, 0, 1, 2, 3, 4]).unwrap();
        assert_eq!((gtpu.header_len(), gtpu.payload().len()), (8, 4));
        assert_eq!(gtpu.extensions().next(), None);
    }

    #[test]
    fn without_the_flag_the_next_type_means_nothing() {
        let mut bytes = SEQUENCED;
        bytes[11] = 0x85;
        let gtpu = Gtpu::new(&bytes).unwrap();
        assert_eq!((gtpu.header_len(), gtpu.extensions().count()), (12, 0));
    }

    #[test]
    fn other_versions_are_not_looked_into() {
        for first in [0x24, 0x54, 0x14] {
            let mut bytes = EXTENDED;
            bytes[0] = first;
            let gtpu = Gtpu::new(&bytes[..8]).unwrap();
            assert!(!gtpu.is_user_plane());
            assert_eq!(gtpu.header_len(), 8);
            assert_eq!(GtpuRepr::parse(&gtpu), None);
            assert!(gtpu.to_string().starts_with("GTP version "));
        }
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        let short = Malformed::GtpuHeaderShort;
        for len in 0..12 {
            assert_eq!(Gtpu::new(&SEQUENCED[..len]).unwrap_err(), short);
        }
        for len in 0..16 {
            assert_eq!(Gtpu::new(&EXTENDED[..len]).unwrap_err(), short);
        }
        // Extension of length 0, one that is too long, a chain that goes on
        // behind the end, and a message too short for its own options.
        for (at, value) in [(12, 0), (12, 2), (15, 0x85), (3, 3), (3, 7)] {
            let mut bytes = EXTENDED;
            bytes[at] = value;
            assert_eq!(Gtpu::new(&bytes).unwrap_err(), short, "byte {at} set to {value}");
        }
    }

    #[test]
    fn an_extension_fills_words() {
        assert!(GtpuExtensionRepr::new(0x85, &[1, 2]).is_some());
        assert!(GtpuExtensionRepr::new(0x85, &[0; 1018]).is_some());
        assert_eq!(GtpuExtensionRepr::new(0, &[1, 2]), None);
        assert_eq!(GtpuExtensionRepr::new(0x85, &[]), None);
        assert_eq!(GtpuExtensionRepr::new(0x85, &[1, 2, 3]), None);
        assert_eq!(GtpuExtensionRepr::new(0x85, &[0; 1022]), None);
    }

    #[test]
    fn emits_the_same_bytes() {
        for (bytes, header_len) in [(&SEQUENCED[..], 12), (&EXTENDED, 16)] {
            let mut out = Vec::new();
            GtpuRepr::parse(&Gtpu::new(bytes).unwrap()).unwrap().emit(&mut out);
            assert_eq!(out, bytes[..header_len]);
        }
    }

    prop_compose! {
        fn any_repr()(
            message_type: u8, teid: u32, sequence_number: Option<u16>, n_pdu_number: Option<u8>,
            payload_len in 0..60_000u16,
            words in prop::collection::vec((1..=u8::MAX, 0..6usize), 0..4),
        ) -> GtpuRepr {
            let extensions = words
                .into_iter()
                .map(|(kind, words)| GtpuExtensionRepr::new(kind, &vec![7; words * 4 + 2]).unwrap())
                .collect();
            GtpuRepr { message_type, teid, sequence_number, n_pdu_number, extensions, payload_len }
        }
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(value in any_repr()) {
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(GtpuRepr::parse(&Gtpu::new(&bytes).unwrap()), Some(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            mut bytes in prop::collection::vec(any::<u8>(), 4..48), is_plain: bool,
        ) {
            if is_plain {
                bytes[0] = bytes[0] & 0x07 | VERSION_1_GTP;
                bytes[2] = 0;
            }
            if let Ok(gtpu) = Gtpu::new(&bytes) {
                prop_assert!(gtpu.extensions().count() * 4 <= bytes.len());
                let _ = (gtpu.to_string(), gtpu.n_pdu_number(), GtpuRepr::parse(&gtpu));
            }
        }
    }
}
