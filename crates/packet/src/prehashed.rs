//! Maps whose keys are hashes already, which need no second hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by hashes under a [`HashSeed`](crate::HashSeed).
pub type PrehashedMap<K, V> = HashMap<K, V, BuildHasherDefault<PassthroughHasher>>;

/// Takes 64 bits that are well mixed as their own hash.
#[derive(Clone, Copy, Default, Debug)]
pub struct PassthroughHasher(u64);

impl Hasher for PassthroughHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        // The topmost bits chose a partition and may be the same in all keys of a map, which
        // distinguishes keys by them.
        self.0 = hash.rotate_left(u64::BITS / 2);
    }
}
