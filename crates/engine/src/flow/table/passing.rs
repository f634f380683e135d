//! What ends when time moves to a mark, or is set back to it.

use packet::Timestamp;

use super::super::extract::{FlowMark, MarkKind};
use super::{FlowEnd, FlowTable, Wheel};

/// Flows that have ended and are handed on together while a mark is passed.
const ENDED_MAX: usize = 4096;

/// Who takes flows while a mark is passed, if not all together after it.
pub(super) type TakeEnds<'a> = Option<&'a mut dyn FnMut(&[FlowEnd])>;

impl FlowTable {
    /// Time moves to a mark, or is set back to it; what ends is handed to `take`, some
    /// flows at a time: how many end by one mark is for those to say who set the stamps.
    pub fn pass_mark(&mut self, mark: FlowMark, take: &mut dyn FnMut(&[FlowEnd])) {
        match mark.kind {
            MarkKind::Step => self.step_to(mark.watermark, Some(&mut *take)),
            MarkKind::Tick | MarkKind::Last => self.expire_to(mark.watermark, Some(&mut *take)),
        }
        self.hand_on(take);
    }

    /// Hands all that has ended to `take`.
    pub fn hand_on(&mut self, take: &mut dyn FnMut(&[FlowEnd])) {
        if !self.ended.is_empty() {
            take(&self.ended);
            self.ended.clear();
        }
    }

    pub(super) fn hand_on_if_many(&mut self, take: &mut TakeEnds<'_>) {
        if self.ended.len() >= ENDED_MAX
            && let Some(take) = take
        {
            self.hand_on(&mut **take);
        }
    }

    /// The clock was set back to `time`, and an epoch begins: every flow ends.
    pub fn step(&mut self, time: Timestamp) {
        self.step_to(time, None);
    }

    fn step_to(&mut self, time: Timestamp, mut take: TakeEnds<'_>) {
        self.free.append(&mut self.freed);
        self.now = time;
        self.windows_closed_to = Timestamp::MIN;
        let mut lists = std::mem::take(&mut self.due);
        self.wheel.clear(time, &mut lists);
        for (_, head) in lists.drain(..) {
            let mut next = Some(head);
            while let Some(slot) = next {
                next = Wheel::after(&self.cold, slot);
                if let Some(&hot) = self.hot.get(slot) {
                    // By its own stamps: it had no packet in this epoch.
                    self.end(slot, self.reason_at(&hot, Timestamp::MAX), false);
                }
                self.hand_on_if_many(&mut take);
            }
        }
        self.due = lists;
    }
}
