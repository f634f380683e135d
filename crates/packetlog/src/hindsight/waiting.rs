//! Frames and entries in blocks, first in, first out: memory is what waits now, and a growing queue
//! is never copied.

use std::collections::VecDeque;

use super::Entry;

/// Bytes of a block of frames.
const BLOCK_LEN: usize = 1 << 20;
/// Bytes of the longest frame that can wait.
pub(super) const FRAME_LEN_MAX: usize = BLOCK_LEN;
/// Entries of a block.
const BLOCK_ENTRIES: usize = 4096;

/// Bytes of waiting frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the first block that have left.
    left: usize,
    /// A block that is free.
    spare: Option<Vec<u8>>,
}

impl Frames {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let has_room =
            self.blocks.back().is_some_and(|block| block.len() + bytes.len() <= BLOCK_LEN);
        if !has_room {
            let block = self.spare.take().unwrap_or_else(|| Vec::with_capacity(BLOCK_LEN));
            self.blocks.push_back(block);
        }
        if let Some(block) = self.blocks.back_mut() {
            block.extend_from_slice(bytes);
        }
        self.forget();
    }

    /// The oldest frame, of this length.
    pub(super) fn front(&self, len: usize) -> &[u8] {
        let block = self.blocks.front().map_or(&[][..], Vec::as_slice);
        block.get(self.left..self.left + len).unwrap_or(&[])
    }

    /// The oldest frame leaves.
    pub(super) fn pop(&mut self, len: usize) {
        self.left += len;
        self.forget();
    }

    /// The first block, once all of it has left; the last one stays, as the next frames go there.
    fn forget(&mut self) {
        let is_over = self.blocks.front().is_some_and(|block| self.left >= block.len());
        if is_over && self.blocks.len() > 1 {
            self.left = 0;
            self.spare = self.blocks.pop_front().map(|mut block| {
                block.clear();
                block
            });
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }
}

/// What is known of waiting packets, by their numbers, which count up from 1.
#[derive(Debug, Default)]
pub(super) struct Entries {
    blocks: VecDeque<Vec<Entry>>,
    /// Entries that have left.
    left: u64,
    /// Entries that came.
    came: u64,
}

impl Entries {
    pub(super) const fn len(&self) -> u64 {
        self.came - self.left
    }

    pub(super) const fn next_number(&self) -> u64 {
        self.came + 1
    }

    pub(super) fn push(&mut self, entry: Entry) {
        if self.blocks.back().is_none_or(|block| block.len() == BLOCK_ENTRIES) {
            self.blocks.push_back(Vec::with_capacity(BLOCK_ENTRIES));
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(entry);
            self.came += 1;
        }
    }

    pub(super) fn front(&self) -> Option<&Entry> {
        if self.len() == 0 {
            return None;
        }
        self.blocks.front()?.get(self.left as usize % BLOCK_ENTRIES)
    }

    /// The entry of this number, if it waits.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Entry> {
        if number <= self.left || number > self.came {
            return None;
        }
        let first = self.left / BLOCK_ENTRIES as u64 * BLOCK_ENTRIES as u64;
        let at = (number - 1 - first) as usize;
        self.blocks.get_mut(at / BLOCK_ENTRIES)?.get_mut(at % BLOCK_ENTRIES)
    }

    /// The oldest leaves, with its number.
    pub(super) fn pop(&mut self) -> Option<(u64, Entry)> {
        let entry = *self.front()?;
        self.left += 1;
        if self.left.is_multiple_of(BLOCK_ENTRIES as u64) {
            self.blocks.pop_front();
        }
        Some((self.left, entry))
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_ENTRIES * size_of::<Entry>()
    }
}
