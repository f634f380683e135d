//! A sketch as a switch has it: layers of buckets of one key each, in windows of time.
//!
//! The heavy part of ElasticSketch with several attributes, as the paper has it (section IV-A). A
//! packet goes to the first layer in which its bucket is free or its own. Where there is none it
//! votes against the key in the last one: with [`VOTES_TO_EVICT`] votes for each packet of that
//! key it takes the bucket. A bucket of another window is free.

use engine::sketch::VOTES_TO_EVICT;
use packet::{Span, Timestamp};

use super::sums::IntegerSums;
use super::tables::Squares;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    hash: u64,
    /// The window's number, never 0; so 0 is a bucket that was never used.
    window: u32,
    votes: u32,
    sums: IntegerSums,
}

/// A packet on its way in.
#[derive(Clone, Copy, Debug)]
pub struct IntegerPacket {
    /// The hash of its key, under a secret seed.
    pub hash: u64,
    /// When it came; not before any that came before it.
    pub time: Timestamp,
    /// Its bytes.
    pub size: u32,
    /// Whether it is one of those that are counted for themselves.
    pub is_marked: bool,
}

/// Sums of packets by key in the current window.
pub struct IntegerSketch {
    buckets: Vec<Bucket>,
    layers: usize,
    /// Buckets of a layer, less one.
    mask: usize,
    window: Span,
    window_start_ns: i64,
    number: u32,
    refused: u64,
}

impl IntegerSketch {
    /// An empty sketch of so many layers and so many buckets each, rounded up to a power of two.
    #[must_use]
    pub fn new(layers: usize, buckets: usize, window: Span) -> Self {
        let (layers, buckets) = (layers.max(1), buckets.next_power_of_two());
        Self {
            buckets: vec![Bucket::default(); layers * buckets],
            layers,
            mask: buckets - 1,
            window: Span::from_ns(window.as_ns().clamp(1, u32::MAX.into())),
            window_start_ns: 0,
            number: 0,
            refused: 0,
        }
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Packets whose key found no bucket.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Begins a window at the next packet, whatever its time: the clock was set.
    pub fn forget(&mut self) {
        self.number = 0;
        self.buckets.fill(Bucket::default());
    }

    /// Takes in a packet, and returns the totals of its key in this window, the packet included;
    /// nothing of a key that found no bucket.
    pub fn observe(
        &mut self,
        packet: &IntegerPacket,
        squares: &Squares,
    ) -> Option<&mut IntegerSums> {
        let since = packet.time.as_ns().wrapping_sub(self.window_start_ns).cast_unsigned();
        let is_within = since < self.window.as_ns().unsigned_abs() && self.number > 0;
        let now_ns = if is_within { since } else { self.next_window(packet.time) };
        let number = self.number;
        let mut hash = packet.hash;
        let mut place = 0;
        for layer in 0..self.layers {
            place = self.place(layer, hash);
            let bucket = &self.buckets[place];
            let is_own = bucket.window == number && bucket.hash == packet.hash;
            if is_own {
                let sums = &mut self.buckets[place].sums;
                sums.add(packet.size, now_ns, packet.is_marked, squares);
                return Some(sums);
            }
            if bucket.window != number {
                return Some(self.admit(place, packet, now_ns));
            }
            hash = mixed(hash);
        }
        let resident = &mut self.buckets[place];
        resident.votes += 1;
        if resident.votes >= resident.sums.packets.saturating_mul(VOTES_TO_EVICT) {
            return Some(self.admit(place, packet, now_ns));
        }
        self.refused += 1;
        None
    }

    /// Sums of a key in this window.
    #[must_use]
    pub fn get(&self, hash: u64) -> Option<&IntegerSums> {
        let mut layer_hash = hash;
        for layer in 0..self.layers {
            let bucket = &self.buckets[self.place(layer, layer_hash)];
            if bucket.window == self.number && bucket.hash == hash {
                return Some(&bucket.sums);
            }
            layer_hash = mixed(layer_hash);
        }
        None
    }

    #[allow(clippy::cast_possible_truncation)]
    const fn place(&self, layer: usize, hash: u64) -> usize {
        layer * (self.mask + 1) + ((hash >> 32) as usize & self.mask)
    }

    fn admit(&mut self, place: usize, packet: &IntegerPacket, now_ns: u64) -> &mut IntegerSums {
        let sums = IntegerSums::first(packet.size, now_ns, packet.is_marked);
        let bucket = &mut self.buckets[place];
        *bucket = Bucket { hash: packet.hash, window: self.number, votes: 0, sums };
        &mut bucket.sums
    }

    /// Windows are aligned to the epoch, which takes a division once a window: the part of a switch
    /// or kernel that begins windows is its control plane (section III-B).
    #[cold]
    fn next_window(&mut self, time: Timestamp) -> u64 {
        self.window_start_ns = time.window_start(self.window).as_ns();
        self.number = self.number.wrapping_add(1).max(1);
        let since = time.as_ns().wrapping_sub(self.window_start_ns).cast_unsigned();
        since.min(self.window.as_ns().unsigned_abs() - 1)
    }
}

/// Another hash for the next layer.
const fn mixed(hash: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    hash.rotate_left(29).wrapping_mul(ODD)
}

#[cfg(test)]
mod tests {
    use engine::sketch::{Sketch, SketchOptions, SketchPacket};
    use proptest::prelude::*;

    use super::*;

    fn packet(key: u64, ns: i64, size: u32) -> IntegerPacket {
        let hash = packet::HashSeed::new(1).hash_words(key, 0);
        IntegerPacket { hash, time: Timestamp::from_ns(ns), size, is_marked: size > 100 }
    }

    proptest! {
        #[test]
        fn with_room_for_all_sums_are_those_of_the_sketch_in_user_space(
            packets in prop::collection::vec((0u64..20, 0i64..3_000_000, 40u32..1_500), 1..300),
        ) {
            let window = Span::from_ns(10_000_000);
            let squares = Squares::Exact;
            let mut ours = IntegerSketch::new(2, 1 << 16, window);
            let mut other = Sketch::new(SketchOptions { window, ..SketchOptions::default() });
            let mut now = 0;
            for (key, gap, size) in packets {
                now += gap;
                let IntegerPacket { hash, time, size, is_marked } = packet(key, now, size);
                let one = IntegerPacket { hash, time, size, is_marked };
                let found = *ours.observe(&one, &squares).unwrap();
                let wanted = other.observe(SketchPacket { hash, time, size, is_marked });
                prop_assert_eq!(
                    (found.packets, found.marked, found.size_sum, found.gap_sum()),
                    (wanted.packets, wanted.marked, wanted.size_sum, wanted.gap_sum)
                );
                prop_assert_eq!(ours.get(hash), Some(&found));
            }
        }
    }

    #[test]
    fn a_key_without_a_bucket_is_refused_until_its_votes_are_enough() {
        let squares = Squares::Exact;
        let mut sketch = IntegerSketch::new(1, 1, Span::from_ns(1_000));
        assert!(sketch.observe(&packet(1, 0, 60), &squares).is_some());
        for _ in 1..VOTES_TO_EVICT {
            assert!(sketch.observe(&packet(2, 1, 60), &squares).is_none());
        }
        assert_eq!(sketch.refused(), u64::from(VOTES_TO_EVICT) - 1);
        assert_eq!(sketch.observe(&packet(2, 1, 60), &squares).unwrap().packets, 1);
        // The next window finds all buckets free.
        assert_eq!(sketch.observe(&packet(1, 1_000, 60), &squares).unwrap().packets, 1);
    }
}
