//! Ranges of sequence numbers: what a tap has not seen, what a receiver has out of order.

use packet::wire::tcp::SeqNumber;

use packet::reach::WINDOW_MAX_BYTES;

/// Ranges that are kept at most; one more is not taken in. A receiver reports four at a time
/// (RFC 2018 §3), and a window with more holes than this is rare beyond loss of one in three.
pub const RANGE_COUNT_MAX: usize = 64;

/// Some ranges, none of which touch, from low to high. From the first to the last they reach over
/// [`WINDOW_MAX_BYTES`] at most, so their order is that of RFC 1982, and all of their bytes fit.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    ranges: Vec<(SeqNumber, SeqNumber)>,
}

impl Ranges {
    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Bytes in them.
    #[must_use]
    pub fn len_bytes(&self) -> u32 {
        self.ranges.iter().map(|&(start, end)| length(start, end)).sum()
    }

    /// Bytes of a range that lie in them.
    #[must_use]
    pub fn overlap(&self, start: SeqNumber, end: SeqNumber) -> u32 {
        let inside =
            |&(low, high): &(SeqNumber, SeqNumber)| length(later(low, start), sooner(high, end));
        self.ranges.iter().map(inside).sum()
    }

    /// Takes in a range; `false` where there is no room for it, or where it lies further from the
    /// others than a window reaches.
    pub fn insert(&mut self, start: SeqNumber, end: SeqNumber) -> bool {
        if !start.is_before(end) {
            return true;
        }
        if !self.has_in_reach(start, end) {
            return false;
        }
        let from = self.ranges.partition_point(|&(_, high)| high.is_before(start));
        let past = self.ranges.partition_point(|&(low, _)| !low.is_after(end));
        if from >= past {
            if self.ranges.len() >= RANGE_COUNT_MAX {
                return false;
            }
            self.ranges.insert(from, (start, end));
            return true;
        }
        let touched = self.ranges.drain(from..past);
        let whole = touched.fold((start, end), |(low, high), (other_low, other_high)| {
            (sooner(low, other_low), later(high, other_high))
        });
        self.ranges.insert(from, whole);
        true
    }

    /// Whether these and a range are of one window.
    fn has_in_reach(&self, start: SeqNumber, end: SeqNumber) -> bool {
        let is_in_reach = |low: SeqNumber, high: SeqNumber| {
            u32::try_from(high.since(low)).is_ok_and(|len| len <= WINDOW_MAX_BYTES)
        };
        let ends = self.ranges.first().zip(self.ranges.last());
        is_in_reach(start, end)
            && ends.is_none_or(|(&(first, _), &(_, last))| {
                // Each lies near each, so that the lower and the higher of them can be told.
                let are_near = [first, last].iter().all(|&known| {
                    packet::reach::is_near(start, known) && packet::reach::is_near(end, known)
                });
                are_near && is_in_reach(sooner(first, start), later(last, end))
            })
    }

    /// Takes a range out of them, and returns how many bytes of it they had. Where that leaves one
    /// range more than there is room for, its upper part is forgotten.
    pub fn cut(&mut self, start: SeqNumber, end: SeqNumber) -> u32 {
        let had = self.overlap(start, end);
        if had == 0 {
            return 0;
        }
        let mut left = Vec::with_capacity(self.ranges.len() + 1);
        for &(low, high) in &self.ranges {
            for (low, high) in [(low, sooner(high, start)), (later(low, end), high)] {
                if low.is_before(high) {
                    left.push((low, high));
                }
            }
        }
        left.truncate(RANGE_COUNT_MAX);
        self.ranges = left;
        had
    }

    /// Forgets what lies below a number.
    pub fn cut_below(&mut self, below: SeqNumber) {
        if self.ranges.first().is_none_or(|&(low, _)| !low.is_before(below)) {
            return;
        }
        self.ranges.retain(|&(_, high)| high.is_after(below));
        if let Some((low, _)) = self.ranges.first_mut() {
            *low = later(*low, below);
        }
    }
}

pub(super) const fn later(a: SeqNumber, b: SeqNumber) -> SeqNumber {
    if a.is_after(b) { a } else { b }
}

const fn sooner(a: SeqNumber, b: SeqNumber) -> SeqNumber {
    if a.is_before(b) { a } else { b }
}

/// Bytes from one number to another; none where the other lies before it.
fn length(start: SeqNumber, end: SeqNumber) -> u32 {
    u32::try_from(end.since(start)).unwrap_or(0)
}
