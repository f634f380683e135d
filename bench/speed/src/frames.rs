//! Frames of a capture, in memory.

use std::path::Path;

use capture::{Input, ReadOptions, open};
use packet::{Batch, Record, Source};

use crate::Failure;

/// Frames end to end with their records, handed out from the first on.
pub(crate) struct Frames {
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Packets that come together.
    pub(crate) batch_len: usize,
    /// The packet that comes next.
    pub(crate) next: usize,
}

impl Frames {
    /// The first frames of a capture.
    pub(crate) fn read(path: &Path, count_max: usize) -> Result<Self, Failure> {
        let input = Input::File(path.to_owned());
        let mut source = open(&input, &ReadOptions::default()).map_err(|e| e.to_string())?;
        let (mut bytes, mut records) = (Vec::new(), Vec::new());
        while let Some(batch) = source.next_batch() {
            for frame in batch.frames().take(count_max - records.len()) {
                let offset = u32::try_from(bytes.len())
                    .map_err(|_| format!("{}: more than 4 GiB of frames", path.display()))?;
                bytes.extend_from_slice(frame.bytes);
                records.push(Record { offset, ..*frame.record });
            }
        }
        Ok(Self { bytes, records, batch_len: 1, next: 0 })
    }

    /// What is known of each.
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }

    /// The bytes of one of them.
    pub(crate) fn bytes_of<'a>(&'a self, record: &'a Record) -> &'a [u8] {
        packet::Frame::new(&self.bytes, record).bytes
    }

    /// Packets.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }
}

impl Source for Frames {
    fn next_batch(&mut self) -> Option<Batch<'_>> {
        let end = self.records.len().min(self.next + self.batch_len);
        let records = &self.records[self.next..end];
        self.next = end;
        (!records.is_empty()).then_some(Batch { bytes: &self.bytes, records, tick: None })
    }
}
