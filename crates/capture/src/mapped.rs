//! Frames of a memory-mapped file, or of a part of one.

use std::fs::File;
use std::io;
use std::sync::Arc;

use memmap2::Mmap;
use packet::file::{Decoder, FileFault};
use packet::{Batch, Source};

use crate::reading::{Pause, Reading};
use crate::report::{DamageCause, Report};
use crate::sys::mapping::{map_file, populate, release};

/// Bytes whose pages are mapped in one call, and unmapped in one call after reading.
const POPULATE_LEN: usize = 8 << 20;

const PAGE_MASK: usize = 4095;

/// Frames of one stretch of a memory-mapped capture.
pub struct MappedSource {
    map: Arc<Mmap>,
    reading: Reading,
    /// Where reading began.
    start: usize,
    /// Where the next item begins.
    position: usize,
    /// Items that begin from here on are not ours.
    stop: usize,
    populated_to: usize,
    released_to: usize,
    initial_structure_version: u64,
    is_done: bool,
}

/// Maps `file` for reading.
///
/// # Errors
/// The system's: the file cannot be mapped, such as a pipe.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    map_file(file)
}

impl MappedSource {
    pub(crate) fn new(map: Arc<Mmap>, reading: Reading, start: usize) -> Self {
        let stop = map.len();
        Self::with_reading(map, reading, start, stop)
    }

    fn with_reading(map: Arc<Mmap>, reading: Reading, start: usize, stop: usize) -> Self {
        let initial_structure_version = reading.decoder.structure_version();
        Self {
            map,
            reading,
            start,
            position: start,
            stop,
            populated_to: start,
            // Rounded up: the page before belongs to another part as well.
            released_to: (start + PAGE_MASK) & !PAGE_MASK,
            initial_structure_version,
            is_done: false,
        }
    }

    /// A source for `start..stop` of the same map, with the decoder's present state.
    pub(crate) fn part(&self, start: usize, stop: usize) -> Self {
        Self::with_reading(Arc::clone(&self.map), self.reading.fork(), start, stop)
    }

    /// A second source for the same stretch, to look ahead with.
    pub(crate) fn look_ahead(&self) -> Self {
        let reading = self.reading.fork_unwatched();
        let map = Arc::clone(&self.map);
        // Thousands of captures may be looked into before the first is read: of each the pages that
        // are read, and none ahead of them.
        let populated_to = self.stop;
        Self { populated_to, ..Self::with_reading(map, reading, self.start, self.stop) }
    }

    /// What was read, filtered and found damaged.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.reading.report
    }

    /// The decoder, with what the file says of itself.
    #[must_use]
    pub fn decoder(&self) -> &Decoder {
        &self.reading.decoder
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(crate) fn start(&self) -> usize {
        self.start
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn stop(&self) -> usize {
        self.stop
    }

    pub(crate) fn initial_structure_version(&self) -> u64 {
        self.initial_structure_version
    }

    pub(crate) fn decoder_mut(&mut self) -> &mut Decoder {
        &mut self.reading.decoder
    }

    fn populate_ahead(&mut self) {
        if self.position >= self.populated_to {
            let whole_pages = self.position & !PAGE_MASK;
            release(&self.map, self.released_to, whole_pages.saturating_sub(self.released_to));
            self.released_to = whole_pages.max(self.released_to);
            let len = POPULATE_LEN.min(self.stop.saturating_sub(self.position));
            populate(&self.map, whole_pages, len + (self.position - whole_pages));
            self.populated_to = self.position.saturating_add(len);
        }
    }

    /// Nothing is lent any more. A run may keep thousands of captures that it has read.
    fn release_all(&mut self) {
        let end = self.position.max(self.populated_to);
        release(&self.map, self.released_to, end.saturating_sub(self.released_to));
        self.released_to = end.max(self.released_to);
    }
}

impl Source for MappedSource {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        if self.is_done {
            self.release_all();
            return None;
        }
        self.populate_ahead();
        let start = self.position;
        loop {
            let (position, pause) = self.reading.fill(&self.map, self.position, self.stop);
            match pause {
                Pause::Full => self.is_done = position >= self.stop,
                Pause::NeedMore(wanted) => {
                    self.is_done = true;
                    let got = self.map.len().saturating_sub(position);
                    if got > 0 {
                        let fault = FileFault::truncated(wanted, got);
                        self.reading.damage(position as u64, DamageCause::Fault(fault));
                    }
                }
                Pause::Damaged(cause) => {
                    self.is_done = true;
                    self.reading.damage(position as u64, cause);
                }
            }
            let base = self.position;
            self.position = position;
            if !self.reading.records().is_empty() || self.is_done {
                let consumed =
                    if self.is_done { self.stop.max(position) } else { position } - start;
                self.reading.progress().add(consumed as u64, 0);
                if self.reading.records().is_empty() {
                    self.release_all();
                    return None;
                }
                let bytes = self.map.get(base..).unwrap_or_default();
                return Some(Batch { bytes, records: self.reading.records(), tick: None });
            }
        }
    }
}
