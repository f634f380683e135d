//! Waiting packets of one flow, or of one sender, from the newest to the oldest.

use engine::prefetch::{prefer_huge_pages, prefetch};

/// The newest packet of a flow or host, which is left where it is when that packet has left: the
/// next packet of its flow, or of another, takes its place. So no packet that leaves has to look
/// for its chain.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Of the flow or host. Two of one hash share a chain: with 64 bits under a seed that does not
    /// happen, and would store too much.
    hash: u64,
    /// Position of the newest packet; 0 where the place was never taken.
    newest: u64,
    /// Number of the chain's mark; 0 without.
    mark: u32,
}

const FREE: Head = Head { hash: 0, newest: 0, mark: 0 };

/// Chains by hash, in one table with linear probing.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// None, or a power of two.
    heads: Vec<Head>,
    /// Places that were ever taken.
    taken: usize,
}

/// What a packet finds that joins a chain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChainPlace {
    /// Position of the packet before; 0 where none waits.
    pub(super) previous: u64,
    /// Number of the chain's mark; 0 without.
    pub(super) mark: u32,
    /// Where the chain is, until another joins.
    pub(super) place: usize,
}

/// Tables of fewer places are not made smaller.
const PLACES_MIN: usize = 1024;

impl Chains {
    /// Asks for the place of a hash.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        if let Some(head) = self.heads.get(self.home(hash)) {
            prefetch(head);
        }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // The mask is smaller.
    fn home(&self, hash: u64) -> usize {
        hash as usize & self.heads.len().wrapping_sub(1)
    }

    /// The packet at `position`, the newest, joins its chain; what is before `front` has left.
    #[inline]
    pub(super) fn join(&mut self, hash: u64, position: u64, front: u64) -> ChainPlace {
        // A quarter stays free, so that a search ends soon.
        if self.taken >= self.heads.len() / 4 * 3 {
            self.rebuild(front);
        }
        let mask = self.heads.len() - 1;
        let mut place = self.home(hash);
        // The first place on the way whose packets have all left.
        let mut over = None;
        loop {
            let head = &mut self.heads[place];
            if head.newest == 0 {
                break;
            }
            if head.hash == hash {
                let waits = head.newest >= front;
                let (previous, mark) = if waits { (head.newest, head.mark) } else { (0, 0) };
                *head = Head { hash, newest: position, mark };
                return ChainPlace { previous, mark, place };
            }
            if over.is_none() && head.newest < front {
                over = Some(place);
            }
            place = (place + 1) & mask;
        }
        self.taken += usize::from(over.is_none());
        let place = over.unwrap_or(place);
        self.heads[place] = Head { hash, newest: position, mark: 0 };
        ChainPlace { place, ..ChainPlace::default() }
    }

    /// Marks a chain that was just joined.
    pub(super) fn mark(&mut self, place: usize, mark: u32) {
        self.heads[place].mark = mark;
    }

    /// As many places as the chains want that wait.
    #[cold]
    fn rebuild(&mut self, front: u64) {
        let waits = |head: &Head| head.newest != 0 && head.newest >= front;
        let waiting = self.heads.iter().filter(|head| waits(head)).count();
        let len = (waiting * 2 + 1).next_power_of_two().max(PLACES_MIN);
        let mut heads = Vec::with_capacity(len);
        prefer_huge_pages(&mut heads);
        heads.resize(len, FREE);
        let before = std::mem::replace(&mut self.heads, heads);
        self.taken = waiting;
        for head in before.iter().filter(|head| waits(head)) {
            let mut place = self.home(head.hash);
            while self.heads[place].newest != 0 {
                place = (place + 1) & (len - 1);
            }
            self.heads[place] = *head;
        }
    }

    /// Gives memory back where far fewer packets wait than there are places; whether it did.
    pub(super) fn shrink(&mut self, waiting: u64, front: u64) -> bool {
        let is_large = self.heads.len() > PLACES_MIN && waiting < self.heads.len() as u64 / 8;
        if is_large {
            self.rebuild(front);
        }
        is_large
    }

    /// Bytes of memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.heads.len() * size_of::<Head>()
    }
}
