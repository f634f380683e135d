//! Which flows are followed where not all of them can be: the heaviest, chosen again each period.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use packet::FlowSlot;

use crate::segment::FlowWay;

/// Flows of which so many more are noted in a period than are followed; of others nothing is.
const NOTED_PER_FOLLOWED: usize = 8;

/// A flow that is followed gives way to one that brings this much more, so that two alike do not
/// take turns: losing a place costs what is known of the past.
const GIVES_WAY_ABOVE: f64 = 1.25;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Follow a flow no more.
    Leave {
        /// Which.
        way: FlowWay,
    },
    /// Follow a flow.
    Follow {
        /// Which.
        way: FlowWay,
        /// Its place.
        slot: FlowSlot,
    },
}

/// Flows that are followed, and those that might be.
#[derive(Debug)]
pub struct Follow {
    places: Vec<Place>,
    indices: HashMap<FlowWay, u32>,
    noted: HashMap<FlowWay, u64>,
    not_noted: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    generation: u32,
    way: Option<FlowWay>,
}

impl Follow {
    /// Follows so many flows at most.
    #[must_use]
    pub fn new(flow_count_max: usize) -> Self {
        Self {
            places: vec![Place::default(); flow_count_max],
            indices: HashMap::new(),
            noted: HashMap::new(),
            not_noted: 0,
        }
    }

    /// A flow that is not followed brought about so many bytes.
    pub fn note(&mut self, way: FlowWay, bytes: u64) {
        let noted_max = self.places.len().saturating_mul(NOTED_PER_FOLLOWED);
        let has_room = self.noted.len() < noted_max;
        match self.noted.entry(way) {
            Entry::Occupied(mut noted) => *noted.get_mut() += bytes,
            Entry::Vacant(place) if has_room => {
                place.insert(bytes);
            }
            Entry::Vacant(_) => self.not_noted += 1,
        }
    }

    /// A period has ended, in which flows that are followed brought this: what is to be done. A
    /// flow that brought nothing stays while there is room and `is_known` says that something is
    /// kept of it.
    pub fn choose(
        &mut self,
        brought: &HashMap<FlowWay, u64>,
        is_known: impl Fn(&FlowWay) -> bool,
    ) -> Vec<Change> {
        let followed = self.indices.keys().map(|way| {
            let bytes = brought.get(way).copied().unwrap_or(0);
            (*way, bytes, true)
        });
        let followed = followed.filter(|(way, bytes, _)| *bytes > 0 || is_known(way));
        let noted = self.noted.drain().filter(|(way, _)| !self.indices.contains_key(way));
        let mut all: Vec<_> =
            followed.chain(noted.map(|(way, bytes)| (way, bytes, false))).collect();
        // As many bytes as no flow brings in a period lose no digit that matters.
        #[allow(clippy::cast_precision_loss)]
        let weight = |bytes: u64, is_followed: bool| {
            bytes as f64 * if is_followed { GIVES_WAY_ABOVE } else { 1.0 }
        };
        all.sort_by(|&(a, a_bytes, a_followed), &(b, b_bytes, b_followed)| {
            weight(b_bytes, b_followed)
                .total_cmp(&weight(a_bytes, a_followed))
                .then_with(|| b_followed.cmp(&a_followed))
                .then_with(|| name(a).cmp(&name(b)))
        });
        all.truncate(self.places.len());
        let chosen: HashMap<FlowWay, bool> =
            all.iter().map(|&(way, _, is_followed)| (way, is_followed)).collect();
        let mut changes = Vec::new();
        for place in &mut self.places {
            if let Some(way) = place.way.filter(|way| !chosen.contains_key(way)) {
                place.way = None;
                place.generation = place.generation.wrapping_add(1);
                self.indices.remove(&way);
                changes.push(Change::Leave { way });
            }
        }
        let new = all.into_iter().filter(|(.., is_followed)| !is_followed);
        self.give_places(new.map(|(way, ..)| way), &mut changes);
        changes
    }

    /// Places that are free go to the heaviest of the flows noted so far, without waiting for the
    /// end of the period: what is to be done.
    pub fn fill(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.noted.is_empty() || !self.has_room() {
            return changes;
        }
        let noted = self.noted.iter().filter(|(way, _)| !self.indices.contains_key(way));
        let mut heaviest: Vec<_> = noted.map(|(&way, &bytes)| (Reverse(bytes), way)).collect();
        heaviest.sort_by_key(|&(bytes, way)| (bytes, name(way)));
        self.give_places(heaviest.into_iter().map(|(_, way)| way), &mut changes);
        changes
    }

    /// As many of them as there are places.
    fn give_places(&mut self, ways: impl Iterator<Item = FlowWay>, changes: &mut Vec<Change>) {
        let free = (0_u32..).zip(&mut self.places).filter(|(_, place)| place.way.is_none());
        for ((index, place), way) in free.zip(ways) {
            place.way = Some(way);
            self.indices.insert(way, index);
            let slot = FlowSlot { index, generation: place.generation };
            changes.push(Change::Follow { way, slot });
        }
    }

    /// Whether one more flow could be followed.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.indices.len() < self.places.len()
    }

    /// Whose a place is, unless another flow has it by now.
    #[must_use]
    pub fn way(&self, slot: FlowSlot) -> Option<FlowWay> {
        let place = self.places.get(slot.index as usize)?;
        place.way.filter(|_| place.generation == slot.generation)
    }

    /// Flows that are followed, with their places.
    pub fn followed(&self) -> impl Iterator<Item = (FlowWay, u32)> {
        self.indices.iter().map(|(&way, &index)| (way, index))
    }

    /// Packets of flows that found no room among those that are noted.
    #[must_use]
    pub const fn not_noted(&self) -> u64 {
        self.not_noted
    }
}

/// Of flows alike, the same comes first every time.
fn name(way: FlowWay) -> ([u64; 2], u8) {
    (way.key.words(), way.direction as u8)
}

#[cfg(test)]
mod tests {
    use packet::{FlowKey, Protocol};

    use super::*;

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

    fn ports(changes: &[Change]) -> Vec<(bool, u16)> {
        let port = |way: &FlowWay| way.key.endpoints(way.direction).0.port;
        changes
            .iter()
            .map(|change| match change {
                Change::Leave { way } => (false, port(way)),
                Change::Follow { way, .. } => (true, port(way)),
            })
            .collect()
    }

    const fn at(generation: u32) -> FlowSlot {
        FlowSlot { index: 0, generation }
    }

    #[test]
    fn the_heaviest_are_followed_and_places_are_given_on() {
        let mut follow = Follow::new(2);
        for (port, bytes) in [(1, 100), (2, 300), (3, 200)] {
            follow.note(way(port), bytes);
        }
        let changes = follow.choose(&HashMap::new(), |_| false);
        assert_eq!(ports(&changes), [(true, 2), (true, 3)]);
        assert_eq!(follow.way(at(0)), Some(way(2)));
        // A little more is not enough, much more is.
        let brought = HashMap::from([(way(2), 100), (way(3), 300)]);
        follow.note(way(4), 120);
        assert_eq!(ports(&follow.choose(&brought, |_| true)), []);
        follow.note(way(4), 130);
        assert_eq!(ports(&follow.choose(&brought, |_| true)), [(false, 2), (true, 4)]);
        assert_eq!((follow.way(at(0)), follow.way(at(1))), (None, Some(way(4))));
    }

    #[test]
    fn free_places_are_given_at_once_and_others_are_not_taken() {
        let mut follow = Follow::new(2);
        assert_eq!(ports(&follow.fill()), []);
        follow.note(way(1), 10);
        assert_eq!(ports(&follow.fill()), [(true, 1)]);
        for (port, bytes) in [(1, 900), (2, 100), (3, 200)] {
            follow.note(way(port), bytes);
        }
        assert_eq!(ports(&follow.fill()), [(true, 3)]);
        follow.note(way(2), 10_000);
        assert_eq!(ports(&follow.fill()), []);
        // What was noted counts where the period ends.
        let brought = HashMap::from([(way(1), 1000), (way(3), 100)]);
        assert_eq!(ports(&follow.choose(&brought, |_| true)), [(false, 3), (true, 2)]);
    }

    #[test]
    fn who_brings_nothing_and_is_not_known_is_left() {
        let mut follow = Follow::new(4);
        follow.note(way(1), 10);
        follow.choose(&HashMap::new(), |_| true);
        assert_eq!(ports(&follow.choose(&HashMap::new(), |_| true)), []);
        assert_eq!(ports(&follow.choose(&HashMap::new(), |_| false)), [(false, 1)]);
    }

    #[test]
    fn what_is_noted_is_bounded_and_counted() {
        let mut follow = Follow::new(1);
        for port in 0..10 {
            follow.note(way(port), 1);
        }
        assert_eq!(follow.not_noted(), 2);
    }
}
