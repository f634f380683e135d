//! Bytes that arrive in pieces, in any order.
//!
//! [`Gather`] puts the pieces of one handshake in order, [`Pool`] holds those of all handshakes
//! that are under way. Both are bounded: a handshake has [`LEN_MAX`] bytes here at most, and the
//! pool has as much memory as its settings say, however many handshakes someone begins and
//! never ends.

use packet::must;

/// The most bytes of a handshake that are kept. ClientHellos with post-quantum key shares have
/// some 1,800; this is what a page of 4 KiB holds in addition to the marks of what has arrived.
pub const LEN_MAX: usize = WORD_COUNT * WORD_LEN;
/// Memory of a [`Pool`] unless its caller says otherwise.
pub const BYTES_MAX: usize = 32 << 20;

/// Bytes whose marks share a word.
const WORD_LEN: usize = 64;
const WORD_COUNT: usize = 56;

/// Bytes of one handshake, put in order as they arrive: 4,096 bytes, marks included.
///
/// Pieces may come in any order, more than once, and may overlap. Where two of them contradict
/// each other, the first one holds, and [`Gather::contradictions`] counts: senders that do this
/// mean to show a monitor something else than the server gets to see.
#[derive(Clone)]
pub struct Gather {
    bytes: [[u8; WORD_LEN]; WORD_COUNT],
    /// A bit for each byte that has arrived, the lowest first.
    marks: [u64; WORD_COUNT],
    /// Bytes from the beginning without a gap.
    len: u32,
    contradictions: u32,
    is_cut: bool,
}

const _: () = assert!(size_of::<Gather>() <= 4096, "one page");

impl Default for Gather {
    fn default() -> Self {
        Self::new()
    }
}

impl Gather {
    /// Nothing has arrived.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [[0; WORD_LEN]; WORD_COUNT],
            marks: [0; WORD_COUNT],
            len: 0,
            contradictions: 0,
            is_cut: false,
        }
    }

    /// Forgets what has arrived.
    pub fn clear(&mut self) {
        // The bytes need no clearing: those without a mark are never read.
        self.marks = [0; WORD_COUNT];
        (self.len, self.contradictions, self.is_cut) = (0, 0, false);
    }

    /// Takes a piece that belongs `offset` bytes behind the beginning. Returns how many bytes
    /// there are from the beginning on without a gap. What lies beyond [`LEN_MAX`] is dropped.
    #[inline]
    pub fn insert(&mut self, offset: u64, piece: &[u8]) -> usize {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(LEN_MAX);
        let kept = piece.get(..LEN_MAX - start).unwrap_or(piece);
        self.is_cut |= kept.len() < piece.len();
        let (mut index, mut place, mut rest) = (start / WORD_LEN, start % WORD_LEN, kept);
        let mut contradicts = false;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(rest.len().min(WORD_LEN - place));
            contradicts |= self.insert_part(index, place, part);
            (index, place, rest) = (index + 1, 0, behind);
        }
        self.contradictions = self.contradictions.saturating_add(u32::from(contradicts));
        self.advance()
    }

    /// Takes the part of a piece that lies in one word; says whether it contradicts what is there.
    #[inline]
    fn insert_part(&mut self, index: usize, place: usize, part: &[u8]) -> bool {
        let (Some(bytes), Some(marks)) = (self.bytes.get_mut(index), self.marks.get_mut(index))
        else {
            return false;
        };
        let Some(bytes) = bytes.get_mut(place..place + part.len()) else { return false };
        let ones = u64::MAX >> (WORD_LEN - part.len());
        let known = *marks >> place & ones;
        *marks |= ones << place;
        if known == 0 {
            bytes.copy_from_slice(part);
            return false;
        }
        let mut contradicts = false;
        for (bit, (place, &byte)) in bytes.iter_mut().zip(part).enumerate() {
            if known >> bit & 1 == 0 {
                *place = byte;
            }
            contradicts |= *place != byte;
        }
        contradicts
    }

    /// Moves the end of what is there without a gap.
    #[inline]
    fn advance(&mut self) -> usize {
        let mut len = self.len as usize;
        while let Some(marks) = self.marks.get(len / WORD_LEN) {
            let place = len % WORD_LEN;
            let ones = (marks >> place).trailing_ones() as usize;
            len += ones;
            if place + ones < WORD_LEN {
                break;
            }
        }
        // At most LEN_MAX.
        self.len = len as u32;
        len
    }

    /// What is there from the beginning on without a gap.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.as_flattened().get(..self.len as usize).unwrap_or_default()
    }

    /// Whether something was dropped because it lies beyond [`LEN_MAX`].
    #[inline]
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// How many pieces had other bytes than an earlier one at the same place.
    #[inline]
    #[must_use]
    pub fn contradictions(&self) -> u32 {
        self.contradictions
    }
}

/// How much there is, not what: a handshake is the traffic's, and may be long.
impl std::fmt::Debug for Gather {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { len, contradictions, is_cut, .. } = self;
        write!(f, "Gather({len} bytes, {contradictions} contradictions, is_cut {is_cut})")
    }
}

/// Which [`Gather`] of a [`Pool`]: 8 bytes. When the gather was given back or evicted, its handle
/// finds nothing, also after the place has gone to another handshake.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Handle {
    index: u32,
    generation: u32,
}

impl Handle {
    /// Its place, below [`Pool::count_max`]: for what a caller keeps with a gather.
    #[inline]
    #[must_use]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// No place: the end of a list.
const NONE: u32 = u32::MAX;

struct Slot {
    gather: Box<Gather>,
    /// Odd while the slot is lent out.
    generation: u32,
    /// Towards the slot used more recently; of a free slot, the next free one.
    newer: u32,
    /// Towards the slot used less recently.
    older: u32,
}

/// Gathers for many handshakes within a budget.
///
/// A gather is allocated when it is first needed and reused from then on, so that the memory
/// grows with the number of handshakes under way at the same time, up to the budget; then the
/// one that was used least recently is evicted and counted. Every operation takes the same time
/// however many there are, but for the growth of the list of slots.
pub struct Pool {
    slots: Vec<Slot>,
    slot_count_max: usize,
    free: u32,
    newest: u32,
    oldest: u32,
    in_use: usize,
    evicted: u64,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl Pool {
    /// Memory that one handshake takes, with its slot.
    pub const SLOT_BYTES: usize = size_of::<Gather>() + size_of::<Slot>();

    /// A pool of at most `bytes_max` bytes, and of one gather at least.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let slot_count_max = (bytes_max / Self::SLOT_BYTES).clamp(1, NONE as usize - 1);
        let (free, newest, oldest) = (NONE, NONE, NONE);
        Self { slots: Vec::new(), slot_count_max, free, newest, oldest, in_use: 0, evicted: 0 }
    }

    /// Lends an empty gather. Where the budget is used up, that is the one that was used least
    /// recently.
    pub fn lend(&mut self) -> Handle {
        let index = if self.free != NONE {
            let index = self.free;
            self.free = self.slot(index).map_or(NONE, |slot| slot.newer);
            index
        } else if self.slots.len() < self.slot_count_max {
            self.grow()
        } else {
            let index = self.oldest;
            self.unlink(index);
            self.evicted += 1;
            self.in_use -= 1;
            if let Some(slot) = self.slot(index) {
                slot.generation = slot.generation.wrapping_add(1);
            }
            index
        };
        self.in_use += 1;
        self.link_newest(index);
        let generation = self.slot(index).map_or(0, |slot| {
            slot.generation = slot.generation.wrapping_add(1);
            slot.gather.clear();
            slot.generation
        });
        Handle { index, generation }
    }

    /// Appends a slot. The list grows by a quarter, so that it is never much longer than needed.
    fn grow(&mut self) -> u32 {
        let len = self.slots.len();
        if len == self.slots.capacity() {
            let more = (len / 4).max(16).min(self.slot_count_max - len);
            self.slots.reserve_exact(more);
        }
        let gather = Box::new(Gather::new());
        self.slots.push(Slot { gather, generation: 0, newer: NONE, older: NONE });
        // Below the greatest count, which fits.
        len as u32
    }

    /// The gather of a handle, which counts as used now; `None` where it was evicted or given
    /// back.
    #[inline]
    pub fn get_mut(&mut self, handle: Handle) -> Option<&mut Gather> {
        self.lent(handle)?;
        if self.newest != handle.index {
            self.unlink(handle.index);
            self.link_newest(handle.index);
        }
        self.slot(handle.index).map(|slot| &mut *slot.gather)
    }

    /// The gather of a handle; `None` where it was evicted or given back.
    #[inline]
    #[must_use]
    pub fn get(&self, handle: Handle) -> Option<&Gather> {
        self.lent(handle).map(|slot| &*slot.gather)
    }

    /// Takes a gather back. A handle that finds nothing is no matter.
    pub fn give_back(&mut self, handle: Handle) {
        if self.lent(handle).is_none() {
            return;
        }
        self.unlink(handle.index);
        let free = std::mem::replace(&mut self.free, handle.index);
        if let Some(slot) = self.slot(handle.index) {
            slot.generation = slot.generation.wrapping_add(1);
            slot.newer = free;
        }
        self.in_use -= 1;
    }

    #[inline]
    fn lent(&self, handle: Handle) -> Option<&Slot> {
        let slot = self.slots.get(handle.index as usize)?;
        (slot.generation == handle.generation).then_some(slot)
    }

    #[inline]
    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        must(self.slots.get_mut(index as usize), "lists hold slots that are there")
    }

    /// Takes a slot out of the order of use.
    fn unlink(&mut self, index: u32) {
        let Some(slot) = self.slot(index) else { return };
        let (newer, older) = (slot.newer, slot.older);
        (slot.newer, slot.older) = (NONE, NONE);
        match newer {
            NONE => self.newest = older,
            _ => self.slot(newer).into_iter().for_each(|slot| slot.older = older),
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.slot(older).into_iter().for_each(|slot| slot.newer = newer),
        }
    }

    fn link_newest(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.newest, index);
        if let Some(slot) = self.slot(index) {
            (slot.newer, slot.older) = (NONE, before);
        }
        match before {
            NONE => self.oldest = index,
            _ => self.slot(before).into_iter().for_each(|slot| slot.newer = index),
        }
    }

    /// How many gathers are lent out.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.in_use
    }

    /// The most gathers that are lent out at the same time.
    #[must_use]
    pub fn count_max(&self) -> usize {
        self.slot_count_max
    }

    /// How many were taken from a handshake that had not ended.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Memory that is allocated: at most the budget, or one gather.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.slots.len() * size_of::<Gather>() + self.slots.capacity() * size_of::<Slot>()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slot_count_max, in_use, evicted, .. } = self;
        write!(f, "Pool({in_use} of {slot_count_max} in use, {evicted} evicted)")
    }
}

#[cfg(test)]
mod tests;
