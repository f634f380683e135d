//! IPv4 (RFC 791 §3.1): version 4, header length in words, type of service,
//! total length; identification, flags, fragment offset; time to live,
//! protocol, header checksum; source; destination; options up to 40 bytes.

use std::fmt;
use std::net::Ipv4Addr;

use crate::layers::Protocol;
use crate::malformed::Malformed;
use crate::wire::checksum::checksum;
use crate::wire::ipv4_options::{Ipv4Options, OPTIONS_LEN_MAX};

/// Byte offsets.
mod field {
    pub(super) const TYPE_OF_SERVICE: usize = 1;
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
    pub(super) const FLAGS_AND_OFFSET: usize = 6;
    pub(super) const TIME_TO_LIVE: usize = 8;
    pub(super) const PROTOCOL: usize = 9;
    pub(super) const CHECKSUM: usize = 10;
    pub(super) const SOURCE: usize = 12;
    pub(super) const DESTINATION: usize = 16;
}

/// Bytes of the header without options.
pub const HEADER_LEN: usize = 20;
/// Don't fragment, among flags and fragment offset.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// More fragments, among flags and fragment offset.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The fragment offset in 8-byte units, among flags and fragment offset.
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// An IPv4 header.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a> {
    header: &'a [u8; HEADER_LEN],
    bytes: &'a [u8],
}

impl<'a> Ipv4<'a> {
    /// Wants the fixed header whole; options may lie beyond `bytes`, so that the
    /// addresses of a packet that was cut there can be read.
    ///
    /// # Errors
    /// [`Malformed::Ipv4HeaderShort`], [`Malformed::Ipv4VersionWrong`],
    /// [`Malformed::Ipv4HeaderLengthSmall`], [`Malformed::Ipv4TotalLengthSmall`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let header: &[u8; HEADER_LEN] = bytes.first_chunk().ok_or(Malformed::Ipv4HeaderShort)?;
        let view = Self { header, bytes };
        if header[0] >> 4 != 4 {
            return Err(Malformed::Ipv4VersionWrong);
        }
        if view.header_len() < HEADER_LEN {
            return Err(Malformed::Ipv4HeaderLengthSmall);
        }
        if view.total_length() != 0 && usize::from(view.total_length()) < view.header_len() {
            return Err(Malformed::Ipv4TotalLengthSmall);
        }
        Ok(view)
    }

    /// Bytes of the header with options, present or not.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.header[0] & 0x0f) * 4
    }

    /// Explicit congestion notification (RFC 3168 §5): 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
    #[inline]
    #[must_use]
    pub fn ecn(&self) -> u8 {
        self.header[field::TYPE_OF_SERVICE] & 3
    }

    /// Differentiated services code point.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.header[field::TYPE_OF_SERVICE] >> 2
    }

    /// Bytes of header and payload; 0 before segmentation offload.
    #[inline]
    #[must_use]
    pub fn total_length(&self) -> u16 {
        self.word(field::TOTAL_LENGTH)
    }

    /// Identification, the same in all fragments of a packet.
    #[inline]
    #[must_use]
    pub fn identification(&self) -> u16 {
        self.word(field::IDENTIFICATION)
    }

    /// Don't fragment.
    #[inline]
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        self.word(field::FLAGS_AND_OFFSET) & DONT_FRAGMENT != 0
    }

    /// Whether another fragment follows.
    #[inline]
    #[must_use]
    pub fn more_fragments(&self) -> bool {
        self.word(field::FLAGS_AND_OFFSET) & MORE_FRAGMENTS != 0
    }

    /// Where this fragment lies, in bytes.
    #[inline]
    #[must_use]
    pub fn fragment_offset(&self) -> u16 {
        (self.word(field::FLAGS_AND_OFFSET) & FRAGMENT_OFFSET) << 3
    }

    /// Whether this is a part of a larger packet.
    #[inline]
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.word(field::FLAGS_AND_OFFSET) & (MORE_FRAGMENTS | FRAGMENT_OFFSET) != 0
    }

    /// Time to live in hops.
    #[inline]
    #[must_use]
    pub fn time_to_live(&self) -> u8 {
        self.header[field::TIME_TO_LIVE]
    }

    /// What follows.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        Protocol(self.header[field::PROTOCOL])
    }

    /// Header checksum as sent; often 0 where the interface computes it.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.word(field::CHECKSUM)
    }

    /// Source address.
    #[inline]
    #[must_use]
    pub fn source(&self) -> Ipv4Addr {
        self.address(field::SOURCE)
    }

    /// Destination address.
    #[inline]
    #[must_use]
    pub fn destination(&self) -> Ipv4Addr {
        self.address(field::DESTINATION)
    }

    /// Bytes of options, as far as they are there.
    #[inline]
    #[must_use]
    pub fn option_bytes(&self) -> &'a [u8] {
        let end = self.header_len().min(self.bytes.len());
        self.bytes.get(HEADER_LEN..end).unwrap_or_default()
    }

    /// The options in order.
    #[inline]
    #[must_use]
    pub fn options(&self) -> Ipv4Options<'a> {
        Ipv4Options::new(self.option_bytes())
    }

    /// # Errors
    /// [`Malformed::Ipv4OptionWrong`].
    pub fn check_options(&self) -> Result<(), Malformed> {
        self.options().try_for_each(|option| option.map(|_| ()))
    }

    #[inline]
    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    #[inline]
    fn address(&self, at: usize) -> Ipv4Addr {
        Ipv4Addr::new(
            self.header[at],
            self.header[at + 1],
            self.header[at + 2],
            self.header[at + 3],
        )
    }
}

/// An IPv4 header as a value. Its checksum is computed when it is emitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ipv4Repr {
    /// Type of service: 6 bits of differentiated services, 2 of congestion notification.
    pub type_of_service: u8,
    /// Bytes of header and payload.
    pub total_length: u16,
    /// Identification.
    pub identification: u16,
    /// Don't fragment.
    pub dont_fragment: bool,
    /// Whether another fragment follows.
    pub more_fragments: bool,
    /// Where this fragment lies, in bytes; the low three bits are not emitted.
    pub fragment_offset: u16,
    /// Time to live in hops.
    pub time_to_live: u8,
    /// What follows.
    pub protocol: Protocol,
    /// Source address.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// Bytes of options: a multiple of 4, 40 at most; other lengths are padded or cut.
    pub options: Vec<u8>,
}

impl Ipv4Repr {
    /// # Errors
    /// [`Malformed::Ipv4HeaderLengthLong`] where options are missing,
    /// [`Malformed::Ipv4OptionWrong`] where one is wrong.
    pub fn parse(view: &Ipv4<'_>) -> Result<Self, Malformed> {
        if view.bytes.len() < view.header_len() {
            return Err(Malformed::Ipv4HeaderLengthLong);
        }
        view.check_options()?;
        Ok(Self {
            type_of_service: view.header[field::TYPE_OF_SERVICE],
            total_length: view.total_length(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            more_fragments: view.more_fragments(),
            fragment_offset: view.fragment_offset(),
            time_to_live: view.time_to_live(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
            options: view.option_bytes().to_vec(),
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len().min(OPTIONS_LEN_MAX).next_multiple_of(4)
    }

    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut header = [0_u8; HEADER_LEN + OPTIONS_LEN_MAX];
        let len = self.header_len();
        // 15 words at most.
        header[0] = 0x40 | u8::try_from(len / 4).unwrap_or(5);
        header[field::TYPE_OF_SERVICE] = self.type_of_service;
        let flags_and_offset = self.fragment_offset >> 3
            | if self.dont_fragment { DONT_FRAGMENT } else { 0 }
            | if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        let words = [
            (field::TOTAL_LENGTH, self.total_length),
            (field::IDENTIFICATION, self.identification),
            (field::FLAGS_AND_OFFSET, flags_and_offset),
        ];
        for (at, word) in words {
            header[at..at + 2].copy_from_slice(&word.to_be_bytes());
        }
        header[field::TIME_TO_LIVE] = self.time_to_live;
        header[field::PROTOCOL] = self.protocol.0;
        header[field::SOURCE..][..4].copy_from_slice(&self.source.octets());
        header[field::DESTINATION..][..4].copy_from_slice(&self.destination.octets());
        for (to, from) in header[HEADER_LEN..].iter_mut().zip(&self.options) {
            *to = *from;
        }
        let sum = checksum(&header[..len]);
        header[field::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
        out.extend_from_slice(&header[..len]);
    }
}

impl fmt::Display for Ipv4<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "IP {} > {}: {}, ttl {}, id {}, length {}",
            self.source(),
            self.destination(),
            self.protocol(),
            self.time_to_live(),
            self.identification(),
            self.total_length()
        )?;
        if self.is_fragment() {
            let more = if self.more_fragments() { "+" } else { "" };
            write!(f, ", offset {}{more}", self.fragment_offset())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The header that RFC 1071's readers know from Wikipedia: checksum 0xb861.
    const BYTES: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];

    #[test]
    fn reads_and_tells() {
        let view = Ipv4::new(&BYTES).unwrap();
        assert!(view.dont_fragment() && !view.is_fragment());
        assert_eq!(
            view.to_string(),
            "IP 192.168.0.1 > 192.168.0.199: udp, ttl 64, id 0, length 115"
        );
        let mut fragment = BYTES;
        fragment[6..8].copy_from_slice(&[0x20, 0xb9]);
        assert!(Ipv4::new(&fragment).unwrap().to_string().ends_with(", offset 1480+"));
    }

    #[test]
    fn emit_computes_the_checksum() {
        let mut bytes = Vec::new();
        Ipv4Repr::parse(&Ipv4::new(&BYTES).unwrap()).unwrap().emit(&mut bytes);
        assert_eq!(bytes, BYTES);
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        let refused = |at: usize, value: u8| {
            let mut bytes = BYTES;
            bytes[at] = value;
            Ipv4::new(&bytes).unwrap_err()
        };
        assert_eq!(Ipv4::new(&BYTES[..19]).unwrap_err(), Malformed::Ipv4HeaderShort);
        assert_eq!(refused(0, 0x65), Malformed::Ipv4VersionWrong);
        assert_eq!(refused(0, 0x44), Malformed::Ipv4HeaderLengthSmall);
        assert_eq!(refused(3, 19), Malformed::Ipv4TotalLengthSmall);
    }

    #[test]
    fn a_value_needs_its_options() {
        let mut bytes = BYTES.to_vec();
        bytes[0] = 0x46;
        let cut = Ipv4::new(&bytes).unwrap();
        assert_eq!((cut.header_len(), cut.option_bytes()), (24, &[][..]));
        assert_eq!(Ipv4Repr::parse(&cut), Err(Malformed::Ipv4HeaderLengthLong));
        bytes.extend([7, 1, 0, 0]);
        let wrong = Ipv4::new(&bytes).unwrap();
        assert_eq!(Ipv4Repr::parse(&wrong), Err(Malformed::Ipv4OptionWrong));
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(
            numbers in any::<(u8, u16, u16, u8, u8)>(), flags in any::<(bool, bool)>(),
            offset: u16, addresses in any::<([u8; 4], [u8; 4])>(), alerts in 0_usize..=10,
        ) {
            let (type_of_service, length, identification, time_to_live, protocol) = numbers;
            let value = Ipv4Repr {
                type_of_service,
                total_length: length.max(60),
                identification,
                dont_fragment: flags.0,
                more_fragments: flags.1,
                fragment_offset: offset & !7,
                time_to_live,
                protocol: Protocol(protocol),
                source: addresses.0.into(),
                destination: addresses.1.into(),
                options: [148, 4, 0, 0].repeat(alerts),
            };
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(checksum(&bytes), 0);
            prop_assert_eq!(Ipv4Repr::parse(&Ipv4::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 18..70)) {
            bytes[0] = bytes[0] & 0x0f | 0x40;
            if let Ok(view) = Ipv4::new(&bytes) {
                let _ = (view.to_string(), view.dscp(), view.ecn(), view.checksum());
                let _ = Ipv4Repr::parse(&view);
            }
        }
    }
}
