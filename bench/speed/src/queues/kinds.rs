//! The queues of Figure 3 behind two small traits, one item per operation.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use crossbeam_queue::{ArrayQueue, SegQueue};

use super::shared;
use crate::own_ring::{CAPACITY, OwnRing};

/// The end that items go in at.
pub(super) trait Push: Send {
    /// Whether there was room.
    fn push(&mut self, item: u32) -> bool;
}

/// The end that they come out at.
pub(super) trait Pop: Send {
    /// The oldest item, if there is one.
    fn pop(&mut self) -> Option<u32>;

    /// The oldest item, as soon as there is one.
    #[inline]
    fn wait(&mut self) -> u32 {
        loop {
            match self.pop() {
                Some(item) => return item,
                None => thread::yield_now(),
            }
        }
    }
}

/// A kind of queue.
pub(super) trait QueueKind {
    type Pusher: Push;
    type Popper: Pop;
    /// The two ends of a new one. Bounded ones hold [`CAPACITY`] items.
    fn make() -> (Self::Pusher, Self::Popper);
}

/// An array behind a lock.
pub(super) struct LockedKind;

impl QueueKind for LockedKind {
    type Pusher = Arc<Mutex<VecDeque<u32>>>;
    type Popper = Arc<Mutex<VecDeque<u32>>>;

    fn make() -> (Self::Pusher, Self::Popper) {
        shared(Mutex::new(VecDeque::with_capacity(CAPACITY)))
    }
}

impl Push for Arc<Mutex<VecDeque<u32>>> {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        let mut queue = self.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = queue.len() < CAPACITY;
        if has_room {
            queue.push_back(item);
        }
        has_room
    }
}

impl Pop for Arc<Mutex<VecDeque<u32>>> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Crossbeam's list of blocks, unbounded.
pub(super) struct SegQueueKind;

impl QueueKind for SegQueueKind {
    type Pusher = Arc<SegQueue<u32>>;
    type Popper = Arc<SegQueue<u32>>;

    fn make() -> (Self::Pusher, Self::Popper) {
        shared(SegQueue::new())
    }
}

impl Push for Arc<SegQueue<u32>> {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        SegQueue::push(self, item);
        true
    }
}

impl Pop for Arc<SegQueue<u32>> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        SegQueue::pop(self)
    }
}

/// rtrb: the library that Wirelens builds on, used one item at a time. It
/// stands where the paper has the library of its time, cameron314's.
pub(super) struct LibraryKind;

impl QueueKind for LibraryKind {
    type Pusher = rtrb::Producer<u32>;
    type Popper = rtrb::Consumer<u32>;

    fn make() -> (Self::Pusher, Self::Popper) {
        rtrb::RingBuffer::new(CAPACITY)
    }
}

impl Push for rtrb::Producer<u32> {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        rtrb::Producer::push(self, item).is_ok()
    }
}

impl Pop for rtrb::Consumer<u32> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        rtrb::Consumer::pop(self).ok()
    }
}

/// Crossbeam's ring for many threads at each end.
pub(super) struct ArrayQueueKind;

impl QueueKind for ArrayQueueKind {
    type Pusher = Arc<ArrayQueue<u32>>;
    type Popper = Arc<ArrayQueue<u32>>;

    fn make() -> (Self::Pusher, Self::Popper) {
        shared(ArrayQueue::new(CAPACITY))
    }
}

impl Push for Arc<ArrayQueue<u32>> {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        ArrayQueue::push(self, item).is_ok()
    }
}

impl Pop for Arc<ArrayQueue<u32>> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        ArrayQueue::pop(self)
    }
}

/// The standard library's bounded channel.
pub(super) struct Mpsc;

impl QueueKind for Mpsc {
    type Pusher = mpsc::SyncSender<u32>;
    type Popper = mpsc::Receiver<u32>;

    fn make() -> (Self::Pusher, Self::Popper) {
        mpsc::sync_channel(CAPACITY)
    }
}

impl Push for mpsc::SyncSender<u32> {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        self.send(item).is_ok()
    }
}

impl Pop for mpsc::Receiver<u32> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        self.try_recv().ok()
    }

    /// Parks, as the user of a channel would.
    #[inline]
    fn wait(&mut self) -> u32 {
        self.recv().unwrap_or_default()
    }
}

/// The paper's.
pub(super) struct OwnKind;

impl QueueKind for OwnKind {
    type Pusher = Arc<OwnRing<AtomicU32>>;
    type Popper = Arc<OwnRing<AtomicU32>>;

    fn make() -> (Self::Pusher, Self::Popper) {
        shared(OwnRing::new())
    }
}

impl Push for Arc<OwnRing<AtomicU32>> {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        OwnRing::push(self, item)
    }
}

impl Pop for Arc<OwnRing<AtomicU32>> {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        OwnRing::pop(self)
    }
}
