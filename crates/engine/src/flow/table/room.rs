//! Which flow goes when a partition is full.

use packet::{Span, Timestamp};

use super::{Class, EndReason, FlowOptions, FlowTable, Hot, closing};

impl FlowTable {
    /// Lets one flow of a full partition go, as the guide's "Limits" says.
    #[inline(never)]
    pub(super) fn make_room(&mut self, partition: usize, time: Timestamp) {
        let closed = self.longest_idle(partition, Class::Closed);
        if let Some((slot, hot)) = closed {
            return self.end(slot, closing(&hot), true);
        }
        let unanswered = self.longest_idle(partition, Class::Unanswered);
        let settled = self.longest_idle(partition, Class::Settled);
        let is_past = |flow: &Option<(u32, Hot)>, limit: Span| {
            flow.is_some_and(|(_, hot)| time.since(hot.last) >= limit)
        };
        let (flow, reason) = if is_past(&unanswered, FlowOptions::EMERGENCY_UNANSWERED) {
            (unanswered, EndReason::Emergency)
        } else if is_past(&settled, FlowOptions::EMERGENCY_SETTLED) {
            (settled, EndReason::Emergency)
        } else {
            (unanswered.or(settled), EndReason::Evicted)
        };
        if let Some((slot, _)) = flow {
            self.end(slot, reason, true);
        }
    }

    /// The flow of a class that has been longest without a packet, to within a list of the wheel.
    fn longest_idle(&mut self, partition: usize, class: Class) -> Option<(u32, Hot)> {
        // Each turn but the last puts a flow where it stays until a packet
        // comes for it, so there are never more turns than flows.
        loop {
            let slot = self.wheel.earliest(partition, class)?;
            let (hot, cold) = (*self.hot.get(slot)?, *self.cold.get(slot)?);
            let (class_now, deadline) = self.deadline(&hot, &cold);
            if class_now == class && self.wheel.stands(cold.list, partition, class, deadline) {
                return Some((slot, hot));
            }
            self.wheel.unlink(&mut self.cold, slot);
            self.wheel.link(&mut self.cold, slot, partition, class_now, deadline);
        }
    }
}
