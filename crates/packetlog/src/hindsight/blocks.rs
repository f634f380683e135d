//! Bytes in blocks, first in, first out: memory is what waits now, and a growing queue is never
//! copied. What was appended stays where it is, so its position is its name.

use std::collections::VecDeque;

use engine::prefetch::{prefer_huge_pages, prefetch};

/// Positions are multiples of this.
pub(super) const ALIGNMENT: usize = 8;
/// Blocks of a memory, so that the part of a block that is not used is a small part of it.
const BLOCK_COUNT: usize = 64;
/// A block holds some of the longest frames of an ordinary link, and has huge pages in it.
const BLOCK_LEN: (usize, usize) = (128 << 10, 4 << 20);

/// Appended bytes, each piece in one block.
#[derive(Debug)]
pub(super) struct Blocks {
    blocks: VecDeque<Vec<u8>>,
    /// A block that is free.
    spare: Option<Vec<u8>>,
    /// Number of the first block.
    first: u64,
    block_len: usize,
}

impl Blocks {
    /// Without any; for a memory of so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let (least, most) = BLOCK_LEN;
        let block_len = (bytes / BLOCK_COUNT).clamp(least, most).next_power_of_two().min(most);
        // No position is 0.
        Self { blocks: VecDeque::new(), spare: None, first: 1, block_len }
    }

    pub(super) const fn block_len(&self) -> usize {
        self.block_len
    }

    pub(super) fn size_bytes(&self) -> usize {
        (self.blocks.len() + usize::from(self.spare.is_some())) * self.block_len
    }

    /// Whether so many bytes need memory that is not there yet.
    #[inline]
    pub(super) fn has_to_grow(&self, len: usize) -> bool {
        self.spare.is_none()
            && self.blocks.back().is_none_or(|block| block.len() + len > self.block_len)
    }

    /// The position of so many bytes that are appended next.
    #[inline]
    pub(super) fn next(&mut self, len: usize) -> u64 {
        let has_room = self.blocks.back().is_some_and(|block| block.len() + len <= self.block_len);
        if !has_room {
            self.grow();
        }
        self.end()
    }

    #[cold]
    fn grow(&mut self) {
        let block_len = self.block_len;
        let block = self.spare.take().unwrap_or_else(|| {
            let mut block = Vec::with_capacity(block_len);
            prefer_huge_pages(&mut block);
            block
        });
        self.blocks.push_back(block);
    }

    /// Where the last piece ends.
    pub(super) fn end(&self) -> u64 {
        let Some(last) = self.blocks.back() else { return self.first * self.block_len as u64 };
        (self.first + self.blocks.len() as u64 - 1) * self.block_len as u64 + last.len() as u64
    }

    /// Appends to the piece that [`next`](Self::next) was asked for.
    #[inline]
    pub(super) fn append(&mut self, bytes: &[u8]) {
        if let Some(block) = self.blocks.back_mut() {
            block.extend_from_slice(bytes);
        }
    }

    /// Ends the piece.
    #[inline]
    pub(super) fn align(&mut self) {
        if let Some(block) = self.blocks.back_mut() {
            let padding = block.len().next_multiple_of(ALIGNMENT) - block.len();
            block.extend_from_slice(&[0; ALIGNMENT][..padding]);
        }
    }

    /// Of a position its block, and its place there.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // A block is shorter, and they are few.
    fn place(&self, position: u64) -> (usize, usize) {
        let block_len = self.block_len as u64;
        let number = position / block_len;
        (number.wrapping_sub(self.first) as usize, (position % block_len) as usize)
    }

    /// Everything in a block from this position on.
    #[inline]
    pub(super) fn at(&self, position: u64) -> &[u8] {
        let (block, offset) = self.place(position);
        self.blocks.get(block).and_then(|block| block.get(offset..)).unwrap_or(&[])
    }

    #[inline]
    pub(super) fn at_mut(&mut self, position: u64) -> &mut [u8] {
        let (block, offset) = self.place(position);
        self.blocks.get_mut(block).and_then(|block| block.get_mut(offset..)).unwrap_or(&mut [])
    }

    /// Where the piece begins that follows one that ends here.
    #[inline]
    pub(super) fn after(&self, position: u64) -> u64 {
        let (block, offset) = self.place(position);
        let is_over = self.blocks.get(block).is_some_and(|block| offset >= block.len());
        if is_over && block + 1 < self.blocks.len() {
            (self.first + block as u64 + 1) * self.block_len as u64
        } else {
            position
        }
    }

    /// Asks for the memory of what is about to be read.
    #[inline]
    pub(super) fn prefetch(&self, position: u64) {
        const LINE_LEN: usize = 64;
        let bytes = self.at(position);
        for at in [0, LINE_LEN] {
            if let Some(byte) = bytes.get(at) {
                prefetch(byte);
            }
        }
    }

    /// Nothing before this position is asked for again.
    #[inline]
    pub(super) fn forget_before(&mut self, position: u64) {
        while self.place(position).0 > 0 && self.blocks.len() > 1 {
            self.drop_first();
        }
    }

    /// Nothing at all is.
    pub(super) fn forget_all(&mut self) {
        while !self.blocks.is_empty() {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.spare = self.blocks.pop_front().map(|mut block| {
            block.clear();
            block
        });
        self.first += 1;
    }

    /// Gives the free block back; whether there was one.
    pub(super) fn shrink(&mut self) -> bool {
        self.spare.take().is_some()
    }
}
