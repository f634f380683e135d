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

    /// Those of these rows that did not come before.
    pub(super) fn unseen(&self, rows: &Range<u64>) -> Vec<Range<u64>> {
        let of_gaps = self.gaps.iter().map(|gap| filled(gap, rows));
        let after = rows.start.max(self.next)..rows.end;
        of_gaps.chain([after]).filter(|rows| !rows.is_empty()).collect()
    }

    /// Takes in rows.
    pub(super) fn take(&mut self, rows: &Range<u64>) {
        let gaps = std::mem::take(&mut self.gaps);
        for gap in gaps {
            let filled = filled(&gap, rows);
            if filled.is_empty() {
                self.gaps.push(gap);
                continue;
            }
            let left = [gap.start..filled.start, filled.end..gap.end];
            self.gaps.extend(left.into_iter().filter(|rest| !rest.is_empty()));
        }
        if rows.end > self.next {
            let begin = rows.start.max(self.next);
            if begin > self.next {
                self.gaps.push(self.next..begin);
            }
            self.next = rows.end;
        }
        while self.gaps.len() > GAPS_MAX {
            let oldest = self.gaps.remove(0);
            self.given_up += oldest.end.saturating_sub(oldest.start.max(self.begin));
        }
    }

    /// Rows that others follow and that did not come.
    pub(super) fn missing(&self) -> u64 {
        let of = |gap: &Range<u64>| gap.end.saturating_sub(gap.start.max(self.begin));
        self.given_up + self.gaps.iter().map(of).sum::<u64>()
    }
}

/// What rows fill of a gap.
fn filled(gap: &Range<u64>, rows: &Range<u64>) -> Range<u64> {
    gap.start.max(rows.start)..gap.end.min(rows.end)
}

#[cfg(test)]
// Ranges are values here.
#[allow(clippy::single_range_in_vec_init)]
mod tests {
    use super::*;

    /// Takes rows in; those that did not come before.
    fn take(progress: &mut Progress, rows: Range<u64>) -> Vec<Range<u64>> {
        let unseen = progress.unseen(&rows);
        progress.take(&rows);
        assert_eq!(progress.unseen(&rows), []);
        unseen
    }

    #[test]
    fn each_row_is_taken_once_in_whatever_order_messages_come() {
        let mut progress = Progress::new(10);
        // A look changes nothing.
        assert_eq!(progress.unseen(&(10..20)), [10..20]);
        assert_eq!(take(&mut progress, 10..20), [10..20]);
        assert_eq!(take(&mut progress, 10..20), []);
        assert_eq!(take(&mut progress, 30..40), [30..40]);
        assert_eq!(progress.missing(), 10);
        // Cut otherwise than before: what came is not taken again.
        assert_eq!(take(&mut progress, 15..35), [20..30]);
        assert_eq!(progress.missing(), 0);
        // From before the first message: no one waited for it, but it is new.
        assert_eq!(take(&mut progress, 4..12), [4..10]);
        assert_eq!(take(&mut progress, 0..4), [0..4]);
        assert_eq!(take(&mut progress, 0..40), []);
        assert_eq!(progress.missing(), 0);
    }

    #[test]
    fn gaps_are_bounded_and_still_missing_when_they_are_given_up() {
        let mut progress = Progress::new(0);
        for at in 0..200 {
            let rows = 10 * at..10 * at + 5;
            assert_eq!(take(&mut progress, rows.clone()), [rows]);
        }
        assert_eq!((progress.gaps.len(), progress.missing()), (GAPS_MAX, 199 * 5));
        assert_eq!(take(&mut progress, 5..10), [], "given up");
        assert_eq!(take(&mut progress, 1985..1990), [1985..1990]);
        assert_eq!(progress.missing(), 198 * 5);
    }
}
