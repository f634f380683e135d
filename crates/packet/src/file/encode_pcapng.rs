//! Writing pcapng: version 1.0, little-endian, stamps in nanoseconds.

use super::fault::FileFault;
use super::metadata::{INTERFACE_COUNT_MAX, Interface, InterfaceStatistics, Section};
use super::option::code;
use super::pcapng::block_type;
use super::resolution::Resolution;
use super::{BLOCK_LEN_MAX, frame_len_max};
use crate::record::Direction;
use crate::time::{NS_PER_SECOND, Timestamp};

/// Bytes of an option value: what its length can say, less the room to pad.
pub(super) const OPTION_LEN_MAX: usize = 65_532;
/// Bytes of a block that options may fill; the rest is for fixed parts.
const OPTIONS_END_MAX: usize = BLOCK_LEN_MAX as usize - 1024;
/// Bytes of one frame, so that it fits a block together with its options.
const FRAME_LEN_END: u32 = BLOCK_LEN_MAX / 2;

/// What is written of a frame besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrameNote<'a> {
    /// When it was seen.
    pub timestamp: Timestamp,
    /// The interface, as [`PcapngEncoder::interface`] numbered it.
    pub interface: u32,
    /// Bytes that were on the wire.
    pub wire_len: u32,
    /// Which way it passed.
    pub direction: Direction,
    /// Comments, each its own option; Wireshark shows them with the frame.
    pub comments: &'a [&'a str],
}

/// What writing a frame needs of its interface.
#[derive(Clone, Copy, Debug)]
struct Channel {
    frame_len_max: u32,
    offset_ns: i64,
}

/// Encodes a pcapng file by appending to a buffer that the caller writes out:
/// [`section`](Self::section), then interfaces, frames and statistics as they come.
///
/// What the format cannot say is bent and counted: frames are cut at the snaplen,
/// stamps before the interface's offset become the offset, texts are cut at 65,532 bytes.
#[derive(Clone, Debug, Default)]
pub struct PcapngEncoder {
    channels: Vec<Channel>,
    timestamps_clamped: u64,
    frames_cut: u64,
    texts_cut: u64,
}

impl PcapngEncoder {
    /// An encoder that has written nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a section header; interfaces are numbered from 0 again.
    pub fn section(&mut self, out: &mut Vec<u8>, section: &Section) {
        self.section_with(out, section, None);
    }

    /// [`section`](Self::section) with a text that is the business of `enterprise`.
    pub fn section_with(
        &mut self,
        out: &mut Vec<u8>,
        section: &Section,
        custom: Option<(u32, &str)>,
    ) {
        self.channels.clear();
        let start = begin(out, block_type::SECTION_HEADER);
        out.extend_from_slice(&0x1a2b_3c4d_u32.to_le_bytes());
        out.extend_from_slice(&1_u16.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        // Section length: not told, so that nothing has to be written twice.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        let options = out.len();
        self.texts(out, start, code::COMMENT, &section.comments.texts);
        self.text(out, start, code::SHB_HARDWARE, &section.hardware);
        self.text(out, start, code::SHB_OS, &section.os);
        self.text(out, start, code::SHB_APPLICATION, &section.application);
        if let Some((enterprise, text)) = custom {
            let text = self.fit(out, start, text);
            let room = text.len().min(OPTION_LEN_MAX - 4);
            let text = text.get(..room).unwrap_or_default();
            option(out, code::CUSTOM_TEXT, &[&enterprise.to_le_bytes(), text]);
        }
        end(out, start, options);
    }

    /// Appends the description of an interface and returns its number. Its clock is
    /// written as ticking in nanoseconds, whatever `resolution` says, and its
    /// statistics are not written: [`statistics`](Self::statistics) does that.
    ///
    /// # Errors
    /// [`FileFault::InterfacesTooMany`].
    pub fn interface(
        &mut self,
        out: &mut Vec<u8>,
        interface: &Interface,
    ) -> Result<u32, FileFault> {
        let number = self.channels.len();
        if number >= INTERFACE_COUNT_MAX {
            let interface_count_max = INTERFACE_COUNT_MAX as u32;
            return Err(FileFault::InterfacesTooMany { interface_count_max });
        }
        let frame_len_max = frame_len_max(interface.link).min(FRAME_LEN_END);
        let snaplen = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        self.channels.push(Channel {
            frame_len_max: snaplen.min(frame_len_max),
            offset_ns: interface.offset_seconds.saturating_mul(NS_PER_SECOND),
        });
        let start = begin(out, block_type::INTERFACE_DESCRIPTION);
        out.extend_from_slice(&interface.link.0.to_le_bytes());
        out.extend_from_slice(&0_u16.to_le_bytes());
        out.extend_from_slice(&interface.snaplen.to_le_bytes());
        let options = out.len();
        self.texts(out, start, code::COMMENT, &interface.comments.texts);
        self.text(out, start, code::IF_NAME, &interface.name);
        self.text(out, start, code::IF_DESCRIPTION, &interface.description);
        if let Some(speed) = interface.speed {
            option(out, code::IF_SPEED, &[&speed.to_le_bytes()]);
        }
        option(out, code::IF_TSRESOL, &[&[Resolution::NANOSECONDS.to_option()]]);
        if !interface.filter.is_empty() {
            // The leading zero says that the filter is text.
            let text = self.fit(out, start, &interface.filter);
            option(out, code::IF_FILTER, &[&[0], text]);
        }
        self.text(out, start, code::IF_OS, &interface.os);
        if let Some(fcs_len) = interface.fcs_len {
            option(out, code::IF_FCSLEN, &[&[fcs_len]]);
        }
        if interface.offset_seconds != 0 {
            option(out, code::IF_TSOFFSET, &[&interface.offset_seconds.to_le_bytes()]);
        }
        self.text(out, start, code::IF_HARDWARE, &interface.hardware);
        end(out, start, options);
        Ok(number as u32)
    }

    /// Appends a frame of which `bytes` were captured.
    ///
    /// # Errors
    /// [`FileFault::InterfaceUnknown`]: a reader would refuse the file.
    pub fn frame(
        &mut self,
        out: &mut Vec<u8>,
        note: &FrameNote<'_>,
        bytes: &[u8],
    ) -> Result<(), FileFault> {
        let channel = self.channel(note.interface)?;
        let kept = bytes.get(..channel.frame_len_max as usize).unwrap_or(bytes);
        if kept.len() < bytes.len() {
            self.frames_cut = self.frames_cut.wrapping_add(1);
        }
        let ticks = self.ticks(channel, note.timestamp);
        let start = begin(out, block_type::ENHANCED_PACKET);
        let words =
            [note.interface, (ticks >> 32) as u32, ticks as u32, kept.len() as u32, note.wire_len];
        for word in words {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(kept);
        pad(out, kept.len());
        let options = out.len();
        for &comment in note.comments {
            self.text_always(out, start, code::COMMENT, comment);
        }
        let flags = match note.direction {
            Direction::Unknown => 0_u32,
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        if flags != 0 {
            option(out, code::PACKET_FLAGS, &[&flags.to_le_bytes()]);
        }
        end(out, start, options);
        Ok(())
    }

    /// Appends what was counted on an interface.
    ///
    /// # Errors
    /// [`FileFault::InterfaceUnknown`]: a reader would pass over the counters.
    pub fn statistics(
        &mut self,
        out: &mut Vec<u8>,
        interface: u32,
        statistics: &InterfaceStatistics,
    ) -> Result<(), FileFault> {
        let channel = self.channel(interface)?;
        let start = begin(out, block_type::INTERFACE_STATISTICS);
        out.extend_from_slice(&interface.to_le_bytes());
        out.extend_from_slice(&words(self.ticks(channel, statistics.timestamp)));
        let options = out.len();
        let stamps = [(code::ISB_STARTTIME, statistics.start), (code::ISB_ENDTIME, statistics.end)];
        for (code, stamp) in stamps {
            if let Some(stamp) = stamp {
                option(out, code, &[&words(self.ticks(channel, stamp))]);
            }
        }
        let counters = [
            (code::ISB_IFRECV, statistics.received),
            (code::ISB_IFDROP, statistics.dropped),
            (code::ISB_FILTERACCEPT, statistics.filter_accepted),
            (code::ISB_OSDROP, statistics.os_dropped),
            (code::ISB_USRDELIV, statistics.delivered),
        ];
        for (code, counter) in counters {
            if let Some(counter) = counter {
                option(out, code, &[&counter.to_le_bytes()]);
            }
        }
        end(out, start, options);
        Ok(())
    }

    /// Stamps before their interface's offset, written as the offset.
    #[must_use]
    pub const fn timestamps_clamped(&self) -> u64 {
        self.timestamps_clamped
    }

    /// Frames cut because they were longer than the snaplen.
    #[must_use]
    pub const fn frames_cut(&self) -> u64 {
        self.frames_cut
    }

    /// Texts cut because an option or a block could not hold them.
    #[must_use]
    pub const fn texts_cut(&self) -> u64 {
        self.texts_cut
    }

    fn channel(&self, interface: u32) -> Result<Channel, FileFault> {
        let interface_count = self.channels.len() as u32;
        let channel = self.channels.get(interface as usize).copied();
        channel.ok_or(FileFault::InterfaceUnknown { interface, interface_count })
    }

    fn ticks(&mut self, channel: Channel, timestamp: Timestamp) -> u64 {
        // The exact difference: a stamp may be further from the offset than an i64 reaches.
        let ns = i128::from(timestamp.as_ns()) - i128::from(channel.offset_ns);
        u64::try_from(ns).unwrap_or_else(|_| {
            self.timestamps_clamped = self.timestamps_clamped.wrapping_add(1);
            0
        })
    }

    fn texts(&mut self, out: &mut Vec<u8>, start: usize, code: u16, texts: &[String]) {
        for text in texts {
            self.text_always(out, start, code, text);
        }
    }

    /// A text option, where there is a text.
    fn text(&mut self, out: &mut Vec<u8>, start: usize, code: u16, text: &str) {
        if !text.is_empty() {
            self.text_always(out, start, code, text);
        }
    }

    fn text_always(&mut self, out: &mut Vec<u8>, start: usize, code: u16, text: &str) {
        if out.len().saturating_sub(start) >= OPTIONS_END_MAX {
            self.texts_cut = self.texts_cut.wrapping_add(1);
            return;
        }
        let text = self.fit(out, start, text);
        option(out, code, &[text]);
    }

    /// As much of `text` as an option and the block that begins at `start` can hold.
    fn fit<'a>(&mut self, out: &[u8], start: usize, text: &'a str) -> &'a [u8] {
        let used = out.len().saturating_sub(start);
        let room = OPTIONS_END_MAX.saturating_sub(used).min(OPTION_LEN_MAX);
        let kept = text.floor_char_boundary(room);
        if kept < text.len() {
            self.texts_cut = self.texts_cut.wrapping_add(1);
        }
        text.as_bytes().get(..kept).unwrap_or_default()
    }
}

/// Begins a block; its length is filled in by [`end`].
pub(super) fn begin(out: &mut Vec<u8>, block_type: u32) -> usize {
    let start = out.len();
    out.extend_from_slice(&block_type.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    start
}

/// Ends the options that began at `options`, where there are any, and the block.
pub(super) fn end(out: &mut Vec<u8>, start: usize, options: usize) {
    if out.len() > options {
        option(out, code::END, &[]);
    }
    let block_len = out.len().saturating_sub(start).saturating_add(4) as u32;
    out.extend_from_slice(&block_len.to_le_bytes());
    if let Some(field) = out.get_mut(start..).and_then(|block| block.get_mut(4..8)) {
        field.copy_from_slice(&block_len.to_le_bytes());
    }
}

/// One option, its value in parts that together are at most 65,535 bytes.
pub(super) fn option(out: &mut Vec<u8>, code: u16, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(len as u16).to_le_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    pad(out, len);
}

/// Zeros after `len` bytes up to the next multiple of 4.
pub(super) fn pad(out: &mut Vec<u8>, len: usize) {
    let zeros = [0; 3];
    let missing = len.wrapping_neg() % 4;
    out.extend_from_slice(zeros.get(..missing).unwrap_or_default());
}

/// A stamp as pcapng lays it out: the high word first.
fn words(ticks: u64) -> [u8; 8] {
    let [a, b, c, d] = ((ticks >> 32) as u32).to_le_bytes();
    let [e, f, g, h] = (ticks as u32).to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

const _: () = assert!(OPTION_LEN_MAX.is_multiple_of(4) && OPTION_LEN_MAX < u16::MAX as usize);
