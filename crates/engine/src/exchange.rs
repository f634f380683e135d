//! Carries items from the thread that reads to the threads that own partitions.
//!
//! For work whose order matters. One thread reads and turns each packet into a
//! small item; the item goes to the owner of its partition, in the order of
//! reading; marks go to every owner, in the same order. So each owner sees
//! exactly what it would see alone, and results do not depend on how many
//! owners there are. With one thread everything runs in place, without a ring.

use std::sync::mpsc;
use std::thread;

use packet::{Batch, Source};

use crate::partition::Partition;
use crate::ring::{CHUNK_LEN, Receiver, Sender, ring};
use crate::run::Control;

/// Items a ring holds before the reader waits for its owner. A quarter of it costs
/// nearly twice the processor time an item (docs/decisions/0007-buffers-cross.md).
const RING_CAPACITY: usize = 1 << 16;

/// The reading half: makes items of frames. Runs on the reading thread only.
pub trait Extract {
    /// What crosses: small, `Copy`, owns nothing.
    type Item: Copy + Send;
    /// What every owner hears of, such as the end of a window.
    type Mark: Copy + Send;

    /// Hands the items and marks of a batch to `out`, in order.
    fn extract(&mut self, batch: &Batch<'_>, out: &mut impl Outlet<Self::Item, Self::Mark>);

    /// The last mark, after the last batch.
    fn last_mark(&mut self) -> Self::Mark;
}

/// Where an [`Extract`] puts what it makes.
pub trait Outlet<I, M> {
    /// An item for the owner of the partition of `hash`.
    fn item(&mut self, hash: u64, item: I);
    /// A mark for every owner.
    fn mark(&mut self, mark: M);
    /// Sends on what waits for company. Items wait until there are enough to
    /// share the cost of a crossing, which on a link that falls silent is never.
    fn flush(&mut self);
}

/// The owning half: keeps the state of its partitions.
pub trait Own<I, M>: Send {
    /// What it hands over at a mark.
    type Part: Send;

    /// Takes in one item.
    fn on_item(&mut self, item: I);

    /// Takes in items that came together, in order. An owner that profits from
    /// knowing the next ones, to fetch what they need, does it here. Where one
    /// ends and the next begins differs from run to run and must not matter.
    #[inline]
    fn on_items(&mut self, items: &[I])
    where
        I: Copy,
    {
        for &item in items {
            self.on_item(item);
        }
    }

    /// Answers a mark with what it found up to there.
    fn on_mark(&mut self, mark: M) -> Self::Part;
}

/// Runs `extract` over `source` and its items through up to
/// `thread_count − 1` owners. `on_parts` receives, for each mark in order, the
/// parts of all owners.
pub fn exchange<S, E, O>(
    source: &mut S,
    extract: &mut E,
    make_owner: impl Fn() -> O,
    thread_count: usize,
    control: &Control,
    mut on_parts: impl FnMut(Vec<O::Part>),
) where
    S: Source,
    E: Extract,
    O: Own<E::Item, E::Mark>,
{
    if thread_count < 2 {
        drive_in_place(source, extract, make_owner(), control, |part| on_parts(vec![part]));
        return;
    }
    let owner_count = (thread_count - 1).min(crate::PARTITION_COUNT);
    thread::scope(|scope| {
        let (part_sender, part_receiver) = mpsc::channel();
        let senders = (0..owner_count)
            .map(|index| {
                let (sender, receiver) = ring(RING_CAPACITY);
                let (owner, parts) = (make_owner(), part_sender.clone());
                scope.spawn(move || own(receiver, owner, index, &parts));
                sender
            })
            .collect();
        drop(part_sender);
        let mut collector = Collector { part_receiver, waiting: Vec::new() };
        let mut outlet = Spread { senders, collector: &mut collector, on_parts: &mut on_parts };
        drive(source, extract, &mut outlet, control);
        drop(outlet);
        collector.wait_for_rest(owner_count, &mut on_parts);
    });
}

/// Runs one owner on the thread that reads.
pub(crate) fn drive_in_place<S, E, O>(
    source: &mut S,
    extract: &mut E,
    owner: O,
    control: &Control,
    on_part: impl FnMut(O::Part),
) where
    S: Source,
    E: Extract,
    O: Own<E::Item, E::Mark>,
{
    let pending = Vec::with_capacity(CHUNK_LEN);
    drive(source, extract, &mut InPlace { owner, pending, on_part }, control);
}

fn drive<S: Source, E: Extract>(
    source: &mut S,
    extract: &mut E,
    outlet: &mut impl Outlet<E::Item, E::Mark>,
    control: &Control,
) {
    while !control.is_stopped() || source.ends_by_itself() {
        match source.next_batch() {
            Some(batch) => {
                extract.extract(&batch, outlet);
                // A source that waits says so by a batch without frames.
                if batch.records.is_empty() {
                    outlet.flush();
                }
            }
            None => break,
        }
    }
    outlet.mark(extract.last_mark());
}

/// An owner's thread: items and marks in order, one part back for each mark.
fn own<I: Copy, M, O: Own<I, M>>(
    mut receiver: Receiver<I, M>,
    mut owner: O,
    index: usize,
    parts: &mpsc::Sender<(usize, O::Part)>,
) {
    while receiver.receive(|items, mark| {
        owner.on_items(items);
        if let Some(mark) = mark {
            // The collector leaves last; if it is gone the run is being abandoned.
            let _ = parts.send((index, owner.on_mark(mark)));
        }
    }) {}
}

/// One thread for everything. Items are gathered all the same: an owner that
/// profits from seeing many in one call gains more than a copy within the cache costs.
struct InPlace<I, O, F> {
    owner: O,
    pending: Vec<I>,
    on_part: F,
}

impl<I, M, O, F> Outlet<I, M> for InPlace<I, O, F>
where
    I: Copy,
    O: Own<I, M>,
    F: FnMut(O::Part),
{
    #[inline]
    fn item(&mut self, _hash: u64, item: I) {
        self.pending.push(item);
        if self.pending.len() >= CHUNK_LEN {
            self.owner.on_items(&self.pending);
            self.pending.clear();
        }
    }

    fn mark(&mut self, mark: M) {
        Outlet::<I, M>::flush(self);
        (self.on_part)(self.owner.on_mark(mark));
    }

    fn flush(&mut self) {
        self.owner.on_items(&self.pending);
        self.pending.clear();
    }
}

/// Parts that came back, mark by mark: the first mark not yet complete is `waiting[0]`.
struct Collector<P> {
    part_receiver: mpsc::Receiver<(usize, P)>,
    waiting: Vec<Vec<Option<P>>>,
}

impl<P> Collector<P> {
    fn accept(&mut self, (index, part): (usize, P), owner_count: usize) {
        // An owner answers marks in order: its part is for the first mark it has not answered.
        let row = self.waiting.iter_mut().find(|row| row.get(index).is_some_and(Option::is_none));
        if let Some(place) = row.and_then(|row| row.get_mut(index)) {
            *place = Some(part);
            return;
        }
        let mut row: Vec<Option<P>> = (0..owner_count).map(|_| None).collect();
        if let Some(place) = row.get_mut(index) {
            *place = Some(part);
        }
        self.waiting.push(row);
    }

    fn hand_over(&mut self, on_parts: &mut impl FnMut(Vec<P>)) {
        while self.waiting.first().is_some_and(|row| row.iter().all(Option::is_some)) {
            on_parts(self.waiting.remove(0).into_iter().flatten().collect());
        }
    }

    fn take_ready(&mut self, owner_count: usize, on_parts: &mut impl FnMut(Vec<P>)) {
        while let Ok(part) = self.part_receiver.try_recv() {
            self.accept(part, owner_count);
        }
        self.hand_over(on_parts);
    }

    fn wait_for_rest(&mut self, owner_count: usize, on_parts: &mut impl FnMut(Vec<P>)) {
        while let Ok(part) = self.part_receiver.recv() {
            self.accept(part, owner_count);
        }
        self.hand_over(on_parts);
    }
}

struct Spread<'a, I, M, P, F> {
    senders: Vec<Sender<I, M>>,
    collector: &'a mut Collector<P>,
    on_parts: &'a mut F,
}

impl<I, M: Copy, P, F: FnMut(Vec<P>)> Outlet<I, M> for Spread<'_, I, M, P, F> {
    #[inline]
    fn item(&mut self, hash: u64, item: I) {
        let owner = Partition::of_hash(hash).owner(self.senders.len());
        if let Some(sender) = self.senders.get_mut(owner) {
            // An owner leaves early only by a panic, which the scope carries on.
            let _ = sender.push(item);
        }
    }

    fn mark(&mut self, mark: M) {
        for sender in &mut self.senders {
            let _ = sender.mark(mark);
        }
        self.collector.take_ready(self.senders.len(), self.on_parts);
    }

    fn flush(&mut self) {
        for sender in &mut self.senders {
            let _ = sender.flush();
        }
        self.collector.take_ready(self.senders.len(), self.on_parts);
    }
}
