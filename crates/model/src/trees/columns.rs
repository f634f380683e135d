//! One row down a whole tree in one step: all its splits are answered, and then followed by
//! doubling.
//!
//! The tested bits of a row lie packed in 128 bytes, or some pages of that. For each split
//! of a tree there is a byte that says which of them to look up, one with the bit in it, and
//! the numbers of both children. A processor that looks up 64 bytes of 128 by one instruction
//! answers all splits by a few, and knows then of each where its row continues. Replacing each
//! split's next by the next of that gives the second next, then the fourth: after four times
//! the root's is a leaf, where a tree is at most sixteen deep.

use super::nodes::LANE_COUNT;
use super::slices::{FIRST_SPLIT, LEAF_COUNT_MAX, Mask, Slices, Split};

/// Packed bytes that are looked up in one instruction.
pub(crate) const PAGE_LEN: usize = 128;
/// With more pages than this, walking is not slower.
const PAGE_COUNT_MAX: usize = 4;
/// Bytes of some packed rows, one at least.
pub(super) const PACKED_LEN: usize = 8 * PAGE_COUNT_MAX * PAGE_LEN;
/// Splits of a tree, on average: with fewer, walks are short.
const SPLIT_COUNT_MIN: usize = 16;

/// A number for each split of a tree.
pub(crate) type Column = [u8; LEAF_COUNT_MAX];

/// A tree. Where it has fewer splits, those behind are of no meaning.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Tree {
    /// The byte of the tested bit, within its page.
    pub(crate) bytes: Column,
    /// The tested bit in that.
    pub(crate) bits: Column,
    pub(crate) left: Column,
    pub(crate) right: Column,
}

/// Small trees, for one row.
#[derive(Clone, Debug)]
pub(super) struct Columns {
    trees: Vec<Tree>,
    /// Of each tree the pages of its tests; empty where there is one page only.
    pages: Vec<Column>,
    page_count: usize,
    /// How often to double until every root's next is a leaf.
    doublings: u32,
}

impl Columns {
    /// Nothing where it would take more memory than it is worth.
    pub(super) fn new(slices: &Slices) -> Option<Self> {
        let tree_count = slices.tree_count();
        let page_count = slices.tested().count().div_ceil(PAGE_LEN * 8).max(1);
        let split_count: usize = (0..tree_count).map(|tree| slices.splits(tree).len()).sum();
        if page_count > PAGE_COUNT_MAX || split_count < tree_count * SPLIT_COUNT_MIN {
            return None;
        }
        let paged_count = if page_count > 1 { tree_count } else { 0 };
        let mut columns = Self {
            trees: Vec::with_capacity(tree_count),
            pages: Vec::with_capacity(paged_count),
            page_count,
            doublings: 0,
        };
        for tree in 0..tree_count {
            columns.push(slices.splits(tree));
        }
        Some(columns)
    }

    fn push(&mut self, splits: &[Split]) {
        let zeros = [0; LEAF_COUNT_MAX];
        let mut tree = Tree { bytes: zeros, bits: zeros, left: zeros, right: zeros };
        let mut pages = zeros;
        let mut depths = [0_u32; 2 * LEAF_COUNT_MAX];
        let mut depth_max = 0;
        for (at, split) in splits.iter().take(LEAF_COUNT_MAX).enumerate() {
            let [byte, page] = (split.test / 8).to_le_bytes();
            tree.bytes[at] = byte % 128;
            pages[at] = page * 2 + byte / 128;
            tree.bits[at] = 1 << (split.test % 8);
            tree.left[at] = split.left;
            tree.right[at] = split.right;
            let depth = depths[usize::from(FIRST_SPLIT) + at] + 1;
            depths[usize::from(split.left)] = depth;
            depths[usize::from(split.right)] = depth;
            depth_max = depth_max.max(depth);
        }
        self.doublings = self.doublings.max(depth_max.next_power_of_two().ilog2());
        self.trees.push(tree);
        if self.page_count > 1 {
            self.pages.push(pages);
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(self.trees.as_slice()) + size_of_val(self.pages.as_slice())
    }

    /// Bytes of a packed row.
    pub(super) const fn row_len(&self) -> usize {
        self.page_count * PAGE_LEN
    }

    pub(super) const fn doublings(&self) -> u32 {
        self.doublings
    }

    /// Up to 64 trees from one on, and the pages of their tests.
    pub(super) fn trees(&self, first: usize) -> (&[Tree], &[Column]) {
        let end = (first + LANE_COUNT).min(self.trees.len());
        let trees = self.trees.get(first..end).unwrap_or_default();
        (trees, self.pages.get(first..end).unwrap_or_default())
    }
}

/// Packs the tested bits of a row.
pub(crate) fn pack(row: &[u32], masks: &[Mask], packed: &mut [u8]) {
    let mut at = 0;
    for &Mask { column, bits: mut mask } in masks {
        let column = column as usize;
        while mask != 0 {
            let bit = mask.trailing_zeros() as usize;
            let word = row.get(column * 2 + bit / 32).copied().unwrap_or(0);
            let is_set = (word >> (bit % 32) & 1) as u8;
            if let Some(byte) = packed.get_mut(at / 8) {
                *byte |= is_set << (at % 8);
            }
            at += 1;
            mask &= mask - 1;
        }
    }
}

/// For each tree the number of the leaf to which a packed row comes, where there is no
/// instruction that does it in one step.
pub(crate) fn follow(
    trees: &[Tree],
    pages: &[Column],
    packed: &[u8],
    numbers: &mut [u8; LANE_COUNT],
) {
    for (index, (tree, to)) in trees.iter().zip(numbers).enumerate() {
        let mut number = FIRST_SPLIT;
        while number >= FIRST_SPLIT {
            let at = usize::from(number - FIRST_SPLIT);
            let page = pages.get(index).map_or(0, |pages| usize::from(pages[at]));
            let byte = packed.get(page * PAGE_LEN + usize::from(tree.bytes[at]));
            let is_right = byte.is_some_and(|byte| byte & tree.bits[at] != 0);
            number = if is_right { tree.right[at] } else { tree.left[at] };
        }
        *to = number;
    }
}
