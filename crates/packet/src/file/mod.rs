//! Capture files: pcap and pcapng, decoded and encoded without any I/O.
//!
//! Bytes come in, values go out. [`Decoder::next`] reads what lies at the start
//! of a slice and says how long it is; the caller moves on. When the slice ends
//! too early it says how many bytes it needs. A [`Decoder`] is `Clone`, and a
//! clone may start at any record of the file, so that threads share one map.
//!
//! What damaged or hostile files can do is bounded: a frame is at most
//! [`FRAME_LEN_MAX`] bytes (more for a few link types, as in libpcap), a block at
//! most [`BLOCK_LEN_MAX`], every success consumes at least 8 bytes, and what is
//! kept of names and comments has a limit.
//!
//! | file | holds |
//! |---|---|
//! | `magic` | what a file is by its first bytes |
//! | `pcap`, `pcapng` | the two decoders; `block` the blocks that are no frames |
//! | `boundary` | finding a record in the middle of a file |
//! | `encode_pcap`, `encode_pcapng` | writing; `in_place` frames into a buffer that is there |
//! | `custom` | options and blocks private to a program, lengths of sections |
//! | `metadata`, `option`, `resolution`, `fault` | the values they share |

mod block;
mod boundary;
mod custom;
mod encode_pcap;
mod encode_pcapng;
mod fault;
mod in_place;
mod magic;
mod metadata;
mod option;
mod order;
mod pcap;
mod pcapng;
mod resolution;
#[cfg(test)]
mod tests;

pub use block::BlockKind;
pub use custom::{
    PrivateBlock, custom_option, section_custom, section_len, section_order, set_section_len,
};
pub use encode_pcap::PcapEncoder;
pub use encode_pcapng::{FrameNote, PcapngEncoder};
pub use fault::{FileFault, Stop};
pub use in_place::{FrameFields, frame_block_len, put_frame};
pub use magic::Magic;
pub use metadata::{
    COMMENT_COUNT_MAX, Comments, FileCounts, INTERFACE_COUNT_MAX, Interface, InterfaceStatistics,
    SECTION_COUNT_KEPT_MAX, Section, TEXT_LEN_MAX, TEXT_TOTAL_MAX,
};
pub use option::{BlockOption, Options};
pub use order::ByteOrder;
pub use resolution::Resolution;

use std::ops::Range;

use crate::link::LinkType;
use crate::record::Direction;
use crate::time::Timestamp;
use metadata::TextBudget;
use pcap::Pcap;
use pcapng::Pcapng;

/// The longest frame believed, as in libpcap and Wireshark: `snaplen` is not
/// asked, as files exist that break their own.
pub const FRAME_LEN_MAX: u32 = 262_144;
/// The longest frame of the few link types whose frames are whole messages.
pub const FRAME_LEN_MAX_MESSAGE: u32 = 128 << 20;
/// The longest pcapng block believed, as in Wireshark.
pub const BLOCK_LEN_MAX: u32 = 16 << 20;
/// Bytes of a file that [`Decoder::new`] and [`Magic::detect`] look at.
pub const PREFIX_LEN: usize = pcap::FILE_HEADER_LEN;

const _: () = assert!(PREFIX_LEN >= Magic::PREFIX_LEN, "one read serves both");

/// The longest frame of `link` that is believed: D-Bus and USB messages may be
/// 128 MiB (libpcap's `max_snaplen_for_dlt`), all else [`FRAME_LEN_MAX`].
pub(crate) const fn frame_len_max(link: LinkType) -> u32 {
    match link.0 {
        // USB_LINUX, USB_LINUX_MMAPPED, DBUS, USBPCAP, EBHSCR.
        189 | 220 | 231 | 249 | 279 => FRAME_LEN_MAX_MESSAGE,
        _ => FRAME_LEN_MAX,
    }
}

/// What kind of file is being decoded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Format {
    /// Classic pcap.
    Pcap {
        /// Byte order of the headers.
        order: ByteOrder,
        /// Micro- or nanoseconds.
        resolution: Resolution,
        /// Whether record headers have the 8 more bytes of patched tcpdumps.
        modified: bool,
    },
    /// pcapng.
    Pcapng {
        /// Byte order of the section being read.
        order: ByteOrder,
    },
}

/// What the next bytes were.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// A frame.
    Frame(FrameHeader),
    /// A block that is no frame.
    Meta(BlockKind),
}

/// What a file records of one frame. Offsets count from the start of the item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// When it was seen; the epoch where `has_timestamp` is false.
    pub timestamp: Timestamp,
    /// Captured bytes.
    pub captured_len: u32,
    /// Bytes that were on the wire, as the file gives them: damaged files give less
    /// than were captured.
    pub wire_len: u32,
    /// Where the frame's bytes begin.
    pub data_offset: u32,
    /// Where its options begin; see [`Decoder::frame_options`].
    pub options_offset: u32,
    /// Bytes of options; 0 where there are none.
    pub options_len: u32,
    /// `epb_flags` as the file gives them; 0 if it does not.
    pub flags: u32,
    /// Index within the file, over all sections, of the interface.
    pub interface: u16,
    /// What its first byte is.
    pub link: LinkType,
    /// Which way it passed, if the file says so.
    pub direction: Direction,
    /// False for simple packet blocks, which have no stamp. Carrying over the last
    /// stamp would make the answer depend on where a thread began to read.
    pub has_timestamp: bool,
}

impl FrameHeader {
    /// Where the frame's bytes lie, from the start of the item.
    #[inline]
    #[must_use]
    pub const fn data_range(&self) -> Range<usize> {
        let start = self.data_offset as usize;
        start..start.saturating_add(self.captured_len as usize)
    }

    /// Where its options lie, from the start of the item.
    #[inline]
    #[must_use]
    pub const fn options_range(&self) -> Range<usize> {
        let start = self.options_offset as usize;
        start..start.saturating_add(self.options_len as usize)
    }
}

/// The loop of [`Decoder::read`].
#[inline(always)]
fn read_items(
    bytes: &[u8],
    start: usize,
    stop: usize,
    mut next: impl FnMut(&[u8]) -> Result<(Item, usize), Stop>,
    take: &mut impl TakeFrame,
) -> (usize, Option<Stop>) {
    let mut at = start;
    while at < stop {
        let item = bytes.get(at..).unwrap_or_default();
        match next(item) {
            Ok((Item::Frame(frame), consumed)) => {
                let more = take.take(item, frame, at);
                at = at.wrapping_add(consumed);
                if !more {
                    break;
                }
            }
            Ok((Item::Meta(_), consumed)) => at = at.wrapping_add(consumed),
            Err(stop) => return (at, Some(stop)),
        }
    }
    (at, None)
}

/// The same value, taken apart and put together again.
///
/// A long path that is not inlined returns through memory. Handed on as it is, it
/// would force the short path's result through the same memory: measured, 15 ns
/// a record instead of 3.4 (pcap in cache). Field by field, both stay in registers.
#[inline(always)]
fn in_registers(result: Result<(Item, usize), Stop>) -> Result<(Item, usize), Stop> {
    match result {
        Ok((Item::Frame(frame), consumed)) => {
            let FrameHeader { timestamp, captured_len, wire_len, .. } = frame;
            let FrameHeader { data_offset, options_offset, options_len, flags, .. } = frame;
            let FrameHeader { interface, link, direction, has_timestamp, .. } = frame;
            let frame = FrameHeader {
                timestamp,
                captured_len,
                wire_len,
                data_offset,
                options_offset,
                options_len,
                flags,
                interface,
                link,
                direction,
                has_timestamp,
            };
            Ok((Item::Frame(frame), consumed))
        }
        Ok((Item::Meta(kind), consumed)) => Ok((Item::Meta(kind), consumed)),
        Err(Stop::NeedMore(wanted)) => Err(Stop::NeedMore(wanted)),
        Err(Stop::Fault(fault)) => Err(Stop::Fault(fault)),
    }
}

/// Where [`Decoder::read`] puts frames. A trait and no closure, because only a
/// method can be made to be inlined into the loop.
pub trait TakeFrame {
    /// Takes the frame of the item that begins at offset `at` and reaches no
    /// further than `item`. False when no more is wanted.
    fn take(&mut self, item: &[u8], frame: FrameHeader, at: usize) -> bool;
}

/// Decodes one capture file.
///
/// State changes only when an item was decoded: after a [`Stop`] the same item
/// may be offered again with more bytes.
#[derive(Clone, Debug)]
pub struct Decoder {
    layout: Layout,
    metadata: Metadata,
}

#[derive(Clone, Debug)]
enum Layout {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// What both formats gather while they decode.
#[derive(Clone, Debug)]
struct Metadata {
    interfaces: Vec<Interface>,
    sections: Vec<Section>,
    /// Sections and interfaces met: whatever changes how later blocks are read.
    structure_version: u64,
    counts: FileCounts,
    budget: TextBudget,
}

impl Decoder {
    /// What a file that begins with `prefix` is; see [`Magic`].
    #[must_use]
    pub fn detect(prefix: &[u8]) -> Option<Magic> {
        Magic::detect(prefix)
    }

    /// A decoder for the file that begins with `prefix`, of which it wants
    /// [`PREFIX_LEN`] bytes; and how many of them to skip before the first
    /// [`Decoder::next`]. For pcapng these are none: its header is a block.
    ///
    /// # Errors
    /// The file is no capture, or of a form that is not supported.
    pub fn new(prefix: &[u8]) -> Result<(Self, usize), FileFault> {
        let (layout, interfaces, consumed) = match Magic::detect(prefix) {
            Some(Magic::Pcap) => {
                let (layout, interface) = Pcap::new(prefix)?;
                (Layout::Pcap(layout), vec![interface], pcap::FILE_HEADER_LEN)
            }
            Some(Magic::Pcapng) => (Layout::Pcapng(Pcapng::new(prefix)?), Vec::new(), 0),
            Some(magic) => return Err(FileFault::FormatUnsupported { magic }),
            None => match prefix.first_chunk() {
                Some(&magic) => return Err(FileFault::MagicUnknown { magic }),
                None => {
                    let (wanted, got) = (PREFIX_LEN as u32, prefix.len() as u32);
                    return Err(FileFault::HeaderShort { wanted, got });
                }
            },
        };
        let metadata = Metadata {
            interfaces,
            sections: Vec::new(),
            structure_version: 0,
            counts: FileCounts::default(),
            budget: TextBudget::new(),
        };
        Ok((Self { layout, metadata }, consumed))
    }

    /// Decodes what lies at the start of `bytes`: the item and its length, which
    /// is at least 8 and at most the length of `bytes`.
    ///
    /// # Errors
    /// [`Stop::NeedMore`] where `bytes` ends too early, also when it is empty;
    /// [`Stop::Fault`] where what follows cannot be found.
    #[inline]
    pub fn next(&mut self, bytes: &[u8]) -> Result<(Item, usize), Stop> {
        match &mut self.layout {
            Layout::Pcap(pcap) => pcap.next(bytes, &mut self.metadata.counts),
            Layout::Pcapng(pcapng) => pcapng.next(bytes, &mut self.metadata),
        }
    }

    /// Decodes the items that begin in `bytes[start..stop]`, an item may reach
    /// past `stop`, and hands each frame to `take` until it wants no more. Returns where the next
    /// item begins and, where something else ended it, why.
    ///
    /// The same as [`Decoder::next`] in a loop, but what does not change from
    /// record to record is examined once: measured, a third of the time.
    #[inline]
    pub fn read(
        &mut self,
        bytes: &[u8],
        start: usize,
        stop: usize,
        take: &mut impl TakeFrame,
    ) -> (usize, Option<Stop>) {
        let metadata = &mut self.metadata;
        match &mut self.layout {
            Layout::Pcap(pcap) => pcap.read(bytes, start, stop, &mut metadata.counts, take),
            Layout::Pcapng(pcapng) => {
                read_items(bytes, start, stop, |item| pcapng.next(item, metadata), take)
            }
        }
    }

    /// The file's format; of pcapng, that of the section being read.
    #[must_use]
    pub fn format(&self) -> Format {
        match &self.layout {
            Layout::Pcap(pcap) => Format::Pcap {
                order: pcap.order,
                resolution: pcap.resolution,
                modified: pcap.modified,
            },
            Layout::Pcapng(pcapng) => Format::Pcapng { order: pcapng.order() },
        }
    }

    /// The interfaces met so far, over all sections: the index is
    /// [`FrameHeader::interface`]. A pcap file has one, which has no name.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.metadata.interfaces
    }

    /// The sections met so far, the first [`SECTION_COUNT_KEPT_MAX`] of them.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.metadata.sections
    }

    /// What was met so far. Frames of pcap files are not counted here.
    #[must_use]
    pub fn counts(&self) -> &FileCounts {
        &self.metadata.counts
    }

    /// Changes whenever a block changes how later blocks are read: a section or an
    /// interface. Of a file that threads share: a part was decoded rightly only
    /// where its decoder began with the version with which the part before it ended.
    #[must_use]
    pub fn structure_version(&self) -> u64 {
        self.metadata.structure_version
    }

    /// A clone for another part of the same file, which counts from zero.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut part = self.clone();
        part.metadata.counts = FileCounts::default();
        for interface in &mut part.metadata.interfaces {
            interface.statistics = None;
        }
        part
    }

    /// Takes over what a [`fork`](Self::fork) met in the part that follows: its
    /// state, its statistics where it met any, and its counts. The fork must have
    /// begun with the [`structure_version`](Self::structure_version) of `self`;
    /// otherwise its part has to be decoded again.
    pub fn join(&mut self, part: Self) {
        let Self { layout, metadata } = part;
        let earlier = std::mem::replace(&mut self.metadata, metadata);
        self.layout = layout;
        self.metadata.counts.merge(&earlier.counts);
        for (later, earlier) in self.metadata.interfaces.iter_mut().zip(earlier.interfaces) {
            later.statistics = later.statistics.or(earlier.statistics);
        }
    }

    /// The options of a frame that [`Decoder::next`] has just decoded from the
    /// start of `bytes`: comments and others that are ignored here.
    #[must_use]
    pub fn frame_options<'a>(&self, bytes: &'a [u8], frame: &FrameHeader) -> Options<'a> {
        let order = match &self.layout {
            Layout::Pcap(pcap) => pcap.order,
            Layout::Pcapng(pcapng) => pcapng.order(),
        };
        Options::new(bytes.get(frame.options_range()).unwrap_or_default(), order)
    }
}
