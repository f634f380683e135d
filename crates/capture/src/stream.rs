//! Frames of a capture that comes as a stream: compressed, or through a pipe.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use packet::file::{Decoder, FileFault};
use packet::{Batch, Source};

use crate::reading::{Pause, Reading};
use crate::report::{DamageCause, Report};

/// Bytes read ahead.
const BUFFER_LEN: usize = 1 << 20;

/// An item larger than this is not waited for. No decoder asks for more than
/// the longest message frame, 128 MiB, and its header.
const ITEM_LEN_MAX: usize = 130 << 20;

/// Frames of a stream.
pub struct StreamSource {
    input: Box<dyn Read + Send>,
    /// Bytes taken from the file below the decompression, for progress.
    consumed: Arc<AtomicU64>,
    consumed_reported: u64,
    buffer: Vec<u8>,
    /// `buffer[start..end]` was read and not yet decoded.
    start: usize,
    end: usize,
    /// Bytes of the uncompressed stream before `buffer[0]`.
    stream_offset: u64,
    is_at_end: bool,
    is_done: bool,
    reading: Reading,
}

/// Counts the bytes that pass.
pub(crate) struct CountingReader<R> {
    input: R,
    count: Arc<AtomicU64>,
}

impl<R> CountingReader<R> {
    pub(crate) fn new(input: R) -> (Self, Arc<AtomicU64>) {
        let count = Arc::default();
        (Self { input, count: Arc::clone(&count) }, count)
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.input.read(buffer)?;
        self.count.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

impl StreamSource {
    /// Frames that follow `prefix`, the bytes already read of `input`, of which
    /// the decoder has consumed `header_len`.
    pub(crate) fn new(
        input: Box<dyn Read + Send>,
        consumed: Arc<AtomicU64>,
        prefix: &[u8],
        header_len: usize,
        reading: Reading,
    ) -> Self {
        let mut buffer = vec![0; BUFFER_LEN.max(prefix.len())];
        let end = prefix.len();
        for (place, &byte) in buffer.iter_mut().zip(prefix) {
            *place = byte;
        }
        Self {
            input,
            consumed,
            consumed_reported: 0,
            buffer,
            start: header_len.min(end),
            end,
            stream_offset: 0,
            is_at_end: false,
            is_done: false,
            reading,
        }
    }

    /// What was read, filtered and found damaged.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.reading.report
    }

    /// The decoder, with what the stream says of itself.
    #[must_use]
    pub fn decoder(&self) -> &Decoder {
        &self.reading.decoder
    }

    fn offset(&self) -> u64 {
        self.stream_offset.saturating_add(self.start as u64)
    }

    /// Moves what is left to the front, makes room for `wanted` bytes and reads
    /// until they are there or the stream ends.
    fn read_more(&mut self, wanted: usize) -> Result<(), DamageCause> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.stream_offset = self.offset();
        self.end -= self.start;
        self.start = 0;
        if wanted > ITEM_LEN_MAX {
            let fault = FileFault::truncated(wanted, self.end);
            return Err(DamageCause::Fault(fault));
        }
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        while self.end < wanted && !self.is_at_end {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.input.read(room) {
                Ok(0) => self.is_at_end = true,
                Ok(len) => self.end += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_at_end = true;
                    return Err(DamageCause::Unreadable(error.to_string()));
                }
            }
        }
        Ok(())
    }

    fn report_progress(&mut self) {
        let consumed = self.consumed.load(Ordering::Relaxed);
        self.reading.progress().add(consumed - self.consumed_reported, 0);
        self.consumed_reported = consumed;
    }

    fn stop(&mut self, cause: DamageCause) {
        self.is_done = true;
        let offset = self.offset();
        self.reading.damage(offset, cause);
    }

    /// One attempt: where the records' bytes begin, if there are records.
    fn fill(&mut self) -> Option<usize> {
        let base = self.start;
        let readable = self.buffer.get(..self.end).unwrap_or_default();
        let (position, pause) = self.reading.fill(readable, self.start, self.end);
        self.start = position;
        let has_records = !self.reading.records().is_empty();
        match pause {
            Pause::Damaged(cause) => self.stop(cause),
            Pause::Full | Pause::NeedMore(_) if has_records => {}
            // A batch without records is as long as it may be.
            Pause::Full if self.start < self.end => {}
            Pause::Full => self.more(1),
            Pause::NeedMore(wanted) => self.more(wanted),
        }
        has_records.then_some(base)
    }

    /// Nothing more comes, and nothing is lent any more. A run may keep thousands of captures that
    /// it has read, and a process may have so many files open as the system says.
    fn close(&mut self) {
        self.input = Box::new(io::empty());
        (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
    }

    /// Reads on, or ends: in good order where nothing is left.
    fn more(&mut self, wanted: usize) {
        let left = self.end - self.start;
        if !self.is_at_end {
            match self.read_more(wanted.max(left + 1)) {
                // As below, in the middle of what is compressed.
                Err(DamageCause::Unreadable(_)) if self.reading.is_stopped() => {
                    self.is_done = true;
                }
                Err(cause) => self.stop(cause),
                Ok(()) => {}
            }
            return;
        }
        self.is_done = true;
        // A stop may come in the middle of an item: that is no damage.
        if left > 0 && !self.reading.is_stopped() {
            self.stop(DamageCause::Fault(FileFault::truncated(wanted, left)));
        }
    }
}

impl Source for StreamSource {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let mut base = None;
        while base.is_none() && !self.is_done {
            base = self.fill();
        }
        self.report_progress();
        let Some(base) = base else {
            self.close();
            return None;
        };
        let bytes = self.buffer.get(base..self.end).unwrap_or_default();
        Some(Batch { bytes, records: self.reading.records(), tick: None })
    }
}
