//! TCP (RFC 9293, which replaces RFC 793).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |          source port          |       destination port        |
//! |                        sequence number                        |
//! |                    acknowledgment number                      |
//! |offset |rsv|AE|flags           |            window             |
//! |           checksum            |        urgent pointer         |
//! |               options, up to 40 bytes, padded to 4            |
//! ```
//!
//! The options have a file of their own, [`tcp_options`](super::tcp_options).

use std::cmp::Ordering;
use std::fmt;

use super::checksum::{self, PseudoHeader};
use super::tcp_options::{TcpOptionIter, TcpOptions};
use crate::layers::Protocol;
use crate::malformed::Malformed;

mod field {
    pub(super) const SOURCE_PORT: usize = 0;
    pub(super) const DESTINATION_PORT: usize = 2;
    pub(super) const SEQUENCE_NUMBER: usize = 4;
    pub(super) const ACKNOWLEDGMENT_NUMBER: usize = 8;
    pub(super) const OFFSET_AND_FLAGS: usize = 12;
    pub(super) const WINDOW: usize = 14;
    pub(super) const CHECKSUM: usize = 16;
    pub(super) const URGENT_POINTER: usize = 18;
}

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of the longest header: a data offset of 15 words.
pub const HEADER_LEN_MAX: usize = 60;

/// A place in the circular space of sequence numbers.
///
/// No `Ord`: "before" on a circle is not transitive, so sorting by it would
/// give an answer that depends on the order of the input.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Bytes from `earlier` to here; negative where `earlier` lies ahead.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// This many bytes further on.
    #[inline]
    #[must_use]
    pub const fn plus(self, byte_count: u32) -> Self {
        Self(self.0.wrapping_add(byte_count))
    }

    /// Whether this comes before `other`, across the wrap.
    #[inline]
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.since(other) < 0 && self.since(other) != i32::MIN
    }

    /// Whether this comes after `other`, across the wrap.
    #[inline]
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.since(other) > 0
    }

    /// Comparison of RFC 1982 §3.2: `None` for two numbers 2³¹ apart, each of
    /// which is as much before the other as behind it.
    #[inline]
    #[must_use]
    pub fn compare(self, other: Self) -> Option<Ordering> {
        let distance = self.since(other);
        (distance != i32::MIN).then(|| distance.cmp(&0))
    }
}

impl fmt::Display for SeqNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The twelve control bits, the reserved ones among them included, so that the
/// number is the one Wireshark shows as `tcp.flags`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TcpFlags(u16);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(1 << 1);
    /// Reset the connection.
    pub const RST: Self = Self(1 << 2);
    /// Push.
    pub const PSH: Self = Self(1 << 3);
    /// The acknowledgment number means something.
    pub const ACK: Self = Self(1 << 4);
    /// The urgent pointer means something.
    pub const URG: Self = Self(1 << 5);
    /// ECN echo (RFC 3168).
    pub const ECE: Self = Self(1 << 6);
    /// Congestion window reduced (RFC 3168).
    pub const CWR: Self = Self(1 << 7);
    /// Accurate ECN (RFC 9768); the nonce sum of RFC 3540 before.
    pub const AE: Self = Self(1 << 8);

    const MASK: u16 = 0x0fff;

    /// From the low twelve bits; the others are dropped.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::MASK)
    }

    /// The twelve bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether every bit of `other` is set.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether any bit of `other` is set.
    #[inline]
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl std::ops::BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The letters of tcpdump: `S.` is SYN and ACK.
impl fmt::Display for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: [(TcpFlags, &str); 9] = [
            (TcpFlags::FIN, "F"),
            (TcpFlags::SYN, "S"),
            (TcpFlags::RST, "R"),
            (TcpFlags::PSH, "P"),
            (TcpFlags::ACK, "."),
            (TcpFlags::URG, "U"),
            (TcpFlags::ECE, "E"),
            (TcpFlags::CWR, "W"),
            (TcpFlags::AE, "e"),
        ];
        let mut any = false;
        for (flag, letter) in LETTERS {
            if self.contains(flag) {
                f.write_str(letter)?;
                any = true;
            }
        }
        if any { Ok(()) } else { f.write_str("none") }
    }
}

/// A TCP segment, header checked.
#[derive(Clone, Copy, Debug)]
pub struct Tcp<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Tcp<'a> {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`Malformed::TcpHeaderShort`], [`Malformed::TcpDataOffsetSmall`] or
    /// [`Malformed::TcpDataOffsetLong`].
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let (header, rest) =
            bytes.split_first_chunk::<HEADER_LEN>().ok_or(Malformed::TcpHeaderShort)?;
        let header_len = usize::from(header[field::OFFSET_AND_FLAGS] >> 4) * 4;
        let options_len =
            header_len.checked_sub(HEADER_LEN).ok_or(Malformed::TcpDataOffsetSmall)?;
        let (options, payload) =
            rest.split_at_checked(options_len).ok_or(Malformed::TcpDataOffsetLong)?;
        Ok(Self { header, options, payload })
    }

    #[inline]
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.header[at], self.header[at + 1]])
    }

    #[inline]
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_be_bytes([
            self.header[at],
            self.header[at + 1],
            self.header[at + 2],
            self.header[at + 3],
        ])
    }

    /// Bytes of the header, options included: 20 to 60.
    #[inline]
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
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

    /// Sequence number of the first payload byte, or of the SYN.
    #[inline]
    #[must_use]
    pub fn sequence_number(&self) -> SeqNumber {
        SeqNumber(self.u32_at(field::SEQUENCE_NUMBER))
    }

    /// Next sequence number the sender expects; meaningful with [`TcpFlags::ACK`].
    #[inline]
    #[must_use]
    pub fn acknowledgment_number(&self) -> SeqNumber {
        SeqNumber(self.u32_at(field::ACKNOWLEDGMENT_NUMBER))
    }

    /// Control bits.
    #[inline]
    #[must_use]
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits(self.u16_at(field::OFFSET_AND_FLAGS))
    }

    /// Window as it stands in the header, not yet scaled (RFC 7323 §2).
    #[inline]
    #[must_use]
    pub fn window(&self) -> u16 {
        self.u16_at(field::WINDOW)
    }

    /// Checksum as it stands in the header.
    #[inline]
    #[must_use]
    pub fn checksum(&self) -> u16 {
        self.u16_at(field::CHECKSUM)
    }

    /// Offset of the urgent data's end; meaningful with [`TcpFlags::URG`].
    #[inline]
    #[must_use]
    pub fn urgent_pointer(&self) -> u16 {
        self.u16_at(field::URGENT_POINTER)
    }

    /// The option bytes, padding included.
    #[inline]
    #[must_use]
    pub fn option_bytes(&self) -> &'a [u8] {
        self.options
    }

    /// The options in order. After a fault the iterator ends.
    #[inline]
    #[must_use]
    pub fn options(&self) -> TcpOptionIter<'a> {
        TcpOptionIter::new(self.options)
    }

    /// Whether every option lies within the header.
    ///
    /// # Errors
    /// [`Malformed::TcpOptionWrong`].
    #[inline]
    pub fn check_options(&self) -> Result<(), Malformed> {
        super::tcp_options::check(self.options)
    }

    /// Captured bytes behind the header.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// A TCP header as a value. The checksum is no part of it: it depends on what
/// surrounds the header.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TcpRepr {
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence_number: SeqNumber,
    /// Acknowledgment number.
    pub acknowledgment_number: SeqNumber,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent_pointer: u16,
    /// Options, 40 bytes at most.
    pub options: TcpOptions,
}

impl TcpRepr {
    /// The value of a header.
    ///
    /// # Errors
    /// [`Malformed::TcpOptionWrong`].
    pub fn parse(tcp: &Tcp<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            source_port: tcp.source_port(),
            destination_port: tcp.destination_port(),
            sequence_number: tcp.sequence_number(),
            acknowledgment_number: tcp.acknowledgment_number(),
            flags: tcp.flags(),
            window: tcp.window(),
            urgent_pointer: tcp.urgent_pointer(),
            options: TcpOptions::parse(tcp.option_bytes())?,
        })
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.as_bytes().len()
    }

    /// Appends the header with a checksum of 0.
    pub fn emit(&self, out: &mut Vec<u8>) {
        // At most 15: the options' type holds no more than 40 bytes.
        let [data_offset, ..] = (self.header_len() / 4).to_le_bytes();
        out.extend_from_slice(&self.source_port.to_be_bytes());
        out.extend_from_slice(&self.destination_port.to_be_bytes());
        out.extend_from_slice(&self.sequence_number.0.to_be_bytes());
        out.extend_from_slice(&self.acknowledgment_number.0.to_be_bytes());
        out.extend_from_slice(&(u16::from(data_offset) << 12 | self.flags.bits()).to_be_bytes());
        out.extend_from_slice(&self.window.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&self.urgent_pointer.to_be_bytes());
        out.extend_from_slice(self.options.as_bytes());
    }

    /// Appends header and payload, checksum included.
    pub fn emit_segment(&self, pseudo: &PseudoHeader, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.emit(out);
        out.extend_from_slice(payload);
        checksum::fill(out, start, field::CHECKSUM, pseudo, Protocol::TCP);
    }
}

/// `443 > 50000: Flags [S.], seq 1, ack 2, win 65535, options [mss 1460], length 0`
impl fmt::Display for Tcp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.flags();
        write!(f, "{} > {}: Flags [{flags}]", self.source_port(), self.destination_port())?;
        write!(f, ", seq {}", self.sequence_number())?;
        if flags.contains(TcpFlags::ACK) {
            write!(f, ", ack {}", self.acknowledgment_number())?;
        }
        write!(f, ", win {}", self.window())?;
        if flags.contains(TcpFlags::URG) {
            write!(f, ", urg {}", self.urgent_pointer())?;
        }
        if !self.options.is_empty() {
            write!(f, ", options [{}]", self.options())?;
        }
        write!(f, ", length {}", self.payload.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tcp_options::TcpOption;
    use super::*;

    /// From 192.0.2.1 to 198.51.100.2; crafted with Scapy 2.6, values as
    /// TShark and tcpdump show them, checksum found good by TShark.
    const SYN: [u8; 40] = [
        0xc3, 0x50, 0x01, 0xbb, 0xff, 0xff, 0xff, 0xf0, 0x00, 0x00, 0x00, 0x00, 0xa0, 0xc2, 0xfa,
        0xf0, 0xb8, 0xd9, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4, 0x04, 0x02, 0x08, 0x0a, 0x00, 0x01,
        0xe2, 0x40, 0x00, 0x00, 0x00, 0x00, 0x01, 0x03, 0x03, 0x07,
    ];
    /// Every flag set, three bytes of payload; between the same addresses.
    const ALL_FLAGS: [u8; 23] = [
        0x00, 0x01, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x02, 0x51, 0xff, 0x00,
        0x01, 0xbd, 0x99, 0x00, 0x09, 0x01, 0x02, 0x03,
    ];

    fn pseudo() -> PseudoHeader {
        PseudoHeader::Ipv4([192, 0, 2, 1].into(), [198, 51, 100, 2].into())
    }

    #[test]
    fn reads_and_tells_a_syn() {
        let tcp = Tcp::new(&SYN).unwrap();
        assert_eq!((tcp.source_port(), tcp.destination_port()), (50_000, 443));
        assert_eq!(tcp.sequence_number(), SeqNumber(0xffff_fff0));
        assert_eq!(tcp.flags(), TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR);
        assert_eq!(tcp.flags().bits(), 0x0c2);
        assert_eq!((tcp.header_len(), tcp.window(), tcp.checksum()), (40, 64_240, 0xb8d9));
        assert_eq!(
            tcp.to_string(),
            "50000 > 443: Flags [SEW], seq 4294967280, win 64240, \
             options [mss 1460,sackOK,TS val 123456 ecr 0,nop,wscale 7], length 0"
        );
    }

    #[test]
    fn reads_and_tells_every_flag() {
        let tcp = Tcp::new(&ALL_FLAGS).unwrap();
        assert_eq!(tcp.flags().bits(), 0x1ff);
        assert_eq!((tcp.acknowledgment_number(), tcp.urgent_pointer()), (SeqNumber(2), 9));
        assert_eq!(tcp.payload(), [1, 2, 3]);
        assert_eq!(
            tcp.to_string(),
            "1 > 2: Flags [FSRP.UEWe], seq 1, ack 2, win 1, urg 9, length 3"
        );
        assert_eq!(TcpFlags::default().to_string(), "none");
    }

    #[test]
    fn emits_the_same_bytes_with_the_checksum_tshark_wants() {
        for bytes in [&SYN[..], &ALL_FLAGS] {
            let tcp = Tcp::new(bytes).unwrap();
            let mut out = vec![0xaa; 3];
            TcpRepr::parse(&tcp).unwrap().emit_segment(&pseudo(), tcp.payload(), &mut out);
            assert_eq!(out[3..], *bytes);
            assert_eq!(pseudo().checksum(Protocol::TCP, bytes), 0, "carries a valid checksum");
        }
    }

    #[test]
    fn refuses_what_it_cannot_be() {
        assert_eq!(Tcp::new(&SYN[..19]).unwrap_err(), Malformed::TcpHeaderShort);
        assert_eq!(Tcp::new(&SYN[..39]).unwrap_err(), Malformed::TcpDataOffsetLong);
        let mut bytes = SYN;
        bytes[12] = 0x40;
        assert_eq!(Tcp::new(&bytes).unwrap_err(), Malformed::TcpDataOffsetSmall);
        let mut bytes = SYN;
        bytes[21] = 1;
        let tcp = Tcp::new(&bytes).unwrap();
        assert_eq!(tcp.check_options(), Err(Malformed::TcpOptionWrong));
        assert_eq!(TcpRepr::parse(&tcp), Err(Malformed::TcpOptionWrong));
    }

    #[test]
    fn sequence_numbers_compare_across_the_wrap() {
        let near_end = SeqNumber(u32::MAX - 9);
        let near_start = near_end.plus(20);
        assert_eq!(near_start, SeqNumber(10));
        assert_eq!((near_start.since(near_end), near_end.since(near_start)), (20, -20));
        assert!(near_end.is_before(near_start) && !near_end.is_after(near_start));
        assert!(near_start.is_after(near_end) && !near_start.is_before(near_end));
        assert!(!near_end.is_before(near_end) && !near_end.is_after(near_end));
    }

    #[test]
    fn numbers_half_a_circle_apart_have_no_order() {
        let (a, b) = (SeqNumber(5), SeqNumber(5 + (1 << 31)));
        assert_eq!((a.compare(b), b.compare(a)), (None, None));
        assert!(!a.is_before(b) && !b.is_before(a) && !a.is_after(b) && !b.is_after(a));
    }

    prop_compose! {
        fn any_repr()(
            ports: (u16, u16), numbers: (u32, u32), flags: u16, window: u16, urgent_pointer: u16,
            mss: Option<u16>, shift: Option<u8>, sack_permitted: bool, times: Option<(u32, u32)>,
            data in prop::collection::vec(any::<u8>(), 0..16),
        ) -> TcpRepr {
            let mut options = TcpOptions::default();
            let mut push = |option| assert!(options.push(&option));
            mss.map(TcpOption::MaximumSegmentSize).map(&mut push);
            shift.map(TcpOption::WindowScale).map(&mut push);
            sack_permitted.then_some(TcpOption::SackPermitted).map(&mut push);
            let stamps = |(value, echo_reply)| TcpOption::Timestamps { value, echo_reply };
                let times = times.map(stamps);
            times.map(&mut push);
            push(TcpOption::Raw { kind: 34, data: &data });
            TcpRepr {
                source_port: ports.0,
                destination_port: ports.1,
                sequence_number: SeqNumber(numbers.0),
                acknowledgment_number: SeqNumber(numbers.1),
                flags: TcpFlags::from_bits(flags),
                window,
                urgent_pointer,
                options,
            }
        }
    }

    proptest! {
        #[test]
        fn parse_gives_back_what_emit_wrote(value in any_repr()) {
            let mut bytes = Vec::new();
            value.emit(&mut bytes);
            prop_assert_eq!(bytes.len(), value.header_len());
            prop_assert_eq!(TcpRepr::parse(&Tcp::new(&bytes).unwrap()), Ok(value));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 16..80)) {
            if let Ok(tcp) = Tcp::new(&bytes) {
                prop_assert_eq!(tcp.check_options().is_err(), tcp.options().any(|o| o.is_err()));
                let _ = (tcp.to_string(), tcp.urgent_pointer(), tcp.checksum());
                if let Ok(value) = TcpRepr::parse(&tcp) {
                    let mut out = Vec::new();
                    value.emit_segment(&pseudo(), tcp.payload(), &mut out);
                    out[16..18].copy_from_slice(&bytes[16..18]);
                    prop_assert_eq!(out, bytes, "nothing but the checksum is lost");
                }
            }
        }

        #[test]
        fn comparison_is_antisymmetric_and_shifts(a: u32, b: u32, by: u32) {
            let (a, b) = (SeqNumber(a), SeqNumber(b));
            prop_assert_eq!(a.compare(b).map(Ordering::reverse), b.compare(a));
            prop_assert_eq!(a.plus(by).compare(b.plus(by)), a.compare(b));
            prop_assert_eq!(a.is_before(b), a.compare(b) == Some(Ordering::Less));
            prop_assert_eq!(a.is_after(b), a.compare(b) == Some(Ordering::Greater));
        }
    }
}
