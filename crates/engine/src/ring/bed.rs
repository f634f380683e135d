//! Where a thread lies down that has nothing to do, and is woken.
//!
//! A thread that finds the queue empty (or full) says so in a flag, looks once
//! more, and sleeps. The other side, after it has changed the queue, looks at
//! the flag and wakes it. Each side writes one place and then reads the
//! other's; the sequentially consistent fence between the two makes it
//! impossible that both miss each other. `model` below tries every order.

use std::sync::PoisonError;
#[cfg(not(loom))]
use std::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering, fence},
    },
    thread,
};

#[cfg(loom)]
use loom::{
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, Ordering, fence},
    },
    thread,
};

/// Each multiplies the orders that a model has to try, and none decides anything.
const YIELDS_BEFORE_SLEEP: usize = if cfg!(loom) { 0 } else { 16 };

/// One side's bed: whether a thread sleeps there.
#[derive(Default)]
pub(super) struct Bed {
    /// Written by the sleeper before it looks once more; taken back by the side that wakes it.
    is_asleep: AtomicBool,
    /// Held by the sleeper from before it writes the flag until it sleeps.
    lying_down: Mutex<()>,
    woken: Condvar,
}

impl Bed {
    /// Sleeps until woken, unless `is_ready` turns true while lying down. May
    /// return early: callers look again.
    pub(super) fn sleep_unless(&self, is_ready: impl Fn() -> bool) {
        // The other side is often half a chunk away: giving way a few times
        // costs less than a sleep and a wake-up through the kernel.
        for _ in 0..YIELDS_BEFORE_SLEEP {
            if is_ready() {
                return;
            }
            thread::yield_now();
        }
        let mut lying_down = self.lying_down.lock().unwrap_or_else(PoisonError::into_inner);
        // Swapped, where to store would do, so that each value of the flag follows
        // the one before by an order that `loom` knows of; here is no hurry.
        self.is_asleep.swap(true, Ordering::AcqRel);
        // Pairs with the fence in `wake`: either we see the other side's chunk
        // or it sees our flag.
        fence(Ordering::SeqCst);
        if !is_ready() {
            lying_down = self.woken.wait(lying_down).unwrap_or_else(PoisonError::into_inner);
        }
        self.is_asleep.swap(false, Ordering::AcqRel);
        drop(lying_down);
    }

    /// Wakes the sleeper, if there is one.
    #[inline]
    pub(super) fn wake(&self) {
        fence(Ordering::SeqCst);
        // Taken back, so that the sleeper is woken once, however many chunks
        // come before it runs.
        if self.is_asleep.load(Ordering::Relaxed) {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        let taken =
            self.is_asleep.compare_exchange(true, false, Ordering::Release, Ordering::Relaxed);
        if taken.is_err() {
            return;
        }
        // Whoever gets this finds the sleeper asleep, or up again.
        drop(self.lying_down.lock().unwrap_or_else(PoisonError::into_inner));
        self.woken.notify_one();
    }
}

/// The queue itself is `rtrb`'s, which knows no `loom`. Two counters stand for
/// it: they change as its indices do, by a store that releases, and are seen
/// as its indices are, by a load that acquires.
#[cfg(all(test, loom))]
mod model {
    use std::sync::Arc as Plain;

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Queue {
        sent: AtomicUsize,
        received: AtomicUsize,
        is_abandoned: AtomicBool,
        receiver_bed: Bed,
        sender_bed: Bed,
    }

    const CAPACITY: usize = 1;

    impl Queue {
        fn sent(&self) -> usize {
            self.sent.load(Ordering::Acquire)
        }

        fn has_room(&self, next: usize) -> bool {
            next - self.received.load(Ordering::Acquire) < CAPACITY
        }

        /// As `Sender::send`, `count` times, and then as its `drop`.
        fn send(&self, count: usize) {
            for next in 0..count {
                while !self.has_room(next) {
                    self.sender_bed.sleep_unless(|| self.has_room(next));
                }
                self.sent.store(next + 1, Ordering::Release);
                self.receiver_bed.wake();
            }
            self.is_abandoned.store(true, Ordering::Release);
            self.receiver_bed.wake();
        }

        /// As `Receiver::receive` until the end of the stream.
        fn receive(&self) -> usize {
            let mut next = 0;
            loop {
                let is_over = || self.is_abandoned.load(Ordering::Acquire);
                if self.sent() > next {
                    next += 1;
                    self.received.store(next, Ordering::Release);
                    self.sender_bed.wake();
                } else if is_over() {
                    if self.sent() == next {
                        return next;
                    }
                } else {
                    self.receiver_bed.sleep_unless(|| self.sent() > next || is_over());
                }
            }
        }
    }

    /// In every order of steps all items arrive and both sides leave. A sleeper
    /// that is never woken is a deadlock, which `loom` reports.
    fn check(count: usize) {
        let order_count = Plain::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = Plain::clone(&order_count);
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let queue = Arc::new(Queue::default());
            let far = Arc::clone(&queue);
            let receiver = loom::thread::spawn(move || far.receive());
            queue.send(count);
            assert_eq!(receiver.join().unwrap(), count);
        });
        let order_count = order_count.load(std::sync::atomic::Ordering::Relaxed);
        assert!(order_count > 10, "{order_count} orders are no proof");
    }

    #[test]
    fn the_end_of_an_empty_stream_wakes_the_receiver() {
        check(0);
    }

    #[test]
    fn an_item_wakes_the_receiver() {
        check(1);
    }

    #[test]
    fn a_full_queue_wakes_both_sides_in_turn() {
        check(2);
    }
}
