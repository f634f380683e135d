//! What sketches are held against: every key with its own sums, and one key a bucket as the paper
//! has it.

use std::collections::HashMap;
use std::sync::OnceLock;

use engine::sketch::VOTES_TO_EVICT;
use engine::sums::PacketSums;
use packetlog::integer::tables::Squares;

/// A packet of a key.
#[derive(Clone, Copy)]
pub(crate) struct KeyPacket {
    pub(crate) hash: u64,
    pub(crate) time_ns: i64,
    pub(crate) size: u32,
}

/// Sums, and when the last packet came.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) sums: PacketSums,
    /// Squares of sizes as NetBeacon adds them up.
    pub(crate) squares: u64,
    last_ns: i64,
}

/// NetBeacon leaves two bits out before it squares.
const DROPPED_BITS: u32 = 2;

impl Entry {
    fn of(packet: &KeyPacket) -> Self {
        let mut sums = PacketSums::NONE;
        sums.add(packet.size, 0, false);
        Self { sums, squares: square(packet.size), last_ns: packet.time_ns }
    }

    fn add(&mut self, packet: &KeyPacket) {
        let gap = u64::try_from(packet.time_ns - self.last_ns).unwrap_or(0);
        self.sums.add(packet.size, gap, false);
        self.squares += square(packet.size);
        self.last_ns = self.last_ns.max(packet.time_ns);
    }

    /// The square of a number by the same table.
    pub(crate) fn square_of(number: u32) -> u64 {
        square(number)
    }
}

/// A square by the four bits of Tofino's math unit.
fn square(number: u32) -> u64 {
    static SQUARES: OnceLock<Squares> = OnceLock::new();
    SQUARES.get_or_init(|| Squares::rounded(4)).of(number >> DROPPED_BITS) << (2 * DROPPED_BITS)
}

/// Every key.
#[derive(Default)]
pub(crate) struct Truth {
    pub(crate) keys: HashMap<u64, Entry>,
}

impl Truth {
    pub(crate) fn observe(&mut self, packet: &KeyPacket) {
        self.keys
            .entry(packet.hash)
            .and_modify(|entry| entry.add(packet))
            .or_insert_with(|| Entry::of(packet));
    }
}

/// Layers of buckets of one key each: a packet goes to the first layer in which its bucket is free
/// or its own; where there is none it votes against the key in the last one, as ElasticSketch has
/// it. Its counters are as wide as ours: what the paper's have is narrower.
pub(crate) struct OnePerBucket {
    layers: Vec<Vec<Option<(u64, Entry, u32)>>>,
    bits: u32,
}

impl OnePerBucket {
    pub(crate) fn new(layers: usize, bits: u32) -> Self {
        Self { layers: vec![vec![None; 1 << bits]; layers], bits }
    }

    pub(crate) fn clear(&mut self) {
        self.layers.iter_mut().for_each(|layer| layer.fill(None));
    }

    #[allow(clippy::cast_possible_truncation)]
    fn place(&self, layer: usize, hash: u64) -> usize {
        const ODD: u64 = 0xd6e8_feb8_6659_fd93;
        let mixed = (0..=layer).fold(hash, |hash, _| (hash ^ hash >> 32).wrapping_mul(ODD));
        (mixed >> (u64::BITS - self.bits)) as usize
    }

    pub(crate) fn observe(&mut self, packet: &KeyPacket) {
        let last = self.layers.len() - 1;
        for layer in 0..self.layers.len() {
            let place = self.place(layer, packet.hash);
            match &mut self.layers[layer][place] {
                Some((hash, entry, _)) if *hash == packet.hash => return entry.add(packet),
                Some((_, entry, votes)) => {
                    *votes += u32::from(layer == last);
                    if layer == last && *votes >= entry.sums.packets * VOTES_TO_EVICT {
                        self.layers[layer][place] = Some((packet.hash, Entry::of(packet), 0));
                    }
                }
                free => {
                    *free = Some((packet.hash, Entry::of(packet), 0));
                    return;
                }
            }
        }
    }

    pub(crate) fn get(&self, hash: u64) -> Option<&Entry> {
        let in_layer = |layer: usize| {
            let held = self.layers[layer][self.place(layer, hash)].as_ref();
            held.filter(|(key, ..)| *key == hash).map(|(_, entry, _)| entry)
        };
        (0..self.layers.len()).find_map(in_layer)
    }
}
