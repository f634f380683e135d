//! Snapshots: what is known of each packet when it comes, for training and for serving alike.
//!
//! A snapshot has numbers of the packet itself and of what its flow, its source and its
//! destination did up to then, the packet included. What each of them means stands in
//! `docs/specs/packetlog-features.md`. No number is made of an address, a hop limit or the date.
//!
//! A frame that offloads made of several packets counts as these: lengths are those of each packet
//! but the last, and its flow and its hosts get all of them.
//!
//! Time is the latest stamp so far: a packet that is stamped earlier, or not at all, counts as one
//! that came just then, with no gap before it. Where stamps run backwards by the idle time-out or
//! more, the clock was set, and everything begins again.

mod columns;
pub(crate) mod facts;
mod kept;
pub(crate) mod merged;
mod options;
mod packet_set;
mod states;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use engine::flow::{FlowClock, FlowMark, MarkKind};
use engine::sketch::{SketchCounts, SketchHint};
use engine::sums::PacketSums;
use model::numeric::BLOCK_ROWS;
use packet::wire::arp::Arp;
use packet::{
    Batch, FlowDirection, FlowKey, Frame, HashSeed, KeyHash as _, Network, Record, Timestamp,
};

pub use columns::{Column, MISSING, PacketColumn, SumColumn, schema_hash, schema_text};
pub use kept::ExactCounts;
pub use options::{
    BUCKETS_MAX, CounterStore, FLOWS_MAX, FeatureOptions, Key, LAYERS_MAX, OptionsError,
    STATES_MAX, STATES_MIN,
};
pub use packet_set::PacketSet;
pub use states::{PlaceCounts, StateColumn, StateCounts};
pub(crate) use states::{PlaceIndex, Places};

use columns::SumNumbers;
use facts::Facts;
use kept::{KeyCounters, PacketArrival, host_key};
use states::{Arrivals, States};

/// Makes snapshots of packets, batch after batch.
pub struct Features {
    columns: Vec<Column>,
    main: Option<Key>,
    seed: HashSeed,
    clock: FlowClock,
    now: Timestamp,
    /// By [`Key`], those that a column needs.
    kept: [Option<KeyCounters>; Key::COUNT],
    /// If a column needs them.
    states: Option<Box<States>>,
    facts: Vec<Facts>,
    flows: Vec<Option<(FlowKey, FlowDirection)>>,
    /// Of each packet with a flow the flow's hash, which sketches, tables and states share.
    hashes: Vec<u64>,
    ways: Vec<FlowDirection>,
    times: Vec<Timestamp>,
    marks: Vec<(usize, FlowMark)>,
    sums: [Vec<PacketSums>; Key::COUNT],
    arrived: [Vec<PacketArrival>; Key::COUNT],
    arrived_keys: Vec<(FlowKey, FlowDirection)>,
    /// By [`Key`], whether a column shows its sums, and the numbers of these.
    summed: [bool; Key::COUNT],
    numbers: [SumNumbers; Key::COUNT],
    values: Vec<f32>,
    /// Those of the block whose columns are read.
    asked: PacketSet,
    merged: MergedCounts,
}

/// Frames that offloads made of several packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MergedCounts {
    /// Frames.
    pub frames: u64,
    /// Packets on the wire that they stand for.
    pub packets: u64,
}

/// Packets of a block whose headers were read, and which nothing has taken in yet.
pub(crate) struct BlockArrivals<'a> {
    pub(crate) flows: &'a [Option<(FlowKey, FlowDirection)>],
    /// Of packets with a flow the flow's hash.
    pub(crate) hashes: &'a [u64],
    pub(crate) times: &'a [Timestamp],
    pub(crate) facts: &'a [Facts],
    marks: &'a [(usize, FlowMark)],
}

impl BlockArrivals<'_> {
    /// Packets before which the clock was set back, in order.
    pub(crate) fn clock_steps(&self) -> impl Iterator<Item = usize> {
        let steps = self.marks.iter().filter(|(_, mark)| mark.kind == MarkKind::Step);
        steps.map(|&(at, _)| at)
    }
}

/// Snapshots of some packets, column by column.
#[derive(Clone, Copy)]
pub struct Snapshots<'a> {
    values: &'a [f32],
    /// Of each packet its flow and the way it goes.
    pub flows: &'a [Option<(FlowKey, FlowDirection)>],
    /// Of each packet its time, which never runs backwards unless the clock was set.
    pub times: &'a [Timestamp],
    main_sums: &'a [PacketSums],
}

impl Snapshots<'_> {
    /// How far the values of one column lie from those of the next.
    pub const STRIDE: usize = BLOCK_ROWS;

    /// The values of all columns; those of a column lie together, and from one column to the next
    /// it is [`STRIDE`](Self::STRIDE).
    #[must_use]
    pub const fn values(&self) -> &[f32] {
        self.values
    }

    /// Packets.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Whether anything is kept of a packet's flow; of its host where flows are not kept.
    #[inline]
    #[must_use]
    pub fn holds_flow(&self, packet: usize) -> bool {
        self.main_sums.get(packet).is_some_and(PacketSums::is_held)
    }

    /// The values of one packet, in the order of the columns.
    pub fn row(&self, packet: usize) -> impl Iterator<Item = f32> {
        self.values.chunks_exact(Self::STRIDE).filter_map(move |column| column.get(packet)).copied()
    }
}

impl Features {
    /// Snapshots with these columns; what none of them needs is not kept, but for the
    /// [main key](FeatureOptions::main_key).
    ///
    /// # Errors
    /// [`OptionsError`], where the options cannot be, or a column is not theirs.
    pub fn new(
        options: &FeatureOptions,
        columns: &[Column],
        seed: HashSeed,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        for column in columns {
            if !Column::all(options).any(|known| known == *column) {
                return Err(options.without(*column));
            }
        }
        Ok(Self::of(options, columns, seed))
    }

    /// Snapshots as a model reads them, whose options and columns were checked.
    #[must_use]
    pub fn for_model(model: &crate::model::Model, seed: HashSeed) -> Self {
        Self::of(model.options(), model.columns(), seed)
    }

    pub(crate) fn of(options: &FeatureOptions, columns: &[Column], seed: HashSeed) -> Self {
        let main = options.main_key();
        let is_needed =
            |key| main == Some(key) || columns.iter().any(|column: &Column| column.needs(key));
        let of_states: Vec<StateColumn> =
            columns.iter().filter_map(|column| column.state()).collect();
        let states = (!of_states.is_empty())
            .then(|| Box::new(States::new(of_states, options.states, options.idle_timeout, seed)));
        Self {
            columns: columns.to_vec(),
            states,
            main,
            seed,
            clock: FlowClock::new(options.idle_timeout, None),
            now: Timestamp::MIN,
            kept: Key::ALL.map(|key| is_needed(key).then(|| KeyCounters::new(options))),
            facts: Vec::with_capacity(BLOCK_ROWS),
            flows: Vec::with_capacity(BLOCK_ROWS),
            hashes: Vec::with_capacity(BLOCK_ROWS),
            ways: Vec::with_capacity(BLOCK_ROWS),
            times: Vec::with_capacity(BLOCK_ROWS),
            marks: Vec::new(),
            sums: Key::ALL.map(|_| Vec::with_capacity(BLOCK_ROWS)),
            arrived: Key::ALL.map(|_| Vec::with_capacity(BLOCK_ROWS)),
            arrived_keys: Vec::with_capacity(BLOCK_ROWS),
            summed: Key::ALL.map(|key| columns.iter().any(|column| column.key() == Some(key))),
            numbers: Key::ALL.map(|_| columns::NO_NUMBERS),
            values: vec![0.0; columns.len() * BLOCK_ROWS],
            asked: PacketSet::ALL,
            merged: MergedCounts::default(),
        }
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Packets that came more than a second behind the latest stamp, and how often the clock was
    /// set back.
    #[must_use]
    pub const fn late_and_steps(&self) -> (u64, u64) {
        (self.clock.late, self.clock.steps)
    }

    /// Merged frames so far, which count as the packets that they were on the wire.
    #[must_use]
    pub const fn merged_counts(&self) -> MergedCounts {
        self.merged
    }

    /// The outcome of the keys of a kind, where a sketch keeps them.
    #[must_use]
    pub fn sketch_counts(&self, key: Key) -> Option<SketchCounts> {
        self.kept[key as usize].as_ref()?.sketch_counts()
    }

    /// Likewise where a table does.
    #[must_use]
    pub fn exact_counts(&self, key: Key) -> Option<ExactCounts> {
        self.kept[key as usize].as_ref()?.exact_counts()
    }

    /// The outcome of states, where there are any.
    #[must_use]
    pub fn state_counts(&self) -> Option<StateCounts> {
        self.states.as_ref().map(|states| states.counts())
    }

    /// Bytes of what is kept of flows and hosts.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let states = self.states.as_ref().map_or(0, |states| states.size_bytes());
        states + self.kept.iter().flatten().map(KeyCounters::size_bytes).sum::<usize>()
    }

    /// Takes in a batch and hands its snapshots over, of at most [`BLOCK_ROWS`] packets at a time,
    /// with the records that they are of.
    pub fn take(&mut self, batch: &Batch<'_>, mut each: impl FnMut(&[Record], Snapshots<'_>)) {
        for records in batch.records.chunks(BLOCK_ROWS) {
            self.read(&Batch { records, ..*batch });
            each(records, self.snapshots(batch.bytes, records, PacketSet::ALL));
        }
        self.end(batch);
    }

    /// Takes in packets that were [read](Self::read), and makes snapshots of those asked for; of
    /// the others the values are undefined.
    pub(crate) fn snapshots(
        &mut self,
        bytes: &[u8],
        records: &[Record],
        asked: PacketSet,
    ) -> Snapshots<'_> {
        self.asked = asked;
        self.observe(bytes, records);
        self.fill();
        Snapshots {
            values: &self.values,
            flows: &self.flows,
            times: &self.times,
            main_sums: self.main.map_or(&[], |key| &self.sums[key as usize]),
        }
    }

    /// After the blocks of a batch.
    pub(crate) fn end(&mut self, batch: &Batch<'_>) {
        if let Some(mark) = batch.tick.and_then(|time| self.clock.on_tick(time)) {
            self.now = self.now.max(mark.watermark);
            self.on_mark(mark);
        }
    }

    /// Headers, flows and times of a block of at most [`BLOCK_ROWS`] packets.
    pub(crate) fn read(&mut self, batch: &Batch<'_>) -> BlockArrivals<'_> {
        self.facts.clear();
        self.facts.resize(batch.records.len(), Facts::NONE);
        self.flows.clear();
        self.flows.resize(batch.records.len(), None);
        self.hashes.clear();
        self.ways.clear();
        self.times.clear();
        self.marks.clear();
        let places = self.facts.iter_mut().zip(&mut self.flows);
        for ((index, frame), (facts, flow)) in batch.frames().enumerate().zip(places) {
            let (time, mark) = self.clock.on_packet(frame.record.timestamp);
            if let Some(mark) = mark {
                if mark.kind == MarkKind::Step {
                    self.now = Timestamp::MIN;
                }
                self.marks.push((index, mark));
            }
            self.now = self.now.max(time);
            self.times.push(self.now);
            facts.take(&frame);
            if facts.segments > 1 {
                self.merged.frames += 1;
                self.merged.packets += u64::from(facts.segments);
            }
            *flow = FlowKey::from_frame(&frame);
            // By reference: to copy a key that was just written waits for the writes.
            let (hash, way) = match &*flow {
                Some((key, way)) => (key.key_hash(self.seed), *way),
                None => (0, FlowDirection::LowToHigh),
            };
            self.hashes.push(hash);
            self.ways.push(way);
        }
        if let Some(states) = &mut self.states {
            states.read(batch, &self.flows, (&self.hashes, &self.ways));
        }
        BlockArrivals {
            flows: &self.flows,
            hashes: &self.hashes,
            times: &self.times,
            facts: &self.facts,
            marks: &self.marks,
        }
    }

    fn on_mark(&mut self, mark: FlowMark) {
        self.kept.iter_mut().flatten().for_each(|kept| kept.on_mark(mark));
        if let Some(states) = self.states.as_mut().filter(|_| mark.kind == MarkKind::Step) {
            states.forget();
        }
    }

    /// What keys have come to; between two marks all packets of one kind of key together.
    fn observe(&mut self, bytes: &[u8], records: &[Record]) {
        for (sums, kept) in self.sums.iter_mut().zip(&self.kept) {
            // What is not kept is not asked for, but for whether a flow began.
            let is_asked = kept.is_some() || sums.len() < records.len();
            if is_asked {
                sums.clear();
                sums.resize(records.len(), PacketSums::NONE);
            }
        }
        if self.kept.iter().all(Option::is_none) && self.states.is_none() {
            return;
        }
        let marks = std::mem::take(&mut self.marks);
        let mut start = 0;
        for &(at, mark) in &marks {
            self.observe_between(bytes, records, start..at);
            self.on_mark(mark);
            start = at;
        }
        self.observe_between(bytes, records, start..records.len());
        self.marks = marks;
    }

    /// What is examined first is asked for all packets and keys before any of it is used.
    fn observe_between(&mut self, bytes: &[u8], records: &[Record], range: std::ops::Range<usize>) {
        if let Some(states) = &mut self.states {
            let arrived = Arrivals {
                records,
                facts: &self.facts,
                times: &self.times,
                flows: &self.flows,
                asked: self.asked,
            };
            states.observe(&arrived, range.clone());
        }
        let mut kept = std::mem::take(&mut self.kept);
        for (key, kept) in Key::ALL.into_iter().zip(&kept) {
            self.arrived[key as usize].clear();
            let Some(kept) = kept else { continue };
            match key {
                Key::Flow => self.gather_flows(range.clone(), kept),
                Key::Source | Key::Destination => {
                    self.gather_hosts(key, bytes, records, range.clone(), kept);
                }
            }
        }
        for (arrived, kept) in self.arrived.iter_mut().zip(&kept) {
            if let Some(kept) = kept {
                kept.prefetch_buckets(arrived);
            }
        }
        for (key, kept) in Key::ALL.into_iter().zip(&mut kept) {
            let Some(kept) = kept else { continue };
            let arrived = &mut self.arrived[key as usize];
            if key != Key::Flow {
                // Flows of the same packets are kept already: a packet of a flow of which this is
                // all that is known began it.
                let flows = &self.sums[Key::Flow as usize];
                for packet in arrived.iter_mut() {
                    let flow = flows.get(usize::from(packet.index));
                    let own = 1 + u32::from(packet.more);
                    packet.is_marked = flow.is_some_and(|flow| flow.packets <= own);
                }
            }
            self.arrived_keys.clear();
            if kept.wants_keys() {
                for packet in arrived.iter() {
                    let index = usize::from(packet.index);
                    let frame = Frame::new(bytes, &records[index]);
                    let known = if key == Key::Flow { self.flows[index] } else { end(&frame, key) };
                    // It has one, or it would not have arrived.
                    self.arrived_keys.extend(known);
                }
            }
            kept.observe(arrived, &self.arrived_keys, &mut self.sums[key as usize]);
        }
        self.kept = kept;
    }

    #[allow(clippy::cast_possible_truncation)] // A batch has no more packets.
    fn gather_flows(&mut self, range: std::ops::Range<usize>, kept: &KeyCounters) {
        let arrived = &mut self.arrived[Key::Flow as usize];
        for index in range {
            if self.flows[index].is_none() {
                continue;
            }
            let (hash, way) = (self.hashes[index], self.ways[index]);
            let facts = &self.facts[index];
            kept.prefetch_labels(hash);
            arrived.push(PacketArrival {
                hash,
                hint: SketchHint::default(),
                time: self.times[index],
                size: facts.size,
                index: index as u16,
                tcp_flags: (facts.tcp_flags.max(0) & 0xff) as u8,
                is_marked: way == FlowDirection::LowToHigh,
                more: facts.segments.saturating_sub(1),
                more_marked: way == FlowDirection::LowToHigh,
                last_size: facts.last_size,
            });
        }
    }

    #[allow(clippy::cast_possible_truncation)] // A batch has no more packets.
    fn gather_hosts(
        &mut self,
        key: Key,
        bytes: &[u8],
        records: &[Record],
        range: std::ops::Range<usize>,
        kept: &KeyCounters,
    ) {
        let arrived = &mut self.arrived[key as usize];
        for index in range {
            let frame = Frame::new(bytes, &records[index]);
            let hash = if kept.wants_keys() {
                end(&frame, key).map(|(end, _)| end.key_hash(self.seed))
            } else {
                host_hash(self.seed, &frame, key)
            };
            let Some(hash) = hash else { continue };
            kept.prefetch_labels(hash);
            arrived.push(PacketArrival {
                hash,
                hint: SketchHint::default(),
                time: self.times[index],
                size: self.facts[index].size,
                index: index as u16,
                tcp_flags: 0,
                is_marked: false,
                more: self.facts[index].segments.saturating_sub(1),
                // A flow begins once.
                more_marked: false,
                last_size: self.facts[index].last_size,
            });
        }
    }

    fn fill(&mut self) {
        for key in Key::ALL {
            if self.summed[key as usize] {
                let (sums, numbers) = (&self.sums[key as usize], &mut self.numbers[key as usize]);
                let ways = (key == Key::Flow).then_some(&*self.ways);
                columns::fill_sums(sums, ways, self.asked, numbers);
            }
        }
        let asked = self.asked;
        let is_all = asked.has_all(self.flows.len());
        let copy = |from: &[f32; BLOCK_ROWS], to: &mut [f32; BLOCK_ROWS]| {
            if is_all {
                *to = *from;
            } else {
                asked.iter().for_each(|at| to[at] = from[at]);
            }
        };
        let (blocks, _) = self.values.as_chunks_mut::<BLOCK_ROWS>();
        let mut of_states = self.states.iter().flat_map(|states| states.values());
        for (column, values) in self.columns.iter().zip(blocks) {
            match *column {
                Column::Packet(column) => column.fill(&self.facts, asked, values),
                Column::Of(key, column) => {
                    copy(&self.numbers[key as usize][column as usize], values);
                }
                Column::State(_) => {
                    if let Some(found) = of_states.next() {
                        copy(found, values);
                    }
                }
            }
        }
    }
}

/// The hash of a packet's host; without a key of its own where none is asked for.
#[inline(always)]
pub(crate) fn host_hash(seed: HashSeed, frame: &Frame<'_>, key: Key) -> Option<u64> {
    // Numbers and no addresses: those would be put together byte by byte and waited for.
    if let Some((source, destination)) = frame.ipv4_addresses() {
        let address = if key == Key::Source { source } else { destination };
        return Some(seed.hash_words(address.into(), 4));
    }
    other_host_hash(seed, frame, key)
}

#[inline(never)]
fn other_host_hash(seed: HashSeed, frame: &Frame<'_>, key: Key) -> Option<u64> {
    host(frame, key).map(|address| address_hash(seed, address))
}

fn address_hash(seed: HashSeed, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => seed.hash_words(address.to_bits().into(), 4),
        IpAddr::V6(address) => address.to_bits().key_hash(seed),
    }
}

/// A packet's host as a table of flows holds it.
fn end(frame: &Frame<'_>, key: Key) -> Option<(FlowKey, FlowDirection)> {
    Some((host_key(host(frame, key)?), FlowDirection::LowToHigh))
}

/// Who sent a packet, or to whom; of ARP for IPv4, whose addresses are asked and answered about.
#[inline]
pub(crate) fn host(frame: &Frame<'_>, key: Key) -> Option<IpAddr> {
    let (source, destination) = if frame.record.layers.network == Network::Arp {
        arp_addresses(frame)?
    } else {
        frame.ip_addresses()?
    };
    Some(if key == Key::Source { source } else { destination })
}

/// Who asks and about whom, by the header of ARP for IPv4.
fn arp_addresses(frame: &Frame<'_>) -> Option<(IpAddr, IpAddr)> {
    let arp = Arp::new(frame.from_offset(frame.record.layers.network_offset)).ok()?;
    let address = |bytes: &[u8]| bytes.first_chunk::<4>().map(|&octets| octets.into());
    Some((address(arp.sender_protocol())?, address(arp.target_protocol())?))
}
