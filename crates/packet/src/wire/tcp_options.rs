//! TCP options (RFC 9293 §3.2, RFC 7323, RFC 2018).
//!
//! Kinds 0 and 1 are one byte; every other option is kind, length (both
//! counted) and data. A known kind whose length is not the one its RFC gives
//! is odd, not malformed: it is handed out as [`TcpOption::Raw`].

use std::fmt;

use super::tcp::SeqNumber;
use crate::malformed::Malformed;

/// Option kinds, as IANA assigns them.
pub mod kind {
    /// End of the option list.
    pub const END_OF_LIST: u8 = 0;
    /// Padding between options.
    pub const NO_OPERATION: u8 = 1;
    /// Maximum segment size.
    pub const MAXIMUM_SEGMENT_SIZE: u8 = 2;
    /// Window scale (RFC 7323).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK permitted (RFC 2018).
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK blocks (RFC 2018).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323).
    pub const TIMESTAMPS: u8 = 8;
    /// Multipath TCP (RFC 8684).
    pub const MPTCP: u8 = 30;
    /// TCP fast open cookie (RFC 7413).
    pub const FAST_OPEN: u8 = 34;
    /// Accurate ECN, order 0 (RFC 9768).
    pub const ACCURATE_ECN_0: u8 = 172;
    /// Accurate ECN, order 1 (RFC 9768).
    pub const ACCURATE_ECN_1: u8 = 174;
}

/// The room that a data offset of 15 words leaves for options, in bytes.
pub const OPTIONS_LEN_MAX: usize = 40;
/// The most SACK blocks that fit into [`OPTIONS_LEN_MAX`].
pub const SACK_BLOCKS_MAX: usize = 4;

const SACK_BLOCK_LEN: usize = 8;

/// One option. Borrows the bytes of what it does not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpOption<'a> {
    /// End of the list: what follows is padding.
    EndOfList,
    /// Padding between options.
    NoOperation,
    /// Largest segment the sender takes, in bytes.
    MaximumSegmentSize(u16),
    /// Window scale as the shift in the option; RFC 7323 §2.3 takes values above 14 as 14.
    WindowScale(u8),
    /// The sender takes SACK blocks.
    SackPermitted,
    /// What arrived out of order.
    Sack(SackBlocks<'a>),
    /// Timestamps, in ticks of the peers' own clocks.
    Timestamps {
        /// `TSval`: the sender's clock.
        value: u32,
        /// `TSecr`: the peer's clock, echoed; meaningful with ACK.
        echo_reply: u32,
    },
    /// Any other kind, or a known kind with a length of its own.
    Raw {
        /// The option's kind.
        kind: u8,
        /// What follows the length byte.
        data: &'a [u8],
    },
}

/// One to four SACK blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SackBlocks<'a> {
    bytes: &'a [u8],
}

impl<'a> SackBlocks<'a> {
    fn new(data: &'a [u8]) -> Option<Self> {
        let whole = data.len().is_multiple_of(SACK_BLOCK_LEN);
        let fits = (1..=SACK_BLOCKS_MAX).contains(&(data.len() / SACK_BLOCK_LEN));
        (whole && fits).then_some(Self { bytes: data })
    }

    /// How many blocks: 1 to 4.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.bytes.len() / SACK_BLOCK_LEN
    }

    /// Left edge (included) and right edge (excluded) of each block.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (SeqNumber, SeqNumber)> + use<'a> {
        self.bytes.as_chunks::<SACK_BLOCK_LEN>().0.iter().map(|block| {
            let [a, b, c, d, e, f, g, h] = *block;
            let left = u32::from_be_bytes([a, b, c, d]);
            let right = u32::from_be_bytes([e, f, g, h]);
            (SeqNumber(left), SeqNumber(right))
        })
    }
}

/// The options of one header, in order. Ends after the first fault.
#[derive(Clone, Debug)]
pub struct TcpOptionIter<'a> {
    rest: &'a [u8],
}

impl<'a> TcpOptionIter<'a> {
    /// Reads the options in `bytes`, the part of the header behind its 20th byte.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
}

impl<'a> Iterator for TcpOptionIter<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, rest) = self.rest.split_first()?;
        match kind {
            kind::END_OF_LIST => {
                self.rest = &[];
                Some(Ok(TcpOption::EndOfList))
            }
            kind::NO_OPERATION => {
                self.rest = rest;
                Some(Ok(TcpOption::NoOperation))
            }
            _ => Some(if let Some((data, rest)) = split_data(rest) {
                self.rest = rest;
                Ok(decode(kind, data))
            } else {
                self.rest = &[];
                Err(Malformed::TcpOptionWrong)
            }),
        }
    }
}

impl std::iter::FusedIterator for TcpOptionIter<'_> {}

/// Splits what follows a kind byte into the option's data and the rest.
#[inline]
fn split_data(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(len).checked_sub(2)?)
}

#[inline]
fn decode(kind: u8, data: &[u8]) -> TcpOption<'_> {
    match (kind, data) {
        (kind::MAXIMUM_SEGMENT_SIZE, &[a, b]) => {
            TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b]))
        }
        (kind::WINDOW_SCALE, &[shift]) => TcpOption::WindowScale(shift),
        (kind::SACK_PERMITTED, []) => TcpOption::SackPermitted,
        (kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
            value: u32::from_be_bytes([a, b, c, d]),
            echo_reply: u32::from_be_bytes([e, f, g, h]),
        },
        (kind::SACK, data) => {
            SackBlocks::new(data).map_or(TcpOption::Raw { kind, data }, TcpOption::Sack)
        }
        _ => TcpOption::Raw { kind, data },
    }
}

/// Whether every option lies within `bytes`.
///
/// # Errors
/// [`Malformed::TcpOptionWrong`].
#[inline]
pub fn check(bytes: &[u8]) -> Result<(), Malformed> {
    // Most segments carry nothing, or the layout that RFC 7323 appendix A
    // recommends: two NOPs and the timestamps.
    const NOP: u8 = kind::NO_OPERATION;
    match bytes {
        [] => Ok(()),
        [NOP, NOP, kind::TIMESTAMPS, 10, rest @ ..] if rest.len() == 8 => Ok(()),
        _ => check_all(bytes),
    }
}

fn check_all(mut bytes: &[u8]) -> Result<(), Malformed> {
    while let Some((&kind, rest)) = bytes.split_first() {
        bytes = match kind {
            kind::END_OF_LIST => return Ok(()),
            kind::NO_OPERATION => rest,
            _ => split_data(rest).ok_or(Malformed::TcpOptionWrong)?.1,
        };
    }
    Ok(())
}

/// The words of tcpdump, separated by commas: `mss 1460,nop,wscale 7`.
impl fmt::Display for TcpOptionIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, option) in self.clone().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match option {
                Ok(option) => option.fmt(f)?,
                Err(_) => f.write_str("bad opt")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for TcpOption<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EndOfList => f.write_str("eol"),
            Self::NoOperation => f.write_str("nop"),
            Self::MaximumSegmentSize(size_bytes) => write!(f, "mss {size_bytes}"),
            Self::WindowScale(shift) => write!(f, "wscale {shift}"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Timestamps { value, echo_reply } => write!(f, "TS val {value} ecr {echo_reply}"),
            Self::Sack(blocks) => {
                write!(f, "sack {} ", blocks.count())?;
                blocks.iter().try_for_each(|(left, right)| write!(f, "{{{left}:{right}}}"))
            }
            Self::Raw { kind, data } => {
                match kind {
                    kind::MPTCP => f.write_str("mptcp")?,
                    kind::FAST_OPEN => f.write_str("tfo")?,
                    _ => write!(f, "unknown-{kind}")?,
                }
                if !data.is_empty() {
                    f.write_str(" 0x")?;
                }
                data.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

/// Owned options: at most 40 bytes, a multiple of four, every length checked.
#[derive(Clone, Copy)]
pub struct TcpOptions {
    bytes: [u8; OPTIONS_LEN_MAX],
    /// Bytes in use, padding not counted.
    len: u8,
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self { bytes: [kind::END_OF_LIST; OPTIONS_LEN_MAX], len: 0 }
    }
}

impl TcpOptions {
    /// Options in the order given, or `None` where they do not fit.
    #[must_use]
    pub fn new(options: &[TcpOption<'_>]) -> Option<Self> {
        let mut own = Self::default();
        options.iter().all(|option| own.push(option)).then_some(own)
    }

    /// The options of a header.
    ///
    /// # Errors
    /// [`Malformed::TcpOptionWrong`], also for more than 40 bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        check(bytes)?;
        let mut own = Self::default();
        if own.append(bytes) { Ok(own) } else { Err(Malformed::TcpOptionWrong) }
    }

    /// Appends one option. Where it does not fit, or its data is longer than a
    /// length byte can tell, nothing changes and the answer is `false`.
    #[must_use]
    pub fn push(&mut self, option: &TcpOption<'_>) -> bool {
        match *option {
            TcpOption::EndOfList => self.append(&[kind::END_OF_LIST]),
            TcpOption::NoOperation => self.append(&[kind::NO_OPERATION]),
            TcpOption::MaximumSegmentSize(size_bytes) => {
                self.push_data(kind::MAXIMUM_SEGMENT_SIZE, &size_bytes.to_be_bytes())
            }
            TcpOption::WindowScale(shift) => self.push_data(kind::WINDOW_SCALE, &[shift]),
            TcpOption::SackPermitted => self.push_data(kind::SACK_PERMITTED, &[]),
            TcpOption::Sack(blocks) => self.push_data(kind::SACK, blocks.bytes),
            TcpOption::Timestamps { value, echo_reply } => {
                let [a, b, c, d] = value.to_be_bytes();
                let [e, f, g, h] = echo_reply.to_be_bytes();
                self.push_data(kind::TIMESTAMPS, &[a, b, c, d, e, f, g, h])
            }
            TcpOption::Raw { kind, data } => self.push_data(kind, data),
        }
    }

    /// The bytes as they stand in a header, padded to a multiple of four.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let padded_len = usize::from(self.len).next_multiple_of(4);
        self.bytes.get(..padded_len).unwrap_or_default()
    }

    /// The options in order, padding included.
    #[must_use]
    pub fn iter(&self) -> TcpOptionIter<'_> {
        TcpOptionIter::new(self.as_bytes())
    }

    fn push_data(&mut self, kind: u8, data: &[u8]) -> bool {
        let mut option = [0; OPTIONS_LEN_MAX];
        let len = data.len().saturating_add(2);
        let Some(target) = option.get_mut(2..len) else { return false };
        target.copy_from_slice(data);
        option[0] = kind;
        // Below 256, because the slice above fits into 40 bytes.
        option[1] = len.to_le_bytes()[0];
        option.get(..len).is_some_and(|option| self.append(option))
    }

    fn append(&mut self, bytes: &[u8]) -> bool {
        let start = usize::from(self.len);
        let end = start.saturating_add(bytes.len());
        let Some(target) = self.bytes.get_mut(start..end) else { return false };
        target.copy_from_slice(bytes);
        self.len = end.to_le_bytes()[0];
        true
    }
}

/// Equal where the header bytes are equal.
impl PartialEq for TcpOptions {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for TcpOptions {}

impl fmt::Debug for TcpOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpOptions[{}]", self.iter())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> Vec<Result<TcpOption<'_>, Malformed>> {
        TcpOptionIter::new(bytes).collect()
    }

    /// Crafted with Scapy 2.6; text as tcpdump shows it with `-S`.
    const SACK: [u8; 20] = [
        0x01, 0x01, 0x05, 0x12, 0x00, 0x00, 0x0b, 0xb8, 0x00, 0x00, 0x0f, 0xa0, 0x00, 0x00, 0x13,
        0x88, 0x00, 0x00, 0x17, 0x70,
    ];

    #[test]
    fn sack_blocks_are_read_without_allocation() {
        assert_eq!(TcpOptionIter::new(&SACK).to_string(), "nop,nop,sack 2 {3000:4000}{5000:6000}");
        let Some(Ok(TcpOption::Sack(blocks))) = TcpOptionIter::new(&SACK).nth(2) else {
            panic!("a SACK option stands third");
        };
        let edges: Vec<_> = blocks.iter().map(|(left, right)| (left.0, right.0)).collect();
        assert_eq!(edges, [(3000, 4000), (5000, 6000)]);
        assert_eq!(blocks.count(), 2);
    }

    #[test]
    fn a_known_kind_with_a_strange_length_is_raw() {
        let cases: [(&[u8], &str); 6] = [
            (&[2, 3, 0xff], "unknown-2 0xff"),
            (&[3, 2], "unknown-3"),
            (&[4, 3, 1], "unknown-4 0x01"),
            (&[5, 2], "unknown-5"),
            (&[5, 3, 9], "unknown-5 0x09"),
            (&[8, 4, 1, 2], "unknown-8 0x0102"),
        ];
        for (bytes, text) in cases {
            assert_eq!(TcpOptionIter::new(bytes).to_string(), text);
            assert_eq!(check(bytes), Ok(()));
        }
        let mut five_blocks = [0; 42];
        five_blocks[..2].copy_from_slice(&[5, 42]);
        let five_blocks = read(&five_blocks);
        assert!(matches!(five_blocks[0], Ok(TcpOption::Raw { kind: 5, .. })));
    }

    #[test]
    fn other_kinds_are_handed_out_raw() {
        let bytes = [30, 4, 0x12, 0x34, 34, 2, 253, 3, 7];
        assert_eq!(TcpOptionIter::new(&bytes).to_string(), "mptcp 0x1234,tfo,unknown-253 0x07");
    }

    #[test]
    fn the_list_ends_where_it_says() {
        assert_eq!(read(&[1, 0, 2, 0]), [Ok(TcpOption::NoOperation), Ok(TcpOption::EndOfList)]);
        assert_eq!(check(&[1, 0, 2, 0]), Ok(()), "padding is not looked at");
        assert_eq!(read(&[]), []);
    }

    #[test]
    fn a_length_of_0_or_1_or_past_the_end_is_malformed() {
        let wrong = Err(Malformed::TcpOptionWrong);
        for bytes in [&[2, 0][..], &[2, 1], &[2, 4, 0], &[2], &[254, 255, 0, 0], &[8, 10, 0, 0]] {
            assert_eq!(check(bytes), wrong, "{bytes:?}");
            assert_eq!(read(bytes), [wrong.map(|()| TcpOption::EndOfList)], "{bytes:?}");
            assert_eq!(TcpOptions::parse(bytes), wrong.map(|()| TcpOptions::default()));
            assert_eq!(TcpOptionIter::new(bytes).to_string(), "bad opt");
        }
        // What looks like the common layout, but is cut or goes on wrongly.
        let mut common = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(check(&common), Ok(()));
        assert_eq!(check(&common[..11]), wrong);
        common.extend([2, 1, 0, 0]);
        assert_eq!(check(&common), wrong);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut options = TcpOptions::new(&[TcpOption::Raw { kind: 9, data: &[7; 35] }]).unwrap();
        let before = options;
        assert!(!options.push(&TcpOption::MaximumSegmentSize(1)));
        assert!(!options.push(&TcpOption::Raw { kind: 9, data: &[0; 300] }));
        assert_eq!(options, before);
        assert!(options.push(&TcpOption::SackPermitted));
        assert!(options.push(&TcpOption::NoOperation), "the fortieth byte");
        assert!(!options.push(&TcpOption::NoOperation));
        assert_eq!(options.as_bytes().len(), OPTIONS_LEN_MAX);
        assert_eq!(TcpOptions::parse(&[1; 41]), Err(Malformed::TcpOptionWrong));
    }

    proptest! {
        #[test]
        fn iterating_gives_back_what_was_pushed(
            kinds in prop::collection::vec(0..6u8, 0..4), mss: u16, value: u32, echo_reply: u32,
            shift: u8, edges in prop::collection::vec(any::<[u8; 8]>(), 1..4),
        ) {
            let edges = edges.concat();
            let pushed: Vec<_> = kinds.iter().map(|kind| match kind {
                0 => TcpOption::MaximumSegmentSize(mss),
                1 => TcpOption::WindowScale(shift),
                2 => TcpOption::SackPermitted,
                3 => TcpOption::Timestamps { value, echo_reply },
                4 => TcpOption::Sack(SackBlocks::new(&edges).unwrap()),
                _ => TcpOption::NoOperation,
            }).collect();
            if let Some(options) = TcpOptions::new(&pushed) {
                prop_assert_eq!(check(options.as_bytes()), Ok(()));
                let read: Vec<_> = options.iter().map(Result::unwrap).take(pushed.len()).collect();
                prop_assert_eq!(read, pushed);
                prop_assert_eq!(TcpOptions::parse(options.as_bytes()), Ok(options));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..48)) {
            let read = read(&bytes);
            prop_assert!(read.len() <= bytes.len());
            prop_assert_eq!(read.iter().any(Result::is_err), check(&bytes).is_err());
            prop_assert!(read.iter().rev().skip(1).all(Result::is_ok), "ends after a fault");
            let _ = TcpOptionIter::new(&bytes).to_string();
        }
    }
}
