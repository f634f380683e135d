//! Bytes of a capture file to records: the loop every source of files runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use packet::dissect::{DissectOptions, dissect_into};
use packet::file::{ByteOrder, Decoder, FRAME_LEN_MAX, Format, FrameHeader, Stop, TakeFrame};
use packet::{BATCH_LEN_MAX, LinkType, Record, Timestamp};

use crate::filter::{Filter, FilterError, Program};
use crate::report::{Damage, DamageCause, Progress, Report};
use crate::sys::prefetch::prefetch;

/// How far ahead of the walk lines are asked for: far enough for memory to
/// answer, near enough that they are still there.
const PREFETCH_DISTANCE: usize = 6144;

const CACHE_LINE_LEN: usize = 64;

/// No item of a batch begins further from its start than this: 256 of the longest frames, those of
/// whole messages aside. Blocks that are no frames, and frames that the filter takes out, count as
/// well, so that offsets in a batch fit 32 bits, and a copy of one is bounded.
pub(crate) const BATCH_SPAN_MAX: usize = BATCH_LEN_MAX * FRAME_LEN_MAX as usize;

/// How frames are to be read; the same for all captures of a run.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// How deep headers are read.
    pub dissect: DissectOptions,
    /// Frames that do not pass are counted and left out.
    pub filter: Option<Filter>,
    /// Captured bytes kept of each frame; the rest is as if it had not been captured.
    pub snaplen: u32,
    /// Where reading reports its progress.
    pub progress: Arc<Progress>,
    /// Set from outside, it ends the reading of a pipe on which nothing comes.
    pub stop: Arc<AtomicBool>,
}

/// The state of reading one capture.
pub(crate) struct Reading {
    pub(crate) name: String,
    pub(crate) decoder: Decoder,
    pub(crate) report: Report,
    frames: Frames,
    /// Whether an interface has a link type that is not decoded, as of this version of what the
    /// file says of itself.
    has_undecoded: Option<(u64, bool)>,
}

/// What becomes of decoded frames: records of those that pass.
struct Frames {
    /// Records are filled in place: to build one and then move it costs more
    /// than finding its headers.
    slots: Box<[Record]>,
    record_count: usize,
    filtered: u64,
    options: ReadOptions,
    programs: Vec<((LinkType, bool), Program)>,
}

/// Why filling paused.
pub(crate) enum Pause {
    /// The batch is full, or the end that was set is reached.
    Full,
    /// The next item needs this many bytes.
    NeedMore(usize),
    /// Nothing can be read any more.
    Damaged(DamageCause),
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            dissect: DissectOptions { decapsulate: true, transport: true },
            filter: None,
            snaplen: u32::MAX,
            progress: Arc::default(),
            stop: Arc::default(),
        }
    }
}

impl Reading {
    pub(crate) fn new(name: String, decoder: Decoder, options: ReadOptions) -> Self {
        let (report, frames) = (Report::default(), Frames::new(options));
        Self { name, decoder, report, frames, has_undecoded: None }
    }

    /// For another part of the same capture.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.name.clone(), self.decoder.fork(), self.frames.options.clone())
    }

    /// For a look at the same capture that is no progress.
    pub(crate) fn fork_unwatched(&self) -> Self {
        let options = ReadOptions { progress: Arc::default(), ..self.frames.options.clone() };
        Self::new(self.name.clone(), self.decoder.fork(), options)
    }

    /// The records of the last [`Reading::fill`].
    pub(crate) fn records(&self) -> &[Record] {
        self.frames.slots.get(..self.frames.record_count).unwrap_or_default()
    }

    /// Fills the records from the items that begin in `bytes[start..stop]`; an
    /// item may reach past `stop`. Offsets count from `start`. Returns where
    /// the next item begins, and why it paused.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &[u8], start: usize, stop: usize) -> (usize, Pause) {
        let is_swapped = self.is_swapped();
        let stop = stop.min(start.saturating_add(BATCH_SPAN_MAX));
        let Self { decoder, frames, report, .. } = self;
        (frames.record_count, frames.filtered) = (0, 0);
        let ReadOptions { dissect, snaplen, .. } = frames.options;
        let slots = frames.slots.iter_mut();
        let mut all = TakeAll { slots, start, snaplen, dissect };
        let (at, stop, refusal) = if let Some(filter) = &frames.options.filter {
            let programs = &mut frames.programs;
            let mut passing =
                TakePassing { all, filter, is_swapped, programs, filtered: 0, refusal: None };
            let (at, stop) = decoder.read(bytes, start, stop, &mut passing);
            frames.record_count = BATCH_LEN_MAX - passing.all.slots.len();
            frames.filtered = passing.filtered;
            (at, stop, passing.refusal)
        } else {
            let (at, stop) = decoder.read(bytes, start, stop, &mut all);
            frames.record_count = BATCH_LEN_MAX - all.slots.len();
            (at, stop, None)
        };
        report.filtered += frames.filtered;
        report.received += frames.filtered + frames.record_count as u64;
        report.clamped_stamps = decoder.counts().timestamps_saturated;
        let progress = &frames.options.progress;
        progress.add(0, frames.filtered + frames.record_count as u64);
        if frames.filtered > 0 {
            progress.add_filtered(frames.filtered);
        }
        self.count_undecoded();
        let pause = match (refusal, stop) {
            (Some(error), _) => Pause::Damaged(DamageCause::Filter(error.to_string())),
            (None, None) => Pause::Full,
            (None, Some(Stop::NeedMore(wanted))) => Pause::NeedMore(wanted),
            (None, Some(Stop::Fault(fault))) => Pause::Damaged(DamageCause::Fault(fault)),
        };
        (at, pause)
    }

    /// Whether the file's headers are in the other byte order than this machine's.
    fn is_swapped(&self) -> bool {
        let (Format::Pcap { order, .. } | Format::Pcapng { order }) = self.decoder.format();
        (order == ByteOrder::Big) != cfg!(target_endian = "big")
    }

    /// Counts the records of link types that nothing is read of. Nearly every file has none, and
    /// that is examined once for all of its interfaces.
    fn count_undecoded(&mut self) {
        let version = self.decoder.structure_version();
        let has_some = match self.has_undecoded {
            Some((known, has_some)) if known == version => has_some,
            _ => {
                let mut interfaces = self.decoder.interfaces().iter();
                let has_some = interfaces.any(|interface| !interface.link.is_decoded());
                self.has_undecoded = Some((version, has_some));
                has_some
            }
        };
        if has_some {
            let records = self.frames.slots.get(..self.frames.record_count).unwrap_or_default();
            for record in records.iter().filter(|record| !record.link.is_decoded()) {
                self.report.add_undecoded(record.link, 1);
            }
        }
    }

    /// Whether a stop was asked for.
    pub(crate) fn is_stopped(&self) -> bool {
        self.frames.options.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.frames.options.progress
    }

    /// Remembers why nothing more will come.
    pub(crate) fn damage(&mut self, offset: u64, cause: DamageCause) {
        let name = self.name.clone();
        let frames_before = self.report.received;
        self.report.damage.get_or_insert(Damage { name, offset, frames_before, cause });
    }
}

/// Makes a record of every frame, while there is room.
struct TakeAll<'a> {
    slots: std::slice::IterMut<'a, Record>,
    start: usize,
    snaplen: u32,
    dissect: DissectOptions,
}

/// Makes a record of each frame that passes the filter.
struct TakePassing<'a> {
    all: TakeAll<'a>,
    filter: &'a Filter,
    is_swapped: bool,
    programs: &'a mut Vec<((LinkType, bool), Program)>,
    filtered: u64,
    refusal: Option<FilterError>,
}

impl TakeFrame for TakeAll<'_> {
    #[inline(always)]
    fn take(&mut self, item: &[u8], header: FrameHeader, at: usize) -> bool {
        prefetch_item(item, header.captured_len as usize);
        let captured_len = header.captured_len.min(self.snaplen);
        let Some(frame) = captured(item, &header, captured_len) else { return true };
        let Some(record) = self.slots.next() else { return false };
        record.timestamp = if header.has_timestamp { header.timestamp } else { Timestamp::UNKNOWN };
        // Below BATCH_SPAN_MAX, which is where reading stops.
        #[allow(clippy::cast_possible_truncation)]
        let item_offset = at.wrapping_sub(self.start) as u32;
        record.offset = item_offset.wrapping_add(header.data_offset);
        record.captured_len = captured_len;
        record.wire_len = header.wire_len;
        record.interface = header.interface;
        record.link = header.link;
        record.direction = header.direction;
        dissect_into(header.link, frame, header.wire_len, self.dissect, &mut record.layers);
        self.slots.len() > 0
    }
}

impl TakeFrame for TakePassing<'_> {
    fn take(&mut self, item: &[u8], header: FrameHeader, at: usize) -> bool {
        let Some(frame) = captured(item, &header, header.captured_len) else { return true };
        match self.passes(header.link, frame, header.wire_len) {
            Ok(true) => self.all.take(item, header, at),
            Ok(false) => {
                self.filtered += 1;
                true
            }
            Err(error) => {
                self.refusal = Some(error);
                false
            }
        }
    }
}

impl TakePassing<'_> {
    fn passes(&mut self, link: LinkType, frame: &[u8], wire_len: u32) -> Result<bool, FilterError> {
        let wanted = (link, self.is_swapped);
        let index = match self.programs.iter().position(|(known, _)| *known == wanted) {
            Some(index) => index,
            None => {
                self.programs.push((wanted, self.filter.compile_in(link, self.is_swapped)?));
                self.programs.len() - 1
            }
        };
        Ok(self.programs.get(index).is_none_or(|(_, program)| program.passes(frame, wire_len)))
    }
}

/// The first `len` captured bytes of the frame in `item`; the decoder has seen
/// that they are there.
#[inline(always)]
fn captured<'a>(item: &'a [u8], header: &FrameHeader, len: u32) -> Option<&'a [u8]> {
    item.get(header.data_offset as usize..)?.get(..len as usize)
}

/// Asks for the lines that lie [`PREFETCH_DISTANCE`] behind those of an item:
/// every line of the file once, in order, also those that no one reads. What
/// hides the latency of memory is the stream that its own prefetcher sees:
/// measured on whole frames, half the time of asking for one line an item.
#[inline(always)]
fn prefetch_item(item: &[u8], captured_len: usize) {
    // Two without a branch, which is all that a header-only capture needs.
    prefetch(item, PREFETCH_DISTANCE);
    prefetch(item, PREFETCH_DISTANCE + CACHE_LINE_LEN);
    let mut ahead = 2 * CACHE_LINE_LEN;
    while ahead < captured_len {
        prefetch(item, PREFETCH_DISTANCE + ahead);
        ahead += CACHE_LINE_LEN;
    }
}

impl Frames {
    fn new(options: ReadOptions) -> Self {
        // Each frame of a file stands for one packet on the wire.
        let slot = Record { segments: 1, ..Record::default() };
        Self {
            slots: vec![slot; BATCH_LEN_MAX].into(),
            record_count: 0,
            filtered: 0,
            options,
            programs: Vec::new(),
        }
    }
}
