//! One row down four small trees together, which lie in the 64 bytes of a vector.
//!
//! As [`columns`](super::columns) does it, but for trees of sixteen splits at most: each has
//! sixteen bytes, a lane of the vector, within which a processor looks up bytes without a wait.
//! Boosted trees of fifteen leaves, of which there are hundreds, go down in a tenth of the time of
//! a walk.

use super::columns::PAGE_LEN;
use super::nodes::LANE_COUNT;
use super::slices::{FIRST_SPLIT, Slices, Split};

/// Splits of such a tree.
pub(crate) const SPLIT_COUNT_MAX: usize = 16;
/// Trees of a vector.
pub(crate) const TOGETHER: usize = 4;
/// Set in the number of a leaf, unlike elsewhere: a look-up of bytes makes use of the others.
pub(crate) const LEAF_BYTE: u8 = 0x80;
/// The highest bit of a byte's place says on which page that is, the first or the second.
pub(crate) const NEAR_COUNT: usize = 2;
/// Two more, of which a bit for each split says whether the byte is there.
const PAGE_COUNT_MAX: usize = 2 * NEAR_COUNT;

/// A byte for each split of four trees.
pub(crate) type FourColumn = [u8; SPLIT_COUNT_MAX * TOGETHER];

/// Four trees. Where one has fewer splits, those behind are of no meaning.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Four {
    /// Where the byte of the tested bit is.
    pub(crate) bytes: FourColumn,
    /// The tested bit in that.
    pub(crate) bits: FourColumn,
    /// Splits from 0, leaves from [`LEAF_BYTE`].
    pub(crate) left: FourColumn,
    pub(crate) right: FourColumn,
}

/// Trees of sixteen splits at most, for one row.
#[derive(Clone, Debug)]
pub(super) struct Fours {
    fours: Vec<Four>,
    /// Of each four the splits whose byte is on the third or the fourth page, from the lowest bit
    /// on; empty where there are no such pages.
    far: Vec<u64>,
    /// Where the values of each tree's leaves begin; empty where they do not lie one behind the
    /// other.
    values: Vec<u32>,
    page_count: usize,
    /// How often to double until every root's next is a leaf.
    doublings: u32,
}

impl Fours {
    /// Nothing where a tree is larger, or more bits are tested than a place can name.
    pub(super) fn new(slices: &Slices) -> Option<Self> {
        let tree_count = slices.tree_count();
        let page_count = slices.tested().count().div_ceil(PAGE_LEN * 8).next_power_of_two();
        let is_small = (0..tree_count).all(|tree| slices.splits(tree).len() <= SPLIT_COUNT_MAX);
        if page_count > PAGE_COUNT_MAX || !is_small {
            return None;
        }
        let zeros = [0; SPLIT_COUNT_MAX * TOGETHER];
        let none = Four { bytes: zeros, bits: zeros, left: zeros, right: zeros };
        let fours = vec![none; tree_count.div_ceil(TOGETHER)];
        let starts = (0..tree_count).map(|tree| u32::try_from(slices.values(tree)?.start).ok());
        let values = starts.collect::<Option<_>>().unwrap_or_default();
        let far = if page_count > NEAR_COUNT { vec![0; fours.len()] } else { Vec::new() };
        let mut made = Self { fours, far, values, page_count, doublings: 0 };
        for tree in 0..tree_count {
            made.put(tree, slices.splits(tree));
        }
        Some(made)
    }

    fn put(&mut self, tree: usize, splits: &[Split]) {
        let Some(four) = self.fours.get_mut(tree / TOGETHER) else { return };
        let start = tree % TOGETHER * SPLIT_COUNT_MAX;
        // A tree without splits has one leaf, whatever its root would ask.
        four.left[start] = LEAF_BYTE;
        four.right[start] = LEAF_BYTE;
        // The two kinds of numbers differ in the highest bit alone.
        let child = |number: u8| number ^ FIRST_SPLIT;
        let mut depths = [0_u32; SPLIT_COUNT_MAX];
        for (at, split) in splits.iter().take(SPLIT_COUNT_MAX).enumerate() {
            let [byte, is_far] = (split.test / 8).to_le_bytes();
            if let Some(far) = self.far.get_mut(tree / TOGETHER) {
                *far |= u64::from(is_far) << (start + at);
            }
            four.bytes[start + at] = byte;
            four.bits[start + at] = 1 << (split.test % 8);
            four.left[start + at] = child(split.left);
            four.right[start + at] = child(split.right);
            let depth = depths[at] + 1;
            for number in [split.left, split.right] {
                let below = number.checked_sub(FIRST_SPLIT).map(usize::from);
                if let Some(below) = below.and_then(|split| depths.get_mut(split)) {
                    *below = depth;
                }
            }
            self.doublings = self.doublings.max(depth.next_power_of_two().ilog2());
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(self.fours.as_slice())
            + size_of_val(self.far.as_slice())
            + size_of_val(self.values.as_slice())
    }

    /// Whether the values of each tree's leaves lie one behind the other, as [`add`](Self::add)
    /// wants them.
    pub(super) const fn is_in_order(&self) -> bool {
        !self.values.is_empty()
    }

    /// Bytes of a packed row.
    pub(super) const fn row_len(&self) -> usize {
        self.page_count * PAGE_LEN
    }

    pub(super) const fn doublings(&self) -> u32 {
        self.doublings
    }

    /// Adds the value of the leaf of this number, of each tree from one on, to the score of the
    /// tree's class. All of them are known by then, so no addition waits for another's value.
    pub(super) fn add(
        &self,
        first: usize,
        numbers: &[u8; LANE_COUNT],
        classes: &[u32],
        values: &[f64],
        scores: &mut [f64],
    ) {
        let starts = self.values.get(first..).unwrap_or_default();
        for ((start, &number), &class) in starts.iter().zip(numbers).zip(classes) {
            let value = values.get((start + u32::from(number)) as usize);
            if let (Some(value), Some(score)) = (value, scores.get_mut(class as usize)) {
                *score += value;
            }
        }
    }

    /// Up to 64 trees from one on, which is a multiple of 64; and which of their splits are far.
    pub(super) fn trees(&self, first: usize) -> (&[Four], &[u64]) {
        let first = first / TOGETHER;
        let end = (first + LANE_COUNT / TOGETHER).min(self.fours.len());
        let far = self.far.get(first..end).unwrap_or_default();
        (self.fours.get(first..end).unwrap_or_default(), far)
    }
}

/// For each tree the number of the leaf to which a packed row comes, where there is no instruction
/// that does it in one step.
pub(crate) fn follow_fours(
    fours: &[Four],
    far: &[u64],
    packed: &[u8],
    numbers: &mut [u8; LANE_COUNT],
) {
    for (index, (four, numbers)) in
        fours.iter().zip(numbers.as_chunks_mut::<TOGETHER>().0).enumerate()
    {
        let far = far.get(index).copied().unwrap_or(0);
        for (lane, to) in numbers.iter_mut().enumerate() {
            let mut number = 0;
            // A lane without a tree leads nowhere.
            for _ in 0..SPLIT_COUNT_MAX {
                let at = lane * SPLIT_COUNT_MAX + usize::from(number) % SPLIT_COUNT_MAX;
                let skipped = if far >> at & 1 == 1 { NEAR_COUNT * PAGE_LEN } else { 0 };
                let byte = packed.get(skipped + usize::from(four.bytes[at]));
                let is_right = byte.is_some_and(|byte| byte & four.bits[at] != 0);
                number = if is_right { four.right[at] } else { four.left[at] };
                if number & LEAF_BYTE != 0 {
                    break;
                }
            }
            *to = number & !LEAF_BYTE;
        }
    }
}
