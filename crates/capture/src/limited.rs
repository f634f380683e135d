//! The first so many frames of a source.

use packet::{Batch, Source};

use crate::report::UnusedFrames;

/// Ends a source after a number of frames.
pub struct FrameLimit<S> {
    source: S,
    left: u64,
    unused: UnusedFrames,
}

impl<S> FrameLimit<S> {
    /// At most `frame_count` frames of `source`.
    pub fn new(source: S, frame_count: u64) -> Self {
        Self { source, left: frame_count, unused: UnusedFrames::default() }
    }

    /// The source, while it is read.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.source
    }

    /// The same limit of another source that continues with this one.
    pub fn map<T>(self, change: impl FnOnce(S) -> T) -> FrameLimit<T> {
        let Self { source, left, unused } = self;
        FrameLimit { source: change(source), left, unused }
    }

    /// The source, and what it had read that was not handed out.
    pub fn into_inner(self) -> (S, UnusedFrames) {
        (self.source, self.unused)
    }
}

impl<S: Source> Source for FrameLimit<S> {
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
        let (records, unused) = batch.records.split_at_checked(len).unwrap_or_default();
        self.unused.add(unused);
        // What was cut off was seen before the tick and is not handed over.
        let tick = batch.tick.filter(|_| len == batch.records.len());
        Some(Batch { bytes: batch.bytes, records, tick })
    }
}
