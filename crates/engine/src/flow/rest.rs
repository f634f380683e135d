//! The flows that are left at the end: all of them together would take as much
//! memory again, so they stay in their table and are looked up one by one.

use packet::{Timestamp, must};

use super::record::FlowRecord;
use super::slab::{FlowSlot, PerFlow, SideSlab};
use super::table::FlowTable;

/// The flows of an owner that had not ended when the input did.
pub struct FlowRest<S> {
    pub(super) table: FlowTable,
    pub(super) states: SideSlab<S>,
    pub(super) end: Timestamp,
}

/// The flows of a pass that had not ended when its input did; lent.
pub struct RemainingFlows<'a> {
    table: &'a FlowTable,
    end: Timestamp,
}

impl<'a> RemainingFlows<'a> {
    /// Those of a table at a time.
    pub(super) const fn new(table: &'a FlowTable, end: Timestamp) -> Self {
        Self { table, end }
    }

    /// Visits them in no order: packets, bytes, and the rest where it is wanted.
    pub fn each(&self, mut visit: impl FnMut(u64, u64, &dyn Fn() -> Option<FlowRecord>)) {
        self.table.for_each_live(self.end, |_, packets, bytes, _, make| {
            visit(packets, bytes, make);
        });
    }

    /// Hands them to `take` with their slots, at most `piece_len` at a time, in the order of
    /// [`FlowRecord::order`].
    pub fn in_order(&self, piece_len: usize, mut take: impl FnMut(&[(FlowRecord, FlowSlot)])) {
        let Self { table, end } = *self;
        let mut places: Vec<(Timestamp, FlowSlot)> = Vec::with_capacity(table.len());
        table.for_each_live(end, |_, _, _, slot, _| {
            places.extend(table.first(slot).map(|first| (first, slot)));
        });
        places.sort_unstable_by(|a, b| {
            let order = |slot| table.live(slot, end).map(|record| record.order());
            a.0.cmp(&b.0).then_with(|| order(a.1).cmp(&order(b.1)))
        });
        let mut piece = Vec::with_capacity(piece_len.min(places.len()));
        for places in places.chunks(piece_len.max(1)) {
            piece.clear();
            let records = places.iter().map(|&(_, slot)| Some((table.live(slot, end)?, slot)));
            piece.extend(records.flatten());
            take(&piece);
        }
    }
}

/// A flow among several rests: which rest, which slot, and its earliest stamp.
type Place = (Timestamp, u32, FlowSlot);

impl<S: PerFlow> FlowRest<S> {
    fn flow(&self, slot: FlowSlot) -> Option<(FlowRecord, S)> {
        Some((self.table.live(slot, self.end)?, self.states.kept(slot)))
    }

    /// Hands the flows of all owners to `take`, at most `piece_len` at a time,
    /// in the order of [`FlowRecord::order`].
    ///
    /// # Errors
    /// What `take` returns, without searching the table.
    pub fn drain<E>(
        rests: Vec<Self>,
        piece_len: usize,
        mut take: impl FnMut(&[(FlowRecord, S)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut places: Vec<Place> = Vec::new();
        for (owner, rest) in (0..).zip(&rests) {
            rest.table.for_each_live(rest.end, |_, _, _, slot, _| {
                places.extend(rest.table.first(slot).map(|first| (first, owner, slot)));
            });
        }
        places.sort_unstable_by(|a, b| {
            let order = |(_, owner, slot): &Place| {
                let rest = rests.get(*owner as usize)?;
                rest.table.live(*slot, rest.end).map(|record| record.order())
            };
            a.0.cmp(&b.0).then_with(|| order(a).cmp(&order(b)))
        });
        let mut piece = Vec::with_capacity(piece_len.min(places.len()));
        for places in places.chunks(piece_len.max(1)) {
            piece.clear();
            for &(_, owner, slot) in places {
                let flow = rests.get(owner as usize).and_then(|rest| rest.flow(slot));
                piece.extend(must(flow, "a flow that is left is in its slot"));
            }
            take(&piece)?;
        }
        Ok(())
    }
}
