//! A flow key with a mark in the bits that the key leaves free.

use super::{FREE_MASK, FlowKey};

/// A [`FlowKey`] and 16 bits of another owner, in the size of the key alone.
///
/// What crosses threads is one cache line a packet, and a key fills five of its eight words. The
/// mark takes no part in what the key is: [`key`](Self::key) is the key without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct MarkedKey(FlowKey);

const _: () = assert!(size_of::<MarkedKey>() == size_of::<FlowKey>(), "the mark costs nothing");

impl MarkedKey {
    /// A key and its mark.
    #[inline(always)]
    #[must_use]
    pub const fn new(key: FlowKey, mark: u16) -> Self {
        Self(FlowKey { rest: key.rest | mark as u64, ..key })
    }

    /// The key.
    #[inline(always)]
    #[must_use]
    pub const fn key(&self) -> FlowKey {
        FlowKey { rest: self.0.rest & !FREE_MASK, ..self.0 }
    }

    /// The mark.
    #[inline(always)]
    #[must_use]
    pub const fn mark(&self) -> u16 {
        (self.0.rest & FREE_MASK) as u16
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::MarkedKey;
    use crate::{FlowKey, Protocol};

    #[test]
    fn a_mark_changes_no_key() {
        let [a, b] = [1, 2].map(|last| Ipv4Addr::new(10, 0, 0, last).into());
        let (key, _) = FlowKey::from_tuple(a, b, u16::MAX, u16::MAX, Protocol(255));
        for mark in [0, 1, 0x8000, u16::MAX] {
            let marked = MarkedKey::new(key, mark);
            assert_eq!((marked.key(), marked.mark()), (key, mark));
            assert_eq!(marked.key().words(), key.words());
        }
    }
}
