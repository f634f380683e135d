//! Lenses whose panics are caught: one costs its application a piece, and not the run.
//!
//! **Why that is sound.** No call of a lens is used further after it has panicked, before the lens
//! has dropped what it holds of the flows that the call was about ([`Lens::on_fault`]). One that
//! cannot do so, or panics while it does, is given no more packets. What other lenses are lent
//! (the piece, the flow table, labels) is only read by a lens, save the labels that it gives, and
//! those of the call are taken back.
//!
//! **Cost.** Each call is a `try` without code of its own where nothing panics, and two writes to
//! the thread's own memory: once for a piece, never for a packet.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use packet::{FlowKey, Timestamp};

use super::super::extract::{FlowMark, FlowPacket};
use super::super::rest::RemainingFlows;
use super::super::slab::FlowSlot;
use super::super::table::FlowEnd;
use super::drill::Drill;
use super::labels::Labels;
use super::lens::{LabelUse, Lens, Piece};
use super::now::Now;
use super::watched::{Panic, prepare, watched};
use crate::group::Outcome;

/// What a lens held that a panic may have left half done.
pub enum FaultScope<'a> {
    /// The flows of a piece, and whatever else is kept of its frames.
    Piece(&'a Piece<'a>),
    /// Flows that have ended.
    Ended(&'a [FlowEnd]),
}

impl FaultScope<'_> {
    /// The flows, some of them several times.
    pub fn flows(&self) -> impl Iterator<Item = (FlowSlot, FlowKey)> + '_ {
        let (packets, slots, ended): (&[FlowPacket], &[FlowSlot], &[FlowEnd]) = match self {
            Self::Piece(piece) => (piece.packets, piece.slots, &[]),
            Self::Ended(ended) => (&[], &[], ended),
        };
        let of_piece = slots.iter().zip(packets).map(|(slot, packet)| (*slot, packet.key()));
        of_piece.chain(ended.iter().map(|end| (end.slot, end.record.key)))
    }

    /// Their slots.
    pub fn slots(&self) -> impl Iterator<Item = FlowSlot> + '_ {
        self.flows().map(|(slot, _)| slot)
    }
}

/// What a lens was doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LensCall {
    /// Taking in a piece.
    Piece,
    /// Taking in flows that have ended.
    Ended,
    /// Gathering at the end of a batch.
    BatchEnd,
    /// Taking in a new source.
    Source,
    /// Taking in time, at a mark or on a silent link.
    Time,
    /// Taking in the flows that are left.
    Left,
    /// Showing flows and counts.
    Asked,
}

impl LensCall {
    /// What it is, in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Piece => "a piece of packets",
            Self::Ended => "flows that ended",
            Self::BatchEnd => "the end of a batch",
            Self::Source => "the start of a capture",
            Self::Time => "a mark of event time",
            Self::Left => "the flows left at the end",
            Self::Asked => "a request for live rows",
        }
    }
}

/// Why a lens is given no more packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It has panicked as often as it may.
    TooOften,
    /// It cannot drop what it holds of some flows alone.
    KeepsState,
    /// It panicked again while it did so.
    AgainOnRepair,
    /// What it was doing concerns all that it holds.
    Whole(LensCall),
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooOften => f.write_str("the limit of faults is reached"),
            Self::KeepsState => f.write_str("its state cannot be dropped flow by flow"),
            Self::AgainOnRepair => f.write_str("it panicked again while its state was dropped"),
            Self::Whole(call) => write!(f, "{} concerns all of its state", call.name()),
        }
    }
}

/// A panic of a lens.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What it was doing.
    pub call: LensCall,
    /// What it said.
    pub panic: Panic,
    /// Packets that it costs the application.
    pub packet_count: usize,
    /// Whether the application ends by it, and why.
    pub ending: Option<Ending>,
}

/// Who receives faults. It is called on the thread that takes in packets.
pub trait TakeFaults: Send + Sync {
    /// Takes a fault, and the piece that the lens was lent.
    fn take(&self, fault: &Fault, piece: Option<&Piece<'_>>);
}

/// The faults of an application in all of its passes.
pub struct Faults {
    count_max: u64,
    count: AtomicU64,
    packets: AtomicU64,
    has_ended: AtomicBool,
    drill: Option<Drill>,
    to: Box<dyn TakeFaults>,
}

impl Faults {
    /// None yet; the application ends with the `count_max`th. With a drill, some are made.
    #[must_use]
    pub fn new(count_max: u64, drill: Option<Drill>, to: Box<dyn TakeFaults>) -> Self {
        prepare();
        let (count, packets) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { count_max, count, packets, has_ended: AtomicBool::new(false), drill, to }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Packets that they have cost so far, those included that came after the application ended.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Whether the application takes in no more packets.
    #[inline]
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }
}

/// A lens under supervision.
pub struct LensSupervisor<L: Lens + ?Sized> {
    faults: Arc<Faults>,
    drill: Option<Drill>,
    /// Whether it counts packets for itself.
    has_outcome: bool,
    /// What the account of packets holds of those that it has lost.
    lost: Outcome,
    lens: Box<L>,
}

impl<L: Lens + ?Sized> LensSupervisor<L> {
    /// Has faults of a lens go where those of its application go.
    #[must_use]
    pub fn new(lens: Box<L>, faults: Arc<Faults>) -> Self {
        let (drill, has_outcome) = (faults.drill, lens.outcome().is_some());
        Self { faults, drill, has_outcome, lost: Outcome::default(), lens }
    }

    /// The faults of the application.
    #[must_use]
    pub const fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    /// The lens, and what the account of its packets holds of those that it has lost: they are to
    /// be [taken out](Outcome::lose).
    #[must_use]
    pub fn into_parts(self) -> (Box<L>, Outcome) {
        (self.lens, self.lost)
    }

    /// The account of its packets, if `of_pass` is that of the pass.
    #[must_use]
    pub fn outcome_of(&self, of_pass: &Outcome) -> Outcome {
        let own = self.has_outcome.then(|| self.lens.outcome()).flatten();
        let mut outcome = own.unwrap_or_else(|| of_pass.clone());
        outcome.lose(&self.lost);
        outcome
    }

    /// Has the lens do something that shows what it holds, and changes nothing.
    pub fn show<T>(&mut self, work: impl FnOnce(&mut L) -> T) -> Option<T> {
        let lens = &mut *self.lens;
        if self.faults.has_ended() {
            return None;
        }
        match watched(|| work(lens)) {
            Ok(shown) => Some(shown),
            Err(panic) => {
                self.fault(LensCall::Asked, panic, None);
                None
            }
        }
    }

    /// Has the lens do something that concerns all that it holds.
    #[inline]
    fn whole(&mut self, call: LensCall, work: impl FnOnce(&mut L)) {
        let lens = &mut *self.lens;
        if self.faults.has_ended() {
            return;
        }
        if let Err(panic) = watched(|| work(lens)) {
            self.fault(call, panic, None);
        }
    }

    #[cold]
    fn fault(&mut self, call: LensCall, panic: Panic, lost: Option<&FaultScope<'_>>) {
        let count = self.faults.count.fetch_add(1, Ordering::Relaxed) + 1;
        let lens = &mut *self.lens;
        let ending = match lost {
            _ if count >= self.faults.count_max => Some(Ending::TooOften),
            None if call == LensCall::Asked => None,
            None => Some(Ending::Whole(call)),
            Some(lost) => match watched(|| lens.on_fault(lost)) {
                Ok(true) => None,
                Ok(false) => Some(Ending::KeepsState),
                Err(_) => Some(Ending::AgainOnRepair),
            },
        };
        if ending.is_some() {
            self.faults.has_ended.store(true, Ordering::Relaxed);
        }
        let piece = match lost {
            Some(FaultScope::Piece(piece)) => Some(*piece),
            _ => None,
        };
        let packet_count = piece.map_or(0, Piece::packet_count);
        let (fault, to) = (Fault { call, panic, packet_count, ending }, &self.faults.to);
        // Who writes it down may fail, too: the packets are accounted for all the same.
        let _ = watched(|| to.take(&fault, piece));
    }

    /// The packets of a piece are no longer in the account of those that were processed, where they
    /// are in it: in that of the pass all of them, in its own those that it came to.
    fn lose(&mut self, piece: &Piece<'_>, before: Option<Outcome>) {
        let in_account = if !self.has_outcome {
            piece.outcome()
        } else if let (Some(before), Some(mut after)) = (before, self.lens.outcome()) {
            after.subtract(&before);
            after
        } else {
            Outcome::default()
        };
        self.lost.fold(&in_account);
        let count = piece.packet_count() as u64;
        self.lost.faulted += count;
        self.faults.packets.fetch_add(count, Ordering::Relaxed);
    }

    #[cold]
    fn on_faulty_piece(&mut self, piece: &Piece<'_>, before: Option<Outcome>, panic: Panic) {
        self.lose(piece, before);
        self.fault(LensCall::Piece, panic, Some(&FaultScope::Piece(piece)));
    }
}

impl<L: Lens + ?Sized> Lens for LensSupervisor<L> {
    fn labels(&self) -> LabelUse {
        self.lens.labels()
    }

    #[inline]
    fn on_piece(&mut self, piece: &Piece<'_>, labels: &mut Labels) {
        if self.faults.has_ended() {
            return self.lose(piece, None);
        }
        let given = labels.given_count();
        let mut before = None;
        let Self { lens, drill, has_outcome, .. } = self;
        let done = watched(|| {
            if *has_outcome {
                before = lens.outcome();
            }
            match drill {
                None => lens.on_piece(piece, labels),
                Some(drill) => drill.on_piece(&mut **lens, piece, labels),
            }
        });
        if let Err(panic) = done {
            labels.take_back(given);
            self.on_faulty_piece(piece, before, panic);
        }
    }

    fn on_source(&mut self, index: usize) {
        self.whole(LensCall::Source, |lens| lens.on_source(index));
    }

    fn on_ended(&mut self, ended: &[FlowEnd], labels: &mut Labels) {
        let lens = &mut *self.lens;
        if self.faults.has_ended() {
            return;
        }
        if let Err(panic) = watched(|| lens.on_ended(ended, labels)) {
            self.fault(LensCall::Ended, panic, Some(&FaultScope::Ended(ended)));
        }
    }

    fn on_batch_end(&mut self, labels: &mut Labels) {
        self.whole(LensCall::BatchEnd, |lens| lens.on_batch_end(labels));
    }

    fn on_tick(&mut self, time: Timestamp) {
        self.whole(LensCall::Time, |lens| lens.on_tick(time));
    }

    fn on_mark(&mut self, mark: FlowMark, labels: &mut Labels) {
        self.whole(LensCall::Time, |lens| lens.on_mark(mark, labels));
    }

    fn on_marked(&mut self, mark: FlowMark) {
        self.whole(LensCall::Time, |lens| lens.on_marked(mark));
    }

    fn is_asked(&self) -> bool {
        self.lens.is_asked()
    }

    fn on_asked(&mut self, now: &Now<'_>) {
        // Shows what it holds, and nothing that is computed may depend on it.
        self.show(|lens| lens.on_asked(now));
    }

    fn on_left(&mut self, left: &RemainingFlows<'_>, labels: &Labels) {
        self.whole(LensCall::Left, |lens| lens.on_left(left, labels));
    }

    fn outcome(&self) -> Option<Outcome> {
        self.has_outcome.then(|| self.outcome_of(&Outcome::default()))
    }
}
