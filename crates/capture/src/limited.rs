//! The first so many frames of a source.

use packet::{Batch, Source};

/// Ends a source after a number of frames.
pub struct Limited<S> {
    source: S,
    left: u64,
    cut: u64,
}

impl<S> Limited<S> {
    /// At most `frame_count` frames of `source`.
    pub fn new(source: S, frame_count: u64) -> Self {
        Self { source, left: frame_count, cut: 0 }
    }

    /// The source, and how many frames it had read that were not handed out.
    pub fn into_inner(self) -> (S, u64) {
        (self.source, self.cut)
    }
}

impl<S: Source> Source for Limited<S> {
    fn ends_by_itself(&self) -> bool {
        self.source.ends_by_itself()
    }

    fn next_batch(&mut self) -> Option<Batch<'_>> {
        if self.left == 0 {
            return None;
        }
        let batch = self.source.next_batch()?;
        let len = batch.records.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= len as u64;
        self.cut += (batch.records.len() - len) as u64;
        let records = batch.records.get(..len).unwrap_or_default();
        // What was cut off was seen before the tick and is not handed over.
        let tick = batch.tick.filter(|_| len == batch.records.len());
        Some(Batch { bytes: batch.bytes, records, tick })
    }
}
