//! The paper's own queue: a ring in an array, one atomic index at each end.
//!
//! §5 of the paper describes it in a sentence: an array, atomic variables, and
//! the memory orders of C++11, which are Rust's. One thread pushes, one pops,
//! one item per operation. Each end reads its own index relaxed, the other's
//! with acquire, and publishes with release. Slots are atomics too, read and
//! written relaxed, which costs nothing and needs no unsafe code.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// An atomic that can be a slot.
pub(crate) trait Slot: Send + Sync {
    /// What it holds.
    type Value: Copy + Send;
    /// With the value nobody reads.
    fn vacant() -> Self;
    /// Reads it.
    fn get(&self) -> Self::Value;
    /// Writes it.
    fn set(&self, value: Self::Value);
}

macro_rules! slot {
    ($atomic:ty, $value:ty) => {
        impl Slot for $atomic {
            type Value = $value;
            fn vacant() -> Self {
                Self::new(0)
            }
            #[inline]
            fn get(&self) -> $value {
                self.load(Ordering::Relaxed)
            }
            #[inline]
            fn set(&self, value: $value) {
                self.store(value, Ordering::Relaxed);
            }
        }
    };
}

slot!(AtomicU32, u32);
slot!(AtomicUsize, usize);

/// Slots of every ring that is measured.
pub(crate) const CAPACITY: usize = 1 << 14;

/// An index on a line of its own, so that the two ends do not write the same one.
#[repr(align(64))]
struct Index(AtomicUsize);

/// A queue of at most [`CAPACITY`] items from one thread to one other.
pub(crate) struct OwnRing<S> {
    /// Items pushed so far; written by the pushing thread.
    head: Index,
    /// Items popped so far; written by the popping thread.
    tail: Index,
    slots: Box<[S]>,
}

impl<S: Slot> OwnRing<S> {
    pub(crate) fn new() -> Self {
        Self {
            head: Index(AtomicUsize::new(0)),
            tail: Index(AtomicUsize::new(0)),
            slots: (0..CAPACITY).map(|_| S::vacant()).collect(),
        }
    }

    /// Whether there was room.
    #[inline]
    pub(crate) fn push(&self, value: S::Value) -> bool {
        let head = self.head.0.load(Ordering::Relaxed);
        if head.wrapping_sub(self.tail.0.load(Ordering::Acquire)) == CAPACITY {
            return false;
        }
        if let Some(slot) = self.slots.get(head % CAPACITY) {
            slot.set(value);
        }
        self.head.0.store(head.wrapping_add(1), Ordering::Release);
        true
    }

    /// The oldest item, if there is one.
    #[inline]
    pub(crate) fn pop(&self) -> Option<S::Value> {
        let tail = self.tail.0.load(Ordering::Relaxed);
        if self.head.0.load(Ordering::Acquire) == tail {
            return None;
        }
        let value = self.slots.get(tail % CAPACITY)?.get();
        self.tail.0.store(tail.wrapping_add(1), Ordering::Release);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_in_order_and_refuses_when_full() {
        let ring = OwnRing::<AtomicU32>::new();
        for round in 0..3 {
            for number in 0..CAPACITY as u32 {
                assert!(ring.push(round + number));
            }
            assert!(!ring.push(0));
            for number in 0..CAPACITY as u32 {
                assert_eq!(ring.pop(), Some(round + number));
            }
            assert_eq!(ring.pop(), None);
        }
    }
}
