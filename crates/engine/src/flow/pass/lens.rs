//! What an application does with packets.

use std::fmt;
use std::ops::Range;

use packet::{Batch, Frame, Timestamp};

use super::super::extract::{FlowMark, FlowPacket};
use super::super::rest::RemainingFlows;
use super::super::slab::FlowSlot;
use super::super::table::FlowEnd;
use super::labels::{LabelKind, Labels};
use super::now::Now;
use super::supervised::FaultScope;
use crate::group::Outcome;

/// Some consecutive frames between two marks, at most 64 of them with a flow; lent. A pass that has
/// a part of the flows lends their frames alone ([`flows`](Self::flows)), one of frames alone lends
/// a batch.
pub struct Piece<'a> {
    /// The batch they are in.
    pub batch: &'a Batch<'a>,
    /// Which of its records they are, those without a flow key included.
    pub records: Range<usize>,
    /// The packets with a flow key, in order.
    pub packets: &'a [FlowPacket],
    /// Which of the batch's records each of them is.
    pub places: &'a [usize],
    /// Where the flow of each of them stands.
    pub slots: &'a [FlowSlot],
}

impl<'a> Piece<'a> {
    /// Each packet that has a flow: its place among them, its frame, and its flow's slot.
    pub fn flows(
        &self,
    ) -> impl Iterator<Item = (usize, Frame<'a>, &'a FlowPacket, FlowSlot)> + use<'a> {
        let batch = self.batch;
        let places = self.packets.iter().zip(self.slots).zip(self.places).enumerate();
        places.filter_map(move |(place, ((packet, &slot), &record))| {
            let record = batch.records.get(record)?;
            Some((place, Frame::new(batch.bytes, record), packet, slot))
        })
    }

    /// How many packets there are: frames, or those of its flows where it has no other.
    #[must_use]
    pub fn packet_count(&self) -> usize {
        if self.records.is_empty() { self.packets.len() } else { self.records.len() }
    }

    /// Its packets, as an account of the pass has them.
    pub(super) fn outcome(&self) -> Outcome {
        let mut outcome = Outcome { keyed: self.packets.len() as u64, ..Outcome::default() };
        let mut places = self.places.iter().peekable();
        for (place, frame) in self.records.clone().zip(self.frames()) {
            if places.next_if(|&&keyed| keyed == place).is_none() {
                outcome.add_absent(&frame);
            }
        }
        outcome
    }

    /// Its first packets.
    pub(super) fn first(&self, count: usize) -> Piece<'a> {
        let end = self.records.end.min(self.records.start.saturating_add(count));
        let keyed = match self.records.is_empty() {
            true => count.min(self.packets.len()),
            false => self.places.partition_point(|&place| place < end),
        };
        let (batch, records) = (self.batch, self.records.start..end);
        let packets = self.packets.get(..keyed).unwrap_or_default();
        let places = self.places.get(..keyed).unwrap_or_default();
        Piece {
            batch,
            records,
            packets,
            places,
            slots: self.slots.get(..keyed).unwrap_or_default(),
        }
    }

    /// Every frame, whether it has a flow or not, as a batch: for who looks at frames alone.
    #[must_use]
    pub fn as_batch(&self) -> Batch<'a> {
        let records = self.batch.records.get(self.records.clone()).unwrap_or_default();
        Batch { bytes: self.batch.bytes, records, tick: None }
    }

    /// Every frame, whether it has a flow or not.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let Batch { bytes, records, .. } = self.as_batch();
        records.iter().map(move |record| Frame::new(bytes, record))
    }
}

/// Which labels a lens reads, and which it gives.
#[derive(Clone, Default, Debug)]
pub struct LabelUse {
    /// Read of others.
    pub reads: Vec<LabelKind>,
    /// Given by this one alone.
    pub gives: Vec<LabelKind>,
}

/// An application's view of a pass. One method is required.
pub trait Lens {
    /// The labels that it reads and gives.
    fn labels(&self) -> LabelUse {
        LabelUse::default()
    }

    /// Takes in some frames, each once. A label has to be given in the piece of the packet that
    /// decides, so that others see it from the flow's next packet on.
    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels);

    /// From here on frames are of another source, by its place among all; see
    /// [`Stage::on_source`](crate::Stage::on_source).
    #[inline]
    fn on_source(&mut self, _index: usize) {}

    /// Flows have ended, after their last packets. Their slots stand for them until this returns.
    #[inline]
    fn on_ended(&mut self, _ended: &[FlowEnd], _labels: &mut Labels) {}

    /// All frames of a batch were taken in: what is worth gathering is done here. It must not show
    /// in what is computed, as batches are cut anywhere.
    #[inline]
    fn on_batch_end(&mut self, _labels: &mut Labels) {}

    /// A source that waits says that all up to this time was handed over.
    #[inline]
    fn on_tick(&mut self, _time: Timestamp) {}

    /// Event time has come so far; what ends by it ends after this.
    #[inline]
    fn on_mark(&mut self, _mark: FlowMark, _labels: &mut Labels) {}

    /// What ended by the mark has been handed to [`on_ended`](Self::on_ended).
    #[inline]
    fn on_marked(&mut self, _mark: FlowMark) {}

    /// Whether it is asked for open flows and counts: then [`on_asked`](Self::on_asked) follows the
    /// end of the batch.
    #[inline]
    fn is_asked(&self) -> bool {
        false
    }

    /// Hands over open flows and counts, in little time: packets wait. Nothing that is computed may
    /// depend on it, as it comes at any time.
    #[inline]
    fn on_asked(&mut self, _now: &Now<'_>) {}

    /// The input has ended, and its last mark was delivered. These flows had not ended.
    #[inline]
    fn on_left(&mut self, _left: &RemainingFlows<'_>, _labels: &Labels) {}

    /// Packets by what it did with them so far, where it counts them for itself as the pass does
    /// not.
    #[inline]
    fn outcome(&self) -> Option<Outcome> {
        None
    }

    /// A call has panicked that was about these flows: drops what it holds of them, so that they
    /// begin again with their next packets. False where it holds what cannot be dropped so, or does
    /// not know: then it is given no more packets.
    fn on_fault(&mut self, _lost: &FaultScope<'_>) -> bool {
        false
    }
}

/// Lenses in an order in which each comes after those whose labels it reads.
pub struct Lenses<L: ?Sized = dyn Lens + Send>(Vec<Box<L>>);

/// Why lenses cannot share a pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelClash {
    /// Two lenses give labels of one kind.
    GivenTwice(LabelKind),
    /// Lenses wait for each other's labels, of this kind among others.
    Circle(LabelKind),
}

impl fmt::Display for LabelClash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GivenTwice(kind) => {
                let kind = kind.name();
                write!(f, "two applications give {kind} labels; wanted: one at most")
            }
            Self::Circle(kind) => write!(
                f,
                "applications wait for each other's labels, {} among them; wanted: an order \
                 in which each reads what those before it give",
                kind.name()
            ),
        }
    }
}

impl std::error::Error for LabelClash {}

impl<L: Lens + ?Sized> Lenses<L> {
    /// Puts lenses in order; those that do not depend on each other keep theirs.
    ///
    /// # Errors
    /// [`LabelClash`] where there is no order.
    pub fn in_order(lenses: Vec<Box<L>>) -> Result<Self, LabelClash> {
        let mut waiting = lenses;
        for kind in LabelKind::ALL {
            if waiting.iter().filter(|lens| lens.labels().gives.contains(&kind)).count() > 1 {
                return Err(LabelClash::GivenTwice(kind));
            }
        }
        let mut ordered = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let awaited = |lens: &L, others: &[Box<L>]| {
                let given = |kind: &&LabelKind| {
                    others.iter().any(|other| other.labels().gives.contains(kind))
                };
                lens.labels().reads.iter().find(given).copied()
            };
            let ready = waiting.iter().position(|lens| awaited(lens.as_ref(), &waiting).is_none());
            match ready {
                Some(place) => ordered.push(waiting.remove(place)),
                None => {
                    let first = waiting.first().and_then(|lens| awaited(lens.as_ref(), &waiting));
                    return Err(LabelClash::Circle(first.unwrap_or(LabelKind::Service)));
                }
            }
        }
        Ok(Self(ordered))
    }

    /// A lens alone.
    #[must_use]
    pub fn of_one(lens: Box<L>) -> Self {
        Self(vec![lens])
    }

    /// The lenses in their order, after the pass.
    #[must_use]
    pub fn into_inner(self) -> Vec<Box<L>> {
        self.0
    }
}

/// Dispatched once a piece, never once a packet.
impl<L: Lens + ?Sized> Lens for Lenses<L> {
    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_piece(piece, labels));
    }

    fn on_source(&mut self, index: usize) {
        self.0.iter_mut().for_each(|lens| lens.on_source(index));
    }

    fn on_ended(&mut self, ended: &[FlowEnd], labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_ended(ended, labels));
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_batch_end(labels));
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.0.iter_mut().for_each(|lens| lens.on_tick(time));
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_mark(mark, labels));
    }

    fn on_marked(&mut self, mark: FlowMark) {
        self.0.iter_mut().for_each(|lens| lens.on_marked(mark));
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, labels: &Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_left(left, labels));
    }

    fn is_asked(&self) -> bool {
        self.0.iter().any(|lens| lens.is_asked())
    }

    fn on_asked(&mut self, now: &Now<'_>) {
        self.0.iter_mut().for_each(|lens| lens.on_asked(now));
    }
}
