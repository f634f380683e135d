//! GRE (RFC 2784 with the key and sequence number of RFC 2890, and the routing
//! of RFC 1701), and the enhanced GRE of PPTP, version 1 (RFC 2637).
//!
//! ```text
//! |C|R|K|S|s|recur|A| flags | ver |         protocol type         |
//! |  checksum, if C or R          |  offset (reserved), if C or R |
//! |  key, if K (version 1: payload length, call identifier)       |
//! |  sequence number, if S                                        |
//! |  routing, if R                |
//! |  acknowledgment number, if A, in version 1 only               |
//! ```

use std::fmt;

use super::checksum;
use crate::malformed::Malformed;

/// Bytes of a header without optional fields.
pub const HEADER_LEN: usize = 4;

const FLAG_CHECKSUM: u16 = 0x8000;
const FLAG_ROUTING: u16 = 0x4000;
const FLAG_KEY: u16 = 0x2000;
const FLAG_SEQUENCE: u16 = 0x1000;
const FLAG_ACKNOWLEDGMENT: u16 = 0x0080;
const VERSION_MASK: u16 = 0x0007;

/// Bytes of a source route entry's own header (RFC 1701).
const ROUTE_ENTRY_HEADER_LEN: usize = 4;

/// A GRE packet, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Gre<'a> {
    /// The whole header, optional fields included; never below 4 bytes.
    header: &'a [u8],
    payload: &'a [u8],
    flags: u16,
    protocol_type: u16,
}

impl<'a> Gre<'a> {
    /// Reads the header at the start of `bytes`. The layout of versions above 1
    /// is not defined: ask [`version`](Self::version) before going on.
    ///
    /// # Errors
    /// [`Malformed::GreHeaderShort`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (&[a, b, c, d], _) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::GreHeaderShort)?;
        let flags = u16::from_be_bytes([a, b]);
        let mut header_len = fixed_len(flags);
        if flags & FLAG_ROUTING != 0 {
            let routes = bytes.get(header_len..).ok_or(Malformed::GreHeaderShort)?;
            header_len += routing_len(routes).ok_or(Malformed::GreHeaderShort)?;
        }
        let (header, payload) =
            bytes.split_at_checked(header_len).ok_or(Malformed::GreHeaderShort)?;
        Ok(Self { header, payload, flags, protocol_type: u16::from_be_bytes([c, d]) })
    }

    /// Bytes of the header, optional fields included.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        self.header.len()
    }

    /// EtherType of what is carried; 0x6558 is Ethernet, 0x880B PPP.
    #[inline]
    #[must_use]
    pub fn protocol_type(&self) -> u16 {
        self.protocol_type
    }

    /// 0, or 1 for the enhanced GRE of PPTP.
    #[inline]
    #[must_use]
    pub fn version(&self) -> u8 {
        (self.flags & VERSION_MASK).to_le_bytes()[0]
    }

    /// Flags and version: the header's first two bytes.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> u16 {
        self.flags
    }

    /// Checksum of header and payload, if present.
    #[must_use]
    pub fn checksum(&self) -> Option<u16> {
        let word = self.word(FLAG_CHECKSUM, HEADER_LEN)?;
        Some(u16::from_be_bytes([word[0], word[1]]))
    }

    /// Key, if present; in version 1 payload length and call identifier.
    #[inline]
    #[must_use]
    pub fn key(&self) -> Option<u32> {
        self.word(FLAG_KEY, HEADER_LEN + checksum_len(self.flags)).map(u32::from_be_bytes)
    }

    /// Call identifier of enhanced GRE: the key's low half.
    #[must_use]
    pub fn call_id(&self) -> Option<u16> {
        let [_, _, high, low] = self.key().filter(|_| self.version() == 1)?.to_be_bytes();
        Some(u16::from_be_bytes([high, low]))
    }

    /// Sequence number, if present.
    #[inline]
    #[must_use]
    pub fn sequence_number(&self) -> Option<u32> {
        let at = HEADER_LEN + checksum_len(self.flags) + len_if(self.flags, FLAG_KEY);
        self.word(FLAG_SEQUENCE, at).map(u32::from_be_bytes)
    }

    /// Acknowledgment number of enhanced GRE, if present.
    #[must_use]
    pub fn acknowledgment_number(&self) -> Option<u32> {
        // Behind every other fixed field, wherever that ends.
        let at = fixed_len(self.flags).checked_sub(4).filter(|_| self.version() == 1)?;
        self.word(FLAG_ACKNOWLEDGMENT, at).map(u32::from_be_bytes)
    }

    /// Captured bytes behind the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    #[inline]
    fn word(&self, flag: u16, at: usize) -> Option<[u8; 4]> {
        if self.flags & flag == 0 {
            return None;
        }
        self.header.get(at..)?.first_chunk().copied()
    }
}

#[inline]
const fn len_if(flags: u16, flag: u16) -> usize {
    if flags & flag == 0 { 0 } else { 4 }
}

/// Checksum and offset share a word, which is there when either is.
#[inline]
const fn checksum_len(flags: u16) -> usize {
    len_if(flags, FLAG_CHECKSUM | FLAG_ROUTING)
}

/// Bytes of the header without routing.
#[inline]
const fn fixed_len(flags: u16) -> usize {
    let acknowledgment_len =
        if flags & VERSION_MASK == 1 { len_if(flags, FLAG_ACKNOWLEDGMENT) } else { 0 };
    HEADER_LEN
        + checksum_len(flags)
        + len_if(flags, FLAG_KEY)
        + len_if(flags, FLAG_SEQUENCE)
        + acknowledgment_len
}

/// Bytes of the source route entries up to and including the null entry.
/// Bounded by the packet: each turn takes at least four bytes.
fn routing_len(routes: &[u8]) -> Option<usize> {
    let mut rest = routes;
    loop {
        let (&[family_high, family_low, _, len], behind) =
            rest.split_first_chunk::<ROUTE_ENTRY_HEADER_LEN>()?;
        rest = behind.get(usize::from(len)..)?;
        if [family_high, family_low, len] == [0; 3] {
            return Some(routes.len() - rest.len());
        }
    }
}

/// `GREv0, key=0x64, seq 1, proto 0x0800, length 88` (header and payload)
impl fmt::Display for Gre<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GREv{}", self.version())?;
        if let Some(call_id) = self.call_id() {
            write!(f, ", call {call_id}")?;
        } else if let Some(key) = self.key() {
            write!(f, ", key={key:#x}")?;
        }
        if let Some(sequence) = self.sequence_number() {
            write!(f, ", seq {sequence}")?;
        }
        if let Some(acknowledgment) = self.acknowledgment_number() {
            write!(f, ", ack {acknowledgment}")?;
        }
        let len = self.header.len() + self.payload.len();
        write!(f, ", proto {:#06x}, length {len}", self.protocol_type)
    }
}

/// A GRE header as a value; source routing is not represented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GreRepr {
    /// Version 0.
    Standard {
        /// EtherType of what is carried.
        protocol_type: u16,
        /// Whether a checksum is sent.
        has_checksum: bool,
        /// Key.
        key: Option<u32>,
        /// Sequence number.
        sequence_number: Option<u32>,
    },
    /// Version 1, the enhanced GRE of PPTP; carries PPP.
    Enhanced {
        /// Bytes of payload.
        payload_len: u16,
        /// Call identifier of the receiver.
        call_id: u16,
        /// Sequence number; there when there is payload.
        sequence_number: Option<u32>,
        /// Acknowledgment number.
        acknowledgment_number: Option<u32>,
    },
}

/// EtherType of PPP, the only one that enhanced GRE carries.
pub const PROTOCOL_TYPE_PPP: u16 = 0x880b;

impl GreRepr {
    /// The value of a header; `None` for one that is not represented: routing,
    /// a version above 1, or version 1 without a key or without PPP.
    #[must_use]
    pub fn parse(gre: &Gre<'_>) -> Option<Self> {
        if gre.flags & FLAG_ROUTING != 0 {
            return None;
        }
        match gre.version() {
            0 => Some(Self::Standard {
                protocol_type: gre.protocol_type,
                has_checksum: gre.flags & FLAG_CHECKSUM != 0,
                key: gre.key(),
                sequence_number: gre.sequence_number(),
            }),
            1 if gre.protocol_type == PROTOCOL_TYPE_PPP && gre.flags & FLAG_CHECKSUM == 0 => {
                let [a, b, c, d] = gre.key()?.to_be_bytes();
                Some(Self::Enhanced {
                    payload_len: u16::from_be_bytes([a, b]),
                    call_id: u16::from_be_bytes([c, d]),
                    sequence_number: gre.sequence_number(),
                    acknowledgment_number: gre.acknowledgment_number(),
                })
            }
            _ => None,
        }
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        fixed_len(self.flags())
    }

    const fn flags(&self) -> u16 {
        const fn flag_if(is_set: bool, flag: u16) -> u16 {
            if is_set { flag } else { 0 }
        }
        match self {
            Self::Standard { has_checksum, key, sequence_number, .. } => {
                flag_if(*has_checksum, FLAG_CHECKSUM)
                    | flag_if(key.is_some(), FLAG_KEY)
                    | flag_if(sequence_number.is_some(), FLAG_SEQUENCE)
            }
            Self::Enhanced { sequence_number, acknowledgment_number, .. } => {
                FLAG_KEY
                    | flag_if(sequence_number.is_some(), FLAG_SEQUENCE)
                    | flag_if(acknowledgment_number.is_some(), FLAG_ACKNOWLEDGMENT)
                    | 1
            }
        }
    }

    /// Appends the header; a checksum, if any, is 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut put = |word: u32| out.extend_from_slice(&word.to_be_bytes());
        let flags = u32::from(self.flags()) << 16;
        match *self {
            Self::Standard { protocol_type, has_checksum, key, sequence_number } => {
                put(flags | u32::from(protocol_type));
                if has_checksum {
                    put(0);
                }
                key.into_iter().chain(sequence_number).for_each(put);
            }
            Self::Enhanced { payload_len, call_id, sequence_number, acknowledgment_number } => {
                put(flags | u32::from(PROTOCOL_TYPE_PPP));
                put(u32::from(payload_len) << 16 | u32::from(call_id));
                sequence_number.into_iter().chain(acknowledgment_number).for_each(put);
            }
        }
    }

    /// Appends header and payload, the checksum included if there is one.
    pub fn emit_packet(&self, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.emit(out);
        out.extend_from_slice(payload);
        if matches!(self, Self::Standard { has_checksum: true, .. }) {
            let sum = checksum::checksum(out.get(start..).unwrap_or_default());
            checksum::write(out, start, HEADER_LEN, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checksum, key and sequence number around an IPv4 packet; crafted with
    /// Scapy 2.6, checksum found good by TShark.
    const STANDARD: [u8; 44] = [
        0xb0, 0x00, 0x08, 0x00, 0x5b, 0xb0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x64, 0x00, 0x00, 0x00,
        0x07, 0x45, 0x00, 0x00, 0x1c, 0x00, 0x01, 0x00, 0x00, 0x40, 0x11, 0x66, 0xce, 0x0a, 0x00,
        0x00, 0x01, 0x0a, 0x00, 0x00, 0x02, 0x00, 0x01, 0x00, 0x02, 0x00, 0x08, 0xeb, 0xd8,
    ];
    /// Enhanced GRE with four bytes of PPP; values as TShark shows them.
    const ENHANCED: [u8; 20] = [
        0x30, 0x81, 0x88, 0x0b, 0x00, 0x04, 0x17, 0x80, 0x00, 0x06, 0x8f, 0xb1, 0x00, 0x08, 0x3a,
        0x76, 0xff, 0x03, 0x00, 0x21,
    ];

    #[test]
    fn reads_and_tells_version_0() {
        let gre = Gre::new(&STANDARD).unwrap();
        assert_eq!((gre.version(), gre.protocol_type(), gre.header_len()), (0, 0x0800, 16));
        assert_eq!(gre.checksum(), Some(0x5bb0));
        assert_eq!((gre.key(), gre.sequence_number()), (Some(100), Some(7)));
        assert_eq!((gre.call_id(), gre.acknowledgment_number()), (None, None));
        assert_eq!(gre.payload()[0], 0x45);
        assert_eq!(gre.to_string(), "GREv0, key=0x64, seq 7, proto 0x0800, length 44");

        let plain = Gre::new(&[0, 0, 0x65, 0x58]).unwrap();
        assert_eq!((plain.header_len(), plain.key(), plain.sequence_number()), (4, None, None));
        assert_eq!(plain.to_string(), "GREv0, proto 0x6558, length 4");
    }

    #[test]
    fn reads_and_tells_version_1() {
        let gre = Gre::new(&ENHANCED).unwrap();
        assert_eq!((gre.version(), gre.protocol_type(), gre.header_len()), (1, 0x880b, 16));
        assert_eq!((gre.call_id(), gre.sequence_number()), (Some(6016), Some(430_001)));
        assert_eq!(gre.acknowledgment_number(), Some(539_254));
        assert_eq!(gre.payload(), [0xff, 0x03, 0x00, 0x21]);
        assert_eq!(
            gre.to_string(),
            "GREv1, call 6016, seq 430001, ack 539254, proto 0x880b, length 20"
        );
        // An acknowledgment without data: no sequence number before it.
        let bytes = [0x20, 0x81, 0x88, 0x0b, 0, 0, 0x17, 0x80, 0, 0, 0, 9];
        let gre = Gre::new(&bytes).unwrap();
        assert_eq!((gre.sequence_number(), gre.acknowledgment_number()), (None, Some(9)));
    }

    #[test]
    fn the_a_flag_means_nothing_in_version_0() {
        let gre = Gre::new(&[0x00, 0x80, 0x08, 0x00]).unwrap();
        assert_eq!((gre.header_len(), gre.acknowledgment_number()), (4, None));
    }

    #[test]
    fn routing_of_rfc_1701_ends_at_the_null_entry() {
        let mut bytes = vec![0x60, 0, 0x08, 0, 0, 0, 0, 0, 0, 0, 0, 5];
        bytes.extend([0x08, 0x00, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        bytes.extend([0x00, 0x00, 0, 0, 0x45]);
        let gre = Gre::new(&bytes).unwrap();
        assert_eq!((gre.header_len(), gre.payload()), (28, &[0x45][..]));
        assert_eq!((gre.key(), gre.checksum()), (Some(5), None), "the checksum word is unused");
        assert_eq!(GreRepr::parse(&gre), None);
        for len in 0..28 {
            assert_eq!(Gre::new(&bytes[..len]).unwrap_err(), Malformed::GreHeaderShort);
        }
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        for bytes in [&STANDARD, &ENHANCED[..]] {
            for len in 0..16 {
                assert_eq!(Gre::new(&bytes[..len]).unwrap_err(), Malformed::GreHeaderShort);
            }
            assert!(Gre::new(&bytes[..16]).is_ok());
        }
    }

    #[test]
    fn emits_the_same_bytes_with_the_checksum_tshark_wants() {
        for bytes in [&STANDARD[..], &ENHANCED] {
            let gre = Gre::new(bytes).unwrap();
            let mut out = Vec::new();
            GreRepr::parse(&gre).unwrap().emit_packet(gre.payload(), &mut out);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn what_the_value_does_not_represent_is_none() {
        let parse = |bytes: &[u8]| GreRepr::parse(&Gre::new(bytes).unwrap());
        assert_eq!(parse(&[0x00, 0x02, 0x08, 0x00]), None, "version 2");
        assert_eq!(parse(&[0x00, 0x01, 0x88, 0x0b]), None, "version 1 without key");
        assert_eq!(parse(&[0x20, 0x01, 0x08, 0x00, 0, 0, 0, 0]), None, "version 1 without PPP");
    }

    fn any_repr() -> impl Strategy<Value = GreRepr> {
        let standard = any::<(u16, bool, Option<u32>, Option<u32>)>().prop_map(
            |(protocol_type, has_checksum, key, sequence_number)| GreRepr::Standard {
                protocol_type,
                has_checksum,
                key,
                sequence_number,
            },
        );
        let enhanced = any::<(u16, u16, Option<u32>, Option<u32>)>().prop_map(
            |(payload_len, call_id, sequence_number, acknowledgment_number)| GreRepr::Enhanced {
                payload_len,
                call_id,
                sequence_number,
                acknowledgment_number,
            },
        );
        prop_oneof![standard, enhanced]
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(value in any_repr()) {
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(GreRepr::parse(&Gre::new(&bytes).unwrap()), Some(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(gre) = Gre::new(&bytes) {
                prop_assert!(gre.header_len() + gre.payload().len() == bytes.len());
                let _ = (gre.to_string(), gre.checksum(), gre.flags(), GreRepr::parse(&gre));
            }
        }
    }
}
