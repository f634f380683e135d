//! Which rows of one table of one run came so far.

use std::ops::Range;

/// Gaps that may still be filled, at most; the oldest is given up where there are more.
const GAPS_MAX: usize = 64;

/// Rows that came, by number. Messages may come twice, and after later ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Progress {
    /// The first row that was seen: those before it were not waited for.
    begin: u64,
    /// The row after the last that was seen.
    next: u64,
    /// Rows below `next` that did not come, in their order.
    gaps: Vec<Range<u64>>,
    /// Rows of gaps that were given up.
    given_up: u64,
}

impl Progress {
    /// Of a table of which this row is the first that comes.
    pub(super) fn new(first: u64) -> Self {
        let before = (first > 0).then_some(0..first);
        Self { begin: first, next: first, gaps: before.into_iter().collect(), given_up: 0 }
    }

    /// Takes in rows: those that did not come before.
    pub(super) fn take(&mut self, rows: Range<u64>) -> Vec<Range<u64>> {
        let mut unseen = Vec::new();
        let gaps = std::mem::take(&mut self.gaps);
        for gap in gaps {
            let filled = gap.start.max(rows.start)..gap.end.min(rows.end);
            if filled.is_empty() {
                self.gaps.push(gap);
                continue;
            }
            let left = [gap.start..filled.start, filled.end..gap.end];
            self.gaps.extend(left.into_iter().filter(|rest| !rest.is_empty()));
            unseen.push(filled);
        }
        if rows.end > self.next {
            let begin = rows.start.max(self.next);
            if begin > self.next {
                self.gaps.push(self.next..begin);
            }
            unseen.push(begin..rows.end);
            self.next = rows.end;
        }
        while self.gaps.len() > GAPS_MAX {
            let oldest = self.gaps.remove(0);
            self.given_up += oldest.end.saturating_sub(oldest.start.max(self.begin));
        }
        unseen
    }

    /// Rows that others follow and that did not come.
    pub(super) fn missing(&self) -> u64 {
        let of = |gap: &Range<u64>| gap.end.saturating_sub(gap.start.max(self.begin));
        self.given_up + self.gaps.iter().map(of).sum::<u64>()
    }
}

#[cfg(test)]
// Ranges are values here.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_taken_once_in_whatever_order_messages_come() {
        let mut progress = Progress::new(10);
        assert_eq!(progress.take(10..20), [10..20]);
        assert_eq!(progress.take(10..20), []);
        assert_eq!(progress.take(30..40), [30..40]);
        assert_eq!(progress.missing(), 10);
        // Cut otherwise than before: what came is not taken again.
        assert_eq!(progress.take(15..35), [20..30]);
        assert_eq!(progress.missing(), 0);
        // From before the first message: no one waited for it, but it is new.
        assert_eq!(progress.take(4..12), [4..10]);
        assert_eq!((progress.take(0..4), progress.take(0..40)), (vec![0..4], vec![]));
        assert_eq!(progress.missing(), 0);
    }

    #[test]
    fn gaps_are_bounded_and_still_missing_when_they_are_given_up() {
        let mut progress = Progress::new(0);
        for at in 0..200 {
            assert_eq!(progress.take(10 * at..10 * at + 5), [10 * at..10 * at + 5]);
        }
        assert_eq!((progress.gaps.len(), progress.missing()), (GAPS_MAX, 199 * 5));
        assert_eq!(progress.take(5..10), [], "given up");
        assert_eq!(progress.take(1985..1990), [1985..1990]);
        assert_eq!(progress.missing(), 198 * 5);
    }
}
