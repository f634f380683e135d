//! A bounded queue from one thread to one other, in chunks, that parks instead of spinning.
//!
//! The queue is `rtrb`'s; what is ours is the waiting. A thread that finds the
//! queue empty (or full) says so in a flag, looks once more, and parks. The
//! other side, after each chunk, looks at the flag and wakes it. Each side
//! writes one place and then reads the other's; the sequentially consistent
//! fence between the two makes it impossible that both miss each other.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread::{self, Thread};

/// Items that cross together: enough that the cost of a crossing is shared.
pub const CHUNK_LEN: usize = 64;

const YIELDS_BEFORE_SLEEP: usize = 16;

/// One side's bed: who sleeps there, and whether.
#[derive(Default)]
struct Bed {
    /// Written by the sleeper before it looks once more; taken back by whoever wakes it.
    is_asleep: AtomicBool,
    /// The sleeper's thread; written by the sleeper only, before `is_asleep`.
    sleeper: Mutex<Option<Thread>>,
}

impl Bed {
    /// Sleeps until woken, unless `is_ready` turns true while lying down. May
    /// return early, as parking may: callers look again.
    fn sleep_unless(&self, is_ready: impl Fn() -> bool) {
        // The other side is often half a chunk away: giving way a few times
        // costs less than a sleep and a wake-up through the kernel.
        for _ in 0..YIELDS_BEFORE_SLEEP {
            if is_ready() {
                return;
            }
            thread::yield_now();
        }
        *self.sleeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current());
        self.is_asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either we see the other side's chunk
        // or it sees our flag.
        fence(Ordering::SeqCst);
        if !is_ready() {
            thread::park();
        }
        self.is_asleep.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper, if there is one.
    #[inline]
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::Relaxed) && self.is_asleep.swap(false, Ordering::Relaxed) {
            let sleeper = self.sleeper.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(sleeper) = sleeper {
                sleeper.unpark();
            }
        }
    }
}

#[derive(Default)]
struct Shared {
    receiver_bed: Bed,
    sender_bed: Bed,
}

/// The writing end. Dropping it ends the stream; what was not flushed is flushed first.
pub struct Sender<T> {
    producer: rtrb::Producer<T>,
    pending: Vec<T>,
    shared: Arc<Shared>,
}

/// The reading end.
pub struct Receiver<T> {
    consumer: rtrb::Consumer<T>,
    shared: Arc<Shared>,
}

/// The other end is gone: items can no longer be taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Closed;

/// A queue of at most `capacity` items, rounded up to whole chunks. When it is
/// full the sender waits: nothing is dropped.
#[must_use]
pub fn ring<T: Send>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let capacity = capacity.max(2 * CHUNK_LEN).next_multiple_of(CHUNK_LEN);
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let shared = Arc::new(Shared::default());
    let sender =
        Sender { producer, pending: Vec::with_capacity(CHUNK_LEN), shared: Arc::clone(&shared) };
    (sender, Receiver { consumer, shared })
}

impl<T> Sender<T> {
    /// Takes in one item; it crosses with its chunk, or at [`Sender::flush`].
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), Closed> {
        self.pending.push(item);
        if self.pending.len() >= CHUNK_LEN { self.flush() } else { Ok(()) }
    }

    /// Sends what is pending, waiting for room.
    ///
    /// # Errors
    /// [`Closed`] when the receiver is gone; what was pending is dropped.
    pub fn flush(&mut self) -> Result<(), Closed> {
        let wanted = self.pending.len();
        if wanted == 0 {
            return Ok(());
        }
        loop {
            if let Ok(chunk) = self.producer.write_chunk_uninit(wanted) {
                chunk.fill_from_iter(self.pending.drain(..));
                self.shared.receiver_bed.wake();
                return Ok(());
            }
            if self.producer.is_abandoned() {
                self.pending.clear();
                return Err(Closed);
            }
            let producer = &self.producer;
            self.shared
                .sender_bed
                .sleep_unless(|| producer.slots() >= wanted || producer.is_abandoned());
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // A receiver that is gone wants nothing more.
        let _ = self.flush();
        // The flag that ends the stream is rtrb's, and it is set when our half
        // of the queue is dropped, which is after this. Replace it now.
        let (closed, _) = rtrb::RingBuffer::new(0);
        drop(std::mem::replace(&mut self.producer, closed));
        self.shared.receiver_bed.wake();
    }
}

impl<T> Receiver<T> {
    /// Waits for items and hands a run of them to `take`, in order. False at
    /// the end of the stream.
    pub fn receive(&mut self, mut take: impl FnMut(T)) -> bool {
        loop {
            let available = self.consumer.slots();
            if available > 0 {
                if let Ok(chunk) = self.consumer.read_chunk(available) {
                    chunk.into_iter().for_each(&mut take);
                }
                self.shared.sender_bed.wake();
                return true;
            }
            if self.consumer.is_abandoned() {
                // The sender's last chunk may have come between the two looks.
                if self.consumer.slots() == 0 {
                    return false;
                }
                continue;
            }
            let consumer = &self.consumer;
            self.shared
                .receiver_bed
                .sleep_unless(|| consumer.slots() > 0 || consumer.is_abandoned());
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let (_, closed) = rtrb::RingBuffer::new(0);
        drop(std::mem::replace(&mut self.consumer, closed));
        self.shared.sender_bed.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_crosses_once_and_in_order() {
        for item_count in [0u64, 1, 63, 64, 65, 1_000_003] {
            let (mut sender, mut receiver) = ring(128);
            let reader = thread::spawn(move || {
                let mut expected = 0;
                while receiver.receive(|item: u64| {
                    assert_eq!(item, expected);
                    expected += 1;
                }) {}
                expected
            });
            for item in 0..item_count {
                sender.push(item).unwrap();
            }
            drop(sender);
            assert_eq!(reader.join().unwrap(), item_count);
        }
    }

    #[test]
    fn a_slow_receiver_is_waited_for() {
        let (mut sender, mut receiver) = ring(128);
        let reader = thread::spawn(move || {
            let mut sum = 0u64;
            while receiver.receive(|item: u64| sum += item) {
                thread::sleep(std::time::Duration::from_micros(50));
            }
            sum
        });
        for item in 0..100_000 {
            sender.push(item).unwrap();
        }
        drop(sender);
        assert_eq!(reader.join().unwrap(), 99_999 * 100_000 / 2);
    }

    #[test]
    fn a_receiver_that_left_is_an_error_and_no_hang() {
        let (mut sender, receiver) = ring(128);
        drop(receiver);
        let refused = (0..1_000).find_map(|item: u64| sender.push(item).err());
        assert_eq!(refused, Some(Closed));
    }
}
