//! What an application does with packets.

use std::fmt;
use std::ops::Range;

use packet::{Batch, Frame};

use super::super::extract::{FlowMark, FlowPacket};
use super::super::slab::FlowSlot;
use super::super::table::Ended;
use super::labels::{LabelKind, Labels};

/// Some consecutive frames between two marks, at most 64 of them with a flow; lent.
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

    /// Every frame, whether it has a flow or not.
    pub fn frames(&self) -> impl Iterator<Item = Frame<'a>> + use<'a> {
        let batch = self.batch;
        let records = batch.records.get(self.records.clone()).unwrap_or_default();
        records.iter().map(move |record| Frame::new(batch.bytes, record))
    }
}

/// Which labels a lens reads, and which it gives.
#[derive(Clone, Copy, Default, Debug)]
pub struct LabelUse {
    /// Read of others.
    pub reads: &'static [LabelKind],
    /// Given by this one alone.
    pub gives: &'static [LabelKind],
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

    /// Flows have ended, after their last packets. Their slots stand for them until this returns.
    #[inline]
    fn on_ended(&mut self, _ended: &[Ended], _labels: &mut Labels) {}

    /// All frames of a batch were taken in: what is worth gathering is done here. It must not show
    /// in what is computed, as batches are cut anywhere.
    #[inline]
    fn on_batch_end(&mut self, _labels: &mut Labels) {}

    /// Event time has come so far; what ends by it ends after this.
    #[inline]
    fn on_mark(&mut self, _mark: FlowMark, _labels: &mut Labels) {}

    /// What ended by the mark has been handed to [`on_ended`](Self::on_ended).
    #[inline]
    fn on_marked(&mut self, _mark: FlowMark) {}
}

/// Lenses in an order in which each comes after those whose labels it reads.
#[derive(Default)]
pub struct Lenses(Vec<Box<dyn Lens + Send>>);

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
                write!(f, "two applications give {kind:?} labels; wanted: one at most")
            }
            Self::Circle(kind) => write!(
                f,
                "applications wait for each other's labels, {kind:?} among them; wanted: an order \
                 in which each reads what those before it give"
            ),
        }
    }
}

impl std::error::Error for LabelClash {}

impl Lenses {
    /// Puts lenses in order; those that do not depend on each other keep theirs.
    ///
    /// # Errors
    /// [`LabelClash`] where there is no order.
    pub fn in_order(lenses: Vec<Box<dyn Lens + Send>>) -> Result<Self, LabelClash> {
        let mut waiting = lenses;
        for kind in LabelKind::ALL {
            if waiting.iter().filter(|lens| lens.labels().gives.contains(&kind)).count() > 1 {
                return Err(LabelClash::GivenTwice(kind));
            }
        }
        let mut ordered = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let awaited = |lens: &dyn Lens, others: &[Box<dyn Lens + Send>]| {
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
}

/// Dispatched once a piece, never once a packet.
impl Lens for Lenses {
    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_piece(piece, labels));
    }

    fn on_ended(&mut self, ended: &[Ended], labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_ended(ended, labels));
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_batch_end(labels));
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.0.iter_mut().for_each(|lens| lens.on_mark(mark, labels));
    }

    fn on_marked(&mut self, mark: FlowMark) {
        self.0.iter_mut().for_each(|lens| lens.on_marked(mark));
    }
}
