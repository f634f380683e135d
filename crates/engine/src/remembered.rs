//! What the first packet of a key decided, remembered from window to window.
//!
//! Memory is bounded. Keys lie in 64 partitions, each in two generations: when the younger one is
//! full it becomes the older one, and what the older one still held is forgotten. A key that is
//! asked for moves to the younger one. So what is forgotten has not been seen while
//! [`GENERATION_LEN`] other keys of its partition were, which does not depend on how many threads
//! own the partitions. How many keys were forgotten is counted.

use std::hash::{Hash, Hasher};

use packet::prehashed::PrehashedMap;

use crate::partition::{PARTITION_COUNT, Partition};

/// Keys in a generation of a partition: 7/8 of 8,192, up to which a map has this many places. Both
/// generations of all partitions are 917,504 keys; of flows, about 60 MB.
pub(crate) const GENERATION_LEN: usize = 7168;

/// A key with its hash, which is not made again.
#[derive(Clone, Copy)]
struct Hashed<K> {
    hash: u64,
    key: K,
}

impl<K: Eq> PartialEq for Hashed<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<K: Eq> Eq for Hashed<K> {}
impl<K: Eq> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

type Generation<K, V> = PrehashedMap<Hashed<K>, V>;

/// A value for each key that was seen recently.
pub(crate) struct GenerationCache<K, V> {
    parts: Vec<[Generation<K, V>; 2]>,
}

impl<K: Copy + Eq, V: Copy> GenerationCache<K, V> {
    /// Nothing yet; memory follows use.
    pub(crate) fn new() -> Self {
        Self { parts: std::iter::repeat_with(Default::default).take(PARTITION_COUNT).collect() }
    }

    /// What was remembered of `key`, whose hash is `hash`, and else `value`, which is remembered
    /// from now on; and how many keys were forgotten for it.
    pub(crate) fn first(&mut self, hash: u64, key: K, value: V) -> (V, u64) {
        let Some([young, old]) = self.parts.get_mut(Partition::of_hash(hash).index()) else {
            return (value, 0);
        };
        let hashed = Hashed { hash, key };
        if let Some(&known) = young.get(&hashed) {
            return (known, 0);
        }
        let known = old.remove(&hashed).unwrap_or(value);
        let mut forgotten = 0;
        if young.len() >= GENERATION_LEN {
            std::mem::swap(young, old);
            forgotten = young.len() as u64;
            young.clear();
        }
        young.insert(hashed, known);
        (known, forgotten)
    }
}

#[cfg(test)]
mod tests {
    use packet::{HashSeed, KeyHash as _};

    use super::*;
    use crate::grouping::ProtocolKey;

    fn keys(count: u32) -> impl Iterator<Item = (u64, u32)> {
        let hash = |number: u32| {
            let key = ProtocolKey { protocol: None, number: number as u16 };
            key.key_hash(HashSeed::new(1 + u64::from(number >> 16)))
        };
        (0..count).map(move |number| (hash(number), number))
    }

    #[test]
    fn what_came_first_stays() {
        let mut known = GenerationCache::new();
        for (hash, key) in keys(1000) {
            assert_eq!(known.first(hash, key, key % 2), (key % 2, 0));
            assert_eq!(known.first(hash, key, 7), (key % 2, 0));
        }
        assert!(keys(1000).all(|(hash, key)| known.first(hash, key, 9) == (key % 2, 0)));
    }

    #[test]
    fn memory_is_bounded_and_what_is_forgotten_is_counted() {
        let mut known = GenerationCache::new();
        let (mut forgotten, count) = (0, 1_500_000);
        let mut often = 0;
        for (place, (hash, key)) in keys(count).enumerate() {
            forgotten += known.first(hash, key, true).1;
            if place % 1000 == 0 {
                // A key that is seen again and again is never forgotten.
                let (hash, key) = (77 << 32, u32::MAX);
                often += u64::from(!known.first(hash, key, place != 0).0);
            }
        }
        let held: usize = known.parts.iter().flatten().map(PrehashedMap::len).sum();
        assert!(held <= 2 * GENERATION_LEN * PARTITION_COUNT);
        assert_eq!(held as u64 + forgotten, u64::from(count) + 1);
        assert!(forgotten > 500_000, "{forgotten}");
        assert_eq!(often, u64::from(count / 1000), "what came first stays");
    }
}
