//! What has passed a tap by the beginning of each slot of a window.

use packet::TapSlot;
use packet::wire::tcp::SeqNumber;

use super::{Empty, ProgressRule, Rules};

/// Slots of which sequence numbers are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sequences {
    pub(super) start: i64,
    pub(super) len: usize,
    /// What they are derived from.
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
        if seen.is_empty() {
            return false;
        }
        passed.resize(self.len, 0.0);
        self.each_between(seen, |known, next| self.fill_between(known, next, passed))
    }

    /// The same where it does not lie on lines: numbers and from which of the slots on they hold,
    /// in order. What that takes depends on slots with packets, and not on how many there are.
    pub(super) fn runs(&self, seen: &[TapSlot], runs: &mut Vec<(usize, f64)>) -> bool {
        runs.clear();
        let is_known = self.each_between(seen, |known, next| {
            let (from, end) = (self.index(known.slot), self.index(next.slot));
            let holds_known = known.slot >= self.start;
            let rest = from.saturating_add(usize::from(holds_known));
            if rest < end {
                runs.push((rest, self.between(known, next)));
            }
            if holds_known && from < end {
                runs.push((from, known.passed));
            }
        });
        runs.reverse();
        is_known
    }

    /// Pairs of what is known, the last first: from the first of a pair to the second nothing else
    /// is.
    fn each_between(&self, seen: &[TapSlot], mut put: impl FnMut(Known, Known)) -> bool {
        let Some(last) = seen.last() else { return false };
        // Behind the last packet nothing is known but where it ended.
        let mut next = Known { slot: i64::MAX, passed: self.told(last.high()) };
        for seen in seen.iter().rev() {
            let known = self.known(seen);
            put(known, next);
            next = known;
            if known.slot <= self.start {
                return true;
            }
        }
        // Nor before the first, but that it had not passed.
        let first = seen.first().map_or(next.passed, |seen| self.told(seen.first()));
        let begin = Known { slot: i64::MIN, passed: first };
        put(begin, Known { passed: first, ..next });
        true
    }

    /// What holds from the slot after that of `known` up to that of `next`.
    fn between(&self, known: Known, next: Known) -> f64 {
        if self.rules.passed == ProgressRule::First { next.passed } else { known.passed }
    }

    /// What a slot with packets shows, and from the beginning of which slot on.
    fn known(&self, seen: &TapSlot) -> Known {
        match self.rules.passed {
            ProgressRule::First => Known { slot: seen.slot, passed: self.told(seen.first()) },
            ProgressRule::Highest => {
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
        let between = self.between(known, next);
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
