//! What is known of packets of which the short form in front of a frame cannot say everything, in
//! the order of arrival.

use std::collections::VecDeque;

use packet::{Record, Timestamp};

/// All that is known of a packet that is not in the short form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rare {
    pub(super) record: Record,
    /// Its arrival in event time, which never runs backwards here.
    pub(super) time: Timestamp,
    /// Bytes of its frame.
    pub(super) len: u32,
    /// Bytes that are stored.
    pub(super) kept_len: u32,
}

/// Packets of a block.
const BLOCK_LEN: usize = 256;

/// In blocks: memory is what waits now, and a growing queue is never copied.
#[derive(Debug, Default)]
pub(super) struct Rares {
    blocks: VecDeque<Vec<Rare>>,
    /// Packets that have left.
    left: u64,
    /// Packets that came.
    came: u64,
}

impl Rares {
    /// Takes a packet in, and gives it a number, of which the lower bits suffice to find it.
    #[allow(clippy::cast_possible_truncation)] // Far fewer wait at the same time.
    pub(super) fn push(&mut self, rare: Rare) -> u32 {
        if self.blocks.back().is_none_or(|block| block.len() == BLOCK_LEN) {
            self.blocks.push_back(Vec::with_capacity(BLOCK_LEN));
        }
        if let Some(block) = self.blocks.back_mut() {
            block.push(rare);
            self.came += 1;
        }
        (self.came - 1) as u32
    }

    /// Block and place of a packet that waits.
    #[allow(clippy::cast_possible_truncation)] // As above.
    fn place(&self, number: u32) -> (usize, usize) {
        let after_front = number.wrapping_sub(self.left as u32) as usize;
        let at = (self.left % BLOCK_LEN as u64) as usize + after_front;
        (at / BLOCK_LEN, at % BLOCK_LEN)
    }

    pub(super) fn get(&self, number: u32) -> Option<&Rare> {
        let (block, at) = self.place(number);
        self.blocks.get(block)?.get(at)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Rare> {
        let (block, at) = self.place(number);
        self.blocks.get_mut(block)?.get_mut(at)
    }

    /// The oldest leaves.
    pub(super) fn pop(&mut self) {
        debug_assert!(self.left < self.came, "one leaves that never came");
        self.left += 1;
        if self.left.is_multiple_of(BLOCK_LEN as u64) {
            self.blocks.pop_front();
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.blocks.len() * BLOCK_LEN * size_of::<Rare>()
    }
}
