//! The outcome of every packet.

use crate::router::{DropCause, MarkCause, Queue};

/// One number for each queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OfQueue<T> {
    /// Of the L4S queue.
    pub l4s: T,
    /// Of the classic queue.
    pub classic: T,
}

impl<T> OfQueue<T> {
    /// That of a queue.
    pub const fn of(&self, queue: Queue) -> &T {
        match queue {
            Queue::L4s => &self.l4s,
            Queue::Classic => &self.classic,
        }
    }

    /// That of a queue, to be changed.
    pub const fn of_mut(&mut self, queue: Queue) -> &mut T {
        match queue {
            Queue::L4s => &mut self.l4s,
            Queue::Classic => &mut self.classic,
        }
    }
}

/// The outcome of the packets of a queue:
/// `received = sent + dropped_full + dropped_early + dropped_late + waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Packets that arrived.
    pub received: u64,
    /// Packets that left.
    pub sent: u64,
    /// Bytes of the packets that left.
    pub sent_bytes: u64,
    /// Packets that found the queue full.
    pub dropped_full: u64,
    /// Packets dropped at arrival by the AQM.
    pub dropped_early: u64,
    /// Packets dropped at the head of the queue by the AQM.
    pub dropped_late: u64,
    /// Packets marked CE in proportion to the PI controller's probability.
    pub marked_pi: u64,
    /// Packets marked CE by the L4S queue's own threshold, and not by the controller.
    pub marked_threshold: u64,
    /// Packets that wait.
    pub waiting: u64,
}

impl Counts {
    pub(crate) const fn drop(&mut self, cause: DropCause) {
        match cause {
            DropCause::Full => self.dropped_full += 1,
            DropCause::Early => self.dropped_early += 1,
            DropCause::Late => self.dropped_late += 1,
        }
    }

    pub(crate) const fn mark(&mut self, cause: MarkCause) {
        match cause {
            MarkCause::Pi => self.marked_pi += 1,
            MarkCause::Threshold => self.marked_threshold += 1,
        }
    }

    /// Packets dropped for any cause.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_early + self.dropped_late
    }

    /// Whether every packet is accounted for.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        self.received == self.sent + self.dropped() + self.waiting
    }
}
