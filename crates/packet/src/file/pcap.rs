//! Classic pcap (draft-ietf-opsawg-pcap), both byte orders, micro- and nanoseconds.
//!
//! ```text
//! file header, 24 bytes            record header, 16 bytes
//!  0 magic                          0 seconds, unsigned: to the year 2106
//!  4 version major, 6 minor         4 micro- or nanoseconds
//!  8 time zone, 12 accuracy (0)     8 captured length
//! 16 snaplen                       12 length on the wire
//! 20 link type, FCS bits on top    then the frame, unpadded
//! ```
//!
//! The modified form (magic `a1b2cd34`) has 8 more bytes in each record header:
//! interface index, protocol, packet type, padding.

use super::fault::{FileFault, Stop};
use super::metadata::{FileCounts, Interface};
use super::order::ByteOrder;
use super::resolution::Resolution;
use super::{FrameHeader, Item, TakeFrame, frame_len_max, in_registers};
use crate::link::LinkType;
use crate::record::Direction;
use crate::time::Timestamp;

/// Bytes of the file header.
pub(super) const FILE_HEADER_LEN: usize = 24;
/// Bytes of a record header.
pub(super) const RECORD_HEADER_LEN: usize = 16;
/// Bytes of a record header of the modified form.
const RECORD_HEADER_LEN_MODIFIED: usize = 24;

const MAGIC_MICROSECONDS: u32 = 0xa1b2_c3d4;
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// `PACKET_OUTGOING` of Linux; the other types are all ways of arriving.
const PACKET_TYPE_OUTGOING: u8 = 4;

/// Which of a record's two lengths stands first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LengthOrder {
    /// Captured length first, as the format says.
    Regular,
    /// Version 2.3: the smaller one is the captured length.
    Smaller,
    /// Before version 2.3, and DG/UX: captured length second.
    Swapped,
}

/// The layout of one pcap file. Nothing in it changes while reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pcap {
    pub(super) order: ByteOrder,
    pub(super) resolution: Resolution,
    link: LinkType,
    /// Captured lengths below this are read on the short path; 0 where the layout is unusual.
    plain_len_end: u32,
    /// Ticks in a second.
    ticks_per_second: u32,
    ns_per_tick: u32,
    length_order: LengthOrder,
    pub(super) modified: bool,
    pub(super) snaplen: u32,
}

impl Pcap {
    /// Reads the file header; returns the one interface that it describes.
    pub(super) fn new(prefix: &[u8]) -> Result<(Self, Interface), FileFault> {
        let Some(header) = prefix.first_chunk::<FILE_HEADER_LEN>() else {
            return Err(FileFault::HeaderShort {
                wanted: FILE_HEADER_LEN as u32,
                got: prefix.len() as u32,
            });
        };
        let known =
            |magic| matches!(magic, MAGIC_MICROSECONDS | MAGIC_NANOSECONDS | MAGIC_MODIFIED);
        let order = match known(ByteOrder::Little.u32_at(header, 0)) {
            true => ByteOrder::Little,
            false => ByteOrder::Big,
        };
        let magic = order.u32_at(header, 0);
        if !known(magic) {
            let magic = *header.first_chunk().unwrap_or(&[0; 4]);
            return Err(FileFault::MagicUnknown { magic });
        }
        let version = (order.u16_at(header, 4), order.u16_at(header, 6));
        let length_order = match version {
            (2, 0..=2) | (543, 0) => LengthOrder::Swapped,
            (2, 3) => LengthOrder::Smaller,
            (2, 4..) => LengthOrder::Regular,
            (major, minor) => return Err(FileFault::PcapVersionUnsupported { major, minor }),
        };
        let modified = magic == MAGIC_MODIFIED;
        let nanoseconds = magic == MAGIC_NANOSECONDS;
        let resolution =
            if nanoseconds { Resolution::NANOSECONDS } else { Resolution::MICROSECONDS };
        // As libpcap: bit 26 says that the top four bits count the frame check
        // sequence in units of 16 bits. Of the rest 16 bits are registered link types;
        // files that have more hold what only their writer knows.
        let link_field = order.u32_at(header, 20);
        let Ok(link) = u16::try_from(link_field & 0x03ff_ffff).map(LinkType) else {
            return Err(FileFault::LinkTypeUnknown { link: link_field & 0x03ff_ffff });
        };
        let fcs_len = (link_field & 0x0400_0000 != 0).then_some((link_field >> 28) as u8 * 2);
        let snaplen = order.u32_at(header, 16);
        let plain = length_order == LengthOrder::Regular && !modified;
        let layout = Self {
            order,
            resolution,
            link,
            plain_len_end: if plain { frame_len_max(link) + 1 } else { 0 },
            ticks_per_second: if nanoseconds { 1_000_000_000 } else { 1_000_000 },
            ns_per_tick: if nanoseconds { 1 } else { 1_000 },
            length_order,
            modified,
            snaplen,
        };
        let interface = Interface { link, snaplen, resolution, fcs_len, ..Interface::default() };
        Ok((layout, interface))
    }

    /// Decodes the record at the start of `bytes`.
    #[inline(always)]
    pub(super) fn next(
        &self,
        bytes: &[u8],
        counts: &mut FileCounts,
    ) -> Result<(Item, usize), Stop> {
        match self.next_plain(bytes) {
            Some((frame, total)) => Ok((Item::Frame(frame), total)),
            None => in_registers(self.next_unusual(bytes, counts)),
        }
    }

    /// A record of the ordinary kind that lies whole in `bytes`, and its length.
    #[inline(always)]
    fn next_plain(&self, bytes: &[u8]) -> Option<(FrameHeader, usize)> {
        let header = bytes.first_chunk::<RECORD_HEADER_LEN>()?;
        let subsecond = self.order.u32_at(header, 4);
        let captured_len = self.order.u32_at(header, 8);
        let total = RECORD_HEADER_LEN.wrapping_add(captured_len as usize);
        if captured_len >= self.plain_len_end
            || subsecond >= self.ticks_per_second
            || bytes.len() < total
        {
            return None;
        }
        let wire_len = self.order.u32_at(header, 12);
        Some((self.frame(header, captured_len, wire_len), total))
    }

    /// The loop of [`Decoder::read`](super::Decoder::read).
    #[inline(always)]
    pub(super) fn read(
        &self,
        bytes: &[u8],
        start: usize,
        stop: usize,
        counts: &mut FileCounts,
        take: &mut impl TakeFrame,
    ) -> (usize, Option<Stop>) {
        // A copy with a constant byte order, which no reference can reach: its
        // fields stay in registers.
        match self.order {
            ByteOrder::Little => {
                let pcap = Self { order: ByteOrder::Little, ..*self };
                pcap.read_ordered(bytes, start, stop, counts, take)
            }
            ByteOrder::Big => {
                let pcap = Self { order: ByteOrder::Big, ..*self };
                pcap.read_ordered(bytes, start, stop, counts, take)
            }
        }
    }

    #[inline(always)]
    fn read_ordered(
        &self,
        bytes: &[u8],
        start: usize,
        stop: usize,
        counts: &mut FileCounts,
        take: &mut impl TakeFrame,
    ) -> (usize, Option<Stop>) {
        let mut at = start;
        while at < stop {
            let item = bytes.get(at..).unwrap_or_default();
            let Some((frame, consumed)) = self.next_plain(item) else {
                // One unusual record at a time, out of the way of the others.
                match self.take_unusual(item, at, counts, take) {
                    Ok((consumed, is_more_wanted)) => {
                        at = at.wrapping_add(consumed);
                        if !is_more_wanted {
                            break;
                        }
                    }
                    Err(stop) => return (at, Some(stop)),
                }
                continue;
            };
            at = at.wrapping_add(consumed);
            if !take.take(item, frame, at.wrapping_sub(consumed)) {
                break;
            }
        }
        (at, None)
    }

    /// Hands over the record at the start of `item`; its length, and whether
    /// more are wanted.
    #[cold]
    #[inline(never)]
    fn take_unusual(
        &self,
        item: &[u8],
        at: usize,
        counts: &mut FileCounts,
        take: &mut impl TakeFrame,
    ) -> Result<(usize, bool), Stop> {
        Ok(match self.next_unusual(item, counts)? {
            (Item::Frame(frame), consumed) => (consumed, take.take(item, frame, at)),
            (Item::Meta(_), consumed) => (consumed, true),
        })
    }

    #[inline(always)]
    fn frame(
        &self,
        header: &[u8; RECORD_HEADER_LEN],
        captured_len: u32,
        wire_len: u32,
    ) -> FrameHeader {
        let seconds = i64::from(self.order.u32_at(header, 0));
        let subsecond = i64::from(self.order.u32_at(header, 4));
        // Cannot wrap: (2^32 - 1) * 10^9 + (2^32 - 1) * 1000 is below 2^63.
        let ns = seconds
            .wrapping_mul(1_000_000_000)
            .wrapping_add(subsecond.wrapping_mul(i64::from(self.ns_per_tick)));
        FrameHeader {
            timestamp: Timestamp::from_ns(ns),
            has_timestamp: true,
            captured_len,
            wire_len,
            data_offset: RECORD_HEADER_LEN as u32,
            options_offset: 0,
            options_len: 0,
            flags: 0,
            interface: 0,
            link: self.link,
            direction: Direction::Unknown,
        }
    }

    /// Everything the short path leaves out: old versions, the modified form,
    /// stamps that carry, lengths that are too long.
    #[cold]
    #[inline(never)]
    fn next_unusual(&self, bytes: &[u8], counts: &mut FileCounts) -> Result<(Item, usize), Stop> {
        let header_len = self.record_header_len();
        let Some((header, more)) = bytes.get(..header_len).and_then(<[u8]>::split_first_chunk)
        else {
            return Err(Stop::NeedMore(header_len));
        };
        let (captured_len, wire_len, swapped) = self.lengths(header);
        let captured_len_max = frame_len_max(self.link);
        if captured_len > captured_len_max {
            return Err(FileFault::RecordTooLong { captured_len, captured_len_max }.into());
        }
        let total = header_len.saturating_add(captured_len as usize);
        if bytes.len() < total {
            return Err(Stop::NeedMore(total));
        }
        let mut frame = self.frame(header, captured_len, wire_len);
        if self.modified {
            frame.data_offset = RECORD_HEADER_LEN_MODIFIED as u32;
            frame.direction = match more.get(6) {
                Some(&PACKET_TYPE_OUTGOING) => Direction::Outbound,
                Some(0..PACKET_TYPE_OUTGOING) => Direction::Inbound,
                _ => Direction::Unknown,
            };
        }
        if self.order.u32_at(header, 4) >= self.ticks_per_second {
            counts.subseconds_above_second = counts.subseconds_above_second.wrapping_add(1);
        }
        if swapped {
            counts.lengths_swapped = counts.lengths_swapped.wrapping_add(1);
        }
        Ok((Item::Frame(frame), total))
    }

    pub(super) const fn record_header_len(&self) -> usize {
        if self.modified { RECORD_HEADER_LEN_MODIFIED } else { RECORD_HEADER_LEN }
    }

    /// Captured length, wire length, and whether they stood the other way round.
    pub(super) fn lengths(&self, header: &[u8; RECORD_HEADER_LEN]) -> (u32, u32, bool) {
        let (first, second) = (self.order.u32_at(header, 8), self.order.u32_at(header, 12));
        let swapped = match self.length_order {
            LengthOrder::Regular => false,
            LengthOrder::Smaller => first > second,
            LengthOrder::Swapped => true,
        };
        if swapped { (second, first, true) } else { (first, second, false) }
    }

    /// The longest frame that a file which keeps to its snaplen holds.
    pub(super) fn plausible_len_max(&self) -> u32 {
        let len_max = frame_len_max(self.link);
        if self.snaplen == 0 { len_max } else { self.snaplen.min(len_max) }
    }

    pub(super) const fn ticks_per_second(&self) -> u32 {
        self.ticks_per_second
    }
}
