use std::collections::HashMap;

use packet::{HashSeed, KeyHash as _};
use proptest::prelude::*;

use super::*;

/// Sums of every key in the window of the last packet, and what was returned for each packet.
#[derive(Default)]
struct Naive {
    window_start: i64,
    keys: HashMap<u64, (PacketSums, i64)>,
}

impl Naive {
    fn observe(&mut self, packet: &SketchPacket, window_ns: i64) -> PacketSums {
        let time = packet.time.as_ns();
        let start = time.div_euclid(window_ns) * window_ns;
        if start != self.window_start {
            self.keys.clear();
            self.window_start = start;
        }
        let (sums, last) = self.keys.entry(packet.hash).or_insert((PacketSums::NONE, time));
        sums.add(packet.size, u64::try_from(time - *last).unwrap(), packet.is_marked);
        *last = time;
        *sums
    }
}

fn hash(key: u32) -> u64 {
    key.key_hash(HashSeed::new(3))
}

fn small(buckets: usize) -> Sketch {
    Sketch::new(SketchOptions { layers: 2, buckets, window: Span::from_ns(1_000_000) })
}

fn packet(key: u32, time_ns: i64, size: u32) -> SketchPacket {
    let time = Timestamp::from_ns(time_ns);
    SketchPacket { hash: hash(key), time, size, is_marked: size % 2 == 1 }
}

proptest! {
    /// As many keys as the sketch has buckets in half: each finds one, and is exact.
    #[test]
    fn keys_that_fit_are_exact(
        packets in proptest::collection::vec((0u32..64, 0i64..100_000, 0u32..3_000), 1..500),
        start in -1_000_000_000i64..1_000_000_000,
    ) {
        let (mut sketch, mut naive, mut time) = (small(64), Naive::default(), start);
        for (key, gap, size) in packets {
            time += gap;
            let packet = packet(key, time, size);
            prop_assert_eq!(sketch.observe(packet), naive.observe(&packet, 1_000_000));
        }
        prop_assert_eq!(sketch.counts().refused, 0);
        for (&hash, (sums, _)) in &naive.keys {
            prop_assert_eq!(&sketch.get(hash), sums);
        }
        prop_assert_eq!(sketch.len(), naive.keys.len());
    }

    /// More keys than buckets: nothing is reported of a key that it did not do, and who was
    /// admitted at its first packet and never driven out is exact.
    #[test]
    fn what_is_told_is_never_more_than_was(
        packets in proptest::collection::vec((0u32..400, 0i64..2_000, 1u32..3_000), 1..3_000),
    ) {
        let (mut sketch, mut naive, mut time) = (small(16), Naive::default(), 0);
        let (mut held, mut refused) = (0, 0);
        for (key, gap, size) in packets {
            time += gap;
            let packet = packet(key, time, size);
            let (told, truth) = (sketch.observe(packet), naive.observe(&packet, 1_000_000));
            prop_assert!(told.packets <= truth.packets && told.size_sum <= truth.size_sum);
            if told.is_held() {
                prop_assert!(told.size_max <= truth.size_max && told.size_min >= truth.size_min);
                prop_assert!(told.gap_sum <= truth.gap_sum);
                held += 1;
            } else {
                refused += 1;
            }
            prop_assert!(sketch.len() <= 32);
        }
        prop_assert_eq!(sketch.counts().refused, refused);
        prop_assert!(sketch.counts().admitted <= held);
    }
}

#[test]
fn a_neighbour_moves_before_anybody_is_refused() {
    let mut sketch = small(1 << 10);
    // Nine tenths of the buckets: some sets of both layers are full.
    for key in 0..1_843 {
        assert!(sketch.observe(packet(key, 5, 100)).is_held(), "{key}");
    }
    assert!(sketch.counts().moved > 0);
    for key in 0..1_843 {
        assert_eq!(sketch.get(hash(key)).packets, 1, "moved with what it had");
    }
}

#[test]
fn a_full_sketch_refuses_until_votes_drive_the_smallest_out() {
    let mut sketch = Sketch::new(SketchOptions { layers: 1, buckets: 16, ..Default::default() });
    for key in 0..16 {
        for _ in 0..if key == 7 { 1 } else { 3 } {
            sketch.observe(packet(key, 5, 100));
        }
    }
    for _ in 1..VOTES_TO_EVICT {
        assert!(!sketch.observe(packet(99, 6, 100)).is_held());
    }
    assert!(sketch.observe(packet(99, 6, 100)).is_held());
    assert!(!sketch.get(hash(7)).is_held());
    let counts = *sketch.counts();
    assert_eq!((counts.admitted, counts.evicted, counts.refused), (17, 1, 7));
    let mut stubborn = small(16).with_votes(u32::MAX);
    for key in 0..1_000 {
        stubborn.observe(packet(key, 5, 100));
    }
    assert_eq!((stubborn.counts().evicted, stubborn.len()), (0, 32));
}

#[test]
fn a_window_forgets_the_one_before_without_clearing() {
    let mut sketch = small(16);
    sketch.observe(packet(1, 999_999, 100));
    assert_eq!(sketch.observe(packet(2, 1_000_000, 100)).packets, 1);
    assert!(!sketch.get(hash(1)).is_held());
    sketch.forget();
    assert!(sketch.is_empty());
    assert_eq!(sketch.observe(packet(2, 1_000_001, 100)).packets, 1);
    // More windows than numbers of windows: one from so long ago is not taken for this.
    for window in 2..70_000 {
        let sums = sketch.observe(packet(3, window * 1_000_000, 100));
        assert_eq!((sums.packets, sketch.len()), (1, 1));
    }
    assert_eq!(sketch.counts().windows, 70_001);
}

#[test]
fn stamps_at_the_ends_of_time_do_no_harm() {
    let mut sketch = small(16);
    for time in [i64::MIN, i64::MIN, 0, i64::MAX, i64::MAX, i64::MIN] {
        assert!(sketch.observe(packet(1, time, u32::MAX)).is_held());
    }
}

#[test]
fn its_bytes_are_told() {
    let sketch = Sketch::new(SketchOptions::default());
    assert_eq!(sketch.size_bytes(), (1 << 17) * 68);
}
