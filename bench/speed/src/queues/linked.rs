//! A linked list from one thread to one other, without a lock.
//!
//! The list always holds one node more than items: the node whose item was
//! taken last. The pushing end keeps the last node and hangs the next one onto
//! it; the popping end keeps the first and steps on when there is a next.
//! A node's `next` is set once, by one thread, so setting never waits, and
//! looking at it is one atomic load. Every item costs an allocation, which is
//! what this design is measured for. It has no maximum: the number of items of
//! a measurement is its bound.

use std::sync::{Arc, OnceLock};

use super::kinds::{Pop, Push, QueueKind};

struct Node {
    item: u32,
    next: OnceLock<Arc<Node>>,
}

/// The pushing end.
pub(super) struct LinkedPusher {
    last: Arc<Node>,
}

/// The popping end.
pub(super) struct LinkedPopper {
    first: Arc<Node>,
}

/// The linked list.
pub(super) struct LinkedKind;

impl QueueKind for LinkedKind {
    type Pusher = LinkedPusher;
    type Popper = LinkedPopper;

    fn make() -> (LinkedPusher, LinkedPopper) {
        let first = Arc::new(Node { item: 0, next: OnceLock::new() });
        (LinkedPusher { last: Arc::clone(&first) }, LinkedPopper { first })
    }
}

impl Push for LinkedPusher {
    #[inline]
    fn push(&mut self, item: u32) -> bool {
        let node = Arc::new(Node { item, next: OnceLock::new() });
        let is_hung = self.last.next.set(Arc::clone(&node)).is_ok();
        self.last = node;
        is_hung
    }
}

impl Pop for LinkedPopper {
    #[inline]
    fn pop(&mut self) -> Option<u32> {
        let next = Arc::clone(self.first.next.get()?);
        self.first = next;
        Some(self.first.item)
    }
}

impl Drop for LinkedPopper {
    /// Node by node: left to itself, a long list would be dropped by recursion.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
