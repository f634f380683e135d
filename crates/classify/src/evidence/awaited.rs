//! Evidence of a flow while its names are being read.

use names::found::FlowInfo;

use super::{Evidence, NameList};

/// Depths at which evidence is kept, at most: one for each stage of a cascade.
pub const DEPTH_COUNT_MAX: usize = 3;

/// What was read of a flow's names, its latest packet included.
#[derive(Clone, Copy, Debug)]
pub struct NamesSoFar<'a> {
    /// What was found.
    pub seen: &'a FlowInfo,
    /// Whether no more evidence can be found.
    pub is_final: bool,
}

/// Evidence of a flow after its first packets, for each of some depths: what is found later does
/// not count, so that a stage is shown the same whenever it is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowEvidence {
    by_depth: [Evidence; DEPTH_COUNT_MAX],
    /// The packet with which all was found, counted from 1; 0 until then.
    final_at: u8,
}

impl FlowEvidence {
    /// Takes in what is known with the packet `number`, counted from 1; `depths` are the same each
    /// time.
    pub fn take_in(
        &mut self,
        list: &NameList,
        depths: impl Iterator<Item = usize>,
        names: NamesSoFar<'_>,
        number: usize,
    ) {
        if self.final_at > 0 {
            return;
        }
        if names.is_final {
            self.final_at = u8::try_from(number).unwrap_or(u8::MAX);
        }
        let evidence = list.evidence(names.seen);
        for (kept, depth) in self.by_depth.iter_mut().zip(depths) {
            if number <= depth {
                *kept = evidence;
            }
        }
    }

    /// What was found within a depth, by its place.
    #[must_use]
    pub fn at(&self, place: usize) -> Evidence {
        self.by_depth.get(place).copied().unwrap_or_default()
    }

    /// How many packets are awaited of so many that may be.
    #[must_use]
    pub fn awaited(&self, packets: usize) -> usize {
        if self.final_at > 0 { packets.min(self.final_at.into()) } else { packets }
    }
}

#[cfg(test)]
mod tests {
    use names::greeting::Protocol;

    use super::super::State;
    use super::*;

    #[test]
    fn what_is_found_after_a_depth_does_not_count_there() {
        let classes = [String::from("a"), String::from("b")];
        let list = b"kind\tvalue\tclass\nprotocol\tssh\tb\n";
        let list = NameList::parse(list, &classes).unwrap();
        let (nothing, ssh) =
            (FlowInfo::default(), FlowInfo { protocol: Some(Protocol::Ssh), found: None });
        let mut flow = FlowEvidence::default();
        let mut take_in = |seen, is_final, number| {
            flow.take_in(&list, [1, 10].into_iter(), NamesSoFar { seen, is_final }, number);
            (flow.at(0).state(), flow.at(1).state(), flow.awaited(1), flow.awaited(10))
        };
        assert_eq!(take_in(&nothing, false, 1), (State::None, State::None, 1, 10));
        assert_eq!(take_in(&ssh, true, 4), (State::None, State::Protocol, 1, 4));
        assert_eq!(take_in(&nothing, false, 5), (State::None, State::Protocol, 1, 4));
    }
}
