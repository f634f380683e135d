//! What the queue lost: bytes that sequence numbers went past downstream and not upstream.

use std::collections::VecDeque;
use std::ops::Range;

use packet::TapSlot;
use packet::wire::tcp::SeqNumber;

use super::{DROPS_LOOK_BACK, Window};

/// How far the flow has come upstream. Positions are sequence numbers that do not wrap; those of a
/// connection follow those of the one before it.
#[derive(Clone, Copy)]
struct Came {
    high: SeqNumber,
    at: i64,
    /// Whether bytes came again.
    is_again: bool,
}

impl Came {
    /// Which positions a slot goes past.
    fn pass(&mut self, slot: &TapSlot) -> Range<i64> {
        let before = if slot.began() { slot.first() } else { self.high };
        let begin = self.at;
        self.at += since(slot.high(), before).max(0);
        self.high = slot.high();
        let new = u64::try_from(self.at - begin).unwrap_or(0);
        self.is_again |= slot.data_bytes > new.saturating_sub(slot.skipped_bytes.into());
        begin..self.at
    }
}

/// Stretches with bytes that never came, and how many of those downstream has not shown yet. Where
/// the tap begins at a retransmission, what had passed before is among them.
struct NeverCame(VecDeque<(Range<i64>, u64)>);

impl NeverCame {
    fn of(mut came: Came, slots: &[TapSlot]) -> Self {
        let stretches = slots.iter().map(|slot| (came.pass(slot), slot.skipped_bytes.into()));
        Self(stretches.filter(|&(_, bytes)| bytes > 0).collect())
    }

    /// How many of the bytes that are missing in a stretch never came; each counts once.
    fn take(&mut self, stretch: &Range<i64>, missing: u64) -> u64 {
        while self.0.front().is_some_and(|(of, _)| of.end <= stretch.start) {
            self.0.pop_front();
        }
        let mut taken = 0;
        for (of, bytes) in &mut self.0 {
            let common = of.end.min(stretch.end) - of.start.max(stretch.start);
            let Ok(common) = u64::try_from(common) else { break };
            let here = (*bytes).min(common).min(missing - taken);
            *bytes -= here;
            taken += here;
        }
        taken
    }
}

impl Window<'_> {
    /// Bytes that are missing downstream of the queue, less those that never came to it. What never
    /// came is missing upstream first, perhaps before the window, and is no loss of the queue.
    ///
    /// A tap that begins in the middle of a flow may begin with a retransmission: the next new
    /// packet then skips all that had passed before the tap began. So the taps are compared by
    /// position and not by their sums, and nothing counts as lost that came before the upstream tap
    /// began, or that may have left before the downstream one did.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    pub(super) fn drops(&self, put: &mut dyn FnMut(usize, f32)) {
        if self.inside(self.egress).iter().all(|seen| seen.skipped_bytes == 0) {
            return;
        }
        let first = self.start.saturating_sub(DROPS_LOOK_BACK);
        let (ingress, egress) = (self.since(first, self.ingress), self.since(first, self.egress));
        let bytes: u64 = ingress.iter().map(|seen| seen.data_bytes).sum();
        let segments: u64 = ingress.iter().map(|seen| u64::from(seen.segments)).sum();
        let known = high_before(first, self.ingress);
        let Some(high) = known.or_else(|| ingress.first().map(TapSlot::first)) else { return };
        if segments == 0 {
            return;
        }
        let mean_bytes = (bytes as f64 / segments as f64).max(1.0);
        let mut came = Came { high, at: 0, is_again: false };
        let mut never_came = NeverCame::of(came, ingress);
        // Below this position nothing is known, nor is anything before this slot.
        let (mut floor, begin) = match (known, ingress.first()) {
            (None, Some(begin)) => (0, begin.slot),
            _ => (i64::MIN, i64::MIN),
        };
        let mut high = high_before(first, self.egress);
        let mut slots = ingress.iter().peekable();
        for seen in egress {
            while let Some(slot) = slots.next_if(|slot| slot.slot <= seen.slot) {
                came.pass(slot);
            }
            let before = high.filter(|_| !seen.began()).unwrap_or_else(|| seen.first());
            if high.is_none() && !seen.began() && came.is_again {
                // It may be a retransmission with which the tap begins: what came before it may
                // have left before it.
                floor = floor.max(came.at);
            }
            high = Some(seen.high());
            // What is of another connection than what came last lies anywhere.
            if seen.slot < begin || !packet::reach::is_near(seen.high(), came.high) {
                continue;
            }
            let end = came.at + since(seen.high(), came.high);
            let stretch = end - since(seen.high(), before)..end;
            let unknown = u64::try_from(floor.saturating_sub(stretch.start)).unwrap_or(0);
            let missing = u64::from(seen.skipped_bytes).saturating_sub(unknown);
            let lost = missing - never_came.take(&stretch, missing);
            if lost > 0
                && let Ok(at) = usize::try_from(seen.slot - self.start)
            {
                put(at, (lost as f64 / mean_bytes) as f32);
            }
        }
    }
}

fn since(later: SeqNumber, earlier: SeqNumber) -> i64 {
    i64::from(later.since(earlier))
}

/// The highest byte that was seen before a slot, if any was.
fn high_before(first: i64, slots: &[TapSlot]) -> Option<SeqNumber> {
    let at = slots.partition_point(|seen| seen.slot < first).checked_sub(1)?;
    slots.get(at).map(TapSlot::high)
}
