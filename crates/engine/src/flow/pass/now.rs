//! Open flows and counts of a pass, between two batches.

use std::ops::Range;

use packet::Timestamp;

use super::super::record::{EndReason, FlowCounts, FlowRecord};
use super::super::slab::FlowSlot;
use super::super::table::FlowTable;
use crate::group::Outcome;

/// A pass between two batches; lent.
pub struct Now<'a> {
    pub(super) table: &'a FlowTable,
    /// Event time: that of the latest packet or tick.
    pub time: Timestamp,
    /// Packets so far, where the pass looks for flows.
    pub outcome: &'a Outcome,
    /// Flows that have ended so far.
    pub ended: &'a FlowCounts,
    /// Packets so far that came late, more than a second behind the latest stamp.
    pub late: u64,
    /// How often the clock was set back so far.
    pub clock_steps: u64,
    /// Whether nothing comes after this.
    pub is_last: bool,
}

impl Now<'_> {
    /// Flows that have not ended.
    #[must_use]
    pub fn flow_count(&self) -> usize {
        if self.is_last { 0 } else { self.table.len() }
    }

    /// Bytes of the flow table.
    #[must_use]
    pub fn byte_count(&self) -> usize {
        if self.is_last { 0 } else { self.table.byte_count() }
    }

    /// Slots that there are, those included whose flows have ended.
    #[must_use]
    pub const fn slot_count(&self) -> u32 {
        self.table.slot_count()
    }

    /// Hands the flows in these slots to `take` that have not ended, with their slots.
    pub fn flows(&self, slots: Range<u32>, mut take: impl FnMut(FlowRecord, FlowSlot)) {
        for index in slots.start..slots.end.min(self.slot_count()) {
            if let Some((record, slot)) = self.table.live_at(index, self.time) {
                take(FlowRecord { reason: EndReason::Open, ..record }, slot);
            }
        }
    }
}
