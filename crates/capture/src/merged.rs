//! Several captures in one order of time.
//!
//! Frames of each capture keep their order; between captures the one whose
//! next frame is earliest goes first, the one named first on a tie. A capture
//! is opened when time reaches its first frame, so a folder of rotated files
//! needs as many open files as overlap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use packet::{BATCH_LEN_MAX, Batch, Record, Source, Timestamp};

use crate::open::FileSource;
use crate::reading::BATCH_SPAN_MAX;
use crate::report::UnusedFrames;

/// Several captures as one source.
pub struct MergedSource {
    members: Vec<Member>,
    /// Members with frames left, by the time of their next frame, then by place.
    queue: BinaryHeap<Reverse<(Timestamp, usize)>>,
    bytes: Vec<u8>,
    records: Vec<Record>,
}

/// One capture and a copy of the batch it last lent.
struct Member {
    source: FileSource,
    bytes: Vec<u8>,
    records: Vec<Record>,
    next: usize,
}

impl Member {
    /// Time of the next frame, reading on when the copy is used up.
    fn next_timestamp(&mut self) -> Option<Timestamp> {
        if self.next >= self.records.len() {
            self.next = 0;
            self.records.clear();
            self.bytes.clear();
            let Some(batch) = self.source.next_batch() else {
                (self.bytes, self.records) = (Vec::new(), Vec::new());
                return None;
            };
            for frame in batch.frames() {
                self.records.push(copy_frame(&mut self.bytes, frame.bytes, frame.record));
            }
        }
        self.records.get(self.next).map(|record| record.timestamp)
    }
}

/// Appends a frame to a buffer; its record there.
fn copy_frame(bytes: &mut Vec<u8>, frame: &[u8], record: &Record) -> Record {
    let offset = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    bytes.extend_from_slice(frame);
    Record { offset, ..*record }
}

impl MergedSource {
    /// Sources in one order of time.
    #[must_use]
    pub fn new(sources: Vec<FileSource>) -> Self {
        let mut members: Vec<_> = sources
            .into_iter()
            .map(|source| Member { source, bytes: Vec::new(), records: Vec::new(), next: 0 })
            .collect();
        let first = |(index, member): (usize, &mut Member)| {
            let timestamp = match member.source.first_timestamp() {
                Some(timestamp) => Some(timestamp),
                None => member.next_timestamp(),
            };
            timestamp.map(|timestamp| Reverse((timestamp, index)))
        };
        let queue = members.iter_mut().enumerate().filter_map(first).collect();
        Self { members, queue, bytes: Vec::new(), records: Vec::with_capacity(BATCH_LEN_MAX) }
    }

    /// The sources, in the order they were given: they hold their reports.
    /// And what was read of them and not handed out.
    #[must_use]
    pub fn into_sources(self) -> (Vec<FileSource>, UnusedFrames) {
        let mut waiting = UnusedFrames::default();
        for member in &self.members {
            waiting.add(member.records.get(member.next..).unwrap_or_default());
        }
        (self.members.into_iter().map(|member| member.source).collect(), waiting)
    }
}

impl Source for MergedSource {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        self.bytes.clear();
        self.records.clear();
        // Frames that are whole messages may have 128 MiB.
        while self.records.len() < BATCH_LEN_MAX && self.bytes.len() < BATCH_SPAN_MAX {
            let Some(Reverse((_, index))) = self.queue.pop() else { break };
            let Some(member) = self.members.get_mut(index) else { break };
            if member.next_timestamp().is_none() {
                continue;
            }
            if let Some(record) = member.records.get(member.next) {
                let start = record.offset as usize;
                let end = start + record.captured_len as usize;
                let frame = member.bytes.get(start..end).unwrap_or_default();
                let input = u16::try_from(index).unwrap_or(u16::MAX);
                let record = Record { input, ..*record };
                self.records.push(copy_frame(&mut self.bytes, frame, &record));
            }
            member.next += 1;
            if let Some(timestamp) = member.next_timestamp() {
                self.queue.push(Reverse((timestamp, index)));
            }
        }
        if self.records.is_empty() {
            return None;
        }
        Some(Batch { bytes: &self.bytes, records: &self.records, tick: None })
    }
}
