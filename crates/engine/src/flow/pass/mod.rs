//! One clock, one key, one hash and one flow table for all that look at the same packets.
//!
//! A [`Pass`] finds each packet's flow once and lends it to its [`Lens`]es, some frames at a time.
//! What one lens says of a flow is a label for those after it ([`Labels`]).

mod drill;
mod labels;
mod lens;
mod now;
mod prepared;
mod supervised;
mod watched;

pub use drill::Drill;
pub use labels::{LabelKind, Labels};
pub use lens::{LabelClash, LabelUse, Lens, Lenses, Piece};
pub use now::Now;
pub use prepared::{PreparedBatches, Preparer};
pub use supervised::{Ending, Fault, FaultScope, Faults, LensCall, LensSupervisor, TakeFaults};
pub use watched::{Panic, watched};

use std::mem::take;
use std::ops::Range;

use packet::{BATCH_LEN_MAX, Batch, HashSeed, Timestamp};

use super::extract::{FlowClock, FlowMark, FlowPacket};
use super::options::FlowOptions;
use super::record::FlowCounts;
use super::rest::RemainingFlows;
use super::slab::FlowSlot;
use super::table::FlowTable;
use crate::group::Outcome;
use crate::partition::PartitionShare;
use prepared::Part;

/// Packets taken in together; see [`FlowTable::observe`].
const PIECE_LEN: usize = 64;

/// Flows of one reader, and who looks at them.
///
/// The order within a pass: a piece and its labels, flows that its packets ended; a mark, what ends
/// by it, the mark again; after the last mark, the flows that are left.
///
/// A pass [of frames](Self::of_frames) finds no flows, for lenses that ask for none.
pub struct Pass<L> {
    has_flows: bool,
    seed: HashSeed,
    /// The flows that it has, and with them the frames; every other packet only moves time.
    share: PartitionShare,
    clock: FlowClock,
    table: FlowTable,
    labels: Labels,
    lens: L,
    outcome: Outcome,
    counts: FlowCounts,
    /// The packets of the piece at hand, and which of the batch's records each of them is.
    packets: Vec<FlowPacket>,
    places: Vec<usize>,
    slots: Vec<FlowSlot>,
    /// Where the piece begins in its batch.
    start: usize,
}

/// What is left of a pass.
pub struct PassOutcome<L> {
    /// Who looked.
    pub lens: L,
    /// Packets by what was done with them.
    pub outcome: Outcome,
    /// Event time.
    pub clock: FlowClock,
    /// Flows by how they ended, those included that the end of the input ended.
    pub counts: FlowCounts,
}

impl<L: Lens> Pass<L> {
    /// No flows yet.
    #[must_use]
    pub fn new(options: FlowOptions, seed: HashSeed, lens: L) -> Self {
        Self {
            has_flows: true,
            seed,
            share: options.share,
            clock: FlowClock::new(options.idle_timeout, options.window),
            table: FlowTable::new(options),
            labels: Labels::default(),
            lens,
            outcome: Outcome::default(),
            counts: FlowCounts::default(),
            packets: Vec::with_capacity(PIECE_LEN),
            places: Vec::with_capacity(PIECE_LEN),
            slots: Vec::with_capacity(PIECE_LEN),
            start: 0,
        }
    }

    /// For lenses that look at frames alone: no key, no table, no mark.
    #[must_use]
    pub fn of_frames(lens: L) -> Self {
        let options = FlowOptions { flow_count_max: 0, ..FlowOptions::default() };
        Self { has_flows: false, ..Self::new(options, HashSeed::new(0), lens) }
    }

    /// Takes in the packets of the flows that are a part of those that were prepared. Its pieces
    /// have no other frames.
    pub fn on_part(&mut self, prepared: &PreparedBatches, part: usize) {
        let Some(Part { packets, places }) = prepared.parts.get(part) else { return };
        let batch = prepared.whole();
        let mut start = 0;
        for &(before, mark) in &prepared.marks {
            let end = start
                + places.get(start..).unwrap_or_default().partition_point(|&place| place < before);
            self.take_in_part(&batch, packets, places, start..end);
            start = end;
            self.on_mark(mark);
        }
        self.take_in_part(&batch, packets, places, start..packets.len());
        self.lens.on_batch_end(&mut self.labels);
        // What all packets have in common is said by one part.
        if part == 0 && self.lens.is_asked() {
            let (outcome, late, steps) = &prepared.so_far;
            self.outcome.clone_from(outcome);
            (self.clock.late, self.clock.steps) = (*late, *steps);
        }
        self.answer_after(&batch);
    }

    #[inline]
    fn answer_after(&mut self, batch: &Batch<'_>) {
        let last = batch.records.last().map(|record| record.timestamp);
        if let Some(time) = batch.tick.or(last) {
            self.answer(time);
        }
    }

    /// Between batches there is time to report open flows.
    #[inline]
    fn answer(&mut self, time: Timestamp) {
        if self.lens.is_asked() {
            let Self { table, outcome, counts: ended, lens, clock, .. } = self;
            let (late, clock_steps) = (clock.late, clock.steps);
            let is_last = false;
            lens.on_asked(&Now { table, time, outcome, ended, late, clock_steps, is_last });
        }
    }

    fn take_in_part(
        &mut self,
        batch: &Batch<'_>,
        packets: &[FlowPacket],
        places: &[usize],
        range: Range<usize>,
    ) {
        let packets = packets.get(range.clone()).unwrap_or_default();
        let places = places.get(range).unwrap_or_default();
        for (at, (packets, places)) in
            packets.chunks(PIECE_LEN).zip(places.chunks(PIECE_LEN)).enumerate()
        {
            if at > 0 && at % (BATCH_LEN_MAX / PIECE_LEN) == 0 {
                self.lens.on_batch_end(&mut self.labels);
            }
            self.show(batch, 0..0, packets, places);
        }
    }

    /// The input has ended.
    #[must_use]
    pub fn finish(self) -> PassOutcome<L> {
        let last = self.clock.last_mark();
        self.finish_at(last)
    }

    /// The input of a part has ended, with this mark.
    #[must_use]
    pub fn finish_at(mut self, last: FlowMark) -> PassOutcome<L> {
        if self.has_flows {
            self.lens.on_mark(last, &mut self.labels);
            self.lens.on_marked(last);
        }
        let Self { has_flows, mut lens, table, labels, outcome, clock, mut counts, .. } = self;
        table.for_each_live(last.watermark, |reason, packets, bytes, _, _| {
            counts.add_parts(reason, packets, bytes);
        });
        if has_flows {
            lens.on_left(&RemainingFlows::new(&table, last.watermark), &labels);
        }
        let (time, late, clock_steps) = (last.watermark, clock.late, clock.steps);
        let (is_last, ended) = (true, &counts);
        let now = Now { table: &table, time, outcome: &outcome, ended, late, clock_steps, is_last };
        lens.on_asked(&now);
        PassOutcome { lens, outcome, clock, counts }
    }

    /// Takes in the frames that wait, up to this record of the batch.
    fn take_in(&mut self, batch: &Batch<'_>, end: usize) {
        if self.start >= end {
            return;
        }
        let (packets, places) = (take(&mut self.packets), take(&mut self.places));
        // As in a part: a frame of another share is no one's here.
        let records = if self.share.is_whole() { self.start..end } else { 0..0 };
        self.show(batch, records, &packets, &places);
        (self.packets, self.places) = (packets, places);
        self.packets.clear();
        self.places.clear();
        self.start = end;
    }

    fn show(
        &mut self,
        batch: &Batch<'_>,
        records: Range<usize>,
        packets: &[FlowPacket],
        places: &[usize],
    ) {
        let Self { table, slots, lens, labels, counts, .. } = self;
        for packet in packets {
            table.prefetch(packet.hash);
        }
        table.observe(packets, slots);
        lens.on_piece(&Piece { batch, records, packets, places, slots }, labels);
        labels.settle();
        table.hand_on(&mut |ended| {
            ended.iter().for_each(|ended| counts.add(&ended.record));
            lens.on_ended(ended, labels);
        });
    }

    fn on_mark(&mut self, mark: FlowMark) {
        let Self { table, lens, labels, counts, .. } = self;
        lens.on_mark(mark, labels);
        table.pass_mark(mark, &mut |ended| {
            ended.iter().for_each(|ended| counts.add(&ended.record));
            lens.on_ended(ended, labels);
        });
        lens.on_marked(mark);
    }
}

impl<L: Lens> crate::Stage for Pass<L> {
    fn on_batch(&mut self, batch: &Batch<'_>) {
        if !self.has_flows {
            let records = 0..batch.records.len();
            let piece = Piece { batch, records, packets: &[], places: &[], slots: &[] };
            self.lens.on_piece(&piece, &mut self.labels);
            self.lens.on_batch_end(&mut self.labels);
            batch.tick.into_iter().for_each(|time| self.lens.on_tick(time));
            return self.answer_after(batch);
        }
        self.start = 0;
        for (index, frame) in batch.frames().enumerate() {
            let (time, mark) = self.clock.on_packet(frame.record.timestamp);
            if let Some(mark) = mark {
                self.take_in(batch, index);
                self.on_mark(mark);
            }
            match FlowPacket::from_frame(&frame, self.seed, time) {
                Some(packet) => {
                    self.outcome.keyed += 1;
                    if !self.share.has(packet.hash) {
                        continue;
                    }
                    self.packets.push(packet);
                    self.places.push(index);
                    if self.packets.len() >= PIECE_LEN {
                        self.take_in(batch, index + 1);
                    }
                }
                None => self.outcome.add_absent(&frame),
            }
        }
        self.take_in(batch, batch.records.len());
        self.lens.on_batch_end(&mut self.labels);
        if let Some(time) = batch.tick {
            self.lens.on_tick(time);
            if let Some(mark) = self.clock.on_tick(time) {
                self.on_mark(mark);
            }
        }
        self.answer_after(batch);
    }

    fn on_source(&mut self, index: usize) {
        self.lens.on_source(index);
    }
}
