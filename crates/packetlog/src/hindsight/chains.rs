//! Waiting packets of one flow, or of one sender, from the newest to the oldest.

use packet::prehashed::PrehashedMap;

use crate::policy::{Granularity, Keep};

/// Where a packet is in a chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Of the flow or host. Two of one hash share a chain: with 64 bits under a seed that does not
    /// happen, and would store too much.
    pub(super) hash: u64,
    /// Number of the packet before; 0 where there is none.
    pub(super) previous: u64,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    newest: u64,
    mark: Option<Granularity>,
}

/// Chains by hash; one without a waiting packet is forgotten.
#[derive(Debug, Default)]
pub(super) struct Chains {
    heads: PrehashedMap<u64, Head>,
}

/// Maps of fewer places are not made smaller.
const PLACES_MIN: usize = 4096;

impl Chains {
    /// The newest packet joins its chain, whose mark it takes over.
    pub(super) fn join(&mut self, hash: u64, number: u64) -> (Link, Option<Granularity>) {
        let head = self.heads.entry(hash).or_insert(Head { newest: 0, mark: None });
        let link = Link { hash, previous: head.newest };
        head.newest = number;
        (link, head.mark)
    }

    /// Marks a chain; whether that says more than before.
    pub(super) fn mark(&mut self, hash: u64, mark: Granularity) -> bool {
        let Some(head) = self.heads.get_mut(&hash) else { return false };
        let is_more = head.mark.is_none_or(|before| rank(before.keep) < rank(mark.keep));
        if is_more {
            head.mark = Some(mark);
        }
        is_more
    }

    /// The oldest packet leaves.
    pub(super) fn leave(&mut self, hash: u64, number: u64) {
        if self.heads.get(&hash).is_some_and(|head| head.newest == number) {
            self.heads.remove(&hash);
            let (len, places) = (self.heads.len(), self.heads.capacity());
            if places > PLACES_MIN && len < places / 8 {
                self.heads.shrink_to(len * 2);
            }
        }
    }

    /// Bytes of memory.
    pub(super) fn size_bytes(&self) -> usize {
        // A byte of each place is the map's own.
        self.heads.len() * (size_of::<(u64, Head)>() + 1)
    }
}

const fn rank(keep: Keep) -> (u8, u32) {
    match keep {
        Keep::Nothing => (0, 0),
        Keep::Header => (1, 0),
        Keep::Partial(bytes) => (2, bytes),
        Keep::Full => (3, 0),
    }
}
