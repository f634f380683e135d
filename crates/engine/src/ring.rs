//! A bounded queue from one thread to one other, in chunks, that parks instead of spinning.
//!
//! What passes through the queue, which is `rtrb`'s, are buffers: an item is
//! written once, into the buffer it crosses in, and read where it lies. A second queue
//! brings the buffers back. So only as many of them are in use as the receiver
//! is behind, and while it keeps up they stay in the caches of both.
//! What is ours besides is the waiting: [`bed`].

mod bed;

use std::mem;
use std::sync::Arc;

use bed::Bed;
use rtrb::PushError;

/// Items that cross together: enough that the cost of a crossing is shared.
pub const CHUNK_LEN: usize = 256;

/// What crosses in one transfer: items, and behind them a mark.
struct Chunk<T, M> {
    items: Vec<T>,
    mark: Option<M>,
}

#[derive(Default)]
struct Shared {
    receiver_bed: Bed,
    sender_bed: Bed,
}

/// The writing end. Dropping it ends the stream; what was not flushed is flushed first.
pub struct Sender<T, M> {
    full: rtrb::Producer<Chunk<T, M>>,
    empty: rtrb::Consumer<Vec<T>>,
    pending: Vec<T>,
    shared: Arc<Shared>,
}

/// The reading end.
pub struct Receiver<T, M> {
    full: rtrb::Consumer<Chunk<T, M>>,
    empty: rtrb::Producer<Vec<T>>,
    shared: Arc<Shared>,
}

/// The other end is gone: items can no longer be taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendError;

/// A queue of at most `capacity` items, rounded up to whole chunks, besides the
/// chunk that each side has in hand. When it is full the sender waits: nothing
/// is dropped.
#[must_use]
pub fn ring<T: Send, M: Send>(capacity: usize) -> (Sender<T, M>, Receiver<T, M>) {
    let chunk_count = capacity.div_ceil(CHUNK_LEN).max(2);
    let (full_in, full_out) = rtrb::RingBuffer::new(chunk_count);
    // Room for every buffer there can be: those in the queue and one at each side.
    let (empty_in, empty_out) = rtrb::RingBuffer::new(chunk_count + 2);
    let shared = Arc::new(Shared::default());
    let pending = Vec::with_capacity(CHUNK_LEN);
    let sender = Sender { full: full_in, empty: empty_out, pending, shared: Arc::clone(&shared) };
    (sender, Receiver { full: full_out, empty: empty_in, shared })
}

impl<T, M> Sender<T, M> {
    /// Takes in one item; it crosses with its chunk, or at [`flush`](Self::flush).
    ///
    /// # Errors
    /// [`SendError`] when the receiver is gone.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), SendError> {
        self.pending.push(item);
        if self.pending.len() >= CHUNK_LEN { self.send(None) } else { Ok(()) }
    }

    /// Whether [`push`](Self::push) and a [`flush`](Self::flush) after it need not wait.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.full.slots() > 0
    }

    /// Sends what is pending, and behind it `mark`.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn mark(&mut self, mark: M) -> Result<(), SendError> {
        self.send(Some(mark))
    }

    /// Sends what is pending, waiting for room.
    ///
    /// # Errors
    /// [`SendError`] when the receiver is gone; what was pending is dropped.
    pub fn flush(&mut self) -> Result<(), SendError> {
        if self.pending.is_empty() { Ok(()) } else { self.send(None) }
    }

    fn send(&mut self, mark: Option<M>) -> Result<(), SendError> {
        let mut chunk = Chunk { items: mem::take(&mut self.pending), mark };
        loop {
            match self.full.push(chunk) {
                Ok(()) => break,
                Err(PushError::Full(refused)) => chunk = refused,
            }
            if self.full.is_abandoned() {
                return Err(SendError);
            }
            let full = &self.full;
            self.shared.sender_bed.sleep_unless(|| full.slots() > 0 || full.is_abandoned());
        }
        self.shared.receiver_bed.wake();
        self.pending = self.empty.pop().unwrap_or_else(|_| Vec::with_capacity(CHUNK_LEN));
        Ok(())
    }
}

impl<T, M> Drop for Sender<T, M> {
    fn drop(&mut self) {
        // A receiver that is gone wants nothing more.
        let _ = self.flush();
        // The flag that ends the stream is rtrb's, and it is set when our half
        // of the queue is dropped, which is after this. Replace it now.
        let (closed, _) = rtrb::RingBuffer::new(0);
        drop(mem::replace(&mut self.full, closed));
        self.shared.receiver_bed.wake();
    }
}

impl<T, M> Receiver<T, M> {
    /// Waits for chunks and hands those that are there to `take`, in order: the
    /// items of each, and the mark that was set behind them. False at the end
    /// of the stream.
    pub fn receive(&mut self, mut take: impl FnMut(&[T], Option<M>)) -> bool {
        loop {
            let available = self.full.slots();
            for _ in 0..available {
                let Ok(Chunk { mut items, mark }) = self.full.pop() else { break };
                take(&items, mark);
                items.clear();
                // There is room for all; a buffer that were not taken would only be made anew.
                let _ = self.empty.push(items);
            }
            if available > 0 {
                // Once for all of them, so that a sender that waited does not
                // wake for room of one chunk.
                self.shared.sender_bed.wake();
                return true;
            }
            if self.full.is_abandoned() {
                // The sender's last chunk may have come between the two looks.
                if self.full.slots() == 0 {
                    return false;
                }
                continue;
            }
            let full = &self.full;
            self.shared.receiver_bed.sleep_unless(|| full.slots() > 0 || full.is_abandoned());
        }
    }
}

impl<T, M> Drop for Receiver<T, M> {
    fn drop(&mut self) {
        let (_, closed) = rtrb::RingBuffer::new(0);
        drop(mem::replace(&mut self.full, closed));
        self.shared.sender_bed.wake();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn everything_crosses_once_and_in_order() {
        for item_count in [0u64, 1, 255, 256, 257, 1_000_003] {
            let (mut sender, mut receiver) = ring(128);
            let reader = thread::spawn(move || {
                let mut expected = 0;
                while receiver.receive(|items: &[u64], mark| {
                    for &item in items {
                        assert_eq!(item, expected);
                        expected += 1;
                    }
                    assert!(mark.is_none_or(|mark: u64| mark == expected), "behind its items");
                }) {}
                expected
            });
            for item in 0..item_count {
                sender.push(item).unwrap();
                if item % 1_000 == 77 {
                    sender.mark(item + 1).unwrap();
                }
            }
            drop(sender);
            assert_eq!(reader.join().unwrap(), item_count);
        }
    }

    #[test]
    fn marks_cross_without_items() {
        let (mut sender, mut receiver) = ring::<u8, u8>(128);
        sender.mark(1).unwrap();
        sender.mark(2).unwrap();
        sender.flush().unwrap();
        drop(sender);
        let mut marks = Vec::new();
        while receiver.receive(|items, mark| {
            assert!(items.is_empty());
            marks.extend(mark);
        }) {}
        assert_eq!(marks, [1, 2]);
    }

    #[test]
    fn a_slow_receiver_is_waited_for() {
        let (mut sender, mut receiver) = ring::<u64, ()>(128);
        let reader = thread::spawn(move || {
            let mut sum = 0u64;
            while receiver.receive(|items, _| sum += items.iter().sum::<u64>()) {
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
        let (mut sender, receiver) = ring::<u64, ()>(128);
        drop(receiver);
        let refused = (0..1_000).find_map(|item| sender.push(item).err());
        assert_eq!(refused, Some(SendError));
        assert_eq!(sender.mark(()), Err(SendError));
    }
}
