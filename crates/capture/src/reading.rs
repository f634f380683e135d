//! Bytes of a capture file to records: the loop every source of files runs.

use std::sync::Arc;

use packet::dissect::{DissectOptions, dissect_into};
use packet::file::{Decoder, FrameHeader, Stop, TakeFrame};
use packet::{BATCH_LEN_MAX, LinkType, Record};

use crate::filter::{Filter, FilterError, Program};
use crate::report::{Damage, DamageCause, Progress, Report};
use crate::sys::prefetch::prefetch;

/// How far ahead of the walk lines are asked for: far enough for memory to
/// answer, near enough that they are still there.
const PREFETCH_DISTANCE: usize = 4096;

const CACHE_LINE_LEN: usize = 64;

/// A batch ends after so many bytes even where the filter let nothing pass, so
/// that offsets in it fit 32 bits.
const BATCH_SPAN_MAX: usize = 1 << 30;

/// How frames are to be read; the same for all captures of a run.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// How deep headers are read.
    pub dissect: DissectOptions,
    /// Frames that do not pass are counted and left out.
    pub filter: Option<Filter>,
    /// Captured bytes kept of each frame; the rest is as if it had not been captured.
    pub snaplen: u32,
    /// Where reading tells how far it is.
    pub progress: Arc<Progress>,
}

/// The state of reading one capture.
pub(crate) struct Reading {
    pub(crate) name: String,
    pub(crate) decoder: Decoder,
    pub(crate) report: Report,
    frames: Frames,
}

/// What becomes of decoded frames: records of those that pass.
struct Frames {
    /// Records are filled in place: to build one and then move it costs more
    /// than finding its headers.
    slots: Box<[Record]>,
    record_count: usize,
    filtered: u64,
    options: ReadOptions,
    programs: Vec<(LinkType, Program)>,
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
        }
    }
}

impl Reading {
    pub(crate) fn new(name: String, decoder: Decoder, options: ReadOptions) -> Self {
        Self { name, decoder, report: Report::default(), frames: Frames::new(options) }
    }

    /// For another part of the same capture.
    pub(crate) fn fork(&self) -> Self {
        Self::new(self.name.clone(), self.decoder.fork(), self.frames.options.clone())
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
        let Self { decoder, frames, report, .. } = self;
        (frames.record_count, frames.filtered) = (0, 0);
        let (at, stop, refusal) = if frames.options.filter.is_none() {
            let (at, stop) = decoder.read(bytes, start, stop, &mut TakeAll { frames, start });
            (at, stop, None)
        } else {
            let mut take = TakePassing { frames, start, refusal: None };
            let (at, stop) = decoder.read(bytes, start, stop, &mut take);
            (at, stop, take.refusal)
        };
        report.filtered += frames.filtered;
        report.received += frames.filtered + frames.record_count as u64;
        frames.options.progress.add(0, frames.filtered + frames.record_count as u64);
        let pause = match (refusal, stop) {
            (Some(error), _) => Pause::Damaged(DamageCause::Filter(error.to_string())),
            (None, None) => Pause::Full,
            (None, Some(Stop::NeedMore(wanted))) => Pause::NeedMore(wanted),
            (None, Some(Stop::Fault(fault))) => Pause::Damaged(DamageCause::Fault(fault)),
        };
        (at, pause)
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

/// Takes every frame.
struct TakeAll<'a> {
    frames: &'a mut Frames,
    start: usize,
}

/// Takes the frames that pass the filter.
struct TakePassing<'a> {
    frames: &'a mut Frames,
    start: usize,
    refusal: Option<FilterError>,
}

impl TakeFrame for TakeAll<'_> {
    #[inline(always)]
    fn take(&mut self, item: &[u8], header: FrameHeader, at: usize) -> bool {
        prefetch_item(item, header.captured_len as usize);
        let Some(frame) = captured(item, &header) else { return true };
        self.frames.take(frame, &header, at - self.start)
    }
}

impl TakeFrame for TakePassing<'_> {
    fn take(&mut self, item: &[u8], header: FrameHeader, at: usize) -> bool {
        let Some(frame) = captured(item, &header) else { return true };
        match self.frames.passes(header.link, frame, header.wire_len) {
            Ok(true) => self.frames.take(frame, &header, at - self.start),
            Ok(false) => {
                self.frames.filtered += 1;
                at - self.start < BATCH_SPAN_MAX
            }
            Err(error) => {
                self.refusal = Some(error);
                false
            }
        }
    }
}

/// Asks for the lines that lie [`PREFETCH_DISTANCE`] behind those of an item:
/// every line of the file once, in order, also those that nobody reads. What
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

/// The captured bytes of the frame in `item`; the decoder has seen that they are there.
#[inline(always)]
fn captured<'a>(item: &'a [u8], header: &FrameHeader) -> Option<&'a [u8]> {
    item.get(header.data_offset as usize..)?.get(..header.captured_len as usize)
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

    /// Makes a record of a frame; false when there is room for no more.
    #[inline(always)]
    fn take(&mut self, frame: &[u8], header: &FrameHeader, item_offset: usize) -> bool {
        let captured_len = header.captured_len.min(self.options.snaplen);
        let frame = frame.get(..captured_len as usize).unwrap_or(frame);
        let Some(record) = self.slots.get_mut(self.record_count) else { return false };
        self.record_count += 1;
        record.timestamp = header.timestamp;
        // A batch spans at most BATCH_SPAN_MAX and 256 blocks of 16 MiB, which a u32 counts.
        #[allow(clippy::cast_possible_truncation)]
        let item_offset = item_offset as u32;
        record.offset = item_offset.wrapping_add(header.data_offset);
        record.captured_len = captured_len;
        record.wire_len = header.wire_len;
        record.interface = header.interface;
        record.link = header.link;
        record.direction = header.direction;
        let options = self.options.dissect;
        dissect_into(header.link, frame, header.wire_len, options, &mut record.layers);
        self.record_count < self.slots.len()
    }

    #[inline(never)]
    fn passes(
        &mut self,
        link: LinkType,
        frame: &[u8],
        wire_len: u32,
    ) -> Result<bool, FilterError> {
        let known = self.programs.iter().position(|(known, _)| *known == link);
        let index = match (known, &self.options.filter) {
            (Some(index), _) => index,
            (None, None) => return Ok(true),
            (None, Some(filter)) => {
                self.programs.push((link, filter.compile(link)?));
                self.programs.len() - 1
            }
        };
        Ok(self.programs.get(index).is_none_or(|(_, program)| program.passes(frame, wire_len)))
    }
}
