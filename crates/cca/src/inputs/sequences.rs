//! What has passed a tap by the beginning of each slot of a window.

use packet::TapSlot;
use packet::wire::tcp::SeqNumber;

use super::{Empty, Passed, Rules};

/// Slots of which sequence numbers are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequences {
    pub(super) start: i64,
    pub(super) len: usize,
    /// What they are told from.
    pub(super) base: SeqNumber,
    pub(super) rules: Rules,
}

/// What is known at the beginning of a slot.
#[derive(Clone, Copy)]
struct Known {
    slot: i64,
    passed: f64,
}

impl Sequences {
    /// For each slot the number of the first byte that has not passed when it begins, from the last
    /// slot to the first; `false` where nothing is known. `seen` goes up to the last of the slots,
    /// and may begin before the first.
    pub(super) fn fill(&self, seen: &[TapSlot], passed: &mut Vec<f64>) -> bool {
        passed.clear();
        let Some(last) = seen.last() else { return false };
        passed.resize(self.len, 0.0);
        // Behind the last packet nothing is known but where it ended.
        let mut next = Known { slot: i64::MAX, passed: self.told(last.high()) };
        for seen in seen.iter().rev() {
            let known = self.known(seen);
            self.fill_between(known, next, passed);
            next = known;
            if known.slot <= self.start {
                return true;
            }
        }
        // Nor before the first, but that it had not passed.
        let first = seen.first().map_or(next.passed, |seen| self.told(seen.first()));
        let begin = Known { slot: i64::MIN, passed: first };
        self.fill_between(begin, Known { passed: first, ..next }, passed);
        true
    }

    /// What a slot with packets tells, and from the beginning of which slot on.
    fn known(&self, seen: &TapSlot) -> Known {
        match self.rules.passed {
            Passed::First => Known { slot: seen.slot, passed: self.told(seen.first()) },
            Passed::Highest => {
                Known { slot: seen.slot.saturating_add(1), passed: self.told(seen.high()) }
            }
        }
    }

    /// Slots from that of `known` up to that of `next`, which is filled already.
    #[allow(clippy::cast_precision_loss)]
    fn fill_between(&self, known: Known, next: Known, passed: &mut [f64]) {
        let end = self.index(next.slot);
        let from = self.index(known.slot);
        let is_line =
            self.rules.empty == Empty::Line && known.slot != i64::MIN && next.slot != i64::MAX;
        let step = if is_line {
            (next.passed - known.passed) / (next.slot - known.slot).max(1) as f64
        } else {
            0.0
        };
        let between = if self.rules.passed == Passed::First { next.passed } else { known.passed };
        for at in (from..end).rev() {
            let slot = self.start.saturating_add_unsigned(at as u64);
            let value = if slot == known.slot {
                known.passed
            } else if is_line {
                step.mul_add((slot - known.slot) as f64, known.passed)
            } else {
                between
            };
            if let Some(place) = passed.get_mut(at) {
                *place = value;
            }
        }
    }

    /// Where a slot lies among those that are wanted; those before them at the beginning, those
    /// behind them at the end.
    fn index(&self, slot: i64) -> usize {
        usize::try_from(slot.saturating_sub(self.start)).unwrap_or(0).min(self.len)
    }

    fn told(&self, seq: SeqNumber) -> f64 {
        f64::from(seq.since(self.base))
    }
}
