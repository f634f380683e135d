//! What captures on one interface counted, where several of them are in one file.

use packet::file::InterfaceStatistics;

/// Statistics of an interface, section by section. They count from the beginning of a capture: the
/// last of one hold those before, and those of captures that were put together add up.
#[derive(Clone, Copy, Debug, Default)]
pub struct StatisticsSum {
    /// Of captures that are over.
    past: [Option<u64>; 3],
    last: Option<InterfaceStatistics>,
}

impl StatisticsSum {
    /// Takes in what the next section has of the interface, if anything.
    pub fn put(&mut self, next: Option<InterfaceStatistics>) {
        let Some(next) = next else { return };
        if let Some(last) = self.last.replace(next)
            && !holds(&next, &last)
        {
            self.past = sum(self.past, counters(&last));
        }
    }

    /// Packets that were received, dropped, and dropped by the system, as far as sections say so.
    #[must_use]
    pub fn counters(&self) -> [Option<u64>; 3] {
        sum(self.past, self.last.as_ref().map_or([None; 3], counters))
    }
}

/// Whether statistics are of the same capture as earlier ones.
fn holds(later: &InterfaceStatistics, earlier: &InterfaceStatistics) -> bool {
    let mut both = counters(later).into_iter().zip(counters(earlier));
    later.start == earlier.start && both.all(|(later, earlier)| later >= earlier)
}

const fn counters(statistics: &InterfaceStatistics) -> [Option<u64>; 3] {
    [statistics.received, statistics.dropped, statistics.os_dropped]
}

fn sum(some: [Option<u64>; 3], more: [Option<u64>; 3]) -> [Option<u64>; 3] {
    let [a, b, c] = some;
    let [d, e, f] = more;
    [(a, d), (b, e), (c, f)].map(|pair| match pair {
        (Some(some), Some(more)) => Some(some.saturating_add(more)),
        (some, more) => some.or(more),
    })
}

#[cfg(test)]
mod tests {
    use packet::Timestamp;

    use super::*;

    #[test]
    fn captures_add_up_and_sections_of_one_do_not() {
        let of = |start: Option<i64>, received, dropped| {
            let start = start.map(|seconds| Timestamp::from_parts(seconds, 0));
            let (received, dropped) = (Some(received), Some(dropped));
            Some(InterfaceStatistics { start, received, dropped, ..Default::default() })
        };
        let summed = |of_sections: &[Option<InterfaceStatistics>]| {
            let mut sum = StatisticsSum::default();
            of_sections.iter().for_each(|&next| sum.put(next));
            sum.counters()
        };
        assert_eq!(summed(&[None]), [None; 3]);
        let one = [of(Some(1), 5, 0), None, of(Some(1), 9, 2)];
        assert_eq!(summed(&one), [Some(9), Some(2), None]);
        let two = [of(Some(1), 5, 9), of(Some(7), 6, 9)];
        assert_eq!(summed(&two), [Some(11), Some(18), None]);
        // Without a beginning, counts that shrink are another capture's.
        let unsaid = [of(None, 5, 9), of(None, 6, 0), of(None, 7, 0)];
        assert_eq!(summed(&unsaid), [Some(12), Some(9), None]);
    }
}
