//! Bytes of a capture file to records: the loop every source of files runs.

use std::sync::Arc;

use packet::dissect::{DissectOptions, dissect_into};
use packet::file::{Decoder, FrameHeader, Item, Stop};
use packet::{BATCH_LEN_MAX, LinkType, Record};

use crate::filter::{Filter, Program};
use crate::report::{Damage, DamageCause, Progress, Report};
use crate::sys::prefetch::prefetch;

/// How far ahead of the walk lines are asked for: far enough for memory to
/// answer, near enough that they are still there.
const PREFETCH_DISTANCE: usize = 4096;

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
    /// Records are filled in place: to build one and then move it costs more
    /// than finding its headers.
    slots: Box<[Record]>,
    record_count: usize,
    pub(crate) report: Report,
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

/// A batch's records, each standing for one packet on the wire.
fn slots() -> Box<[Record]> {
    vec![Record { segments: 1, ..Record::default() }; BATCH_LEN_MAX].into()
}

impl Reading {
    pub(crate) fn new(name: String, decoder: Decoder, options: ReadOptions) -> Self {
        Self {
            name,
            decoder,
            slots: slots(),
            record_count: 0,
            report: Report::default(),
            options,
            programs: Vec::new(),
        }
    }

    /// For another part of the same capture.
    pub(crate) fn fork(&self) -> Self {
        Self {
            name: self.name.clone(),
            decoder: self.decoder.fork(),
            slots: slots(),
            record_count: 0,
            report: Report::default(),
            options: self.options.clone(),
            programs: self.programs.clone(),
        }
    }

    /// The records of the last [`Reading::fill`].
    pub(crate) fn records(&self) -> &[Record] {
        self.slots.get(..self.record_count).unwrap_or_default()
    }

    /// Fills the records from the items that begin in `bytes[start..stop]`; an
    /// item may reach past `stop`. Offsets count from `start`. Returns where
    /// the next item begins, and why it paused.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &[u8], start: usize, stop: usize) -> (usize, Pause) {
        self.record_count = 0;
        let mut at = start;
        let pause = loop {
            if self.record_count >= BATCH_LEN_MAX || at >= stop {
                break Pause::Full;
            }
            let rest = bytes.get(at..).unwrap_or_default();
            prefetch(rest, PREFETCH_DISTANCE);
            match self.decoder.next(rest) {
                Ok((Item::Frame(header), consumed)) => {
                    if let Err(cause) = self.take_frame(rest, &header, at - start) {
                        break Pause::Damaged(cause);
                    }
                    at += consumed;
                }
                Ok((Item::Meta(_), consumed)) => at += consumed,
                Err(Stop::NeedMore(wanted)) => break Pause::NeedMore(wanted),
                Err(Stop::Fault(fault)) => break Pause::Damaged(DamageCause::Fault(fault)),
            }
        };
        self.report.received += self.record_count as u64;
        self.options.progress.add(0, self.record_count as u64);
        (at, pause)
    }

    #[inline(always)]
    fn take_frame(
        &mut self,
        item: &[u8],
        header: &FrameHeader,
        item_offset: usize,
    ) -> Result<(), DamageCause> {
        let data_offset = header.data_offset as usize;
        let Some(data) = item.get(data_offset..) else { return Ok(()) };
        let Some(frame) = data.get(..header.captured_len as usize) else { return Ok(()) };
        if self.options.filter.is_some() && !self.passes(header.link, frame, header.wire_len)? {
            self.report.received += 1;
            self.report.filtered += 1;
            return Ok(());
        }
        let captured_len = header.captured_len.min(self.options.snaplen);
        let frame = frame.get(..captured_len as usize).unwrap_or(frame);
        let Some(record) = self.slots.get_mut(self.record_count) else { return Ok(()) };
        self.record_count += 1;
        record.timestamp = header.timestamp;
        record.offset = u32::try_from(item_offset + data_offset).unwrap_or(u32::MAX);
        record.captured_len = captured_len;
        record.wire_len = header.wire_len;
        record.interface = header.interface;
        record.link = header.link;
        record.direction = header.direction;
        let options = self.options.dissect;
        dissect_into(header.link, frame, header.wire_len, options, &mut record.layers);
        Ok(())
    }

    #[inline(never)]
    fn passes(&mut self, link: LinkType, frame: &[u8], wire_len: u32) -> Result<bool, DamageCause> {
        let known = self.programs.iter().position(|(known, _)| *known == link);
        let index = match (known, &self.options.filter) {
            (Some(index), _) => index,
            (None, None) => return Ok(true),
            (None, Some(filter)) => {
                let program =
                    filter.compile(link).map_err(|error| DamageCause::Filter(error.to_string()))?;
                self.programs.push((link, program));
                self.programs.len() - 1
            }
        };
        Ok(self.programs.get(index).is_none_or(|(_, program)| program.passes(frame, wire_len)))
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.options.progress
    }

    /// Remembers why nothing more will come.
    pub(crate) fn damage(&mut self, offset: u64, cause: DamageCause) {
        let name = self.name.clone();
        let frames_before = self.report.received;
        self.report.damage.get_or_insert(Damage { name, offset, frames_before, cause });
    }
}
