//! Which flows may have ended, and which has been idle longest, without
//! looking at them all.
//!
//! Each flow stands in a list by the time at which it would end if no further
//! packet came. Packets do not move it: when its list is due, a flow that has
//! gone on is put where it belongs by then. So a flow is touched once in an
//! idle time-out however many packets it has.

use packet::{Span, Timestamp, must};

use super::entry::Cold;
use super::segmented::SegmentedVec;
use crate::partition::PARTITION_COUNT;

/// What a flow is, for the order in which a full partition lets go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Class {
    /// Closed: only late packets are waited for.
    Closed,
    /// Only one side has sent, and few packets.
    Unanswered,
    /// The others.
    Settled,
}

const CLASS_COUNT: usize = 3;

/// Lists of a class in a partition; as many as there are bits to mark them.
const LIST_COUNT: usize = u128::BITS as usize;

/// Lists between now and the furthest deadline.
const LISTS_AHEAD: i64 = LIST_COUNT as i64 / 2;

/// No neighbour.
const NONE: u32 = u32::MAX;

/// The lists of all partitions.
pub(super) struct Wheel {
    heads: Vec<u32>,
    /// A bit for each list that holds a flow.
    occupied: [[u128; CLASS_COUNT]; PARTITION_COUNT],
    /// Length of time that a list stands for.
    grain: Span,
    /// Number of the first list, counted from the epoch, that is not due.
    due_to: Option<i64>,
}

impl Wheel {
    /// For deadlines up to `furthest` ahead.
    pub(super) fn new(furthest: Span) -> Self {
        let grain = Span::from_ns((furthest.as_ns() / LISTS_AHEAD).max(1));
        Self {
            heads: vec![NONE; PARTITION_COUNT * CLASS_COUNT * LIST_COUNT],
            occupied: [[0; CLASS_COUNT]; PARTITION_COUNT],
            grain,
            due_to: None,
        }
    }

    /// Bytes of its lists' heads.
    pub(super) const fn byte_count(&self) -> usize {
        size_of::<Self>() + self.heads.capacity() * size_of::<u32>()
    }

    const fn number(&self, deadline: Timestamp) -> i64 {
        deadline.as_ns().div_euclid(self.grain.as_ns())
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    const fn place(number: i64) -> usize {
        number.rem_euclid(LIST_COUNT as i64) as usize
    }

    /// Where a flow with this deadline stands: never among lists that are past,
    /// nor so far ahead that the wheel has come round.
    fn number_for(&mut self, deadline: Timestamp) -> i64 {
        let number = self.number(deadline);
        let due_to = *self.due_to.get_or_insert(number.saturating_sub(LISTS_AHEAD));
        number.clamp(due_to, due_to.saturating_add(LIST_COUNT as i64 - 1))
    }

    #[allow(clippy::cast_possible_truncation)]
    const fn list(partition: usize, class: Class, place: usize) -> u16 {
        ((partition * CLASS_COUNT + class as usize) * LIST_COUNT + place) as u16
    }

    fn occupied(&mut self, list: u16) -> Option<(&mut u128, u128)> {
        let list = usize::from(list);
        let (row, place) = (list / LIST_COUNT, list % LIST_COUNT);
        let bits = self.occupied.get_mut(row / CLASS_COUNT)?.get_mut(row % CLASS_COUNT)?;
        Some((bits, 1 << place))
    }

    /// Puts a flow that stands in no list into one.
    pub(super) fn link(
        &mut self,
        cold: &mut SegmentedVec<Cold>,
        slot: u32,
        partition: usize,
        class: Class,
        deadline: Timestamp,
    ) {
        let place = Self::place(self.number_for(deadline));
        let list = Self::list(partition, class, place);
        let Some(head) = self.heads.get_mut(usize::from(list)) else { return };
        let next = std::mem::replace(head, slot);
        if let Some(entry) = cold.get_mut(slot) {
            (entry.previous, entry.next, entry.list) = (NONE, next, list);
        }
        if next == NONE {
            if let Some((bits, bit)) = self.occupied(list) {
                *bits |= bit;
            }
        } else if let Some(neighbour) = cold.get_mut(next) {
            neighbour.previous = slot;
        }
    }

    /// Takes a flow out of its list.
    pub(super) fn unlink(&mut self, cold: &mut SegmentedVec<Cold>, slot: u32) {
        let found = must(cold.get(slot), "a flow that is taken out of its list has a slot");
        let Some(&Cold { previous, next, list, .. }) = found else { return };
        if next != NONE
            && let Some(neighbour) = cold.get_mut(next)
        {
            neighbour.previous = previous;
        }
        if previous != NONE {
            if let Some(neighbour) = cold.get_mut(previous) {
                neighbour.next = next;
            }
            return;
        }
        if let Some(head) = self.heads.get_mut(usize::from(list)) {
            *head = next;
        }
        if next == NONE
            && let Some((bits, bit)) = self.occupied(list)
        {
            *bits &= !bit;
        }
    }

    /// The first flow of the earliest list of a class.
    pub(super) fn earliest(&self, partition: usize, class: Class) -> Option<u32> {
        let bits = *self.occupied.get(partition)?.get(class as usize)?;
        if bits == 0 {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)]
        let start = Self::place(self.due_to?) as u32;
        let place = (bits.rotate_right(start).trailing_zeros() + start) as usize % LIST_COUNT;
        self.heads.get(usize::from(Self::list(partition, class, place))).copied()
    }

    /// Whether a flow stands where this deadline, of this class, belongs.
    pub(super) fn stands(
        &mut self,
        list: u16,
        partition: usize,
        class: Class,
        deadline: Timestamp,
    ) -> bool {
        let place = Self::place(self.number_for(deadline));
        list == Self::list(partition, class, place)
    }

    /// Moves time on; `take` gets the head of each list that became due, with
    /// its partition, in the order of partitions, classes and time.
    pub(super) fn advance(&mut self, time: Timestamp, due: &mut Vec<(usize, u32)>) {
        let number = self.number(time);
        let due_to = *self.due_to.get_or_insert(number);
        if number <= due_to {
            return;
        }
        let count = (number - due_to).min(LIST_COUNT as i64);
        self.due_to = Some(number);
        for partition in 0..PARTITION_COUNT {
            for class in [Class::Closed, Class::Unanswered, Class::Settled] {
                if self.occupied[partition][class as usize] == 0 {
                    continue;
                }
                for step in 0..count {
                    let place = Self::place(due_to.wrapping_add(step));
                    let list = Self::list(partition, class, place);
                    let Some(head) = self.heads.get_mut(usize::from(list)) else { continue };
                    let first = std::mem::replace(head, NONE);
                    if first == NONE {
                        continue;
                    }
                    self.occupied[partition][class as usize] &= !(1 << place);
                    due.push((partition, first));
                }
            }
        }
    }

    /// Forgets every list; time continues from `time`. `lists` gets the head of each, with its
    /// partition, in an order that does not depend on which partitions share the wheel.
    pub(super) fn clear(&mut self, time: Timestamp, lists: &mut Vec<(usize, u32)>) {
        let heads = self.heads.iter_mut().map(|head| std::mem::replace(head, NONE));
        let of = |(list, head)| (list / (CLASS_COUNT * LIST_COUNT), head);
        lists.extend(heads.enumerate().map(of).filter(|&(_, head)| head != NONE));
        self.occupied = [[0; CLASS_COUNT]; PARTITION_COUNT];
        self.due_to = Some(self.number(time));
    }

    /// The flow after `slot` in a list that [`Wheel::advance`] or [`Wheel::clear`] handed out.
    pub(super) fn after(cold: &SegmentedVec<Cold>, slot: u32) -> Option<u32> {
        cold.get(slot).map(|entry| entry.next).filter(|&next| next != NONE)
    }

    /// The partition that a flow in this list belongs to.
    pub(super) const fn partition_of(list: u16) -> usize {
        list as usize / (CLASS_COUNT * LIST_COUNT)
    }
}
