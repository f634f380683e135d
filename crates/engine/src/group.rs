//! Packets and bytes by key: the aggregation most questions begin with.

use packet::{Batch, Frame, HashSeed, KeyHash, MalformedCounts, Timestamp};

use crate::stage::{Fold, Stage};
use crate::table::{Entry, Staging, Table};

/// Where one packet belongs: keys come in two widths, so that IPv4 does not pay for IPv6.
#[derive(Clone, Copy, Debug)]
pub enum Place<N, W> {
    /// Under a narrow key.
    Narrow(N),
    /// Under a wide key.
    Wide(W),
    /// Under no key: the headers it would be made of are not there.
    Absent,
}

/// Where a packet is in the order of reading: smaller is earlier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Order {
    /// Its stamp where several captures are read in order of time, else the same in all.
    time: Timestamp,
    /// The part of the input that it is in, and its place there.
    place: u64,
}

/// By what packets are grouped.
pub trait Grouping: Copy + Send + Sync {
    /// Key of most packets.
    type Narrow: KeyHash + Default + Send;
    /// Key of the others.
    type Wide: KeyHash + Default + Send;
    /// What is kept for a key.
    type Value: Entry + Sync;

    /// The key of one packet, and what it adds there.
    fn place(
        &self,
        frame: &Frame<'_>,
        order: Order,
    ) -> (Place<Self::Narrow, Self::Wide>, Self::Value);
}

/// Outcome of the packets a stage was given. Together they are all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Packets that have a key.
    pub keyed: u64,
    /// Packets of protocols that have no such key, such as ARP under "source".
    pub without_key: u64,
    /// Packets whose capture ends before the headers that make the key.
    pub cut: u64,
    /// Packets whose key cannot be determined because a header is malformed, by cause.
    pub malformed: MalformedCounts,
    /// Packets that a fault of the stage has cost it, whatever they are.
    pub faulted: u64,
}

/// The counts of one group of packets: a whole run, or one window.
pub struct Groups<G: Grouping> {
    /// Under narrow keys.
    pub narrow: Table<G::Narrow, G::Value>,
    /// Under wide keys.
    pub wide: Table<G::Wide, G::Value>,
    /// Keys of which was forgotten what their first packet decided, to bound memory: those that
    /// come back begin again.
    pub forgotten: u64,
}

/// Counts by key over everything it sees.
pub struct GroupStage<G: Grouping> {
    grouping: G,
    groups: Groups<G>,
    outcome: Outcome,
    /// Whether several captures are merged, and the part that is read, in its upper bits, with the
    /// next packet's place in it.
    is_merged: bool,
    next_place: u64,
    narrow_staging: Staging<G::Narrow, G::Value>,
    wide_staging: Staging<G::Wide, G::Value>,
}

impl Outcome {
    /// Counts a packet without a key under the reason for it.
    pub fn add_absent(&mut self, frame: &Frame<'_>) {
        let layers = &frame.record.layers;
        match layers.fault {
            Some(cause) => self.malformed.add(cause),
            None if layers.is_cut() => self.cut += 1,
            None => self.without_key += 1,
        }
    }

    /// Packets that were dealt with: all but the malformed and those lost to a fault.
    #[must_use]
    pub fn processed(&self) -> u64 {
        self.keyed + self.without_key + self.cut
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        self.keyed += other.keyed;
        self.without_key += other.without_key;
        self.cut += other.cut;
        self.malformed.merge(&other.malformed);
        self.faulted += other.faulted;
    }

    /// Takes out what an account held before.
    pub fn subtract(&mut self, before: &Self) {
        self.keyed = self.keyed.saturating_sub(before.keyed);
        self.without_key = self.without_key.saturating_sub(before.without_key);
        self.cut = self.cut.saturating_sub(before.cut);
        self.malformed.subtract(&before.malformed);
        self.faulted = self.faulted.saturating_sub(before.faulted);
    }

    /// Has packets that are in this account lost to faults, so many as `lost` says.
    pub fn lose(&mut self, lost: &Self) {
        let faulted = self.faulted + lost.faulted;
        self.subtract(lost);
        self.faulted = faulted;
    }
}

impl<G: Grouping> Groups<G> {
    /// No packets yet; at most `key_count_max` keys of each width.
    #[must_use]
    pub fn new(seed: HashSeed, key_count_max: usize) -> Self {
        Self {
            narrow: Table::new(seed, key_count_max),
            wide: Table::new(seed, key_count_max),
            forgotten: 0,
        }
    }

    /// Takes in another part's.
    pub fn fold(&mut self, other: &Self) {
        self.narrow.fold(&other.narrow);
        self.wide.fold(&other.wide);
        self.forgotten += other.forgotten;
    }

    /// Keys of both widths.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }

    /// What found its partition full, all together.
    #[must_use]
    pub fn refused(&self) -> G::Value {
        let mut refused = *self.narrow.refused();
        refused.fold(self.wide.refused());
        refused
    }
}

impl<G: Grouping> GroupStage<G> {
    /// No packets yet; at most `key_count_max` keys of each width.
    #[must_use]
    pub fn new(grouping: G, seed: HashSeed, key_count_max: usize) -> Self {
        Self {
            grouping,
            groups: Groups::new(seed, key_count_max),
            outcome: Outcome::default(),
            is_merged: false,
            next_place: 0,
            narrow_staging: Staging::default(),
            wide_staging: Staging::default(),
        }
    }

    /// The sources are not parts of one input in their order, but several inputs whose packets
    /// are in the order of their stamps.
    #[must_use]
    pub const fn of_merged(mut self, is_merged: bool) -> Self {
        self.is_merged = is_merged;
        self
    }

    /// Outcome of the packets so far.
    #[must_use]
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Drops what is on its way to the counts, of a batch that was not taken in to its end.
    pub const fn drop_staged(&mut self) {
        self.narrow_staging.clear();
        self.wide_staging.clear();
    }

    /// What was counted, and the outcome of the packets.
    #[must_use]
    pub fn finish(self) -> (Groups<G>, Outcome) {
        (self.groups, self.outcome)
    }
}

/// Bits of a packet's place within a part.
const PLACE_BITS: u32 = 40;

impl<G: Grouping> Stage for GroupStage<G> {
    fn on_source(&mut self, index: usize) {
        self.next_place = (index as u64) << PLACE_BITS;
    }

    fn on_batch(&mut self, batch: &Batch<'_>) {
        let mut absent = 0;
        for frame in batch.frames() {
            let time = if self.is_merged { frame.record.timestamp } else { Timestamp::default() };
            let order = Order { time, place: self.next_place };
            self.next_place += 1;
            let (place, value) = self.grouping.place(&frame, order);
            match place {
                Place::Narrow(key) => self.narrow_staging.push(&mut self.groups.narrow, key, value),
                Place::Wide(key) => self.wide_staging.push(&mut self.groups.wide, key, value),
                Place::Absent => {
                    absent += 1;
                    self.outcome.add_absent(&frame);
                }
            }
        }
        self.outcome.keyed += batch.records.len() as u64 - absent;
        self.narrow_staging.flush(&mut self.groups.narrow);
        self.wide_staging.flush(&mut self.groups.wide);
    }
}

impl<G: Grouping> Fold for GroupStage<G> {
    fn fold(&mut self, other: Self) {
        self.groups.fold(&other.groups);
        self.outcome.fold(&other.outcome);
    }
}
