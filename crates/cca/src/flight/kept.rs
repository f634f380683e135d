//! The flows of a tap: one after the other in memory, found by their keys.
//!
//! Periods are short and flows many, so that most looks at a flow find that nothing of it came.
//! What such a look has to know lies apart from the flows, in 64 bytes for both ways.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::hint::black_box;
use std::ops::Range;

use packet::prehashed::PrehashedMap;
use packet::{FlowDirection, FlowKey, HashSeed, KeyHash as _, Timestamp};

use super::flow::FlightFlow;
use super::slot::FlightSlot;
use crate::pair::Period;
use crate::segment::FlowWay;

/// One way of a flow, and its slots that are complete.
#[derive(Debug, Default)]
pub(super) struct FlightSlots {
    pub(super) flow: FlightFlow,
    slots: Vec<FlightSlot>,
    /// How many of them are forgotten: they leave together, so that those behind them are moved
    /// once each and not at every look.
    gone: usize,
}

impl FlightSlots {
    /// Keeps a slot that is complete; of old ones the last.
    pub(super) fn keep(&mut self, done: Option<FlightSlot>, oldest: i64) {
        let Some(done) = done else { return };
        if done.slot < oldest {
            self.slots.clear();
            self.gone = 0;
        }
        self.slots.push(done);
    }

    /// Those that are complete.
    fn complete(&self) -> &[FlightSlot] {
        self.slots.get(self.gone..).unwrap_or_default()
    }

    /// Forgets slots before this one but for the last of them, which shows what is in flight until
    /// the next.
    fn forget(&mut self, oldest: i64) {
        let old = self.complete().partition_point(|slot| slot.slot < oldest);
        self.gone += old.saturating_sub(1);
        if self.gone > self.slots.len() / 2 {
            self.slots.drain(..self.gone);
            self.gone = 0;
            // Until the next are forgotten there are twice as many and some more: with room for no
            // more than twice as many, a steady flow would shrink and grow each time.
            if self.slots.capacity() / 4 > self.slots.len() {
                self.slots.shrink_to(3 * self.slots.len());
            }
        }
    }

    /// Its slots in order, the open one last.
    pub(super) fn slots(&self) -> impl Iterator<Item = &FlightSlot> {
        self.complete().iter().chain(self.flow.open())
    }

    /// The same as one list, which is lent.
    fn with_slots<T>(&mut self, look: impl FnOnce(&[FlightSlot]) -> T) -> T {
        let len = self.slots.len();
        if len == 0 {
            // Nearly every flow: no list is begun for it.
            return look(self.flow.open().map_or(&[], std::slice::from_ref));
        }
        self.slots.extend(self.flow.open());
        let found = look(self.complete());
        self.slots.truncate(len);
        found
    }

    fn next_slot(&self, from: i64) -> Option<i64> {
        let complete = self.complete();
        let at = complete.partition_point(|slot| slot.slot < from);
        let open = self.flow.open().filter(|open| open.slot >= from);
        complete.get(at).or(open).map(|slot| slot.slot)
    }
}

/// What most looks at one way of a flow have to know.
#[derive(Clone, Copy, Debug)]
struct Glance {
    /// The last slot; [`NEVER`] where there is none.
    last: i64,
    /// The second of those that are complete: where it is old, so is the first. `i64::MAX` where
    /// there is none.
    second: i64,
    /// When the last packet came; [`Timestamp::MIN`] before the first.
    latest: Timestamp,
    /// Whether it is known to have something in flight.
    waits: bool,
}

/// Before any slot.
const NEVER: i64 = i64::MIN;

impl Glance {
    fn of(kept: &FlightSlots) -> Self {
        let open = kept.flow.open();
        Self {
            last: open.map_or(NEVER, |open| open.slot),
            second: kept.complete().get(1).map_or(i64::MAX, |slot| slot.slot),
            latest: kept.flow.latest().unwrap_or(Timestamp::MIN),
            waits: open.is_some_and(|open| open.is_known() && open.flight_bytes > 0),
        }
    }

    const fn waits_before(&self, period: Period) -> bool {
        self.waits && self.last < period.start
    }
}

/// A key with its hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HashedKey {
    hash: u64,
    key: FlowKey,
}

impl Hash for HashedKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// Where a flow was found, if it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowPlace {
    hashed: HashedKey,
    place: Option<usize>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Flows {
    seed: HashSeed,
    places: PrehashedMap<HashedKey, usize>,
    keys: Vec<HashedKey>,
    kept: Vec<[FlightSlots; 2]>,
    glances: Vec<[Glance; 2]>,
    /// Slots in memory, of all flows; those that are open lie in the flows.
    slot_count: usize,
}

/// Slots in memory of both ways.
fn slot_count(both: &[FlightSlots; 2]) -> usize {
    both.iter().map(|kept| kept.slots.len()).sum()
}

impl Flows {
    /// None yet. Keys are spread by a seed that no sender can know.
    pub(super) fn new() -> Self {
        Self {
            seed: HashSeed::new(RandomState::new().hash_one(0_u8)),
            places: PrehashedMap::default(),
            keys: Vec::new(),
            kept: Vec::new(),
            glances: Vec::new(),
            slot_count: 0,
        }
    }

    /// Slots in memory, of all flows.
    pub(super) const fn slot_count(&self) -> usize {
        self.slot_count
    }

    /// Where a flow is kept, if it is.
    #[inline]
    pub(super) fn find(&self, key: FlowKey) -> FlowPlace {
        let hashed = HashedKey { hash: key.key_hash(self.seed), key };
        FlowPlace { hashed, place: self.places.get(&hashed).copied() }
    }

    /// Reads what a change of a flow reads first, so that it is in the cache by then. Reads of
    /// several flows that do not depend on one another wait for memory together.
    #[inline]
    pub(super) fn touch(&self, found: &FlowPlace) {
        if let Some(place) = found.place {
            black_box(self.glances.get(place).map(|both| both[0].last));
            let kept = self.kept.get(place);
            black_box(kept.map(|both| both.each_ref().map(|kept| kept.flow.latest())));
            black_box(kept.map(slot_count));
        }
    }

    /// Changes what is kept of a flow, which is begun where there is none of the key and fewer than
    /// so many; false where there is no place for it. Since it was looked for, flows may have
    /// begun, and none may have been forgotten.
    pub(super) fn change(
        &mut self,
        found: FlowPlace,
        count_max: usize,
        change: impl FnOnce(&mut [FlightSlots; 2]),
    ) -> bool {
        let FlowPlace { hashed, place } = found;
        let place = match place.or_else(|| self.places.get(&hashed).copied()) {
            Some(place) => place,
            None if self.kept.len() >= count_max => return false,
            None => self.begin(hashed),
        };
        if let (Some(both), Some(glance)) = (self.kept.get_mut(place), self.glances.get_mut(place))
        {
            let before = slot_count(both);
            change(both);
            self.slot_count = self.slot_count + slot_count(both) - before;
            *glance = [Glance::of(&both[0]), Glance::of(&both[1])];
        }
        true
    }

    fn begin(&mut self, hashed: HashedKey) -> usize {
        let both = <[FlightSlots; 2]>::default();
        let place = self.kept.len();
        self.places.insert(hashed, place);
        self.keys.push(hashed);
        self.glances.push([Glance::of(&both[0]), Glance::of(&both[1])]);
        self.kept.push(both);
        place
    }

    /// Forgets slots before this one but for the last of them, and flows of which no packet came
    /// since a moment.
    pub(super) fn forget(&mut self, oldest: Timestamp, oldest_slot: i64) {
        let mut place = 0;
        while let Some(both) = self.glances.get_mut(place) {
            if both.iter().all(|glance| glance.latest < oldest || glance.latest == Timestamp::MIN) {
                self.remove(place);
                continue;
            }
            if both.iter().any(|glance| glance.second < oldest_slot)
                && let Some(kept) = self.kept.get_mut(place)
            {
                let before = slot_count(kept);
                for (kept, glance) in kept.iter_mut().zip(both) {
                    kept.forget(oldest_slot);
                    *glance = Glance::of(kept);
                }
                self.slot_count = self.slot_count + slot_count(kept) - before;
            }
            place += 1;
        }
    }

    /// Forgets a flow.
    pub(super) fn forget_flow(&mut self, key: FlowKey) {
        if let Some(place) = self.find(key).place {
            self.remove(place);
        }
    }

    /// Another flow, the last, takes the place.
    fn remove(&mut self, place: usize) {
        let gone = self.keys.swap_remove(place);
        self.slot_count -= slot_count(&self.kept.swap_remove(place));
        self.glances.swap_remove(place);
        self.places.remove(&gone);
        if let Some(moved) = self.keys.get(place) {
            self.places.insert(*moved, place);
        }
    }

    /// One way of a flow.
    pub(super) fn get(&self, way: &FlowWay) -> Option<&FlightSlots> {
        let hashed = HashedKey { hash: way.key.key_hash(self.seed), key: way.key };
        let both = self.kept.get(*self.places.get(&hashed)?)?;
        Some(&both[index(way.direction)])
    }

    /// Each way that has slots.
    pub(super) fn ways(&self) -> impl Iterator<Item = (FlowWay, &FlightSlots)> {
        self.keys.iter().zip(&self.kept).flat_map(|(hashed, both)| {
            let ways = [FlowDirection::LowToHigh, FlowDirection::HighToLow].into_iter().zip(both);
            let seen = ways.filter(|(_, kept)| kept.flow.open().is_some());
            seen.map(|(direction, kept)| (FlowWay { key: hashed.key, direction }, kept))
        })
    }

    /// Lends the slots of each way that had a packet in a period or after it.
    pub(super) fn for_each_busy(
        &mut self,
        period: Period,
        look: impl FnMut(FlowWay, &[FlightSlot]),
    ) {
        self.for_each(|glance| glance.last >= period.start && glance.last != NEVER, look);
    }

    /// Lends the slots of each way that had none, and has something in flight.
    pub(super) fn for_each_waiting(
        &mut self,
        period: Period,
        look: impl FnMut(FlowWay, &[FlightSlot]),
    ) {
        self.for_each(|glance| glance.waits_before(period), look);
    }

    /// How many of those there are.
    pub(super) fn waiting_count(&self, period: Period) -> usize {
        self.glances.iter().flatten().filter(|glance| glance.waits_before(period)).count()
    }

    fn for_each(
        &mut self,
        is_meant: impl Fn(&Glance) -> bool,
        mut look: impl FnMut(FlowWay, &[FlightSlot]),
    ) {
        let Self { keys, kept, glances, .. } = self;
        for (at, glances) in glances.iter().enumerate() {
            for direction in [FlowDirection::LowToHigh, FlowDirection::HighToLow] {
                if is_meant(&glances[index(direction)])
                    && let (Some(hashed), Some(both)) = (keys.get(at), kept.get_mut(at))
                {
                    let way = FlowWay { key: hashed.key, direction };
                    both[index(direction)].with_slots(|slots| look(way, slots));
                }
            }
        }
    }

    /// The first slot from this one on in which any flow had a packet.
    pub(super) fn next_slot(&self, from: i64) -> Option<i64> {
        self.since(from).filter_map(|(kept, _)| kept.next_slot(from)).min()
    }

    /// Whether any flow had a packet in these slots.
    pub(super) fn has_slot(&self, slots: &Range<i64>) -> bool {
        self.since(slots.start).any(|(kept, last)| {
            let next = || kept.next_slot(slots.start);
            slots.contains(&last) || next().is_some_and(|slot| slot < slots.end)
        })
    }

    /// Those that have a slot from this one on, and their last.
    fn since(&self, from: i64) -> impl Iterator<Item = (&FlightSlots, i64)> {
        let both = self.glances.iter().zip(&self.kept);
        both.flat_map(|(glances, kept)| glances.iter().zip(kept))
            .filter(move |(glance, _)| glance.last >= from && glance.last != NEVER)
            .map(|(glance, kept)| (kept, glance.last))
    }
}

const fn index(direction: FlowDirection) -> usize {
    match direction {
        FlowDirection::LowToHigh => 0,
        FlowDirection::HighToLow => 1,
    }
}
