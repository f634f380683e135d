//! Why packets are marked: for flows and senders that are newly marked, the columns that decided.
//!
//! A reason is made when the verdict is: later the numbers that it was made from are gone. Each
//! flow and each source gets one for its first packet that is marked, and others where a verdict
//! is stronger than all before by [`STRONGER`]. After [`RENEWED_AFTER_S`] it begins again, so that
//! a log whose old files were deleted still has reasons. The columns are those that raised the
//! probability of the class most on the way through the forest
//! ([`NumericForest::explain`](model::NumericForest::explain)).
//!
//! Bounded: which flows and sources have been marked is remembered in a fixed number of places
//! (the one that was marked least recently makes room), a source has [`SOURCE_FLOWS_MAX`] reasons
//! of flows while it is remembered, and a second of event time has [`SECOND_MAX`] reasons. What
//! these leave out is counted.

mod memory;
mod record;
mod words;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::NumericForest;
use model::numeric::BLOCK_ROWS;
use packet::{Frame, HashSeed, KeyHash as _, Protocol, Record, Span, Timestamp};

use crate::features::{Key, Snapshots, host, host_hash};
use crate::judged::{Basis, PacketVerdict};
use memory::{Memory, Standing};

pub(crate) use record::{Reader, put_names, put_reason, start};
pub use words::words;

/// Columns of a reason at most.
pub const EVIDENCE_MAX: usize = 3;
/// A verdict is written again where its confidence is greater by this.
pub const STRONGER: f32 = 0.05;
/// A flow or source gets a new first reason after so many seconds of event time.
pub const RENEWED_AFTER_S: u32 = 3_600;
/// Reasons of flows of one source, while it is remembered; then flows of it have none, and the
/// source itself only stronger ones.
pub const SOURCE_FLOWS_MAX: u16 = 64;
/// Reasons of a second of event time.
pub const SECOND_MAX: u32 = 128;
/// Those of them that may be of a flow alone: the others are kept for sources.
pub const SECOND_FLOWS_MAX: u32 = 64;
/// Bytes of a file at most.
pub(crate) const WHY_LEN_MAX: u64 = 16 << 20;
/// Flows and sources that are remembered, four to a set.
const FLOW_SETS: usize = 16_384;
const SOURCE_SETS: usize = 4_096;

/// A column that decided, and how.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Evidence {
    /// The column's number in the model.
    pub column: u16,
    /// Its value.
    pub value: f32,
    /// The nearest threshold that the value passed on the way to the class: it is above, or at
    /// most that.
    pub threshold: f32,
    /// By how much the column raised the probability of the class.
    pub contribution: f32,
}

impl Evidence {
    /// Whether the value is above the threshold; otherwise it is at most that.
    #[must_use]
    pub fn is_above(&self) -> bool {
        self.value > self.threshold
    }
}

/// What a reason was written for; several of these at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReasonScope(u8);

impl ReasonScope {
    /// The first verdict on the packet's flow.
    pub const FLOW_FIRST: Self = Self(1);
    /// A stronger one.
    pub const FLOW_STRONGER: Self = Self(2);
    /// The first verdict on a packet of its source.
    pub const SOURCE_FIRST: Self = Self(4);
    /// A stronger one.
    pub const SOURCE_STRONGER: Self = Self(8);

    /// Whether it is for any of these as well.
    #[must_use]
    pub const fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it is for the flow.
    #[must_use]
    pub const fn is_of_flow(self) -> bool {
        self.has(Self::FLOW_FIRST.with(Self::FLOW_STRONGER))
    }

    /// Whether it is for the source.
    #[must_use]
    pub const fn is_of_source(self) -> bool {
        self.has(Self::SOURCE_FIRST.with(Self::SOURCE_STRONGER))
    }
}

/// Who sent a packet to whom.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ends {
    /// The sender; of ARP that of its header.
    pub source: IpAddr,
    /// The receiver; of ARP who is asked about.
    pub destination: IpAddr,
    /// As in a [`FlowKey`](packet::FlowKey); 0 without a flow.
    pub source_port: u16,
    /// Likewise.
    pub destination_port: u16,
    /// The protocol above IP; nothing for ARP.
    pub protocol: Option<Protocol>,
}

/// Why a packet was marked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reason {
    /// Its stamp.
    pub time: Timestamp,
    /// What it is written for.
    pub scope: ReasonScope,
    /// Whose it is; nothing for frames without addresses.
    pub ends: Option<Ends>,
    /// The class.
    pub class: u16,
    /// Its probability.
    pub confidence: f32,
    /// Which forest decided.
    pub basis: Basis,
    /// The columns that raised the probability most, the strongest first.
    pub evidence: [Option<Evidence>; EVIDENCE_MAX],
}

/// What the numbers of columns mean, for files that outlive the model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ColumnNames {
    /// The columns of the model, in order.
    pub columns: Vec<String>,
    /// What sums of flows and hosts cover; nothing where they have no end.
    pub window: Option<Span>,
}

impl ColumnNames {
    /// Of a model.
    #[must_use]
    pub fn of(model: &crate::Model) -> Self {
        let window = model.options().window;
        Self {
            columns: model.columns().iter().map(ToString::to_string).collect(),
            window: (window.as_ns() > 0).then_some(window),
        }
    }
}

/// The outcome of reasons; read while packets come.
#[derive(Debug, Default)]
pub struct ReasonTally {
    /// Reasons made.
    pub made: AtomicU64,
    /// Marked packets that were not examined because of the limits.
    pub omitted: AtomicU64,
    /// Flows and sources that were forgotten to make room.
    pub evicted: AtomicU64,
}

/// Makes the reasons of the packets that a classifier has judged.
pub struct Reasons {
    seed: HashSeed,
    flows: Memory,
    sources: Memory,
    second: u32,
    /// Reasons of this second.
    used: u32,
    made: Vec<Reason>,
    omitted: u64,
    /// By column, what it did to the probability, and the nearest threshold that helped.
    sums: Vec<ColumnSum>,
    tally: Arc<ReasonTally>,
}

#[derive(Clone, Copy, Default)]
struct ColumnSum {
    change: f64,
    threshold: Option<f32>,
}

/// The packets that a reason is made of.
pub(crate) struct JudgedBlock<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) records: &'a [Record],
    pub(crate) snapshots: &'a Snapshots<'a>,
    pub(crate) judged: &'a [PacketVerdict],
}

impl Reasons {
    /// Before the first packet, for a model of so many columns.
    #[must_use]
    pub fn new(column_count: usize, seed: HashSeed) -> Self {
        Self {
            seed,
            flows: Memory::new(FLOW_SETS),
            sources: Memory::new(SOURCE_SETS),
            second: 0,
            used: 0,
            made: Vec::new(),
            omitted: 0,
            sums: vec![ColumnSum::default(); column_count],
            tally: Arc::default(),
        }
    }

    /// The outcome so far.
    #[must_use]
    pub fn tally(&self) -> Arc<ReasonTally> {
        Arc::clone(&self.tally)
    }

    /// Those of the last batch.
    #[must_use]
    pub fn made(&self) -> &[Reason] {
        &self.made
    }

    /// A batch begins; those of the one before are gone.
    pub(crate) fn begin(&mut self) {
        self.made.clear();
    }

    /// The batch has ended: counts are shown.
    pub(crate) fn end(&self) {
        if self.made.is_empty() && self.omitted == self.tally.omitted.load(Ordering::Relaxed) {
            return;
        }
        self.tally.made.fetch_add(self.made.len() as u64, Ordering::Relaxed);
        self.tally.omitted.store(self.omitted, Ordering::Relaxed);
        let evicted = self.flows.evicted + self.sources.evicted;
        self.tally.evicted.store(evicted, Ordering::Relaxed);
    }

    /// Looks at the packets of some rows that a forest has judged.
    #[inline]
    pub(crate) fn look(&mut self, forest: &NumericForest, rows: &[u16], block: &JudgedBlock<'_>) {
        for &row in rows {
            let judged = block.judged.get(usize::from(row));
            if let Some(judged) = judged.filter(|judged| judged.class != 0) {
                self.look_at_marked(forest, row, judged, block);
            }
        }
    }

    #[inline(never)]
    fn look_at_marked(
        &mut self,
        forest: &NumericForest,
        row: u16,
        judged: &PacketVerdict,
        block: &JudgedBlock<'_>,
    ) {
        let index = usize::from(row);
        let (Some(record), Some(time)) =
            (block.records.get(index), block.snapshots.times.get(index))
        else {
            return;
        };
        let frame = Frame::new(block.bytes, record);
        let now_s = u32::try_from(time.as_ns() / 1_000_000_000).unwrap_or(0);
        if !self.has_room(now_s, SECOND_MAX) {
            self.omitted += 1;
            return;
        }
        let strength = steps(judged.confidence).max(1);
        let source_hash = host_hash(self.seed, &frame, Key::Source).unwrap_or(0);
        let source = self.sources.look(source_hash, now_s, strength);
        let is_known = source.standing == Standing::Known;
        let has_many = source.written >= SOURCE_FLOWS_MAX;
        // In a scan or a flood each packet has a new flow: to look for each would cost two misses
        // of the cache.
        if is_known && (has_many || !self.has_room(now_s, SECOND_FLOWS_MAX)) {
            self.omitted += 1;
            return;
        }
        let flow_hash = judged.flow.map(|(key, _)| key.key_hash(self.seed));
        let flow = flow_hash.map(|hash| self.flows.look(hash, now_s, strength));
        let of_flow = flow.map_or(Standing::Known, |found| found.standing);
        if is_known && of_flow == Standing::Known {
            return;
        }
        self.used += 1;
        let is_of_flow = of_flow != Standing::Known;
        self.sources.keep(source_hash, now_s, strength, is_of_flow);
        if let Some(hash) = flow_hash {
            self.flows.keep(hash, now_s, strength, false);
        }
        let of_source = [ReasonScope::SOURCE_FIRST, ReasonScope::SOURCE_STRONGER];
        let scope = source.standing.scope(of_source);
        let of_flows = [ReasonScope::FLOW_FIRST, ReasonScope::FLOW_STRONGER];
        let evidence = self.evidence(forest, block.snapshots.values(), row, judged.class);
        self.made.push(Reason {
            time: record.timestamp,
            scope: scope.with(of_flow.scope(of_flows)),
            ends: ends(&frame, judged),
            class: judged.class,
            confidence: judged.confidence,
            basis: judged.basis,
            evidence,
        });
    }

    /// Whether this second may have another reason, of so many.
    fn has_room(&mut self, now_s: u32, limit: u32) -> bool {
        if now_s != self.second {
            (self.second, self.used) = (now_s, 0);
        }
        self.used < limit
    }

    /// The columns that raised the probability of the class most.
    fn evidence(
        &mut self,
        forest: &NumericForest,
        values: &[f32],
        row: u16,
        class: u16,
    ) -> [Option<Evidence>; EVIDENCE_MAX] {
        let value_of = |column: usize| {
            values.get(column * BLOCK_ROWS + usize::from(row)).copied().unwrap_or_default()
        };
        self.sums.fill(ColumnSum::default());
        let sums = &mut self.sums;
        forest.explain(values, row, class, |split| {
            let Some(sum) = sums.get_mut(split.column) else { return };
            sum.change += split.change;
            let value = value_of(split.column);
            let distance = |threshold: f32| (value - threshold).abs();
            let is_nearer =
                sum.threshold.is_none_or(|nearest| distance(split.threshold) < distance(nearest));
            if split.change > 0.0 && is_nearer {
                sum.threshold = Some(split.threshold);
            }
        });
        let mut found = [None; EVIDENCE_MAX];
        for place in &mut found {
            let mut best: Option<(usize, f64, f32)> = None;
            for (column, sum) in self.sums.iter().enumerate() {
                let Some(threshold) = sum.threshold else { continue };
                if sum.change > best.map_or(0.0, |(_, change, _)| change) {
                    best = Some((column, sum.change, threshold));
                }
            }
            let Some((column, change, threshold)) = best else { break };
            self.sums[column].threshold = None;
            *place = Some(Evidence {
                column: u16::try_from(column).unwrap_or(u16::MAX),
                value: value_of(column),
                threshold,
                contribution: change as f32,
            });
        }
        found
    }
}

/// In steps of 1/65535, as confidence is stored.
pub(crate) fn steps(confidence: f32) -> u16 {
    (confidence.clamp(0.0, 1.0) * 65_535.0).round() as u16
}

/// Who sent it to whom.
fn ends(frame: &Frame<'_>, judged: &PacketVerdict) -> Option<Ends> {
    if let Some((key, direction)) = judged.flow {
        let (source, destination) = key.endpoints(direction);
        return Some(Ends {
            source: source.address,
            destination: destination.address,
            source_port: source.port,
            destination_port: destination.port,
            protocol: Some(key.protocol()),
        });
    }
    Some(Ends {
        source: host(frame, Key::Source)?,
        destination: host(frame, Key::Destination)?,
        source_port: 0,
        destination_port: 0,
        protocol: None,
    })
}

#[cfg(test)]
mod tests;
