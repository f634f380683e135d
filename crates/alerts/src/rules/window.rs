//! Sums of rows in a sliding window of event time, by group.

use std::collections::{HashMap, VecDeque};

use packet::{Span, Timestamp};

/// A window moves by this part of its length: what is in it is exact to a twentieth.
const SLICES: i64 = 20;

/// Groups of one slice, unless another maximum is given; rows of further groups are counted as left
/// out. With keys of 50 bytes a window then takes 20 MB at most.
pub(super) const GROUPS_MAX: usize = 4_096;

/// Rows and their weight.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Sum {
    pub rows: u64,
    pub weight: f64,
}

#[derive(Default)]
struct Slice {
    number: i64,
    totals: HashMap<String, Sum>,
    matches: HashMap<String, Sum>,
}

/// A sliding window.
pub(crate) struct Window {
    slice: Span,
    slices: VecDeque<Slice>,
    groups_max: usize,
    /// Rows of groups that there was no room for.
    pub left_out: u64,
}

impl Window {
    pub(crate) fn new(over: Span, groups_max: usize) -> Self {
        let slice = Span::from_ns((over.as_ns() / SLICES).max(1));
        Self { slice, slices: VecDeque::new(), groups_max, left_out: 0 }
    }

    /// Takes in a row, with the groups that it counts for. Time goes backwards with
    /// [`step_back`](Self::step_back) alone.
    pub(crate) fn add(
        &mut self,
        now: Timestamp,
        total: String,
        matched: Option<String>,
        weight: f64,
    ) {
        let number = self.number(now);
        if self.slices.back().is_none_or(|last| last.number != number) {
            self.slices.push_back(Slice { number, ..Slice::default() });
        }
        while self.slices.front().is_some_and(|first| first.number <= number.saturating_sub(SLICES))
        {
            self.slices.pop_front();
        }
        let Some(slice) = self.slices.back_mut() else { return };
        let max = self.groups_max;
        let taken = add(&mut slice.totals, total, weight, max)
            && matched.is_none_or(|group| add(&mut slice.matches, group, weight, max));
        self.left_out += u64::from(!taken);
    }

    /// Time was set back to this: rows that are later are in no window any more.
    pub(crate) fn step_back(&mut self, now: Timestamp) {
        let number = self.number(now);
        self.slices.retain(|slice| slice.number <= number);
    }

    const fn number(&self, time: Timestamp) -> i64 {
        time.as_ns().div_euclid(self.slice.as_ns())
    }

    /// All rows of a group.
    pub(crate) fn total(&self, group: &str) -> Sum {
        self.sum(|slice| slice.totals.get(group))
    }

    /// Its rows that match.
    pub(crate) fn matched(&self, group: &str) -> Sum {
        self.sum(|slice| slice.matches.get(group))
    }

    /// Summed each time, so that floats that went leave nothing behind.
    fn sum<'a>(&'a self, of: impl Fn(&'a Slice) -> Option<&'a Sum>) -> Sum {
        self.slices.iter().filter_map(of).fold(Sum::default(), |sum, one| Sum {
            rows: sum.rows + one.rows,
            weight: sum.weight + one.weight,
        })
    }
}

/// False where there is no room for the group.
fn add(into: &mut HashMap<String, Sum>, group: String, weight: f64, max: usize) -> bool {
    if into.len() >= max && !into.contains_key(&group) {
        return false;
    }
    let sum = into.entry(group).or_default();
    sum.rows += 1;
    sum.weight += weight;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn rows_leave_the_window_as_it_slides() {
        let mut window = Window::new(Span::from_seconds(20), GROUPS_MAX);
        for second in 0..100 {
            let matched = (second % 4 == 0).then(|| String::from("a"));
            window.add(at(second), String::new(), matched, 2.0);
        }
        assert_eq!(window.total(""), Sum { rows: 20, weight: 40.0 });
        assert_eq!(window.matched("a"), Sum { rows: 5, weight: 10.0 });
        assert_eq!(window.matched("b"), Sum::default());
        window.add(at(1_000), String::new(), None, 1.0);
        assert_eq!(window.total(""), Sum { rows: 1, weight: 1.0 });
    }

    #[test]
    fn a_window_slides_again_where_time_was_ahead_and_steps_back() {
        let mut window = Window::new(Span::from_seconds(20), GROUPS_MAX);
        window.add(at(3 * 3_600), String::new(), None, 5.0);
        window.step_back(at(100));
        for second in 100..200 {
            window.add(at(second), String::new(), None, 1.0);
        }
        assert_eq!(window.total(""), Sum { rows: 20, weight: 20.0 });
        window.step_back(at(200));
        assert_eq!(window.total("").rows, 20, "what is not later stays");
    }

    #[test]
    fn groups_are_bounded() {
        let mut window = Window::new(Span::from_seconds(1), GROUPS_MAX);
        for number in 0..GROUPS_MAX + 7 {
            window.add(at(0), number.to_string(), None, 1.0);
        }
        assert_eq!(window.left_out, 7);
        window.add(Timestamp::UNKNOWN, String::new(), None, 1.0);
        assert_eq!(window.total("").rows, 1, "a time that is not known is a time like others");
    }
}
