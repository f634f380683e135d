//! States by 64-bit hash in a memory that does not grow.

use engine::prefetch::{prefer_huge_pages, prefetch};
use packet::{Span, Timestamp};

/// Places that a hash may take: all of them are examined, and the oldest makes room.
const WAYS: usize = 4;

/// States in sets of four places.
pub(super) struct Places<S> {
    sets: Vec<[Place<S>; WAYS]>,
    idle_timeout: Span,
    counts: PlaceCounts,
}

#[derive(Clone, Copy)]
struct Place<S> {
    /// 0 where the place is free.
    hash: u64,
    last: Timestamp,
    state: S,
}

/// The outcome of states that share a memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlaceCounts {
    /// States that began.
    pub begun: u64,
    /// States that had to make room for another although they were not idle.
    pub evicted: u64,
}

impl<S: Copy + Default> Places<S> {
    /// Without any state. `count` is a power of two, at least [`WAYS`].
    pub(super) fn new(count: usize, idle_timeout: Span) -> Self {
        let mut sets = Vec::with_capacity(count / WAYS);
        prefer_huge_pages(&mut sets);
        let free = Place { hash: 0, last: Timestamp::MIN, state: S::default() };
        sets.resize(count / WAYS, [free; WAYS]);
        Self { sets, idle_timeout, counts: PlaceCounts::default() }
    }

    /// Asks for the places of a hash.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(set) = self.sets.get(self.set_of(hash)) {
            set.iter().for_each(|place| prefetch(&place.hash));
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // The mask is smaller.
    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    /// The state of a hash if there is one.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> Option<&S> {
        let hash = hash.max(1);
        let set = self.sets.get(self.set_of(hash))?;
        set.iter().find(|place| place.hash == hash).map(|place| &place.state)
    }

    /// The state of a hash, which begins where there is none, or where it was idle for longer than
    /// the time-out; and when it was used before, unless it began.
    #[inline]
    pub(super) fn take(&mut self, hash: u64, now: Timestamp) -> (&mut S, Option<Timestamp>) {
        let hash = hash.max(1);
        let at = self.set_of(hash);
        let set = &mut self.sets[at];
        let oldest_alive = now.minus(self.idle_timeout);
        let found = set.iter().position(|place| place.hash == hash);
        let way = found.unwrap_or_else(|| {
            // A free place has the earliest time.
            let oldest = set.iter().enumerate().min_by_key(|(_, place)| place.last);
            oldest.map_or(0, |(way, _)| way)
        });
        let place = &mut set[way];
        let is_known = found.is_some() && place.last >= oldest_alive;
        let before = is_known.then_some(place.last);
        if !is_known {
            self.counts.begun += 1;
            let is_alive = place.hash != 0 && found.is_none() && place.last >= oldest_alive;
            self.counts.evicted += u64::from(is_alive);
            *place = Place { hash, last: now, state: S::default() };
        }
        place.last = now;
        (&mut place.state, before)
    }

    /// Nothing is known any more.
    pub(super) fn forget(&mut self) {
        for place in self.sets.as_flattened_mut() {
            place.hash = 0;
            place.last = Timestamp::MIN;
        }
    }

    pub(super) const fn counts(&self) -> PlaceCounts {
        self.counts
    }

    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(self.sets.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_ns(seconds * SECOND)
    }

    #[test]
    fn the_oldest_makes_room_and_is_counted() {
        let mut places = Places::<u32>::new(4, Span::from_seconds(60));
        for hash in 1..4 {
            let (state, before) = places.take(hash, at(hash.cast_signed()));
            assert_eq!((*state, before), (0, None));
            *state = 7;
        }
        assert_eq!(places.take(0, at(1)).1, Some(at(1)), "hashes of 0 and of 1 are one");
        assert_eq!(places.counts(), PlaceCounts { begun: 3, evicted: 0 });
        assert_eq!(*places.take(2, at(5)).0, 7);
        assert_eq!(places.take(2, at(6)).1, Some(at(5)));
        assert_eq!(places.take(9, at(6)).1, None);
        assert_eq!(places.counts(), PlaceCounts { begun: 4, evicted: 0 });
        // 1 was used last of all.
        assert_eq!(*places.take(10, at(6)).0, 0);
        assert_eq!(places.counts(), PlaceCounts { begun: 5, evicted: 1 });
        assert_eq!((places.get(1), places.get(2)), (None, Some(&7)));
    }

    #[test]
    fn what_was_idle_begins_anew() {
        let mut places = Places::<u32>::new(8, Span::from_seconds(60));
        *places.take(5, at(0)).0 = 3;
        assert_eq!(*places.take(5, at(60)).0, 3);
        assert_eq!(*places.take(5, at(121)).0, 0);
        assert_eq!(places.counts(), PlaceCounts { begun: 2, evicted: 0 });
        places.forget();
        assert_eq!(places.take(5, at(121)).1, None);
    }
}
