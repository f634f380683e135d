//! pcapng (draft-ietf-opsawg-pcapng): the blocks that hold frames.
//!
//! ```text
//! every block                      enhanced packet, type 6
//!  0 type                           8 interface
//!  4 total length                  12 stamp, high word; 16 low word
//!  8 body, padded to 4 bytes       20 captured length
//!    total length again            24 length on the wire
//!                                  28 frame, padded; then options
//! ```

use std::ops::Range;

use super::block;
use super::fault::{FileFault, Stop};
use super::metadata::FileCounts;
use super::option::{Options, code};
use super::order::ByteOrder;
use super::resolution::Resolution;
use super::{BLOCK_LEN_MAX, BlockKind, FrameHeader, Item, Metadata, in_registers};
use crate::link::LinkType;
use crate::record::Direction;
use crate::time::{NS_PER_SECOND, Timestamp};

/// Block types.
pub(super) mod block_type {
    pub(in crate::file) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(in crate::file) const INTERFACE_DESCRIPTION: u32 = 1;
    pub(in crate::file) const OBSOLETE_PACKET: u32 = 2;
    pub(in crate::file) const SIMPLE_PACKET: u32 = 3;
    pub(in crate::file) const NAME_RESOLUTION: u32 = 4;
    pub(in crate::file) const INTERFACE_STATISTICS: u32 = 5;
    pub(in crate::file) const ENHANCED_PACKET: u32 = 6;
    pub(in crate::file) const JOURNAL: u32 = 9;
    pub(in crate::file) const SECRETS: u32 = 10;
    pub(in crate::file) const CUSTOM: u32 = 0x0bad;
    pub(in crate::file) const CUSTOM_NO_COPY: u32 = 0x4000_0bad;
}

/// Type, length, and length again.
pub(super) const BLOCK_OVERHEAD: u32 = 12;
/// Where the frame of an enhanced or obsolete packet block begins.
pub(super) const PACKET_HEADER_LEN: usize = 28;
/// Where the frame of a simple packet block begins.
pub(super) const SIMPLE_HEADER_LEN: usize = 12;
/// What an enhanced packet block takes besides frame and options.
const PACKET_OVERHEAD: u32 = PACKET_HEADER_LEN as u32 + 4;

const _: () = assert!(BLOCK_LEN_MAX.is_multiple_of(4) && BLOCK_LEN_MAX < u32::MAX / 2);

/// What decoding a frame needs of its interface: small, so that those of a
/// section stay in the first-level cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    /// Nanoseconds in a tick; 0 where that is no whole number, or where the offset has none in
    /// 64 bits.
    pub(super) ns_per_tick: u64,
    pub(super) offset_ns: i64,
    pub(super) offset_seconds: i64,
    /// The longest frame believed.
    pub(super) frame_len_max: u32,
    pub(super) snaplen: u32,
    pub(super) link: LinkType,
    /// Index over all sections.
    pub(super) interface: u16,
    pub(super) resolution: Resolution,
}

impl Channel {
    /// When `ticks` is.
    #[inline]
    pub(super) fn timestamp(&self, ticks: u64, counts: &mut FileCounts) -> Timestamp {
        // Below 2^63 in one multiplication, or else the long way.
        if let Some(Ok(ns)) = ticks.checked_mul(self.ns_per_tick).map(i64::try_from)
            && self.ns_per_tick != 0
            && let Some(ns) = ns.checked_add(self.offset_ns)
        {
            return Timestamp::from_ns(ns);
        }
        self.timestamp_unusual(ticks, counts)
    }

    #[inline(never)]
    fn timestamp_unusual(&self, ticks: u64, counts: &mut FileCounts) -> Timestamp {
        // An offset before 1970 may bring a stamp back that is past 2262 without it. Both are below
        // 2^94 by amount.
        let offset = i128::from(self.offset_seconds) * i128::from(NS_PER_SECOND);
        let ns = self.resolution.wide_ns_of(ticks) + offset;
        match i64::try_from(ns).map(Timestamp::from_ns) {
            Ok(stamp) if stamp != Timestamp::UNKNOWN => stamp,
            _ => {
                counts.timestamps_saturated = counts.timestamps_saturated.wrapping_add(1);
                if ns < 0 { Timestamp::EARLIEST } else { Timestamp::MAX }
            }
        }
    }
}

/// Direction by the low two bits of the flags.
#[inline]
const fn direction_of(flags: u32) -> Direction {
    match flags & 0b11 {
        1 => Direction::Inbound,
        2 => Direction::Outbound,
        _ => Direction::Unknown,
    }
}

/// State of a pcapng file: all of it belongs to the current section.
#[derive(Clone, Debug)]
pub(super) struct Pcapng {
    pub(super) order: ByteOrder,
    pub(super) channels: Vec<Channel>,
}

impl Pcapng {
    /// Looks at the byte order only; the section header is read as a block.
    pub(super) fn new(prefix: &[u8]) -> Result<Self, FileFault> {
        match prefix.first_chunk() {
            Some(header) => Ok(Self { order: block::section_order(header)?, channels: Vec::new() }),
            None => Err(FileFault::HeaderShort { wanted: 12, got: prefix.len() as u32 }),
        }
    }

    pub(super) const fn order(&self) -> ByteOrder {
        self.order
    }

    /// Decodes the block at the start of `bytes`.
    #[inline]
    pub(super) fn next(
        &mut self,
        bytes: &[u8],
        metadata: &mut Metadata,
    ) -> Result<(Item, usize), Stop> {
        if let Some(header) = bytes.first_chunk::<PACKET_HEADER_LEN>()
            && self.order.u32_at(header, 0) == block_type::ENHANCED_PACKET
        {
            return self.enhanced(header, bytes, &mut metadata.counts);
        }
        in_registers(self.next_block(bytes, metadata))
    }

    #[inline]
    fn enhanced(
        &self,
        header: &[u8; PACKET_HEADER_LEN],
        bytes: &[u8],
        counts: &mut FileCounts,
    ) -> Result<(Item, usize), Stop> {
        let block_len = self.order.u32_at(header, 4);
        let interface = self.order.u32_at(header, 8);
        let captured_len = self.order.u32_at(header, 20);
        let Some(channel) = self.channels.get(interface as usize) else {
            return in_registers(Err(self.explain(header, interface)));
        };
        // A length below the overhead wraps to one above the maximum.
        let room = block_len.wrapping_sub(PACKET_OVERHEAD);
        let padded_len = captured_len.wrapping_add(3) & !3;
        if room > BLOCK_LEN_MAX - PACKET_OVERHEAD
            || !block_len.is_multiple_of(4)
            || captured_len > channel.frame_len_max
            || padded_len > room
        {
            return in_registers(Err(self.explain(header, interface)));
        }
        let total = block_len as usize;
        let Some(block) = bytes.get(..total) else {
            return Err(Stop::NeedMore(total));
        };
        let trailing = self.order.u32_at(block, total.wrapping_sub(4));
        if trailing != block_len {
            return Err(FileFault::BlockLengthMismatch { leading: block_len, trailing }.into());
        }
        counts.enhanced_packet_blocks = counts.enhanced_packet_blocks.wrapping_add(1);
        let mut frame = FrameHeader {
            timestamp: channel.timestamp(self.order.ticks_at(header, 12), counts),
            has_timestamp: true,
            captured_len,
            wire_len: self.order.u32_at(header, 24),
            data_offset: PACKET_HEADER_LEN as u32,
            options_offset: 0,
            options_len: 0,
            flags: 0,
            interface: channel.interface,
            link: channel.link,
            direction: Direction::Unknown,
        };
        let options_len = room.wrapping_sub(padded_len);
        if options_len > 0 {
            frame.options_offset = (PACKET_HEADER_LEN as u32).wrapping_add(padded_len);
            frame.options_len = options_len;
            frame.flags = self.read_frame_options(frame.options_range(), block, counts);
            frame.direction = direction_of(frame.flags);
        }
        Ok((Item::Frame(frame), total))
    }

    /// Counts losses and returns the flags; 0 where there are none. Not inlined, so
    /// that frames without options, the common kind, do not pay for it.
    #[inline(never)]
    fn read_frame_options(
        &self,
        range: Range<usize>,
        block: &[u8],
        counts: &mut FileCounts,
    ) -> u32 {
        let mut flags = 0;
        let mut options = Options::new(block.get(range).unwrap_or_default(), self.order);
        for option in &mut options {
            match (option.code, option.value.len()) {
                (code::PACKET_FLAGS, 4) => flags = self.order.u32_at(option.value, 0),
                (code::PACKET_DROPCOUNT, 8) => {
                    let dropped = self.order.u64_of(option.value).unwrap_or(0);
                    counts.packets_dropped = counts.packets_dropped.saturating_add(dropped);
                }
                (code::PACKET_FLAGS | code::PACKET_DROPCOUNT, _) => {
                    counts.option_values_malformed = counts.option_values_malformed.wrapping_add(1);
                }
                _ => {}
            }
        }
        if options.is_malformed() {
            counts.options_malformed = counts.options_malformed.wrapping_add(1);
        }
        flags
    }

    /// Which of the tests of a packet block failed.
    #[cold]
    #[inline(never)]
    pub(super) fn explain(&self, header: &[u8; PACKET_HEADER_LEN], interface: u32) -> Stop {
        let block_len = self.order.u32_at(header, 4);
        let captured_len = self.order.u32_at(header, 20);
        let block_type = self.order.u32_at(header, 0);
        if let Err(fault) = block::check_len(block_type, block_len) {
            return fault.into();
        }
        let Some(channel) = self.channels.get(interface as usize) else {
            let interface_count = self.channels.len() as u32;
            return FileFault::InterfaceUnknown { interface, interface_count }.into();
        };
        if captured_len > channel.frame_len_max {
            let captured_len_max = channel.frame_len_max;
            return FileFault::RecordTooLong { captured_len, captured_len_max }.into();
        }
        let room = block_len.saturating_sub(PACKET_OVERHEAD);
        FileFault::FrameLongerThanBlock { captured_len, room }.into()
    }

    /// Every block but enhanced packets, and those too where `bytes` is short.
    #[inline(never)]
    fn next_block(&mut self, bytes: &[u8], metadata: &mut Metadata) -> Result<(Item, usize), Stop> {
        let Some(header) = bytes.first_chunk::<{ BLOCK_OVERHEAD as usize }>() else {
            return Err(Stop::NeedMore(BLOCK_OVERHEAD as usize));
        };
        // The section header's type reads the same both ways, its length does not.
        let is_section = self.order.u32_at(header, 0) == block_type::SECTION_HEADER;
        let order = if is_section { block::section_order(header)? } else { self.order };
        let block_type = order.u32_at(header, 0);
        let block_len = order.u32_at(header, 4);
        block::check_len(block_type, block_len)?;
        let total = block_len as usize;
        let Some(block) = bytes.get(..total) else {
            return Err(Stop::NeedMore(total));
        };
        let trailing = order.u32_at(block, total.wrapping_sub(4));
        if trailing != block_len {
            return Err(FileFault::BlockLengthMismatch { leading: block_len, trailing }.into());
        }
        let item = match block_type {
            block_type::SIMPLE_PACKET => Item::Frame(self.simple(block, &mut metadata.counts)?),
            block_type::OBSOLETE_PACKET => Item::Frame(self.obsolete(block, &mut metadata.counts)?),
            _ => Item::Meta(self.read_block(block_type, block, order, metadata)?),
        };
        Ok((item, total))
    }

    /// A simple packet: of the first interface, cut at its snaplen, without stamp.
    fn simple(&self, block: &[u8], counts: &mut FileCounts) -> Result<FrameHeader, FileFault> {
        let wire_len = self.order.u32_at(block, 8);
        let Some(channel) = self.channels.first() else {
            return Err(FileFault::InterfaceUnknown { interface: 0, interface_count: 0 });
        };
        let snaplen = if channel.snaplen == 0 { u32::MAX } else { channel.snaplen };
        let captured_len = wire_len.min(snaplen);
        if captured_len > channel.frame_len_max {
            let captured_len_max = channel.frame_len_max;
            return Err(FileFault::RecordTooLong { captured_len, captured_len_max });
        }
        let room = (block.len() as u32).saturating_sub(SIMPLE_HEADER_LEN as u32 + 4);
        if captured_len > room {
            return Err(FileFault::FrameLongerThanBlock { captured_len, room });
        }
        counts.simple_packet_blocks = counts.simple_packet_blocks.wrapping_add(1);
        Ok(FrameHeader {
            timestamp: Timestamp::default(),
            has_timestamp: false,
            captured_len,
            wire_len,
            data_offset: SIMPLE_HEADER_LEN as u32,
            options_offset: 0,
            options_len: 0,
            flags: 0,
            interface: channel.interface,
            link: channel.link,
            direction: Direction::Unknown,
        })
    }

    /// The packet block that the enhanced one replaced: as that, but the interface
    /// has 16 bits and the other 16 count packets lost, 0xffff where unknown.
    fn obsolete(&self, block: &[u8], counts: &mut FileCounts) -> Result<FrameHeader, Stop> {
        let Some(header) = block.first_chunk::<PACKET_HEADER_LEN>() else {
            return Err(Stop::NeedMore(PACKET_OVERHEAD as usize));
        };
        let interface = u32::from(self.order.u16_at(header, 8));
        let captured_len = self.order.u32_at(header, 20);
        let room = (block.len() as u32).saturating_sub(PACKET_OVERHEAD);
        let padded_len = captured_len.saturating_add(3) & !3;
        let channel = match self.channels.get(interface as usize) {
            Some(channel) if captured_len <= channel.frame_len_max && padded_len <= room => channel,
            _ => return Err(self.explain(header, interface)),
        };
        counts.obsolete_packet_blocks = counts.obsolete_packet_blocks.wrapping_add(1);
        let dropped = self.order.u16_at(header, 10);
        if dropped != u16::MAX {
            counts.packets_dropped = counts.packets_dropped.saturating_add(u64::from(dropped));
        }
        let mut frame = FrameHeader {
            timestamp: channel.timestamp(self.order.ticks_at(header, 12), counts),
            has_timestamp: true,
            captured_len,
            wire_len: self.order.u32_at(header, 24),
            data_offset: PACKET_HEADER_LEN as u32,
            options_offset: (PACKET_HEADER_LEN as u32).saturating_add(padded_len),
            options_len: room.saturating_sub(padded_len),
            flags: 0,
            interface: channel.interface,
            link: channel.link,
            direction: Direction::Unknown,
        };
        frame.flags = self.read_frame_options(frame.options_range(), block, counts);
        frame.direction = direction_of(frame.flags);
        Ok(frame)
    }

    /// Reads a block that is no frame.
    fn read_block(
        &mut self,
        block_type: u32,
        block: &[u8],
        order: ByteOrder,
        metadata: &mut Metadata,
    ) -> Result<BlockKind, FileFault> {
        let counts = &mut metadata.counts;
        let (count, kind) = match block_type {
            block_type::SECTION_HEADER => return self.read_section(block, order, metadata),
            block_type::INTERFACE_DESCRIPTION => return self.read_interface(block, metadata),
            block_type::INTERFACE_STATISTICS => return Ok(self.read_statistics(block, metadata)),
            block_type::NAME_RESOLUTION => (&mut counts.name_blocks, BlockKind::Names),
            block_type::SECRETS => (&mut counts.secrets_blocks, BlockKind::Secrets),
            block_type::JOURNAL => (&mut counts.journal_blocks, BlockKind::Journal),
            block_type::CUSTOM | block_type::CUSTOM_NO_COPY => {
                (&mut counts.custom_blocks, BlockKind::Custom)
            }
            unknown => (&mut counts.unknown_blocks, BlockKind::Unknown(unknown)),
        };
        *count = count.wrapping_add(1);
        Ok(kind)
    }
}
