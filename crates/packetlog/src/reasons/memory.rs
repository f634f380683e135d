//! Which flows or sources have been marked, and how strongly, in a fixed number of places.

use super::{RENEWED_AFTER_S, ReasonScope, STRONGER};

/// Places of a set; a set is a line of the cache.
const WAYS: usize = 4;
/// [`STRONGER`] in steps of 1/65535.
const STRONGER_STEPS: u16 = (STRONGER * 65_535.0) as u16;

/// A flow or source that was marked. Two of a set that share 32 bits of their hash are one.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    tag: u32,
    /// When its first reason was made, and when it was marked last.
    begun_s: u32,
    last_s: u32,
    /// The confidence of its strongest reason; 0 where the place is free.
    strongest: u16,
    /// Of a source, reasons of its flows.
    written: u16,
}

impl Place {
    /// Whether what it says is of this hour.
    const fn is_in_force(&self, now_s: u32) -> bool {
        // A clock that was set back by as much begins again as well.
        self.strongest > 0 && now_s.abs_diff(self.begun_s) < RENEWED_AFTER_S
    }
}

/// How a verdict compares with those before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    First,
    Stronger,
    Known,
}

impl Standing {
    /// What a reason is for, of the scopes for a first and for a stronger one.
    pub(super) fn scope(self, [first, stronger]: [ReasonScope; 2]) -> ReasonScope {
        match self {
            Self::First => first,
            Self::Stronger => stronger,
            Self::Known => ReasonScope::default(),
        }
    }
}

/// What is remembered of a flow or a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct MemoryEntry {
    pub(super) standing: Standing,
    pub(super) written: u16,
}

pub(super) struct Memory {
    sets: Vec<[Place; WAYS]>,
    pub(super) evicted: u64,
}

impl Memory {
    /// With so many sets, a power of two.
    pub(super) fn new(sets: usize) -> Self {
        Self { sets: vec![[Place::default(); WAYS]; sets], evicted: 0 }
    }

    fn set(&mut self, hash: u64) -> Option<&mut [Place; WAYS]> {
        let at = hash as usize & (self.sets.len() - 1);
        self.sets.get_mut(at)
    }

    /// How a verdict of this strength compares; what is remembered stays, but for when it was
    /// marked last.
    #[inline]
    pub(super) fn look(&mut self, hash: u64, now_s: u32, strength: u16) -> MemoryEntry {
        let new = MemoryEntry { standing: Standing::First, written: 0 };
        let tag = (hash >> 32) as u32;
        let Some(set) = self.set(hash) else { return new };
        let is_it = |place: &&mut Place| place.tag == tag && place.is_in_force(now_s);
        let Some(place) = set.iter_mut().find(is_it) else { return new };
        if place.last_s < now_s {
            place.last_s = now_s;
        }
        // The strongest there is is written, however near.
        let is_top = strength == u16::MAX && place.strongest < u16::MAX;
        let is_stronger = strength >= place.strongest.saturating_add(STRONGER_STEPS);
        let is_stronger = is_top || is_stronger && strength > place.strongest;
        let standing = if is_stronger { Standing::Stronger } else { Standing::Known };
        MemoryEntry { standing, written: place.written }
    }

    /// A reason was made: the strongest so far. It takes the place of the one in its set that was
    /// marked least recently.
    pub(super) fn keep(&mut self, hash: u64, now_s: u32, strength: u16, is_of_flow: bool) {
        let tag = (hash >> 32) as u32;
        let Some(set) = self.set(hash) else { return };
        let more = u16::from(is_of_flow);
        if let Some(place) = set.iter_mut().find(|place| place.tag == tag && place.strongest > 0) {
            if place.is_in_force(now_s) {
                place.strongest = place.strongest.max(strength);
                place.written = place.written.saturating_add(more);
                return;
            }
            *place =
                Place { tag, begun_s: now_s, last_s: now_s, strongest: strength, written: more };
            return;
        }
        let age = |place: &&mut Place| if place.is_in_force(now_s) { place.last_s } else { 0 };
        let Some(place) = set.iter_mut().min_by_key(age) else { return };
        let evicts = place.is_in_force(now_s);
        *place = Place { tag, begun_s: now_s, last_s: now_s, strongest: strength, written: more };
        self.evicted += u64::from(evicts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(memory: &mut Memory, hash: u64, now_s: u32, strength: u16) -> Standing {
        memory.look(hash, now_s, strength).standing
    }

    #[test]
    fn a_verdict_is_first_then_known_then_stronger_by_a_step() {
        let mut memory = Memory::new(4);
        let hash = 7 << 32 | 1;
        assert_eq!(standing(&mut memory, hash, 100, 40_000), Standing::First);
        // What was not kept is not known.
        assert_eq!(standing(&mut memory, hash, 100, 40_000), Standing::First);
        memory.keep(hash, 100, 40_000, true);
        assert_eq!(standing(&mut memory, hash, 101, 40_000), Standing::Known);
        assert_eq!(standing(&mut memory, hash, 101, 40_000 + STRONGER_STEPS - 1), Standing::Known);
        let stronger = 40_000 + STRONGER_STEPS;
        assert_eq!(standing(&mut memory, hash, 101, stronger), Standing::Stronger);
        memory.keep(hash, 101, stronger, false);
        assert_eq!(memory.look(hash, 102, 65_000).written, 1);
        memory.keep(hash, 102, 65_000, false);
        assert_eq!(standing(&mut memory, hash, 102, u16::MAX), Standing::Stronger);
        memory.keep(hash, 102, u16::MAX, false);
        assert_eq!(standing(&mut memory, hash, 102, u16::MAX), Standing::Known);
        // An hour after the first it begins again, in its own place.
        assert_eq!(standing(&mut memory, hash, 100 + RENEWED_AFTER_S, 1), Standing::First);
        memory.keep(hash, 100 + RENEWED_AFTER_S, 1, false);
        assert_eq!(memory.evicted, 0);
        assert_eq!(standing(&mut memory, hash, 101 + RENEWED_AFTER_S, 1), Standing::Known);
    }

    #[test]
    fn a_full_set_forgets_what_was_marked_least_recently_and_counts_it() {
        let mut memory = Memory::new(1);
        for (at, tag) in (10_u32..).zip(1_u64..=4) {
            memory.keep(tag << 32, at, 50_000, false);
        }
        // The first is marked again and stays; the second goes.
        assert_eq!(standing(&mut memory, 1 << 32, 20, 50_000), Standing::Known);
        memory.keep(5 << 32, 21, 50_000, false);
        assert_eq!(memory.evicted, 1);
        assert_eq!(standing(&mut memory, 1 << 32, 22, 50_000), Standing::Known);
        assert_eq!(standing(&mut memory, 2 << 32, 22, 50_000), Standing::First);
        // What is no longer in force makes room without being counted.
        memory.keep(6 << 32, 22 + RENEWED_AFTER_S, 50_000, false);
        assert_eq!(memory.evicted, 1);
    }
}
