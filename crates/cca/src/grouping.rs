//! Which flows share a class of a queue: those of one congestion control.
//!
//! Pure: what flows were named comes in, who moves comes out. A name that flickers moves no flow.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use packet::{Span, Timestamp};

use crate::segment::FlowWay;

/// To go from one class to another takes so many times the names that it takes to get the first:
/// among its like a flow fills a queue otherwise than among strangers, and is easily misnamed.
const AGAIN: u32 = 3;

/// When a flow moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupingRules {
    /// It was named the same in so many periods, with no other name between them; three times as
    /// many where it has a class already.
    pub after_periods: u32,
    /// It has been where it is for so long; to its first class it goes immediately.
    pub hold: Span,
    /// It is forgotten when it was not seen for so long.
    pub idle: Span,
    /// Flows that are kept at most; of others it is counted how often they were seen.
    pub flow_count_max: usize,
}

/// What is to be done with a flow. Classes are indices that the caller assigns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It goes to a class.
    Move {
        /// Which.
        way: FlowWay,
        /// Where it was; at first in none.
        from: Option<usize>,
        /// Where it goes.
        to: usize,
        /// How often it was named so.
        times: u32,
    },
    /// It was not seen for long and leaves its class.
    Leave {
        /// Which.
        way: FlowWay,
        /// Where it was.
        from: usize,
    },
}

/// Flows and their classes.
#[derive(Debug)]
pub struct Grouping {
    rules: GroupingRules,
    flows: HashMap<FlowWay, FlowGroup>,
    not_kept: u64,
}

/// How many flows are where.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Of each class.
    pub classes: Vec<usize>,
    /// In none.
    pub rest: usize,
}

#[derive(Debug)]
struct FlowGroup {
    class: Option<usize>,
    /// Another name than that of its class, and how often it came.
    heard: Option<(usize, u32)>,
    periods: u32,
    moved: Option<Timestamp>,
    seen: Timestamp,
}

impl Grouping {
    /// No flow is in a class.
    #[must_use]
    pub fn new(rules: GroupingRules) -> Self {
        Self { rules, flows: HashMap::new(), not_kept: 0 }
    }

    /// A period has ended, in which these flows were seen and named so, or not named.
    pub fn look(
        &mut self,
        now: Timestamp,
        seen: impl IntoIterator<Item = (FlowWay, Option<usize>)>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for (way, name) in seen {
            let has_room = self.flows.len() < self.rules.flow_count_max;
            let kept = match self.flows.entry(way) {
                Entry::Occupied(kept) => kept.into_mut(),
                Entry::Vacant(place) if has_room => place.insert(FlowGroup::new(now)),
                Entry::Vacant(_) => {
                    self.not_kept += 1;
                    continue;
                }
            };
            kept.seen = now;
            kept.periods = kept.periods.saturating_add(1);
            let from = kept.class;
            let goes = name.and_then(|name| Some((name, kept.hear(name, now, self.rules)?)));
            steps.extend(goes.map(|(to, times)| Step::Move { way, from, to, times }));
        }
        let mut idle: Vec<_> = self
            .flows
            .iter()
            .filter(|(_, kept)| now.since(kept.seen) >= self.rules.idle)
            .map(|(&way, _)| way)
            .collect();
        idle.sort_by_key(|way| (way.key.words(), way.direction as u8));
        for way in idle {
            let class = self.flows.remove(&way).and_then(|kept| kept.class);
            steps.extend(class.map(|from| Step::Leave { way, from }));
        }
        steps
    }

    /// How many flows are in each of so many classes, and in none. One that was seen for fewer
    /// periods than it takes to move does not count yet.
    #[must_use]
    pub fn sizes(&self, class_count: usize) -> Sizes {
        let mut sizes = Sizes { classes: vec![0; class_count], rest: 0 };
        for kept in self.flows.values() {
            match kept.class.and_then(|class| sizes.classes.get_mut(class)) {
                Some(size) => *size += 1,
                None if kept.periods >= self.rules.after_periods => sizes.rest += 1,
                None => {}
            }
        }
        sizes
    }

    /// How often a flow was seen that found no room.
    #[must_use]
    pub const fn not_kept(&self) -> u64 {
        self.not_kept
    }
}

impl FlowGroup {
    const fn new(now: Timestamp) -> Self {
        Self { class: None, heard: None, periods: 0, moved: None, seen: now }
    }

    /// Hears a name; how often it was heard, if the flow goes there for it.
    fn hear(&mut self, name: usize, now: Timestamp, rules: GroupingRules) -> Option<u32> {
        if self.class == Some(name) {
            self.heard = None;
            return None;
        }
        let before = self.heard.filter(|&(heard, _)| heard == name).map_or(0, |(_, times)| times);
        let times = before.saturating_add(1);
        self.heard = Some((name, times));
        let is_held = self.moved.is_some_and(|moved| now.since(moved) < rules.hold);
        let again = if self.class.is_some() { AGAIN } else { 1 };
        if times < rules.after_periods.saturating_mul(again) || is_held {
            return None;
        }
        (self.class, self.heard, self.moved) = (Some(name), None, Some(now));
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use packet::{FlowKey, Protocol};

    use super::*;

    const RULES: GroupingRules = GroupingRules {
        after_periods: 2,
        hold: Span::from_seconds(10),
        idle: Span::from_seconds(5),
        flow_count_max: 3,
    };

    fn way(port: u16) -> FlowWay {
        let (key, direction) = FlowKey::from_tuple(
            "192.0.2.1".parse().unwrap(),
            "192.0.2.2".parse().unwrap(),
            port,
            80,
            Protocol::TCP,
        );
        FlowWay { key, direction }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::default().plus(Span::from_seconds(seconds))
    }

    #[test]
    fn a_flow_moves_when_it_was_named_often_enough() {
        let mut grouping = Grouping::new(RULES);
        let look =
            |grouping: &mut Grouping, second, name| grouping.look(at(second), [(way(1), name)]);
        assert_eq!(look(&mut grouping, 0, Some(0)), []);
        // What is not known neither helps nor harms.
        assert_eq!(look(&mut grouping, 1, None), []);
        let to = |from, to, times| [Step::Move { way: way(1), from, to, times }];
        assert_eq!(look(&mut grouping, 2, Some(0)), to(None, 0, 2));
        // Another name now and then moves nobody, nor does it soon after a move.
        for (second, name) in [(3, 1), (4, 1), (5, 1), (6, 0), (7, 1), (8, 1), (9, 1), (10, 1)] {
            assert_eq!(look(&mut grouping, second, Some(name)), [], "{second}");
        }
        for second in [13, 14] {
            let moved = look(&mut grouping, second, Some(1));
            // Six times in a row and not before.
            let wanted = if second == 14 { to(Some(0), 1, 6).to_vec() } else { Vec::new() };
            assert_eq!(moved, wanted);
        }
        // Often enough, but too soon.
        for second in 15..24 {
            assert_eq!(look(&mut grouping, second, Some(0)), [], "{second}");
        }
        assert_eq!(look(&mut grouping, 24, Some(0)), to(Some(1), 0, 10));
    }

    #[test]
    fn who_is_not_seen_for_long_leaves() {
        let mut grouping = Grouping::new(RULES);
        for second in 0..2 {
            grouping.look(at(second), [(way(1), Some(1)), (way(2), None)]);
        }
        assert_eq!(grouping.sizes(2), Sizes { classes: vec![0, 1], rest: 1 });
        assert_eq!(grouping.look(at(5), []), []);
        assert_eq!(grouping.look(at(6), []), [Step::Leave { way: way(1), from: 1 }]);
        assert_eq!(grouping.sizes(2), Sizes { classes: vec![0, 0], rest: 0 });
    }

    #[test]
    fn a_flow_counts_when_it_was_seen_for_long_enough() {
        let mut grouping = Grouping::new(RULES);
        grouping.look(at(0), [(way(1), None)]);
        assert_eq!(grouping.sizes(0).rest, 0);
        grouping.look(at(1), [(way(1), None)]);
        assert_eq!(grouping.sizes(0).rest, 1);
    }

    #[test]
    fn what_is_kept_is_bounded_and_counted() {
        let mut grouping = Grouping::new(RULES);
        for second in 0..2 {
            grouping.look(at(second), (0..5).map(|port| (way(port), Some(0))));
        }
        assert_eq!(grouping.sizes(1).classes, [3]);
        assert_eq!(grouping.not_kept(), 4);
    }
}
