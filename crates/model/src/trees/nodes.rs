//! Nodes as they lie in memory, and lanes that walk through them.
//!
//! All trees lie in one array, each breadth first, so that the two children of a split lie side by
//! side. A split is the number of its pair of children within the tree, counted from 1, and below
//! it the bit that it tests, in as few bits as any of the forest needs. A leaf has the highest bit
//! set and below it where its values are; leaves of equal values may share them.

use super::slices::Slices;

/// Set in a leaf.
pub(crate) const LEAF: u32 = 1 << 31;

/// Walks that are taken together: enough to hide how long memory takes to answer.
pub(crate) const LANE_COUNT: usize = 64;

/// All trees of a forest. What is in it was checked when it was put in: every walk from a root
/// ends at a leaf, through nodes of this array, and asks for bits of a row only.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    words: Vec<u32>,
    /// Of each tree the index of its root, less one: then child pairs count from 1.
    bases: Vec<u32>,
    /// Bits of a node that name the tested bit.
    test_width: u32,
    /// Words of a row.
    row_words: usize,
    /// The bits of a row that any tree tests; of others no answer depends.
    tested: Vec<u32>,
    /// The same trees for many rows together, where they are small.
    slices: Option<Slices>,
}

/// Some walks: each has a tree and a row. Only [`Nodes`] makes them, of trees that it has and of
/// rows that lie wholly within the words that stand next to it.
pub(crate) struct Lanes<'a> {
    nodes: &'a Nodes,
    rows: &'a [u32],
    bases: [u32; LANE_COUNT],
    starts: [u32; LANE_COUNT],
    count: usize,
}

/// The bit of a word in which a bit of a record lies: words are little-endian, and bits of a record
/// count from a byte's highest.
pub(super) const fn bit_in_words(bit: usize) -> usize {
    bit ^ 7
}

impl Nodes {
    /// No trees yet, for rows of so many words.
    pub(super) fn new(row_words: usize) -> Self {
        let bit_count = row_words * 32;
        let test_width = bit_count.next_power_of_two().trailing_zeros();
        // A root at 0 would have no index less one.
        let (words, bases, tested) = (vec![LEAF], Vec::new(), vec![0; row_words]);
        Self { words, bases, test_width, row_words, tested, slices: None }
    }

    /// Adds a tree: for each node, breadth first, the bit that it tests, or nothing for a leaf;
    /// and for each leaf where its values are.
    pub(super) fn push(
        &mut self,
        tree: impl ExactSizeIterator<Item = Option<usize>>,
        leaves: &[u32],
    ) -> Result<(), String> {
        const NODE_COUNT_MAX: usize = 1 << 28;
        let node_count = tree.len();
        let first = self.words.len();
        if node_count > NODE_COUNT_MAX - self.words.len().min(NODE_COUNT_MAX) {
            return Err(format!("more than {NODE_COUNT_MAX} nodes in all; wanted: fewer"));
        }
        let pair_max = (1_usize << (31 - self.test_width)) - 1;
        let mut split_count = 0;
        for (index, bit) in tree.enumerate() {
            if index > 2 * split_count {
                return Err(format!("node {index} has no parent; wanted: {index} nodes"));
            }
            let word = if let Some(bit) = bit {
                split_count += 1;
                if split_count > pair_max || bit >= self.row_words * 32 {
                    return Err(format!(
                        "more than {pair_max} splits in a tree over rows of {} bytes; wanted: \
                         fewer leaves or packets",
                        self.row_words * 4
                    ));
                }
                let bit = bit_in_words(bit);
                if let Some(word) = self.tested.get_mut(bit / 32) {
                    *word |= 1 << (bit % 32);
                }
                split_count << self.test_width | bit
            } else {
                let leaf = leaves.get(index - split_count).copied().unwrap_or_default();
                (LEAF | leaf) as usize
            };
            self.words.push(u32::try_from(word).unwrap_or(LEAF));
        }
        if node_count != 2 * split_count + 1 {
            return Err(format!(
                "{node_count} nodes with {split_count} splits; wanted: two children for each split"
            ));
        }
        if leaves.len() != split_count + 1 {
            let (seen, wanted) = (leaves.len(), split_count + 1);
            return Err(format!("{seen} values for {wanted} leaves; wanted: one each"));
        }
        self.bases.push(u32::try_from(first - 1).unwrap_or_default());
        Ok(())
    }

    /// To be called after the last tree; without it, all rows walk.
    pub(super) fn finish(&mut self) {
        let starts = self.bases.iter().map(|&base| base as usize + 1);
        let ends = starts.clone().skip(1).chain([self.words.len()]);
        let trees = starts.zip(ends).map(|(start, end)| &self.words[start..end]);
        self.slices = Slices::new(trees, self.test_width);
    }

    pub(super) const fn slices(&self) -> Option<&Slices> {
        self.slices.as_ref()
    }

    pub(super) const fn tree_count(&self) -> usize {
        self.bases.len()
    }

    pub(super) const fn node_count(&self) -> usize {
        self.words.len() - 1
    }

    /// Whether any split is of this bit of a row's words.
    #[cfg(test)]
    pub(super) fn tests(&self, bit: usize) -> bool {
        let test = (1 << self.test_width) - 1;
        let mut splits = self.words.iter().filter(|&&word| word & LEAF == 0);
        splits.any(|word| word & test == bit as u32)
    }

    pub(super) fn size_bytes(&self) -> usize {
        size_of::<u32>() * (self.words.len() + self.bases.len() + self.tested.len())
            + self.slices.as_ref().map_or(0, Slices::size_bytes)
    }

    pub(super) const fn row_words(&self) -> usize {
        self.row_words
    }

    /// Whether no tree distinguishes two rows.
    pub(super) fn are_alike(&self, one: &[u32], other: &[u32]) -> bool {
        // Some words at a time: rows that differ mostly do so early, and a few words are compared
        // by one instruction.
        const WORDS: usize = 8;
        let [one, other, tested] = [one, other, &self.tested].map(|words| words.chunks(WORDS));
        one.zip(other).zip(tested).all(|((one, other), tested)| {
            let words = one.iter().zip(other).zip(tested);
            words.fold(0, |seen, ((one, other), tested)| seen | (one ^ other) & tested) == 0
        })
    }

    /// Bits of a node that name the tested bit.
    pub(crate) const fn test_width(&self) -> u32 {
        self.test_width
    }

    pub(crate) fn words(&self) -> &[u32] {
        &self.words
    }

    /// One row down up to [`LANE_COUNT`] trees from `first` on.
    pub(super) fn trees<'a>(&'a self, first: usize, row: &'a [u32]) -> Option<Lanes<'a>> {
        let bases = self.bases.get(first..)?;
        let count = bases.len().min(LANE_COUNT);
        let mut lanes = self.lanes(row, 1, count)?;
        lanes.bases.iter_mut().zip(bases).for_each(|(lane, &base)| *lane = base);
        Some(lanes)
    }

    /// `count` rows down one tree.
    pub(super) fn rows<'a>(
        &'a self,
        tree: u32,
        rows: &'a [u32],
        count: usize,
    ) -> Option<Lanes<'a>> {
        let &base = self.bases.get(tree as usize)?;
        let mut lanes = self.lanes(rows, count, count)?;
        lanes.bases[..count].fill(base);
        let row_words = u32::try_from(self.row_words).ok()?;
        let mut start = 0;
        for lane in &mut lanes.starts[..count] {
            *lane = start;
            start += row_words;
        }
        Some(lanes)
    }

    /// Lanes that all begin at the first tree and row; nothing where there are too many lanes, no
    /// tree, or not so many rows.
    fn lanes<'a>(&'a self, rows: &'a [u32], row_count: usize, count: usize) -> Option<Lanes<'a>> {
        let &base = self.bases.first()?;
        let is_whole = row_count <= count
            && (1..=LANE_COUNT).contains(&count)
            && rows.len() >= row_count * self.row_words
            && rows.len() <= i32::MAX as usize;
        let (bases, starts) = ([base; LANE_COUNT], [0; LANE_COUNT]);
        is_whole.then_some(Lanes { nodes: self, rows, bases, starts, count })
    }
}

impl Lanes<'_> {
    pub(crate) const fn nodes(&self) -> &Nodes {
        self.nodes
    }

    pub(crate) const fn rows(&self) -> &[u32] {
        self.rows
    }

    /// Of each lane the index of its tree's root, less one.
    pub(crate) const fn bases(&self) -> &[u32; LANE_COUNT] {
        &self.bases
    }

    /// Of each lane the index of its row's first word.
    pub(crate) const fn starts(&self) -> &[u32; LANE_COUNT] {
        &self.starts
    }

    /// How many lanes are wanted; the others are as valid, and walk for nothing.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// For each lane the leaf at which it ends.
    pub(crate) fn walk(&self, leaves: &mut [u32; LANE_COUNT]) {
        const TOGETHER: usize = 8;
        for first in (0..self.count).step_by(TOGETHER) {
            if self.count - first < TOGETHER {
                for (lane, leaf) in leaves.iter_mut().enumerate().take(self.count).skip(first) {
                    *leaf = self.walk_one(lane);
                }
            } else {
                self.walk_some::<TOGETHER>(first, leaves);
            }
        }
    }

    #[inline(always)]
    fn next(&self, node: u32, base: u32, start: u32) -> u32 {
        let width = self.nodes.test_width;
        let bit = node & ((1 << width) - 1);
        let word = self.rows.get(start.wrapping_add(bit >> 5) as usize).copied().unwrap_or(0);
        let is_right = word >> (bit & 31) & 1;
        let index = base.wrapping_add(node >> width << 1).wrapping_add(is_right);
        self.nodes.words.get(index as usize).copied().unwrap_or(LEAF)
    }

    fn walk_one(&self, lane: usize) -> u32 {
        let (base, start) = (self.bases[lane], self.starts[lane]);
        let mut node = self.root(lane);
        while node & LEAF == 0 {
            node = self.next(node, base, start);
        }
        node & !LEAF
    }

    #[inline(always)]
    fn root(&self, lane: usize) -> u32 {
        let index = self.bases[lane].wrapping_add(1) as usize;
        self.nodes.words.get(index).copied().unwrap_or(LEAF)
    }

    #[inline(always)]
    fn walk_some<const TOGETHER: usize>(&self, first: usize, leaves: &mut [u32; LANE_COUNT]) {
        let mut nodes: [u32; TOGETHER] = std::array::from_fn(|lane| self.root(first + lane));
        while nodes.iter().any(|node| node & LEAF == 0) {
            for (lane, node) in nodes.iter_mut().enumerate() {
                if *node & LEAF == 0 {
                    *node = self.next(*node, self.bases[first + lane], self.starts[first + lane]);
                }
            }
        }
        for (leaf, node) in leaves[first..].iter_mut().zip(nodes) {
            *leaf = node & !LEAF;
        }
    }
}
