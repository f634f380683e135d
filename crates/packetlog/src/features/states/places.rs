//! States by 64-bit hash in a memory that does not grow.

use engine::prefetch::{prefer_huge_pages, prefetch, prefetch_all};
use packet::{Span, Timestamp};

/// Places that a hash may take: all of them are examined, and the oldest makes room.
const WAYS: usize = 4;

/// States in sets of four places.
pub(crate) struct Places<S> {
    sets: Vec<Set>,
    /// Those of a set, apart from what is examined to find one.
    states: Vec<States<S>>,
    idle_timeout: Span,
    counts: PlaceCounts,
}

/// Whose states these are: one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set {
    /// 0 where the place is free.
    hashes: [u64; WAYS],
    last: [Timestamp; WAYS],
}

const _: () = assert!(size_of::<Set>() == 64, "a line");

/// The states of a set, from the beginning of a line on.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct States<S>([S; WAYS]);

/// Where a state is, until the next one begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlaceIndex {
    set: usize,
    way: usize,
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
    pub(crate) fn new(count: usize, idle_timeout: Span) -> Self {
        let (mut sets, mut states) = (Vec::with_capacity(count / WAYS), Vec::new());
        states.reserve_exact(count / WAYS);
        prefer_huge_pages(&mut sets);
        prefer_huge_pages(&mut states);
        sets.resize(count / WAYS, Set { hashes: [0; WAYS], last: [Timestamp::MIN; WAYS] });
        states.resize(count / WAYS, States([S::default(); WAYS]));
        Self { sets, states, idle_timeout, counts: PlaceCounts::default() }
    }

    /// Asks for the set of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        if let Some(set) = self.sets.get(self.set_of(hash.max(1))) {
            prefetch(set);
        }
    }

    /// Asks for the state of a hash, when its set has come; where there is none, for the one that
    /// would make room.
    #[inline(always)]
    pub(crate) fn prefetch_state(&self, hash: u64) {
        let at = self.set_of(hash.max(1));
        let set = &self.sets[at];
        let way = set.way_of(hash.max(1)).unwrap_or_else(|| set.oldest());
        prefetch_all(&self.states[at].0[way & (WAYS - 1)]);
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // The mask is smaller.
    fn set_of(&self, hash: u64) -> usize {
        hash as usize & (self.sets.len() - 1)
    }

    /// The state of a hash if there is one.
    #[inline]
    pub(crate) fn get(&self, hash: u64) -> Option<&S> {
        let hash = hash.max(1);
        let at = self.set_of(hash);
        let way = self.sets.get(at)?.way_of(hash)?;
        self.states.get(at)?.0.get(way)
    }

    /// The state of a hash, which begins where there is none, or where it was idle for longer than
    /// the time-out; and when it was used before, unless it began.
    #[inline]
    pub(crate) fn take(&mut self, hash: u64, now: Timestamp) -> (&mut S, Option<Timestamp>) {
        let (place, before) = self.find_or_begin(hash, now);
        (&mut self.states[place.set].0[place.way], before)
    }

    /// Where the state of a hash is, as [`take`](Self::take) gives it.
    #[inline]
    pub(crate) fn find_or_begin(
        &mut self,
        hash: u64,
        now: Timestamp,
    ) -> (PlaceIndex, Option<Timestamp>) {
        let hash = hash.max(1);
        let at = self.set_of(hash);
        let set = &mut self.sets[at];
        let oldest_alive = now.minus(self.idle_timeout);
        let found = set.way_of(hash);
        // A free place has the earliest time.
        let way = found.unwrap_or_else(|| set.oldest()) & (WAYS - 1);
        let last = std::mem::replace(&mut set.last[way], now);
        let is_known = found.is_some() && last >= oldest_alive;
        if !is_known {
            self.counts.begun += 1;
            let is_alive = set.hashes[way] != 0 && found.is_none() && last >= oldest_alive;
            self.counts.evicted += u64::from(is_alive);
            set.hashes[way] = hash;
            self.states[at].0[way] = S::default();
        }
        (PlaceIndex { set: at, way }, is_known.then_some(last))
    }

    /// The state at a place, if it is still that of this hash.
    #[inline]
    pub(crate) fn at(&mut self, place: PlaceIndex, hash: u64) -> Option<&mut S> {
        let set = self.sets.get(place.set)?;
        let is_same = set.hashes.get(place.way) == Some(&hash.max(1));
        self.states.get_mut(place.set)?.0.get_mut(place.way).filter(|_| is_same)
    }

    /// Nothing is known any more.
    pub(crate) fn forget(&mut self) {
        for set in &mut self.sets {
            (set.hashes, set.last) = ([0; WAYS], [Timestamp::MIN; WAYS]);
        }
    }

    pub(crate) const fn counts(&self) -> PlaceCounts {
        self.counts
    }

    pub(crate) fn size_bytes(&self) -> usize {
        size_of_val(self.sets.as_slice()) + size_of_val(self.states.as_slice())
    }
}

impl Set {
    /// Where a hash is. Without a jump at each place: which it is differs from packet to packet.
    #[inline(always)]
    fn way_of(&self, hash: u64) -> Option<usize> {
        let mut found = 0_u32;
        for (way, of) in self.hashes.iter().enumerate() {
            found |= u32::from(*of == hash) << way;
        }
        (found != 0).then(|| found.trailing_zeros() as usize)
    }

    /// The place that was used last of all before the others, of several the first.
    #[inline(always)]
    fn oldest(&self) -> usize {
        let mut oldest = 0;
        for way in 1..WAYS {
            if self.last[way] < self.last[oldest] {
                oldest = way;
            }
        }
        oldest
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
