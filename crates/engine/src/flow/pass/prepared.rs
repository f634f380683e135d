//! What passes by flow need of frames, found once for all of them.
//!
//! Flows are spread over several passes by the hash of their keys, so that each runs on a thread of
//! its own. Headers, keys, hashes and event time are found by who reads; the passes look at the
//! same frames, each at those of its flows, and hear of every mark.

use packet::{BATCH_LEN_MAX, Batch, Frame, HashSeed, Record};

use super::super::extract::{FlowClock, FlowMark, FlowPacket};
use super::super::options::FlowOptions;
use crate::group::Outcome;
use crate::partition::{Partition, PartitionShare};

/// Some batches, copied: they outlive their source's next one, and cross threads.
#[derive(Default)]
pub struct PreparedBatches {
    frame_count: usize,
    bytes: Vec<u8>,
    records: Vec<Record>,
    pub(super) parts: Vec<Part>,
    /// Outcome of all packets up to the last of these, those that came late, and steps of the
    /// clock.
    pub(super) so_far: (Outcome, u64, u64),
    /// Marks, and before which record each of them is.
    pub(super) marks: Vec<(usize, FlowMark)>,
}

/// The packets of the flows of one pass.
#[derive(Default)]
pub(super) struct Part {
    pub(super) packets: Vec<FlowPacket>,
    /// Which of the records each of them is.
    pub(super) places: Vec<usize>,
}

impl PreparedBatches {
    /// All frames, as one batch that may be longer than [`BATCH_LEN_MAX`].
    pub(super) fn whole(&self) -> Batch<'_> {
        Batch { bytes: &self.bytes, records: &self.records, tick: None }
    }

    /// All frames, for who looks at each of them.
    pub fn batches(&self) -> impl Iterator<Item = Batch<'_>> {
        let Batch { bytes, records, .. } = self.whole();
        records.chunks(BATCH_LEN_MAX).map(move |records| Batch { bytes, records, tick: None })
    }

    /// How many frames there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.frame_count
    }

    /// Whether there is none, and no mark either.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frame_count == 0 && self.marks.is_empty()
    }

    fn copy(&mut self, frame: &Frame<'_>, payload_len_max: usize) {
        // Far below 4 GiB: who fills it looks at its size.
        let offset = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let headers_len = usize::from(frame.record.layers.payload_offset).max(HEADERS_LEN);
        let kept_len = headers_len.saturating_add(payload_len_max);
        let kept = frame.bytes.get(..kept_len).unwrap_or(frame.bytes);
        self.bytes.extend_from_slice(kept);
        // No longer than the frame was, whose length has 32 bits.
        let captured_len = u32::try_from(kept.len()).unwrap_or(frame.record.captured_len);
        self.records.push(Record { offset, captured_len, ..*frame.record });
    }

    /// Bytes of the frames.
    #[must_use]
    pub const fn byte_count(&self) -> usize {
        self.bytes.len()
    }

    /// Nothing in it; what it has room for it keeps.
    pub fn clear(&mut self) {
        self.frame_count = 0;
        self.bytes.clear();
        self.records.clear();
        self.marks.clear();
        for Part { packets, places } in &mut self.parts {
            packets.clear();
            places.clear();
        }
    }
}

/// Finds the flows of frames, for passes that each have a part of them. Of captures: ticks of a
/// source that waits are not carried.
pub struct Preparer {
    seed: HashSeed,
    clock: FlowClock,
    outcome: Outcome,
    part_count: usize,
    payload_len_max: Option<usize>,
    share: PartitionShare,
}

/// Of each frame so much is copied whatever lies there: headers that no layer names.
const HEADERS_LEN: usize = 256;

impl Preparer {
    /// Before the first frame. Where there is no part, frames are copied and no more; behind their
    /// headers `payload_len_max` bytes of each, as no other ones are needed, and where that is
    /// nothing none is copied: then parts have the packets of their flows alone.
    #[must_use]
    pub fn new(
        options: &FlowOptions,
        seed: HashSeed,
        part_count: usize,
        payload_len_max: Option<usize>,
    ) -> Self {
        let clock = FlowClock::new(options.idle_timeout, options.window);
        let (outcome, share) = (Outcome::default(), options.share);
        Self { seed, clock, outcome, part_count, payload_len_max, share }
    }

    /// Adds the frames of a batch.
    pub fn add(&mut self, batch: &Batch<'_>, into: &mut PreparedBatches) {
        debug_assert!(batch.tick.is_none(), "of captures");
        into.parts.resize_with(self.part_count, Part::default);
        for frame in batch.frames() {
            let place = into.frame_count;
            let found = if self.part_count == 0 {
                None
            } else {
                let (time, mark) = self.clock.on_packet(frame.record.timestamp);
                into.marks.extend(mark.map(|mark| (place, mark)));
                let found = FlowPacket::from_frame(&frame, self.seed, time);
                match &found {
                    Some(_) => self.outcome.keyed += 1,
                    None => self.outcome.add_absent(&frame),
                }
                // Nobody looks at a frame of another share.
                if found.is_some_and(|packet| !self.share.has(packet.hash)) {
                    continue;
                }
                found
            };
            into.frame_count += 1;
            if let Some(payload_len_max) = self.payload_len_max {
                into.copy(&frame, payload_len_max);
            }
            let Some(packet) = found else { continue };
            // Whole partitions: a table's caps are theirs.
            let part = Partition::of_hash(packet.hash).owner(self.part_count);
            if let Some(Part { packets, places }) = into.parts.get_mut(part) {
                packets.push(packet);
                places.push(place);
            }
        }
    }

    /// Nothing is added to these any more: they are the outcome of the packets so far.
    pub fn close(&self, into: &mut PreparedBatches) {
        let (outcome, late, steps) = &mut into.so_far;
        outcome.clone_from(&self.outcome);
        (*late, *steps) = (self.clock.late, self.clock.steps);
    }

    /// Outcome of the packets, and event time.
    #[must_use]
    pub fn finish(self) -> (Outcome, FlowClock) {
        (self.outcome, self.clock)
    }
}
