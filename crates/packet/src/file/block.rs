//! pcapng blocks that hold no frame: sections, interfaces, statistics.

use super::fault::FileFault;
use super::metadata::{
    FileCounts, INTERFACE_COUNT_MAX, Interface, InterfaceStatistics, SECTION_COUNT_KEPT_MAX,
    Section, TextBudget,
};
use super::option::{Options, code};
use super::order::ByteOrder;
use super::pcapng::{BLOCK_OVERHEAD, Channel, Pcapng, block_type};
use super::resolution::Resolution;
use super::{BLOCK_LEN_MAX, Metadata, frame_len_max};
use crate::link::LinkType;
use crate::time::NS_PER_SECOND;

/// `1a2b3c4d` as the writer's byte order lays it out.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Where the options of each block begin.
const SECTION_HEADER_LEN: usize = 24;
const INTERFACE_HEADER_LEN: usize = 16;
const STATISTICS_HEADER_LEN: usize = 20;

/// A block that is no frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BlockKind {
    /// A section begins: interfaces are numbered again, byte order may change.
    Section,
    /// An interface was described; its index over all sections.
    Interface(u16),
    /// Statistics about an interface were read; `None` where it is unknown.
    Statistics(Option<u16>),
    /// Addresses with names.
    Names,
    /// Keys to decrypt with; ignored.
    Secrets,
    /// A systemd journal entry.
    Journal,
    /// A block whose meaning is private to its writer.
    Custom,
    /// A block of a type not known here.
    Unknown(u32),
}

/// Byte order of the section whose header begins with `header`.
pub(super) fn section_order(header: &[u8; 12]) -> Result<ByteOrder, FileFault> {
    let orders = [ByteOrder::Little, ByteOrder::Big];
    let found = orders.into_iter().find(|order| order.u32_at(header, 8) == BYTE_ORDER_MAGIC);
    let [.., a, b, c, d] = *header;
    found.ok_or(FileFault::ByteOrderMagicWrong { magic: [a, b, c, d] })
}

/// The least total length of a block that holds what its type must hold.
const fn block_len_min(block_type: u32) -> u32 {
    BLOCK_OVERHEAD
        + match block_type {
            block_type::SECTION_HEADER => 16,
            block_type::INTERFACE_DESCRIPTION => 8,
            block_type::OBSOLETE_PACKET | block_type::ENHANCED_PACKET => 20,
            block_type::SIMPLE_PACKET => 4,
            block_type::INTERFACE_STATISTICS => 12,
            _ => 0,
        }
}

/// Whether a block of this type can have this total length.
pub(super) fn check_len(block_type: u32, block_len: u32) -> Result<(), FileFault> {
    let block_len_min = block_len_min(block_type);
    if block_len < block_len_min {
        return Err(FileFault::BlockLengthSmall { block_type, block_len, block_len_min });
    }
    if block_len > BLOCK_LEN_MAX {
        let block_len_max = BLOCK_LEN_MAX;
        return Err(FileFault::BlockLengthLong { block_type, block_len, block_len_max });
    }
    if !block_len.is_multiple_of(4) {
        return Err(FileFault::BlockLengthUnaligned { block_type, block_len });
    }
    Ok(())
}

/// Options of `block` whose body before them is `header_len` bytes with type and length.
fn options_of(block: &[u8], header_len: usize, order: ByteOrder) -> Options<'_> {
    let end = block.len().saturating_sub(4);
    Options::new(block.get(header_len..end).unwrap_or_default(), order)
}

/// Puts texts into their fields and counts what does not fit.
struct Reader<'a> {
    budget: &'a mut TextBudget,
    counts: &'a mut FileCounts,
}

impl Reader<'_> {
    fn text(&mut self, field: &mut String, value: &[u8]) {
        let (text, complete) = self.budget.take(value);
        *field = text;
        self.cut(complete);
    }

    fn comment(&mut self, comments: &mut super::Comments, value: &[u8]) {
        let complete = comments.push(value, self.budget);
        self.cut(complete);
    }

    fn cut(&mut self, complete: bool) {
        if !complete {
            self.counts.texts_cut = self.counts.texts_cut.wrapping_add(1);
        }
    }

    fn value_malformed(&mut self) {
        self.counts.option_values_malformed = self.counts.option_values_malformed.wrapping_add(1);
    }

    fn end(&mut self, options: &Options<'_>) {
        if options.is_malformed() {
            self.counts.options_malformed = self.counts.options_malformed.wrapping_add(1);
        }
    }
}

impl Pcapng {
    /// A section begins: everything said so far is forgotten, except the record.
    pub(super) fn read_section(
        &mut self,
        block: &[u8],
        order: ByteOrder,
        metadata: &mut Metadata,
    ) -> Result<BlockKind, FileFault> {
        let (major, minor) = (order.u16_at(block, 12), order.u16_at(block, 14));
        if major != 1 {
            return Err(FileFault::SectionVersionUnsupported { major, minor });
        }
        self.order = order;
        self.channels.clear();
        metadata.counts.section_blocks = metadata.counts.section_blocks.wrapping_add(1);
        metadata.structure_version = metadata.structure_version.wrapping_add(1);
        if metadata.sections.len() >= SECTION_COUNT_KEPT_MAX {
            return Ok(BlockKind::Section);
        }
        let mut section = Section::default();
        let mut reader = Reader { budget: &mut metadata.budget, counts: &mut metadata.counts };
        let mut options = options_of(block, SECTION_HEADER_LEN, order);
        for option in &mut options {
            match option.code {
                code::COMMENT => reader.comment(&mut section.comments, option.value),
                code::SHB_HARDWARE => reader.text(&mut section.hardware, option.value),
                code::SHB_OS => reader.text(&mut section.os, option.value),
                code::SHB_APPLICATION => reader.text(&mut section.application, option.value),
                _ => {}
            }
        }
        reader.end(&options);
        metadata.sections.push(section);
        Ok(BlockKind::Section)
    }

    /// An interface is described.
    pub(super) fn read_interface(
        &mut self,
        block: &[u8],
        metadata: &mut Metadata,
    ) -> Result<BlockKind, FileFault> {
        let interface_count_max = INTERFACE_COUNT_MAX as u32;
        let Ok(index) = u16::try_from(metadata.interfaces.len()) else {
            return Err(FileFault::InterfacesTooMany { interface_count_max });
        };
        let mut interface = Interface {
            link: LinkType(self.order.u16_at(block, 8)),
            snaplen: self.order.u32_at(block, 12),
            ..Interface::default()
        };
        let mut reader = Reader { budget: &mut metadata.budget, counts: &mut metadata.counts };
        let mut options = options_of(block, INTERFACE_HEADER_LEN, self.order);
        for option in &mut options {
            match option.code {
                code::COMMENT => reader.comment(&mut interface.comments, option.value),
                code::IF_NAME => reader.text(&mut interface.name, option.value),
                code::IF_DESCRIPTION => reader.text(&mut interface.description, option.value),
                code::IF_OS => reader.text(&mut interface.os, option.value),
                code::IF_HARDWARE => reader.text(&mut interface.hardware, option.value),
                // The first byte says what the rest is; 0 is text, 1 BPF instructions.
                code::IF_FILTER => match option.value.split_first() {
                    Some((0, text)) => reader.text(&mut interface.filter, text),
                    Some(_) => {}
                    None => reader.value_malformed(),
                },
                other => {
                    let known = set_number(&mut interface, other, option.value, self.order);
                    if !known {
                        reader.value_malformed();
                    }
                }
            }
        }
        reader.end(&options);
        let offset_ns = interface.offset_seconds.checked_mul(NS_PER_SECOND);
        self.channels.push(Channel {
            ns_per_tick: offset_ns.and(interface.resolution.ns_per_tick()).unwrap_or(0),
            offset_ns: offset_ns.unwrap_or(0),
            offset_seconds: interface.offset_seconds,
            frame_len_max: frame_len_max(interface.link),
            snaplen: interface.snaplen,
            link: interface.link,
            interface: index,
            resolution: interface.resolution,
        });
        metadata.interfaces.push(interface);
        metadata.structure_version = metadata.structure_version.wrapping_add(1);
        metadata.counts.interface_blocks = metadata.counts.interface_blocks.wrapping_add(1);
        Ok(BlockKind::Interface(index))
    }

    /// Statistics about an interface. Wireshark passes over those about unknown ones too.
    pub(super) fn read_statistics(&mut self, block: &[u8], metadata: &mut Metadata) -> BlockKind {
        let counts = &mut metadata.counts;
        counts.statistics_blocks = counts.statistics_blocks.wrapping_add(1);
        let local = self.order.u32_at(block, 8) as usize;
        let Some(channel) = self.channels.get(local) else {
            counts.statistics_without_interface =
                counts.statistics_without_interface.wrapping_add(1);
            return BlockKind::Statistics(None);
        };
        // The stamps that are counted where they are clamped are those of frames.
        let clamped = &mut FileCounts::default();
        let timestamp = channel.timestamp(self.order.ticks_at(block, 12), clamped);
        let mut statistics = InterfaceStatistics { timestamp, ..InterfaceStatistics::default() };
        let mut reader = Reader { budget: &mut metadata.budget, counts };
        let mut options = options_of(block, STATISTICS_HEADER_LEN, self.order);
        for option in &mut options {
            let Some(number) = self.order.u64_of(option.value) else {
                if matches!(option.code, code::ISB_STARTTIME..=code::ISB_USRDELIV) {
                    reader.value_malformed();
                }
                continue;
            };
            let ticks = self.order.ticks_at(option.value, 0);
            match option.code {
                code::ISB_STARTTIME => statistics.start = Some(channel.timestamp(ticks, clamped)),
                code::ISB_ENDTIME => statistics.end = Some(channel.timestamp(ticks, clamped)),
                code::ISB_IFRECV => statistics.received = Some(number),
                code::ISB_IFDROP => statistics.dropped = Some(number),
                code::ISB_FILTERACCEPT => statistics.filter_accepted = Some(number),
                code::ISB_OSDROP => statistics.os_dropped = Some(number),
                code::ISB_USRDELIV => statistics.delivered = Some(number),
                _ => {}
            }
        }
        reader.end(&options);
        let index = channel.interface;
        if let Some(interface) = metadata.interfaces.get_mut(usize::from(index)) {
            interface.statistics = Some(statistics);
        }
        BlockKind::Statistics(Some(index))
    }
}

/// Sets what a numeric option of an interface says; false where its length is wrong.
fn set_number(interface: &mut Interface, option: u16, value: &[u8], order: ByteOrder) -> bool {
    match (option, value) {
        (code::IF_TSRESOL, &[byte]) => interface.resolution = Resolution::from_option(byte),
        (code::IF_FCSLEN, &[byte]) => interface.fcs_len = Some(byte),
        (code::IF_SPEED, &[_, _, _, _, _, _, _, _]) => interface.speed = order.u64_of(value),
        (code::IF_TSOFFSET, &[_, _, _, _, _, _, _, _]) => {
            interface.offset_seconds = order.u64_of(value).unwrap_or(0).cast_signed();
        }
        (code::IF_TSRESOL | code::IF_FCSLEN | code::IF_SPEED | code::IF_TSOFFSET, _) => {
            return false;
        }
        _ => {}
    }
    true
}

const _: () = assert!(INTERFACE_COUNT_MAX == u16::MAX as usize + 1, "a u16 numbers them all");
