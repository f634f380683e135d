//! A vector in segments that double: it grows without moving what it holds, so
//! that growing costs neither a copy nor the memory of two.

use crate::prefetch::{prefer_huge_pages, prefetch};

/// Length of the first segment; each later one is twice as long as the one before.
const FIRST_LEN: u32 = 1 << 12;

/// Values by number, from 0 on.
pub(super) struct SegmentedVec<T> {
    segments: Vec<Vec<T>>,
    len: u32,
}

impl<T: Clone> SegmentedVec<T> {
    pub(super) const fn new() -> Self {
        Self { segments: Vec::new(), len: 0 }
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    /// Segment and place of a number: with F added to it, the segments, of
    /// lengths F, 2F, 4F, …, begin at F, 2F, 4F, …
    #[inline(always)]
    const fn place(number: u32) -> (usize, usize) {
        let shifted = number as u64 + FIRST_LEN as u64;
        let power = shifted.ilog2();
        ((power - FIRST_LEN.ilog2()) as usize, (shifted - (1 << power)) as usize)
    }

    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        let (segment, place) = Self::place(number);
        self.segments.get(segment)?.get(place)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (segment, place) = Self::place(number);
        self.segments.get_mut(segment)?.get_mut(place)
    }

    /// Asks for the cache line in which a value begins.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        if let Some(value) = self.get(number) {
            prefetch(value);
        }
    }

    /// Appends a value and returns its number.
    pub(super) fn push(&mut self, value: T) -> u32 {
        let number = self.len;
        let (segment, _) = Self::place(number);
        if segment == self.segments.len() {
            let mut fresh = Vec::with_capacity((FIRST_LEN as usize) << segment);
            prefer_huge_pages(&mut fresh);
            self.segments.push(fresh);
        }
        if let Some(last) = self.segments.get_mut(segment) {
            last.push(value);
            self.len += 1;
        }
        number
    }

    /// Bytes that are reserved for values.
    pub(super) fn byte_count(&self) -> usize {
        self.segments.iter().map(Vec::capacity).sum::<usize>() * size_of::<T>()
    }

    /// All values with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.segments.iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_what_was_pushed() {
        let mut values = SegmentedVec::new();
        for value in 0..100_000u32 {
            assert_eq!(values.push(value), value);
        }
        assert_eq!(values.len(), 100_000);
        for value in 0..100_000 {
            assert_eq!(values.get(value), Some(&value));
        }
        assert_eq!(values.get(100_000), None);
        assert!(values.iter().all(|(number, value)| number == *value));
    }
}
