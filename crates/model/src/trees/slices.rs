//! Many rows down a tree together: each node has a word, and in it a bit for each row that comes.
//!
//! Rows are turned over first, so that each tested bit is a word as well, with a bit for each of
//! 64 rows. Then a split is two operations for all of them: who comes *and* has the bit goes
//! right, the others go left. No walk waits for memory or for a longer one, and it needs no vector
//! unit, which only helps to tell which leaf each row is in.
//!
//! Every split is visited, where a walk visits those on its way; so this is for small trees.
//! Their nodes have a number of one byte: leaves from 0 and splits from 128, each in the order in
//! which they stand in the file. [`Columns`] has the same numbers.

use std::collections::BTreeMap;

use super::columns::Columns;
use super::fours::Fours;
use super::nodes::{LANE_COUNT, LEAF};

/// Leaves of a small tree.
pub(crate) const LEAF_COUNT_MAX: usize = 128;
/// The number of a small tree's root, where that is a split.
pub(crate) const FIRST_SPLIT: u8 = 128;
/// Words of leaves are examined so many at a time.
pub(crate) const STRIDE: usize = 8;

/// A word for each node of a tree.
pub(crate) type Places = [u64; 256];

/// Which of the tested bits it asks for, and the numbers of its children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) test: u16,
    pub(crate) left: u8,
    pub(crate) right: u8,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    first_split: u32,
    split_count: u32,
    /// Where its first leaf stands among those of all trees.
    first_leaf: u32,
    /// Where the values of that are.
    first_value: u32,
}

/// A forest of small trees.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    tested: TestBits,
    trees: Vec<Tree>,
    splits: Vec<Split>,
    /// Of each leaf where its values are; empty where those of a tree lie one behind the other.
    leaves: Vec<u32>,
    fours: Option<Fours>,
    columns: Option<Columns>,
}

/// The bits of a row that any split tests. Counted from the lowest on, they are its tests.
#[derive(Clone, Debug)]
pub(super) struct TestBits {
    /// For each 64 bits of a row that have some, their place and those of them.
    masks: Vec<Mask>,
    /// For each mask, how many there are below it.
    before: Vec<u32>,
    count: usize,
}

/// Tested bits out of 64 of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    /// Which 64, from 0.
    pub(crate) column: u32,
    pub(crate) bits: u64,
}

/// What is computed of 64 rows, and used again for the next.
#[derive(Debug)]
pub(super) struct Scratch {
    bits: Vec<u64>,
    places: Places,
}

impl TestBits {
    fn new(bits: impl Iterator<Item = u32>) -> Self {
        let mut columns: BTreeMap<u32, u64> = BTreeMap::new();
        for bit in bits {
            *columns.entry(bit / 64).or_default() |= 1 << (bit % 64);
        }
        let masks: Vec<_> =
            columns.into_iter().map(|(column, bits)| Mask { column, bits }).collect();
        let mut count = 0;
        let mut before = Vec::with_capacity(masks.len());
        for mask in &masks {
            before.push(count);
            count += mask.bits.count_ones();
        }
        Self { masks, before, count: count as usize }
    }

    /// The test of a bit, which must be one of them.
    fn test(&self, bit: u32) -> Option<u16> {
        let at = self.masks.binary_search_by_key(&(bit / 64), |mask| mask.column).ok()?;
        let below = self.masks.get(at)?.bits & ((1 << (bit % 64)) - 1);
        u16::try_from(self.before[at] + below.count_ones()).ok()
    }

    pub(super) fn masks(&self) -> &[Mask] {
        &self.masks
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }
}

impl Slices {
    /// From trees as [`Nodes`](super::nodes::Nodes) has them, whose splits name a bit in so many
    /// bits; nothing where a tree is too large, or more bits are tested than a split can name.
    pub(super) fn new<'a>(
        trees: impl Iterator<Item = &'a [u32]> + Clone,
        test_width: u32,
    ) -> Option<Self> {
        let mask = (1 << test_width) - 1;
        let is_small = trees.clone().all(|tree| tree.len() < 2 * LEAF_COUNT_MAX);
        if !is_small {
            return None;
        }
        let all = trees.clone().flatten();
        let tested = TestBits::new(all.filter(|&node| node & LEAF == 0).map(|node| node & mask));
        let (tree_count, node_count) =
            trees.clone().fold((0, 0), |(trees, nodes), tree| (trees + 1, nodes + tree.len()));
        let mut slices = Self {
            tested,
            trees: Vec::with_capacity(tree_count),
            splits: Vec::with_capacity((node_count - tree_count) / 2),
            leaves: Vec::with_capacity(node_count.div_ceil(2)),
            fours: None,
            columns: None,
        };
        for tree in trees {
            slices.push(tree, mask)?;
        }
        let mut trees = slices.trees.iter();
        let is_in_order = trees.all(|tree| {
            let leaves = &slices.leaves[tree.first_leaf as usize..][..=tree.split_count as usize];
            leaves.iter().zip(tree.first_value..).all(|(&leaf, place)| leaf == place)
        });
        if is_in_order {
            slices.leaves = Vec::new();
        }
        slices.fours = Fours::new(&slices);
        if slices.fours.is_none() {
            slices.columns = Columns::new(&slices);
        }
        Some(slices)
    }

    fn push(&mut self, tree: &[u32], mask: u32) -> Option<()> {
        let first_leaf = self.leaves.len();
        let first_split = self.splits.len();
        let (mut leaf, mut split) = (0, FIRST_SPLIT);
        let mut numbers = [0; 2 * LEAF_COUNT_MAX];
        for (number, &node) in numbers.iter_mut().zip(tree) {
            let next = if node & LEAF == 0 {
                &mut split
            } else {
                self.leaves.push(node & !LEAF);
                &mut leaf
            };
            *number = *next;
            *next = next.wrapping_add(1);
        }
        let children = numbers[1..].as_chunks::<2>().0;
        for (node, &[left, right]) in tree.iter().filter(|&node| node & LEAF == 0).zip(children) {
            self.splits.push(Split { test: self.tested.test(node & mask)?, left, right });
        }
        self.trees.push(Tree {
            first_split: u32::try_from(first_split).ok()?,
            split_count: u32::try_from(self.splits.len() - first_split).ok()?,
            first_leaf: u32::try_from(first_leaf).ok()?,
            first_value: self.leaves.get(first_leaf).copied()?,
        });
        Some(())
    }

    pub(super) fn size_bytes(&self) -> usize {
        size_of_val(self.trees.as_slice())
            + size_of_val(self.splits.as_slice())
            + size_of_val(self.leaves.as_slice())
            + self.fours.as_ref().map_or(0, Fours::size_bytes)
            + self.columns.as_ref().map_or(0, Columns::size_bytes)
    }

    /// The same trees where all of them are as small as that.
    pub(super) const fn fours(&self) -> Option<&Fours> {
        self.fours.as_ref()
    }

    pub(super) const fn columns(&self) -> Option<&Columns> {
        self.columns.as_ref()
    }

    pub(super) const fn tested(&self) -> &TestBits {
        &self.tested
    }

    pub(super) fn tree_count(&self) -> usize {
        self.trees.len()
    }

    /// Breadth first; nothing for a tree that is not there.
    pub(super) fn splits(&self, tree: usize) -> &[Split] {
        let tree = self.trees.get(tree);
        let splits = tree.and_then(|tree| self.splits.get(tree.first_split as usize..));
        splits.zip(tree).map_or(&[], |(splits, tree)| &splits[..tree.split_count as usize])
    }

    /// Where the values of a tree's leaves are, where they lie one behind the other.
    #[inline]
    pub(super) fn values(&self, tree: usize) -> Option<std::ops::Range<usize>> {
        let tree = self.trees.get(tree)?;
        let first = tree.first_value as usize;
        self.leaves.is_empty().then_some(first..first + tree.split_count as usize + 1)
    }

    /// Whether it is so that the values of each tree's leaves lie one behind the other.
    pub(super) const fn is_in_order(&self) -> bool {
        self.leaves.is_empty()
    }

    /// Where the values of one leaf of each tree from `first` on are.
    #[inline]
    pub(super) fn leaves<'a>(
        &'a self,
        first: usize,
        numbers: &'a [u8],
    ) -> impl Iterator<Item = u32> + 'a {
        let trees = self.trees.get(first..).unwrap_or_default();
        trees.iter().zip(numbers).map(|(tree, &number)| self.place(*tree, number))
    }

    /// Where the values of a leaf are.
    #[inline]
    pub(super) fn leaf(&self, tree: usize, number: u8) -> u32 {
        self.trees.get(tree).map_or(0, |tree| self.place(*tree, number))
    }

    #[inline]
    fn place(&self, tree: Tree, number: u8) -> u32 {
        let number = u32::from(number);
        let leaf = self.leaves.get((tree.first_leaf + number) as usize);
        leaf.copied().unwrap_or(tree.first_value + number)
    }

    pub(super) fn scratch(&self) -> Scratch {
        Scratch { bits: vec![0; self.tested.count], places: [0; 256] }
    }
}

impl Scratch {
    /// Turns over up to 64 rows of so many words.
    pub(super) fn turn(&mut self, tested: &TestBits, words: &[u32], row_words: usize) {
        let mut bits = self.bits.iter_mut();
        for &Mask { column, bits: mask } in &tested.masks {
            let column = column as usize;
            let mut block = [0; LANE_COUNT];
            for (to, row) in block.iter_mut().zip(words.chunks_exact(row_words)) {
                let word = |at: usize| row.get(at).copied().map_or(0, u64::from);
                *to = word(column * 2) | word(column * 2 + 1) << 32;
            }
            transpose(&mut block);
            let mut mask = mask;
            for to in bits.by_ref().take(mask.count_ones() as usize) {
                *to = block[mask.trailing_zeros() as usize % LANE_COUNT];
                mask &= mask - 1;
            }
        }
    }

    /// The words of the tests, and one for each node.
    pub(super) fn parts(&mut self) -> (&[u64], &mut Places) {
        (&self.bits, &mut self.places)
    }
}

/// The words of a tree's leaves, and zeros up to the next eight of them.
#[inline(always)]
pub(crate) fn descend<'a>(splits: &[Split], bits: &[u64], places: &'a mut Places) -> &'a [u64] {
    let leaf_count = (splits.len() + 1).min(LEAF_COUNT_MAX);
    let end = leaf_count.next_multiple_of(STRIDE);
    places[leaf_count..end].fill(0);
    // A tree without splits has one leaf, to which all come.
    places[0] = u64::MAX;
    places[usize::from(FIRST_SPLIT)] = u64::MAX;
    let mut number = FIRST_SPLIT;
    for split in splits {
        let here = places[usize::from(number)];
        let right = here & bits.get(usize::from(split.test)).copied().unwrap_or(0);
        places[usize::from(split.right)] = right;
        places[usize::from(split.left)] = here ^ right;
        number = number.wrapping_add(1);
    }
    &places[..end]
}

/// For each row the number of the leaf whose word has it.
#[inline(always)]
pub(crate) fn name(leaves: &[u64], numbers: &mut [u8; LANE_COUNT]) {
    // A word for each bit of a number: the rows whose leaf's number has it.
    let mut planes = [0; 8];
    let mut all = [0; STRIDE];
    for (index, eight) in leaves.as_chunks::<STRIDE>().0.iter().enumerate() {
        all.iter_mut().zip(eight).for_each(|(all, word)| *all |= word);
        let any = eight.iter().fold(0, |any, word| any | word);
        for (bit, plane) in planes[3..].iter_mut().enumerate() {
            *plane |= if index >> bit & 1 == 1 { any } else { 0 };
        }
    }
    planes[0] = all[1] | all[3] | all[5] | all[7];
    planes[1] = all[2] | all[3] | all[6] | all[7];
    planes[2] = all[4] | all[5] | all[6] | all[7];
    *numbers = spread(&planes);
}

/// Bit `r` of word `b` to bit `b` of byte `r`.
#[inline(always)]
fn spread(planes: &[u64; 8]) -> [u8; LANE_COUNT] {
    let planes = planes.map(u64::to_le_bytes);
    let mut bytes = [0; LANE_COUNT];
    for (at, to) in bytes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // Eight rows: a square of 8 × 8 bits, turned over in halves, quarters and eighths.
        let mut square = u64::from_le_bytes(planes.map(|plane| plane[at]));
        for (by, low) in
            [(7, 0x00AA_00AA_00AA_00AA), (14, 0x0000_CCCC_0000_CCCC), (28, 0xF0F0_F0F0)]
        {
            let change = (square ^ (square >> by)) & low;
            square ^= change ^ (change << by);
        }
        *to = square.to_le_bytes();
    }
    bytes
}

/// Bit `c` of word `r` to bit `r` of word `c`: quarters of the square change places, and so on
/// within each.
fn transpose(square: &mut [u64; LANE_COUNT]) {
    exchange::<32>(square, 0x0000_0000_FFFF_FFFF);
    exchange::<16>(square, 0x0000_FFFF_0000_FFFF);
    exchange::<8>(square, 0x00FF_00FF_00FF_00FF);
    exchange::<4>(square, 0x0F0F_0F0F_0F0F_0F0F);
    exchange::<2>(square, 0x3333_3333_3333_3333);
    exchange::<1>(square, 0x5555_5555_5555_5555);
}

#[inline(always)]
fn exchange<const BY: usize>(square: &mut [u64; LANE_COUNT], low: u64) {
    for part in square.chunks_exact_mut(2 * BY) {
        let (first, second) = part.split_at_mut(BY);
        for (first, second) in first.iter_mut().zip(second) {
            let change = ((*first >> BY) ^ *second) & low;
            *first ^= change << BY;
            *second ^= change;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::simd::{self, Path};

    const WIDTH: u32 = 13;
    const ROW_WORDS: usize = 1 << (WIDTH - 5);

    /// A tree breadth first, as `Nodes` has it: splits have a bit and where their children are, of
    /// which nothing is read here.
    fn tree(leaf_count: usize, mut dice: impl FnMut(usize) -> usize, bits: &[u32]) -> Vec<u32> {
        let (mut nodes, mut open, mut splits) = (Vec::new(), 1, 0);
        while open > 0 {
            let left = leaf_count - 1 - splits;
            // The last open node must split while splits are left.
            let is_split = left > 0 && (open == 1 || dice(3) > 0);
            nodes.push(if is_split { bits[dice(bits.len())] } else { LEAF | nodes.len() as u32 });
            (open, splits) = if is_split { (open + 1, splits + 1) } else { (open - 1, splits) };
        }
        nodes
    }

    /// The number of the leaf at which a row ends, step by step.
    fn walked(nodes: &[u32], row: &[u32]) -> u8 {
        let mut at = 0;
        while nodes[at] & LEAF == 0 {
            let split = nodes[..at].iter().filter(|&node| node & LEAF == 0).count();
            let bit = nodes[at] as usize;
            at = 2 * split + 1 + (row[bit / 32] >> (bit % 32) & 1) as usize;
        }
        nodes[..at].iter().filter(|&node| node & LEAF != 0).count() as u8
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        #[test]
        fn rows_end_where_walks_end(
            leaf_counts in prop_oneof![
                prop::collection::vec(
                    prop_oneof![1_usize..=LEAF_COUNT_MAX, Just(LEAF_COUNT_MAX)], 1..70),
                // As small as those that go down four at a time.
                prop::collection::vec(prop_oneof![1_usize..=17, Just(17)], 1..260),
            ],
            bits in prop::collection::vec(0_u32..1 << WIDTH, 1..3_000),
            seed in 1_u64..,
            row_count in 1_usize..=LANE_COUNT,
        ) {
            let mut state = seed;
            let mut dice = |end: usize| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as usize % end
            };
            let trees: Vec<_> =
                leaf_counts.iter().map(|&count| tree(count, &mut dice, &bits)).collect();
            let slices = Slices::new(trees.iter().map(Vec::as_slice), WIDTH).unwrap();
            let words: Vec<u32> =
                (0..row_count * ROW_WORDS).map(|_| dice(1 << 32) as u32).collect();
            let rows: Vec<_> = words.chunks(ROW_WORDS).collect();
            let wanted: Vec<Vec<u8>> = trees
                .iter()
                .map(|nodes| rows.iter().map(|row| walked(nodes, row)).collect())
                .collect();

            let mut scratch = slices.scratch();
            scratch.turn(slices.tested(), &words, ROW_WORDS);
            let (bits, places) = scratch.parts();
            let mut numbers = [0; LANE_COUNT];
            for (tree, wanted) in wanted.iter().enumerate() {
                for path in Path::ALL {
                    simd::slice(path, slices.splits(tree), bits, places, &mut numbers);
                    prop_assert_eq!(&numbers[..row_count], wanted, "{:?}", path);
                }
            }

            if let Some(fours) = slices.fours() {
                prop_assert!(slices.columns().is_none());
                for (index, row) in rows.iter().enumerate() {
                    for path in Path::ALL {
                        let mut packed = vec![0; fours.row_len()];
                        simd::pack_row(path, row, slices.tested().masks(), &mut packed);
                        for first in (0..trees.len()).step_by(LANE_COUNT) {
                            let trees = fours.trees(first);
                            simd::fours(path, trees, &packed, fours.doublings(), &mut numbers);
                            let wanted = wanted.iter().skip(first).map(|of_rows| of_rows[index]);
                            for (number, wanted) in numbers.into_iter().zip(wanted) {
                                prop_assert_eq!(number, wanted, "{:?}", path);
                            }
                        }
                    }
                }
            }
            let Some(columns) = slices.columns() else { return Ok(()) };
            for (index, row) in rows.iter().enumerate() {
                for path in Path::ALL {
                    let mut packed = vec![0; columns.row_len()];
                    simd::pack_row(path, row, slices.tested().masks(), &mut packed);
                    for first in [0, LANE_COUNT] {
                        let trees = columns.trees(first);
                        let doublings = columns.doublings();
                        simd::whole_trees(path, trees, &packed, doublings, &mut numbers);
                        let wanted = wanted.iter().skip(first).map(|of_rows| of_rows[index]);
                        for (number, wanted) in numbers.into_iter().zip(wanted) {
                            prop_assert_eq!(number, wanted, "{:?}", path);
                        }
                    }
                }
            }
        }
    }
}
