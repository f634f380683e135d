//! From the hash of a key to the slot of its flow.
//!
//! Open addressing with linear probing over words of eight bytes: half is 32
//! bits of the hash, so that a flow is touched only where its key is almost
//! certainly the one that is looked for; half is the slot.

use packet::must;

use crate::prefetch::{prefer_huge_pages, prefetch};

const LEN_MIN: usize = 1 << 10;

/// A word of the index: the tag above, the slot plus one below; 0 is vacant.
type Word = u64;

/// Slots by hash.
pub(super) struct Index {
    words: Vec<Word>,
    mask: usize,
    /// Right shift that turns a tag into the place where probing begins.
    shift: u32,
    len: usize,
}

/// The 32 bits of a hash that an index knows. Not those that choose the
/// partition, which are the same for many of an owner's keys.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
pub(super) const fn tag_of(hash: u64) -> u32 {
    hash as u32
}

#[inline(always)]
const fn word(tag: u32, slot: u32) -> Word {
    (tag as u64) << 32 | (slot as u64 + 1)
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
const fn slot_of(word: Word) -> u32 {
    (word as u32).wrapping_sub(1)
}

#[inline(always)]
const fn tag_in(word: Word) -> u32 {
    (word >> 32) as u32
}

impl Index {
    pub(super) fn new() -> Self {
        let mut index = Self { words: Vec::new(), mask: 0, shift: 0, len: 0 };
        index.allocate(LEN_MIN);
        index
    }

    /// Bytes of its words.
    pub(super) const fn byte_count(&self) -> usize {
        self.words.capacity() * size_of::<Word>()
    }

    fn allocate(&mut self, len: usize) {
        let mut words = Vec::with_capacity(len);
        prefer_huge_pages(&mut words);
        words.resize(len, 0);
        self.words = words;
        self.mask = len - 1;
        self.shift = u32::BITS - len.trailing_zeros();
    }

    #[inline(always)]
    const fn home(&self, tag: u32) -> usize {
        (tag >> self.shift) as usize
    }

    /// Asks for the words where probing for `tag` begins.
    #[inline(always)]
    pub(super) fn prefetch(&self, tag: u32) {
        if let Some(word) = self.words.get(self.home(tag)) {
            prefetch(word);
        }
    }

    /// The first slot under `tag`, or one that is none.
    #[inline(always)]
    pub(super) fn first(&self, tag: u32) -> u32 {
        let mut at = self.home(tag);
        loop {
            match self.words.get(at) {
                Some(&word) if word == 0 || tag_in(word) == tag => return slot_of(word),
                Some(_) => at = (at + 1) & self.mask,
                None => return u32::MAX,
            }
        }
    }

    /// The first slot under `tag` that `is_it` takes.
    #[inline(always)]
    pub(super) fn find(&self, tag: u32, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.home(tag);
        loop {
            let word = *self.words.get(at)?;
            if word == 0 {
                return None;
            }
            if tag_in(word) == tag && is_it(slot_of(word)) {
                return Some(slot_of(word));
            }
            at = (at + 1) & self.mask;
        }
    }

    /// Puts in a slot whose key is in no other.
    pub(super) fn insert(&mut self, tag: u32, slot: u32) {
        // At most two thirds full: three looks at words of one or two lines.
        if (self.len + 1) * 3 > self.words.len() * 2 {
            self.grow();
        }
        self.put(word(tag, slot));
        self.len += 1;
    }

    fn put(&mut self, new: Word) {
        let mut at = self.home(tag_in(new));
        while let Some(word) = self.words.get_mut(at) {
            if *word == 0 {
                *word = new;
                return;
            }
            at = (at + 1) & self.mask;
        }
    }

    #[inline(never)]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.words);
        self.allocate(old.len() * 2);
        for word in old.into_iter().filter(|&word| word != 0) {
            self.put(word);
        }
    }

    fn position(&self, tag: u32, slot: u32) -> Option<usize> {
        let wanted = word(tag, slot);
        let mut at = self.home(tag);
        loop {
            match *self.words.get(at)? {
                0 => return None,
                word if word == wanted => return Some(at),
                _ => at = (at + 1) & self.mask,
            }
        }
    }

    /// Takes a slot out, and moves back what had to probe past it.
    pub(super) fn remove(&mut self, tag: u32, slot: u32) {
        let found = must(self.position(tag, slot), "a slot that is taken out is in the index");
        let Some(mut hole) = found else { return };
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let Some(&word) = self.words.get(at) else { return };
            if word == 0 {
                break;
            }
            // A word may fill the hole unless its home lies behind it.
            let from_home = at.wrapping_sub(self.home(tag_in(word))) & self.mask;
            let from_hole = at.wrapping_sub(hole) & self.mask;
            if from_home >= from_hole {
                self.set(hole, word);
                hole = at;
            }
        }
        self.set(hole, 0);
    }

    fn set(&mut self, at: usize, word: Word) {
        if let Some(place) = self.words.get_mut(at) {
            *place = word;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::btree_map::Entry;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few tags, so that they collide; near the end, so that probing wraps.
        #[test]
        fn finds_what_is_in_and_nothing_else(
            steps in proptest::collection::vec((any::<bool>(), 0u32..40, 0u32..60), 0..400),
        ) {
            let mut index = Index::new();
            let mut expected: BTreeMap<u32, u32> = BTreeMap::new();
            for (is_insertion, tag, slot) in steps {
                let tag = u32::MAX - tag;
                if is_insertion {
                    if let Entry::Vacant(vacant) = expected.entry(slot) {
                        vacant.insert(tag);
                        index.insert(tag, slot);
                    }
                } else if let Some(tag) = expected.remove(&slot) {
                    index.remove(tag, slot);
                }
                for (&slot, &tag) in &expected {
                    prop_assert_eq!(index.find(tag, |found| found == slot), Some(slot));
                }
                prop_assert_eq!(index.words.iter().filter(|&&w| w != 0).count(), expected.len());
            }
        }
    }

    #[test]
    fn grows() {
        let mut index = Index::new();
        let tag = |slot: u32| slot.wrapping_mul(0x9e37_79b9);
        for slot in 0..100_000 {
            index.insert(tag(slot), slot);
        }
        for slot in 0..100_000 {
            assert_eq!(index.find(tag(slot), |found| found == slot), Some(slot));
        }
    }
}
