//! Many rows down a tree at once, a bit for each row in every node: which rows come there.
//!
//! The rows are turned over first, so that each tested bit becomes a word that has a bit for each
//! row. Then a split is two instructions for 64 rows: who comes to it *and* has the bit goes
//! right, who comes and has it not goes left. No walk waits for memory, none is longer
//! than another, and all of it is the same on every processor.

use super::nodes::LEAF;

/// Leaves of a tree, so that all nodes have a number of a byte.
pub(crate) const LEAF_COUNT_MAX: usize = 128;
/// Words of leaves are taken so many at a time.
pub(crate) const STRIDE: usize = 8;
/// Rows of a word.
pub(crate) const ROW_COUNT: usize = 64;

/// All nodes of a tree: leaves, and after those of every tree splits.
pub(crate) type Places = [u64; 256];

/// A split: the word of the bit that it tests, and the places to which rows go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    pub(crate) test: u16,
    pub(crate) left: u8,
    pub(crate) right: u8,
}

/// A tree for one row, its splits in columns of bytes that fit a few registers.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Columns {
    /// Byte of the tested bit, within 128 of them.
    pub(crate) byte: [u8; LEAF_COUNT_MAX],
    /// The tested bit in it.
    pub(crate) mask: [u8; LEAF_COUNT_MAX],
    pub(crate) left: [u8; LEAF_COUNT_MAX],
    pub(crate) right: [u8; LEAF_COUNT_MAX],
}

/// Bytes of a row's tested bits that two registers hold.
pub(crate) const PAGE_LEN: usize = 128;
/// More pages are not looked through.
const PAGE_COUNT_MAX: usize = 8;

#[derive(Clone, Debug)]
struct Tree {
    first_split: u32,
    split_count: u32,
    first_leaf: u32,
}

/// A forest in this form.
#[derive(Clone, Debug)]
pub(super) struct Slices {
    /// Bits of a row's words that are tested, rising.
    tested: Vec<u32>,
    splits: Vec<Split>,
    trees: Vec<Tree>,
    /// Of each leaf, tree by tree and breadth first, where its values are.
    leaves: Vec<u32>,
    columns: Vec<Columns>,
    /// Of each split the page that has its byte, where there are several.
    pages: Vec<[u8; LEAF_COUNT_MAX]>,
    /// Of each 64 bits of a row those that are tested.
    masks: Vec<u64>,
    doublings: u32,
    firsts: Vec<u32>,
}

impl Slices {
    /// From trees as [`Nodes`](super::nodes::Nodes) has them; nothing where they are too large.
    pub(super) fn new<'a>(
        trees: impl Iterator<Item = &'a [u32]> + Clone,
        width: u32,
    ) -> Option<Self> {
        let mut tested: Vec<u32> = trees
            .clone()
            .flatten()
            .filter(|&node| node & LEAF == 0)
            .map(|node| node & ((1 << width) - 1))
            .collect();
        tested.sort_unstable();
        tested.dedup();
        let mut slices = Self {
            tested,
            splits: Vec::new(),
            trees: Vec::new(),
            leaves: Vec::new(),
            columns: Vec::new(),
            pages: Vec::new(),
            masks: Vec::new(),
            doublings: 0,
            firsts: Vec::new(),
        };
        for &bit in &slices.tested {
            let at = bit as usize / 64;
            slices.masks.resize(at + 1, 0);
            slices.masks[at] |= 1 << (bit % 64);
        }
        for tree in trees {
            slices.push(tree, width)?;
        }
        if slices.page_count() <= PAGE_COUNT_MAX {
            for tree in 0..slices.trees.len() {
                slices.push_columns(tree);
            }
        }
        Some(slices)
    }

    pub(super) fn page_count(&self) -> usize {
        self.tested.len().div_ceil(PAGE_LEN * 8).max(1)
    }

    fn push_columns(&mut self, tree: usize) {
        let zeros = [0; LEAF_COUNT_MAX];
        let mut columns = Columns { byte: zeros, mask: zeros, left: zeros, right: zeros };
        let mut pages = zeros;
        let mut depths = [0_u32; 256];
        let mut depth_max = 0;
        for (at, split) in self.splits(tree).iter().enumerate() {
            columns.byte[at] = (split.test / 8 % 128) as u8;
            columns.mask[at] = 1 << (split.test % 8);
            columns.left[at] = split.left;
            columns.right[at] = split.right;
            pages[at] = (split.test / 1024) as u8;
            let depth = depths[128 + at] + 1;
            depths[usize::from(split.left)] = depth;
            depths[usize::from(split.right)] = depth;
            depth_max = depth_max.max(depth);
        }
        self.doublings = self.doublings.max(depth_max.next_power_of_two().trailing_zeros());
        self.columns.push(columns);
        self.firsts.push(self.leaves(tree)[0]);
        if self.page_count() > 1 {
            self.pages.push(pages);
        }
    }

    pub(super) fn columns(&self) -> &[Columns] {
        &self.columns
    }
    pub(super) fn firsts(&self) -> &[u32] {
        &self.firsts
    }
    pub(super) fn pages(&self) -> &[[u8; LEAF_COUNT_MAX]] {
        &self.pages
    }
    pub(super) fn masks(&self) -> &[u64] {
        &self.masks
    }
    pub(super) fn doublings(&self) -> u32 {
        self.doublings
    }

    fn push(&mut self, tree: &[u32], width: u32) -> Option<()> {
        let split_count = tree.len() / 2;
        if split_count >= LEAF_COUNT_MAX {
            return None;
        }
        self.trees.push(Tree {
            first_split: u32::try_from(self.splits.len()).ok()?,
            split_count: u32::try_from(split_count).ok()?,
            first_leaf: u32::try_from(self.leaves.len()).ok()?,
        });
        let (mut leaf_at, mut split_at) = (0, 128);
        let mut places = Vec::with_capacity(tree.len());
        for &node in tree {
            if node & LEAF == 0 {
                places.push(u8::try_from(split_at).ok()?);
                split_at += 1;
            } else {
                places.push(u8::try_from(leaf_at).ok()?);
                leaf_at += 1;
                self.leaves.push(node & !LEAF);
            }
        }
        let (_, children) = places.split_first()?;
        let splits = tree.iter().filter(|&node| node & LEAF == 0);
        for (split, pair) in splits.zip(children.as_chunks::<2>().0) {
            let test = self.tested.binary_search(&(split & ((1 << width) - 1))).ok()?;
            let test = u16::try_from(test).ok()?;
            self.splits.push(Split { test, left: pair[0], right: pair[1] });
        }
        Some(())
    }

    /// Room for the words of the tested bits.
    pub(super) fn bits(&self) -> Vec<u64> {
        vec![0; self.tested.len()]
    }

    /// Turns up to 64 rows of so many words over.
    pub(super) fn turn(&self, words: &[u32], row_words: usize, bits: &mut [u64]) {
        let mut block = [0_u64; 64];
        let mut tested = self.tested.as_slice();
        let mut bits = bits;
        while let Some(&first) = tested.first() {
            let column = first / 64;
            let count = tested.iter().take_while(|&&bit| bit / 64 == column).count();
            let at = column as usize * 2;
            let is_pair = at + 1 < row_words;
            block.fill(0);
            for (to, row) in block.iter_mut().zip(words.chunks_exact(row_words)) {
                let high = if is_pair { row[at + 1] } else { 0 };
                *to = u64::from(row[at]) | u64::from(high) << 32;
            }
            transpose(&mut block);
            for (to, &bit) in bits.iter_mut().zip(&tested[..count]) {
                *to = block[(bit & 63) as usize];
            }
            tested = &tested[count..];
            bits = &mut bits[count..];
        }
    }

    pub(super) fn splits(&self, tree: usize) -> &[Split] {
        let tree = &self.trees[tree];
        &self.splits[tree.first_split as usize..][..tree.split_count as usize]
    }

    pub(super) fn leaves(&self, tree: usize) -> &[u32] {
        let tree = &self.trees[tree];
        &self.leaves[tree.first_leaf as usize..][..=tree.split_count as usize]
    }
}

/// The words of a tree's leaves: which rows come there.
#[inline(always)]
pub(crate) fn descend(splits: &[Split], bits: &[u64], places: &mut Places) {
    let first_split: u8 = 128;
    if splits.is_empty() {
        places[0] = u64::MAX;
    }
    places[usize::from(first_split)] = u64::MAX;
    let mut index = first_split;
    for split in splits {
        let here = places[usize::from(index)];
        let bit = bits.get(usize::from(split.test)).copied().unwrap_or(0);
        places[usize::from(split.left)] = here & !bit;
        places[usize::from(split.right)] = here & bit;
        index = index.wrapping_add(1);
    }
    let leaf_count = splits.len() + 1;
    for place in leaf_count..leaf_count.next_multiple_of(STRIDE).min(128) {
        places[place] = 0;
    }
}

/// Each row is in one word: of which number?
#[inline(always)]
pub(crate) fn name(leaves: &[u64], ids: &mut [u8; ROW_COUNT]) {
    let mut planes = [0_u64; 8];
    // Number of the word within eight.
    let mut any = [0_u64; STRIDE];
    let mut odd = [[0_u64; STRIDE]; 4];
    for (index, eight) in leaves.as_chunks::<STRIDE>().0.iter().enumerate() {
        for (any, word) in any.iter_mut().zip(eight) {
            *any |= word;
        }
        for (bit, odd) in odd.iter_mut().enumerate() {
            let mask = if index >> bit & 1 == 1 { u64::MAX } else { 0 };
            for (any, word) in odd.iter_mut().zip(eight) {
                *any |= word & mask;
            }
        }
    }
    planes[0] = any[1] | any[3] | any[5] | any[7];
    planes[1] = any[2] | any[3] | any[6] | any[7];
    planes[2] = any[4] | any[5] | any[6] | any[7];
    for (plane, odd) in planes[3..7].iter_mut().zip(odd) {
        *plane = odd.iter().fold(0, |all, word| all | word);
    }
    *ids = spread(planes);
}

/// Bit `r` of each of eight words to byte `r`, the first word's lowest.
#[inline(always)]
pub(crate) fn spread(mut words: [u64; 8]) -> [u8; 64] {
    // Each byte of the words is a row of an 8 × 8 matrix of bits; bytes change places first.
    let mut bytes = [0_u8; 64];
    for (index, word) in words.iter().enumerate() {
        for (at, byte) in word.to_le_bytes().into_iter().enumerate() {
            bytes[at * 8 + index] = byte;
        }
    }
    for (word, eight) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        let mut x = u64::from_le_bytes(*eight);
        let mut t = (x ^ (x >> 7)) & 0x00AA_00AA_00AA_00AA;
        x ^= t ^ (t << 7);
        t = (x ^ (x >> 14)) & 0x0000_CCCC_0000_CCCC;
        x ^= t ^ (t << 14);
        t = (x ^ (x >> 28)) & 0x0000_0000_F0F0_F0F0;
        x ^= t ^ (t << 28);
        *word = x;
    }
    let mut rows = [0; 64];
    for (to, word) in rows.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    rows
}

/// Bit `c` of word `r` to bit `r` of word `c`.
fn transpose(block: &mut [u64; 64]) {
    swap::<32>(block, 0x0000_0000_FFFF_FFFF);
    swap::<16>(block, 0x0000_FFFF_0000_FFFF);
    swap::<8>(block, 0x00FF_00FF_00FF_00FF);
    swap::<4>(block, 0x0F0F_0F0F_0F0F_0F0F);
    swap::<2>(block, 0x3333_3333_3333_3333);
    swap::<1>(block, 0x5555_5555_5555_5555);
}

#[inline(always)]
fn swap<const BY: usize>(block: &mut [u64; 64], low: u64) {
    for part in block.chunks_exact_mut(2 * BY) {
        let (first, second) = part.split_at_mut(BY);
        for (first, second) in first.iter_mut().zip(second) {
            let change = ((*first >> BY) ^ *second) & low;
            *first ^= change << BY;
            *second ^= change;
        }
    }
}
