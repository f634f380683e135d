//! The flows that are left at the end: all of them at once would take as much
//! memory again, so they stay in their table and are looked up one by one.

use packet::Timestamp;

use super::record::FlowRecord;
use super::slab::{FlowSlot, PerFlow, SideSlab};
use super::table::FlowTable;

/// The flows of an owner that had not ended when the input did.
pub struct FlowRest<S> {
    pub(super) table: FlowTable,
    pub(super) states: SideSlab<S>,
    pub(super) end: Timestamp,
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
    /// What `take` returns, at once.
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
                piece.extend(rests.get(owner as usize).and_then(|rest| rest.flow(slot)));
            }
            take(&piece)?;
        }
        Ok(())
    }
}
