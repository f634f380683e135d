//! The paper's design (§4, §5, §6): a thread for each kernel, rings between them.
//!
//! The first thread goes through the buffer of records and gives each record's
//! place in it, the pointer of the paper, to the replica that a hash of the
//! source names. A replica looks the source up in a hash map and hands the
//! place on. The last thread takes everything in. Each ring operation carries
//! one item, as in the paper, and a thread that finds its ring full or empty
//! yields. The map is the standard library's, with a hash of one multiplication
//! in place of the default, which would cost the paper's design speed for a
//! protection it does not claim.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicUsize;
use std::thread;

use super::Totals;
use crate::own_ring::OwnRing;
use crate::placement::Processors;
use crate::records::PacketRecord;

/// What a replica does with a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Adds it to its source's packets and bytes.
    Count,
    /// Hands it on.
    Pass,
}

/// Where a stream of places ends: no buffer has so many records.
const END: usize = usize::MAX;

/// Items that the last thread takes from one ring before it looks at the next.
const TURN_LEN: usize = 256;

type Ring = OwnRing<AtomicUsize>;
type Map = HashMap<u32, (u64, u64), BuildHasherDefault<Multiply>>;

/// One multiplication, folded: the map wants good bits at both ends.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        let product = (self.0 ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// Runs the design with `replica_count + 2` threads over `passes` times the records.
pub(super) fn run(
    records: &[PacketRecord],
    passes: usize,
    replica_count: usize,
    work: Work,
    processors: &Processors,
) -> Totals {
    let replica_count = replica_count.max(1);
    let make_rings = || (0..replica_count).map(|_| Ring::new()).collect::<Vec<_>>();
    let (inward, outward) = (make_rings(), make_rings());
    // Beside the reader where there is one replica, else beside the last one.
    let last_place = if replica_count == 1 { 0 } else { processors.len() - 1 };
    thread::scope(|scope| {
        scope.spawn(|| {
            processors.place(0);
            read(records, passes, &inward);
        });
        let rings = inward.iter().zip(&outward).enumerate();
        let replicas: Vec<_> = rings
            .map(|(number, (from, to))| {
                scope.spawn(move || {
                    processors.place(1 + number);
                    replicate(records, work, from, to)
                })
            })
            .collect();
        let last = scope.spawn(|| {
            processors.place(last_place);
            take_in(&outward)
        });
        let mut totals = Totals::default();
        for map in replicas.into_iter().filter_map(|replica| replica.join().ok()) {
            for &(packets, bytes) in map.values() {
                totals.add(packets, bytes);
            }
        }
        let passed = last.join().unwrap_or_default();
        if work == Work::Pass { Totals { packets: passed, ..totals } } else { totals }
    })
}

/// The same count in one loop, without threads or rings: what the map alone costs.
pub(super) fn in_place(records: &[PacketRecord], passes: usize) -> Totals {
    let mut map = Map::default();
    for _ in 0..passes {
        for record in records {
            count(&mut map, record);
        }
    }
    let mut totals = Totals::default();
    map.values().for_each(|&(packets, bytes)| totals.add(packets, bytes));
    totals
}

fn read(records: &[PacketRecord], passes: usize, rings: &[Ring]) {
    for _ in 0..passes {
        for (place, record) in records.iter().enumerate() {
            let hash = record.source.wrapping_mul(2_654_435_761) >> 16;
            // One replica needs no choice, and dividing would cost it dearly.
            let choice = if rings.len() == 1 { 0 } else { hash as usize % rings.len() };
            if let Some(ring) = rings.get(choice) {
                push(ring, place);
            }
        }
    }
    rings.iter().for_each(|ring| push(ring, END));
}

fn replicate(records: &[PacketRecord], work: Work, from: &Ring, to: &Ring) -> Map {
    let mut map = Map::default();
    loop {
        let place = pop(from);
        if work == Work::Count
            && let Some(record) = records.get(place)
        {
            count(&mut map, record);
        }
        push(to, place);
        if place == END {
            return map;
        }
    }
}

fn take_in(rings: &[Ring]) -> u64 {
    let mut passed = 0;
    let mut is_ended = vec![false; rings.len()];
    while is_ended.iter().any(|&ended| !ended) {
        let mut found_any = false;
        for (ring, ended) in rings.iter().zip(&mut is_ended) {
            for place in std::iter::from_fn(|| ring.pop()).take(TURN_LEN) {
                found_any = true;
                *ended |= place == END;
                passed += u64::from(place != END);
            }
        }
        if !found_any {
            thread::yield_now();
        }
    }
    passed
}

#[inline]
fn count(map: &mut Map, record: &PacketRecord) {
    let (packets, bytes) = map.entry(record.source).or_default();
    *packets += 1;
    *bytes += u64::from(record.wire_len);
}

#[inline]
fn push(ring: &Ring, place: usize) {
    while !ring.push(place) {
        thread::yield_now();
    }
}

#[inline]
fn pop(ring: &Ring) -> usize {
    loop {
        match ring.pop() {
            Some(place) => return place,
            None => thread::yield_now(),
        }
    }
}
