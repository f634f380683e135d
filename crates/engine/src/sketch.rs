//! A fixed memory for sums of packets by key, in short windows: a sketch with several attributes.
//!
//! It is the heavy part of ElasticSketch (Yang et al., SIGCOMM 2018), widened from one counter to
//! all of [`PacketSums`]: layers of buckets, a bucket a key, and what finds no bucket is not kept.
//!
//! - **Place.** A layer is cut into sets of sixteen neighbouring buckets. A key's hash names one
//!   set in each layer, and the key lies in any bucket of those. Labels of a set, eight bits of the
//!   hash and eight of the window's number each, lie in the cache line before its buckets, each of
//!   which fills another: a packet touches two lines, mostly, and of one page. A bucket holds the
//!   whole hash, so that two keys share a bucket only where all 64 keyed bits are the same.
//! - **Replacement.** A new key takes a free bucket in the first layer that has one; else one of
//!   its neighbours moves to a set of its own in another layer, if that has room, and leaves its
//!   bucket. Else the packet is refused, and votes against the set: when there are
//!   [`VOTES_TO_EVICT`] votes for each packet of the smallest resident of the set in the first
//!   layer, that is evicted and the voter takes its place, as in ElasticSketch.
//! - **Windows.** The label of a bucket names its window. A bucket of another window is free:
//!   nothing is cleared when a window begins, but for labels once in 255 windows.
//!
//! Estimates have one error only: packets of a key from before it found its bucket are missing. A
//! key that found one at its first packet is exact. Bytes: 68 a bucket, 8.5 MiB with the two
//! layers of 2¹⁶ that are the default; how much is refused at which number of keys stands in
//! `docs/specs/packetlog-features.md`.

mod labels;

use packet::{Span, Timestamp};

use crate::prefetch::{prefer_huge_pages, prefetch};
use crate::sums::{PacketRun, PacketSums};
use labels::{ALL_WAYS, Labels, WAYS, equal, first};

/// Votes of refused packets for each packet of the resident that they drive out.
pub const VOTES_TO_EVICT: u32 = 8;

/// Above this share of buckets in use, in sixteenths, no neighbour is asked to move: it would
/// hardly find room, and the search would cost what a flood of keys wants it to.
const MOVES_BELOW: usize = 15;

/// Size and time of a sketch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SketchOptions {
    /// Layers, at least 1.
    pub layers: usize,
    /// Buckets of each layer, rounded up to a power of two of 16 at least.
    pub buckets: usize,
    /// Length of a window, at most 4.29 seconds; aligned to the epoch.
    pub window: Span,
}

impl Default for SketchOptions {
    fn default() -> Self {
        Self { layers: 2, buckets: 1 << 16, window: Span::from_ns(10_000_000) }
    }
}

/// The outcome of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SketchCounts {
    /// Windows that began.
    pub windows: u64,
    /// Keys that found a bucket, counted again in each window.
    pub admitted: u64,
    /// Keys that moved to another layer to make room.
    pub moved: u64,
    /// Keys that were driven out of their bucket.
    pub evicted: u64,
    /// Packets whose key found no bucket.
    pub refused: u64,
}

/// What is kept of a key: one cache line. Times count from the start of the window.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    hash: u64,
    size_sum: u64,
    size_squares: u64,
    /// Gaps of a window add up to less than 2³² ns, their squares to less than 2⁶⁴.
    gap_squares: u64,
    packets: u32,
    marked: u32,
    size_min: u32,
    size_max: u32,
    gap_min: u32,
    gap_max: u32,
    first_ns: u32,
    last_ns: u32,
}

/// Neighbouring buckets.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Set {
    labels: Labels,
    /// In the first layer the window's number above the votes against the set.
    votes: u32,
    buckets: [Bucket; WAYS],
}

const _: () = assert!(size_of::<Bucket>() == 64 && size_of::<Labels>() == 32, "within a line");
const _: () = assert!(size_of::<Set>() == 64 * (WAYS + 1), "a line before the buckets");

/// A packet on its way in.
#[derive(Clone, Copy, Debug)]
pub struct SketchPacket {
    /// The hash of its key, under a secret seed.
    pub hash: u64,
    /// When it came; not before any that came before it.
    pub time: Timestamp,
    /// Its bytes.
    pub size: u32,
    /// Whether it is one of those that are counted for themselves.
    pub is_marked: bool,
}

/// Where a key's bucket seemed to be when it was asked for; wherever it is, it is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct SketchHint {
    set: u32,
    way: u32,
}

/// Sums of packets by key in the window of time that is going on.
pub struct Sketch {
    layers: usize,
    /// Sets of a layer, less one.
    set_mask: usize,
    sets: Vec<Set>,
    votes_to_evict: u32,
    window: Span,
    window_start_ns: i64,
    window_ns: u64,
    /// The window's number, never 0.
    epoch: u16,
    live: usize,
    counts: SketchCounts,
}

const EPOCH_MASK: u16 = 0xff;

/// Votes against a set at most.
const VOTES_MASK: u32 = 0xffff;

impl Sketch {
    /// An empty sketch.
    #[must_use]
    pub fn new(options: SketchOptions) -> Self {
        let sets = options.buckets.div_ceil(WAYS).next_power_of_two();
        let layers = options.layers.max(1);
        let window_ns = options.window.as_ns().clamp(1, u32::MAX.into());
        Self {
            layers,
            set_mask: sets - 1,
            sets: zeros(sets * layers),
            votes_to_evict: VOTES_TO_EVICT,
            window: Span::from_ns(window_ns),
            window_start_ns: i64::MIN,
            window_ns: window_ns.unsigned_abs(),
            epoch: 0,
            live: 0,
            counts: SketchCounts::default(),
        }
    }

    /// The same with another rule: so many votes for each packet of a resident drive it out; with
    /// [`u32::MAX`] no key is ever evicted.
    #[must_use]
    pub fn with_votes(mut self, votes_to_evict: u32) -> Self {
        self.votes_to_evict = votes_to_evict.max(1);
        self
    }

    /// Bytes that it takes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

    /// The outcome of keys so far.
    #[must_use]
    pub const fn counts(&self) -> &SketchCounts {
        &self.counts
    }

    /// Keys in the window that is going on.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.live
    }

    /// Whether nothing has come in this window.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Asks for what is examined first for a key, some packets ahead.
    #[inline(always)]
    pub fn prefetch_labels(&self, hash: u64) {
        prefetch(&self.sets[self.set_of(0, hash)].labels);
    }

    /// Asks for a key's bucket, when its labels have come, and returns where that seems to be.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    pub fn prefetch_bucket(&self, hash: u64) -> SketchHint {
        let set = self.set_of(0, hash);
        let labels = &self.sets[set].labels;
        let equal = equal(labels, u16::MAX, self.label(hash));
        let way = if equal == 0 { self.prefetch_room(set, hash) } else { first(equal) };
        prefetch(&self.sets[set].buckets[way & (WAYS - 1)]);
        SketchHint { set: set as u32, way: way as u32 }
    }

    /// Of a key that its first set does not have: it lies elsewhere, or gets a bucket.
    #[inline(always)]
    fn prefetch_room(&self, set: usize, hash: u64) -> usize {
        for layer in 1..self.layers {
            prefetch(&self.sets[self.set_of(layer, hash)].labels);
        }
        self.free_way(set).unwrap_or(0)
    }

    /// Takes in a packet, and returns the totals of its key in this window, the packet included;
    /// nothing of a key that found no bucket.
    #[inline]
    pub fn observe(&mut self, packet: SketchPacket) -> PacketSums {
        let mut sums = PacketSums::NONE;
        self.observe_into(&packet, SketchHint::default(), &mut sums);
        sums
    }

    /// The same into sums that have their place already, where a bucket was asked for.
    #[inline(always)]
    pub fn observe_into(&mut self, packet: &SketchPacket, hint: SketchHint, sums: &mut PacketSums) {
        let now_ns = self.advance(packet.time);
        if let Some((set, way)) = self.find_near(packet.hash, hint) {
            let bucket = &mut self.sets[set].buckets[way];
            bucket.add(now_ns, packet.size, packet.is_marked);
            bucket.sums_into(sums);
            return;
        }
        let Some((set, way)) = self.admit(packet.hash) else {
            *sums = PacketSums::NONE;
            return;
        };
        let bucket = &mut self.sets[set].buckets[way];
        *bucket = Bucket::of(now_ns, packet);
        bucket.sums_into(sums);
    }

    /// Takes in the rest of a merged frame whose first packet was observed just before, and returns
    /// what the key has come to; of a key that found no bucket nothing.
    #[cold]
    pub fn observe_run(&mut self, hash: u64, run: &PacketRun, sums: &mut PacketSums) {
        if let Some((set, way)) = self.find(hash) {
            let bucket = &mut self.sets[set].buckets[way];
            bucket.add_run(run);
            bucket.sums_into(sums);
        }
    }

    /// What a key has come to in this window.
    #[must_use]
    pub fn get(&self, hash: u64) -> PacketSums {
        let found = self.find(hash);
        found.map_or(PacketSums::NONE, |(set, way)| self.sets[set].buckets[way].sums())
    }

    /// Begins a window at the next packet, whatever its time: the clock was set.
    pub fn forget(&mut self) {
        self.window_start_ns = i64::MIN;
        self.next_epoch();
    }

    /// Moves on to the window of this time; nanoseconds from its start.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    fn advance(&mut self, time: Timestamp) -> u32 {
        let mut since = time.as_ns().wrapping_sub(self.window_start_ns).cast_unsigned();
        if since >= self.window_ns || self.epoch == 0 {
            since = self.next_window(time);
        }
        since as u32
    }

    #[cold]
    fn next_window(&mut self, time: Timestamp) -> u64 {
        self.window_start_ns = time.window_start(self.window).as_ns();
        self.next_epoch();
        self.counts.windows += 1;
        time.as_ns().wrapping_sub(self.window_start_ns).cast_unsigned().min(self.window_ns - 1)
    }

    fn next_epoch(&mut self) {
        self.live = 0;
        self.epoch = (self.epoch + 1) & EPOCH_MASK;
        if self.epoch == 0 {
            // Windows of 256 ago would be taken for this one.
            for set in &mut self.sets {
                (set.labels, set.votes) = (Labels::default(), 0);
            }
            self.epoch = 1;
        }
    }

    #[inline(always)]
    const fn label(&self, hash: u64) -> u16 {
        (hash as u16) & !EPOCH_MASK | self.epoch
    }

    /// The set of a key in a layer: other bits of its hash than the label's in the first, and in
    /// the next such that keys of one set go to many.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)]
    const fn set_of(&self, layer: usize, hash: u64) -> usize {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut mixed = hash;
        let mut at = 0;
        while at < layer {
            mixed = mixed.rotate_left(29).wrapping_mul(ODD);
            at += 1;
        }
        layer * (self.set_mask + 1) + ((mixed >> 32) as usize & self.set_mask)
    }

    /// The bucket of a key, which is the one that was asked for nearly always.
    #[inline(always)]
    fn find_near(&self, hash: u64, hint: SketchHint) -> Option<(usize, usize)> {
        let (set, way) = (hint.set as usize, hint.way as usize);
        // Equal hashes have equal sets; the label tells of the window.
        if let Some(near) = self.sets.get(set)
            && near.buckets[way & (WAYS - 1)].hash == hash
            && near.labels.get(way & (WAYS - 1)) == self.label(hash)
        {
            return Some((set, way & (WAYS - 1)));
        }
        self.find(hash)
    }

    #[inline(always)]
    fn find(&self, hash: u64) -> Option<(usize, usize)> {
        let label = self.label(hash);
        for layer in 0..self.layers {
            let set = self.set_of(layer, hash);
            let mut equal = equal(&self.sets[set].labels, u16::MAX, label);
            while equal != 0 {
                let way = first(equal);
                if self.sets[set].buckets[way].hash == hash {
                    return Some((set, way));
                }
                equal &= equal - 1;
            }
        }
        None
    }

    /// A bucket of a set that no key of this window has.
    #[inline(always)]
    fn free_way(&self, set: usize) -> Option<usize> {
        let free = equal(&self.sets[set].labels, EPOCH_MASK, self.epoch) ^ ALL_WAYS;
        (free != 0).then(|| first(free))
    }

    /// A bucket for a key that has none.
    #[inline(never)]
    fn admit(&mut self, hash: u64) -> Option<(usize, usize)> {
        let (set, way) = self.make_place(hash)?;
        let label = self.label(hash);
        self.sets[set].labels.set(way, label);
        self.counts.admitted += 1;
        Some((set, way))
    }

    fn make_place(&mut self, hash: u64) -> Option<(usize, usize)> {
        for layer in 0..self.layers {
            let set = self.set_of(layer, hash);
            if let Some(way) = self.free_way(set) {
                self.live += 1;
                return Some((set, way));
            }
        }
        if self.live < self.sets.len() * WAYS / 16 * MOVES_BELOW
            && let Some(place) = self.move_neighbour(hash)
        {
            self.live += 1;
            self.counts.moved += 1;
            return Some(place);
        }
        self.vote(hash)
    }

    /// Moves a neighbour to another layer, and gives its place.
    fn move_neighbour(&mut self, hash: u64) -> Option<(usize, usize)> {
        for layer in 0..self.layers {
            let set = self.set_of(layer, hash);
            for way in 0..WAYS {
                let neighbour = self.sets[set].buckets[way].hash;
                for other in (0..self.layers).filter(|&other| other != layer) {
                    let new_set = self.set_of(other, neighbour);
                    if let Some(new_way) = self.free_way(new_set) {
                        let label = self.sets[set].labels.get(way);
                        self.sets[new_set].labels.set(new_way, label);
                        self.sets[new_set].buckets[new_way] = self.sets[set].buckets[way];
                        return Some((set, way));
                    }
                }
            }
        }
        None
    }

    /// Refuses a packet, or drives out the smallest of the residents of its first set.
    fn vote(&mut self, hash: u64) -> Option<(usize, usize)> {
        let set = self.set_of(0, hash);
        let Set { votes, buckets: residents, .. } = &mut self.sets[set];
        let epoch = u32::from(self.epoch) << 16;
        let count = if *votes & !VOTES_MASK == epoch { *votes & VOTES_MASK } else { 0 };
        let count = (count + 1).min(VOTES_MASK);
        *votes = epoch | count;
        if count >= self.votes_to_evict {
            let smallest = residents.iter().enumerate().min_by_key(|(_, bucket)| bucket.packets);
            if let Some((way, bucket)) = smallest
                && count >= bucket.packets.saturating_mul(self.votes_to_evict)
            {
                *votes = 0;
                self.counts.evicted += 1;
                return Some((set, way));
            }
        }
        self.counts.refused += 1;
        None
    }
}

impl Bucket {
    #[inline(always)]
    fn of(now_ns: u32, packet: &SketchPacket) -> Self {
        let size = packet.size;
        Self {
            hash: packet.hash,
            size_sum: size.into(),
            size_squares: u64::from(size) * u64::from(size),
            gap_squares: 0,
            packets: 1,
            marked: packet.is_marked.into(),
            size_min: size,
            size_max: size,
            gap_min: u32::MAX,
            gap_max: 0,
            first_ns: now_ns,
            last_ns: now_ns,
        }
    }

    #[inline(always)]
    fn add(&mut self, now_ns: u32, size: u32, is_marked: bool) {
        // Time does not run backwards within a window; if it did, the gap would be none.
        let gap = now_ns.saturating_sub(self.last_ns);
        self.gap_min = self.gap_min.min(gap);
        self.gap_max = self.gap_max.max(gap);
        self.gap_squares = self.gap_squares.wrapping_add(u64::from(gap) * u64::from(gap));
        self.last_ns = now_ns.max(self.last_ns);
        self.packets = self.packets.saturating_add(1);
        self.marked = self.marked.saturating_add(is_marked.into());
        self.size_min = self.size_min.min(size);
        self.size_max = self.size_max.max(size);
        self.size_sum = self.size_sum.saturating_add(size.into());
        self.size_squares = self.size_squares.saturating_add(u64::from(size) * u64::from(size));
    }

    /// As [`PacketSums::add_run`].
    fn add_run(&mut self, run: &PacketRun) {
        let marked = if run.is_marked { run.count } else { 0 };
        self.packets = self.packets.saturating_add(run.count);
        self.marked = self.marked.saturating_add(marked);
        self.size_min = self.size_min.min(run.size).min(run.last_size);
        self.size_max = self.size_max.max(run.size).max(run.last_size);
        self.size_sum = self.size_sum.saturating_add(run.size_sum());
        self.size_squares = self.size_squares.saturating_add(run.size_squares());
        self.gap_min = self.gap_min.min(run.gap_ns);
        self.gap_max = self.gap_max.max(run.gap_ns);
        self.gap_squares = self.gap_squares.saturating_add(run.gap_squares());
    }

    fn sums(&self) -> PacketSums {
        let mut sums = PacketSums::NONE;
        self.sums_into(&mut sums);
        sums
    }

    #[inline(always)]
    fn sums_into(&self, sums: &mut PacketSums) {
        sums.packets = self.packets;
        sums.marked = self.marked;
        sums.size_min = self.size_min;
        sums.size_max = self.size_max;
        sums.size_sum = self.size_sum;
        sums.size_squares = self.size_squares;
        sums.gap_sum = self.last_ns.wrapping_sub(self.first_ns).into();
        sums.gap_min = if self.packets > 1 { self.gap_min.into() } else { u64::MAX };
        sums.gap_max = self.gap_max.into();
        sums.gap_squares = self.gap_squares.into();
    }
}

/// As many as are asked for, on huge pages.
fn zeros<T: Copy + Default>(len: usize) -> Vec<T> {
    let mut zeros = Vec::with_capacity(len);
    prefer_huge_pages(&mut zeros);
    zeros.resize(len, T::default());
    zeros
}

#[cfg(test)]
mod tests;
