//! The owning half of flows: a table, what is kept with it, and what is made of its ends.

use packet::Timestamp;

use super::collect::{Collect, Heaviest};
use super::extract::{FlowMark, FlowPacket, MarkKind};
use super::options::FlowOptions;
use super::record::{FlowCounts, FlowRecord};
use super::rest::FlowRest;
use super::slab::{FlowSlot, PerFlow, SideSlab};
use super::table::{FlowEnd, FlowTable};
use crate::exchange::Own;

/// Packets taken in together: their index words, flows and states are on the
/// way from memory at the same time, and together stay in the first-level cache.
const PIECE_LEN: usize = 64;

/// The flows of some partitions.
pub struct FlowOwner<S: PerFlow, C> {
    table: FlowTable,
    states: SideSlab<S>,
    collector: C,
    counts: FlowCounts,
    slots: Vec<FlowSlot>,
    live_wanted: usize,
}

/// What an owner hands over at a mark.
pub struct FlowPart<P, S> {
    /// What was collected of flows that have ended.
    pub collected: P,
    /// At the last mark, where every flow is wanted: the flows that had not ended.
    pub rest: Option<FlowRest<S>>,
    /// Flows that have ended since the mark before, those in `rest` included.
    pub counts: FlowCounts,
    /// Flows that have not ended.
    pub live_count: usize,
    /// The heaviest open flows, heaviest first, where they were asked for.
    pub live: Vec<FlowRecord>,
}

impl<S: PerFlow, C: Collect<S>> FlowOwner<S, C> {
    /// No flows yet.
    #[must_use]
    pub fn new(options: FlowOptions, collector: C) -> Self {
        Self {
            table: FlowTable::new(options),
            states: SideSlab::default(),
            collector,
            counts: FlowCounts::default(),
            slots: Vec::with_capacity(PIECE_LEN),
            live_wanted: 0,
        }
    }

    /// Hands over, at each mark, also the heaviest open flows.
    #[must_use]
    pub fn with_live(mut self, flow_count: usize) -> Self {
        self.live_wanted = flow_count;
        self
    }

    #[inline]
    fn prefetch(&self, packets: &[FlowPacket]) {
        for packet in packets {
            self.table.prefetch(packet.hash);
        }
    }

    #[inline]
    fn take(&mut self, packets: &[FlowPacket]) {
        self.table.observe(packets, &mut self.slots);
        self.states.on_packets(packets, &self.slots);
        self.collect_ended();
    }

    #[inline]
    fn collect_ended(&mut self) {
        for FlowEnd { record, slot, .. } in self.table.take_ended() {
            self.counts.add(&record);
            let states = &self.states;
            self.collector.offer(record.packets_total(), record.bytes_total(), || {
                Some((record, states.kept(slot)))
            });
        }
    }

    fn collect_live(&mut self, end: Timestamp) {
        let Self { table, states, collector, counts, .. } = self;
        table.for_each_live(end, |reason, packets, bytes, slot, make| {
            counts.add_parts(reason, packets, bytes);
            collector.offer(packets, bytes, || Some((make()?, states.kept(slot))));
        });
    }

    fn take_rest(&mut self, mark: FlowMark) -> FlowRest<S> {
        let options = FlowOptions { flow_count_max: 0, ..FlowOptions::default() };
        let table = std::mem::replace(&mut self.table, FlowTable::new(options));
        let rest =
            FlowRest { table, states: std::mem::take(&mut self.states), end: mark.watermark };
        rest.table.for_each_live(rest.end, |reason, packets, bytes, _, _| {
            self.counts.add_parts(reason, packets, bytes);
        });
        rest
    }

    fn heaviest_live(&self, now: Timestamp) -> Vec<FlowRecord> {
        let mut heaviest = Heaviest::new(self.live_wanted, false);
        if self.live_wanted > 0 {
            self.table.for_each_live(now, |_, packets, bytes, _, make| {
                heaviest.add(packets, bytes, || make().map(|record| (record, ())));
            });
        }
        heaviest.take_records()
    }
}

impl<S: PerFlow, C: Collect<S>> Own<FlowPacket, FlowMark> for FlowOwner<S, C> {
    type Part = FlowPart<C::Part, S>;

    fn on_item(&mut self, packet: FlowPacket) {
        self.on_items(&[packet]);
    }

    fn on_items(&mut self, packets: &[FlowPacket]) {
        let mut pieces = packets.chunks(PIECE_LEN);
        let mut piece = pieces.next().unwrap_or_default();
        self.prefetch(piece);
        while !piece.is_empty() {
            let next = pieces.next().unwrap_or_default();
            self.prefetch(next);
            self.take(piece);
            piece = next;
        }
    }

    fn on_mark(&mut self, mark: FlowMark) -> Self::Part {
        match mark.kind {
            MarkKind::Tick => self.table.expire(mark.watermark),
            MarkKind::Step => self.table.step(mark.watermark),
            MarkKind::Last if C::WANTS_ALL => {}
            MarkKind::Last => self.collect_live(mark.watermark),
        }
        self.collect_ended();
        let rest = (mark.kind == MarkKind::Last && C::WANTS_ALL).then(|| self.take_rest(mark));
        FlowPart {
            rest,
            collected: self.collector.take(mark.kind == MarkKind::Last),
            counts: std::mem::take(&mut self.counts),
            live_count: self.table.len(),
            live: self.heaviest_live(mark.watermark),
        }
    }
}
