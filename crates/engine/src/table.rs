//! A hash table in 64 slices, one per partition.
//!
//! One allocation holds all slices, so that huge pages carry it; a key's slot
//! starts at the topmost bits of its hash, whose first six are the partition.
//! Probing is linear and wraps inside the slice: a partition never touches
//! another's slots, so each has its own cap.

use packet::{HashSeed, KeyHash};

use crate::partition::{PARTITION_BITS, PARTITION_COUNT, Partition};
use crate::prefetch::{prefer_huge_pages, prefetch};

/// What is kept for a key. The default value marks a vacant slot.
pub trait Entry: Copy + Default + Send {
    /// Whether nothing was recorded yet.
    fn is_vacant(&self) -> bool;
    /// Takes in what another part recorded for the same key.
    fn fold(&mut self, other: &Self);
    /// What the first packet of a key decides for the whole run, where it decides anything.
    #[inline]
    fn decided(&self) -> Option<bool> {
        None
    }
    /// Takes over what the first packet decided.
    #[inline]
    fn decide(&mut self, _decided: bool) {}
}

/// Packets and their bytes on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
}

impl Tally {
    /// One packet of `wire_len` bytes.
    #[inline]
    #[must_use]
    pub const fn of_packet(wire_len: u32) -> Self {
        Self { packets: 1, bytes: wire_len as u64 }
    }
}

impl Entry for Tally {
    #[inline]
    fn is_vacant(&self) -> bool {
        self.packets == 0
    }

    #[inline]
    fn fold(&mut self, other: &Self) {
        self.packets += other.packets;
        // Lengths are what a capture claims: 2⁶⁴ bytes of a few megabytes, compressed.
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

#[derive(Clone, Copy)]
struct Slot<K, V> {
    key: K,
    value: V,
}

/// Values by key. At most `key_count_max` keys; when a partition is full, new
/// keys are refused and what they brought is kept in [`Table::refused`], so
/// that totals still hold. Keys that are in stay in.
pub struct Table<K, V> {
    slots: Vec<Slot<K, V>>,
    seed: HashSeed,
    /// Right shift that turns a hash into a slot index.
    shift: u32,
    /// Slots per partition, less one.
    mask: usize,
    key_counts: [u32; PARTITION_COUNT],
    key_count_max_per_partition: u32,
    refused: V,
}

/// Keys on their way into a table: each slot is asked for when its key comes
/// and touched when 64 have come, so that memory answers meanwhile.
///
/// Sixty-four, because their slots, the keys and the records of a batch then
/// lie in 32 KiB of first-level cache together; measured, 256 cost a fifth.
pub struct Staging<K, V> {
    entries: [(u64, K, V); STAGED_LEN],
    len: usize,
}

const STAGED_LEN: usize = 64;

impl<K: KeyHash + Default, V: Entry> Default for Staging<K, V> {
    fn default() -> Self {
        Self { entries: [(0, K::default(), V::default()); STAGED_LEN], len: 0 }
    }
}

impl<K: KeyHash + Default, V: Entry> Staging<K, V> {
    /// Takes in one key on its way to `table`, which must be the same each time.
    #[inline(always)]
    pub fn push(&mut self, table: &mut Table<K, V>, key: K, value: V) {
        let hash = table.hash(&key);
        table.prefetch(hash);
        if let Some(entry) = self.entries.get_mut(self.len) {
            *entry = (hash, key, value);
            self.len += 1;
        }
        if self.len == STAGED_LEN {
            self.flush(table);
        }
    }

    /// Nothing is on its way.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds what is on its way.
    #[inline(never)]
    pub fn flush(&mut self, table: &mut Table<K, V>) {
        for (hash, key, value) in self.entries.iter().take(self.len) {
            table.add(*hash, *key, value);
        }
        self.len = 0;
    }
}

/// Slots a partition starts with.
const SLOT_COUNT_MIN: usize = 8;

/// Bytes below which a table grows fourfold.
const SMALL_TABLE_LEN: usize = 1 << 20;

impl<K: KeyHash + Default, V: Entry> Table<K, V> {
    /// An empty table for at most `key_count_max` keys, rounded up to a
    /// multiple of 64. Memory follows use, from nothing: at most
    /// `8/3 × key_count_max × (key and value)` bytes, and half as much again while it grows.
    #[must_use]
    pub fn new(seed: HashSeed, key_count_max: usize) -> Self {
        let per_partition = key_count_max.div_ceil(PARTITION_COUNT).max(1);
        Self {
            slots: Vec::new(),
            seed,
            shift: 0,
            mask: 0,
            key_counts: [0; PARTITION_COUNT],
            key_count_max_per_partition: u32::try_from(per_partition).unwrap_or(u32::MAX),
            refused: V::default(),
        }
    }

    fn allocate(&mut self, slot_count_per_partition: usize) {
        let slot_count = slot_count_per_partition * PARTITION_COUNT;
        let mut slots = Vec::with_capacity(slot_count);
        prefer_huge_pages(&mut slots);
        slots.resize(slot_count, Slot { key: K::default(), value: V::default() });
        self.slots = slots;
        self.mask = slot_count_per_partition - 1;
        self.shift = u64::BITS - PARTITION_BITS - slot_count_per_partition.trailing_zeros();
    }

    /// The hash under which `key` is kept.
    #[inline]
    pub fn hash(&self, key: &K) -> u64 {
        key.key_hash(self.seed)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn first_slot(&self, hash: u64) -> usize {
        hash.wrapping_shr(self.shift) as usize
    }

    /// Asks for the slot of a key some packets ahead of [`Table::add`].
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(slot) = self.slots.get(self.first_slot(hash)) {
            prefetch(slot);
        }
    }

    /// Adds `value` under `key`, whose hash is `hash`.
    #[inline]
    pub fn add(&mut self, hash: u64, key: K, value: &V) {
        let mut index = self.first_slot(hash);
        while let Some(slot) = self.slots.get_mut(index) {
            if slot.value.is_vacant() {
                self.insert(hash, index, key, value);
                return;
            }
            if slot.key == key {
                slot.value.fold(value);
                return;
            }
            index = (index & !self.mask) | ((index + 1) & self.mask);
        }
        self.begin(hash, key, value);
    }

    /// The first key: a window in which nothing has a key of this width costs no memory.
    #[cold]
    fn begin(&mut self, hash: u64, key: K, value: &V) {
        self.allocate(SLOT_COUNT_MIN);
        self.insert(hash, self.first_slot(hash), key, value);
    }

    #[inline(never)]
    fn insert(&mut self, hash: u64, vacant: usize, key: K, value: &V) {
        let partition = Partition::of_hash(hash).index();
        if self.key_counts[partition] >= self.key_count_max_per_partition {
            self.refused.fold(value);
            return;
        }
        self.slots[vacant] = Slot { key, value: *value };
        self.key_counts[partition] += 1;
        // At most three quarters full: linear probing then looks at 2.5 slots a
        // hit on average, which lie in one or two cache lines, and the table
        // is as small as it can be, which matters more.
        if self.key_counts[partition] as usize * 4 > (self.mask + 1) * 3 {
            self.grow();
        }
    }

    #[inline(never)]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        // Small tables grow faster: to move them often costs more than they hold.
        let factor = if size_of_val(old.as_slice()) < SMALL_TABLE_LEN { 4 } else { 2 };
        self.allocate((self.mask + 1) * factor);
        for slot in old.iter().filter(|slot| !slot.value.is_vacant()) {
            let mut index = self.first_slot(slot.key.key_hash(self.seed));
            while !self.slots[index].value.is_vacant() {
                index = (index & !self.mask) | ((index + 1) & self.mask);
            }
            self.slots[index] = *slot;
        }
    }

    /// Keys and values, partition by partition.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.slots
            .iter()
            .filter(|slot| !slot.value.is_vacant())
            .map(|slot| (&slot.key, &slot.value))
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.key_counts.iter().map(|&count| count as usize).sum()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What keys brought that found their partition full, all together.
    #[must_use]
    pub fn refused(&self) -> &V {
        &self.refused
    }

    /// Forgets every key, keeps the memory.
    pub fn clear(&mut self) {
        self.slots.fill(Slot { key: K::default(), value: V::default() });
        self.key_counts = [0; PARTITION_COUNT];
        self.refused = V::default();
    }

    /// Takes in another table of the same seed.
    pub fn fold(&mut self, other: &Self) {
        for (key, value) in other.iter() {
            self.add(self.hash(key), *key, value);
        }
        self.refused.fold(&other.refused);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn add(table: &mut Table<u32, Tally>, key: u32, wire_len: u32) {
        table.add(table.hash(&key), key, &Tally::of_packet(wire_len));
    }

    fn contents(table: &Table<u32, Tally>) -> HashMap<u32, Tally> {
        table.iter().map(|(&key, &tally)| (key, tally)).collect()
    }

    #[test]
    fn bytes_that_are_claimed_stop_at_the_largest_number() {
        let mut tally = Tally { packets: 1 << 32, bytes: u64::MAX - 1 };
        tally.fold(&Tally::of_packet(u32::MAX));
        assert_eq!(tally, Tally { packets: (1 << 32) + 1, bytes: u64::MAX });
    }

    proptest! {
        #[test]
        fn counts_as_a_map_does(
            packets in proptest::collection::vec((0u32..5_000, 1u32..2_000), 0..20_000),
            cut in 0usize..20_000,
            seed: u64,
        ) {
            let seed = HashSeed::new(seed);
            let mut expected: HashMap<u32, Tally> = HashMap::new();
            let mut parts = [Table::new(seed, 1 << 20), Table::new(seed, 1 << 20)];
            for (index, &(key, wire_len)) in packets.iter().enumerate() {
                expected.entry(key).or_default().fold(&Tally::of_packet(wire_len));
                add(&mut parts[usize::from(index < cut)], key, wire_len);
            }
            let [mut whole, rest] = parts;
            whole.fold(&rest);
            prop_assert_eq!(contents(&whole), expected);
        }
    }

    #[test]
    fn a_full_table_refuses_new_keys_and_keeps_totals() {
        let mut table = Table::new(HashSeed::new(7), PARTITION_COUNT);
        for key in 0..1_000 {
            add(&mut table, key, 100);
            add(&mut table, key, 100);
        }
        assert!(table.len() <= PARTITION_COUNT);
        let mut total = *table.refused();
        for (_, tally) in table.iter() {
            total.fold(tally);
        }
        assert_eq!(total, Tally { packets: 2_000, bytes: 200_000 });
        assert!(table.refused().packets >= 2 * (1_000 - PARTITION_COUNT as u64));
    }
}
