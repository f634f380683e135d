//! From leaves to probabilities.

use super::columns::{Columns, PACKED_LEN};
use super::fours::Fours;
use super::nodes::LANE_COUNT;
use super::slices::{LEAF_COUNT_MAX, Scratch, Slices};
use super::{Forest, Kind, RowError, Rows};
use crate::simd::{self, Path};

/// From so many rows on a tree is gone through by all of them, and stays in the first cache
/// meanwhile; fewer go one by one...
const MANY_ROWS: usize = 8;
/// ... and so do some more, where a row is followed through whole trees ...
const MANY_ROWS_WHOLE: usize = 20;
/// ... and all, where it goes down four of them together.
const MANY_ROWS_FOURS: usize = usize::MAX;

/// Of fewer trees, what has to be done with rows first would cost more than is saved.
const SMALL_TREES_MIN: usize = 8;

/// Small trees that one row goes down as a whole.
#[derive(Clone, Copy)]
enum Whole<'a> {
    Fours(&'a Fours),
    Columns(&'a Columns),
}

impl<'a> Whole<'a> {
    fn of(slices: &'a Slices) -> Option<Self> {
        let columns = || slices.columns().map(Self::Columns);
        slices.fours().map(Self::Fours).or_else(columns)
    }

    /// From so many rows on it takes longer than going through trees by all rows.
    const fn many_rows(self) -> usize {
        match self {
            Self::Fours(_) => MANY_ROWS_FOURS,
            Self::Columns(_) => MANY_ROWS_WHOLE,
        }
    }

    const fn row_len(self) -> usize {
        match self {
            Self::Fours(fours) => fours.row_len(),
            Self::Columns(columns) => columns.row_len(),
        }
    }

    /// The numbers of the leaves of a packed row, of 64 trees from one on.
    fn find(self, path: Path, first: usize, packed: &[u8], numbers: &mut [u8; LANE_COUNT]) {
        match self {
            Self::Fours(fours) => {
                simd::fours(path, fours.trees(first), packed, fours.doublings(), numbers);
            }
            Self::Columns(columns) => {
                let trees = columns.trees(first);
                simd::whole_trees(path, trees, packed, columns.doublings(), numbers);
            }
        }
    }
}

/// What the scores of 64 rows are made with, and of the next.
#[derive(Debug)]
struct Sliced {
    scratch: Scratch,
    /// Of each class the scores of all rows; not of [`Kind::Mean`].
    sums: Vec<[f64; LANE_COUNT]>,
}

impl Forest {
    /// Writes for each row a probability for each class, row by row.
    ///
    /// # Errors
    /// [`RowError`], where rows are of another forest or `scores` has another length.
    pub fn score(&self, rows: &Rows, scores: &mut [f64]) -> Result<(), RowError> {
        self.score_on(Path::best(), rows, scores)
    }

    /// The same on a way that is named; on the portable one where the processor has no such.
    ///
    /// # Errors
    /// As [`score`](Self::score).
    pub fn score_on(&self, path: Path, rows: &Rows, scores: &mut [f64]) -> Result<(), RowError> {
        let class_count = self.classes.len();
        let wanted = rows.len() * class_count;
        if rows.row_words() != self.nodes.row_words() {
            return Err(RowError::OtherForest);
        }
        if scores.len() != wanted {
            return Err(RowError::ScoreCount { seen: scores.len(), wanted });
        }
        let kept_count = rows.words().len() / self.nodes.row_words();
        let (kept, _) = scores.split_at_mut(kept_count * class_count);
        for row in kept.chunks_exact_mut(class_count) {
            row.copy_from_slice(&self.start);
        }
        let path = if path.is_there() { path } else { Path::Portable };
        let mut sliced = None;
        let blocks = rows.words().chunks(self.nodes.row_words() * LANE_COUNT);
        for (words, scores) in blocks.zip(kept.chunks_mut(class_count * LANE_COUNT)) {
            self.add_block(path, words, scores, &mut sliced);
        }
        for row in kept.chunks_exact_mut(class_count) {
            self.finish(row);
        }
        rows.repeat(scores, class_count);
        Ok(())
    }

    /// Up to [`LANE_COUNT`] rows, on the way that is the shortest for so many.
    fn add_block(
        &self,
        path: Path,
        words: &[u32],
        scores: &mut [f64],
        sliced: &mut Option<Sliced>,
    ) {
        let row_words = self.nodes.row_words();
        let row_count = words.len() / row_words;
        let slices = self.nodes.slices().filter(|_| self.tree_count() >= SMALL_TREES_MIN);
        let whole = slices.and_then(Whole::of).filter(|_| path.looks_up_bytes());
        let is_few = row_count < whole.map_or(MANY_ROWS, Whole::many_rows);
        match (slices, whole) {
            (Some(slices), _) if !is_few => {
                let sliced = sliced.get_or_insert_with(|| Sliced {
                    scratch: slices.scratch(),
                    sums: vec![[0.0; LANE_COUNT]; self.classes.len()],
                });
                self.add_slices(path, slices, sliced, words, scores);
            }
            (Some(slices), Some(whole)) => {
                self.add_whole_trees(path, slices, whole, words, scores);
            }
            _ if self.tree_count() > 1
                && (row_count < MANY_ROWS || path.prefers_one_row(row_words)) =>
            {
                self.add_row_by_row(path, words, scores);
            }
            _ => self.add_tree_by_tree(path, words, scores),
        }
    }

    /// Up to [`LANE_COUNT`] rows down each tree.
    fn add_tree_by_tree(&self, path: Path, words: &[u32], scores: &mut [f64]) {
        let class_count = self.classes.len();
        let count = scores.len() / class_count;
        let mut leaves = [0; LANE_COUNT];
        for tree in 0..self.tree_count() {
            let lanes =
                u32::try_from(tree).ok().and_then(|tree| self.nodes.rows(tree, words, count));
            let Some(lanes) = lanes else { return };
            simd::walk(path, &lanes, &mut leaves);
            for (row, &leaf) in scores.chunks_exact_mut(class_count).zip(&leaves) {
                self.add(tree, leaf, row);
            }
        }
    }

    /// Each row down [`LANE_COUNT`] trees, which the next row finds in the cache.
    fn add_row_by_row(&self, path: Path, words: &[u32], scores: &mut [f64]) {
        let (row_words, class_count) = (self.nodes.row_words(), self.classes.len());
        let mut leaves = [0; LANE_COUNT];
        for first in (0..self.tree_count()).step_by(LANE_COUNT) {
            let rows = words.chunks_exact(row_words).zip(scores.chunks_exact_mut(class_count));
            for (row, scores) in rows {
                let Some(lanes) = self.nodes.trees(first, row) else { return };
                simd::walk(path, &lanes, &mut leaves);
                for (lane, &leaf) in leaves.iter().take(lanes.count()).enumerate() {
                    self.add(first + lane, leaf, scores);
                }
            }
        }
    }

    /// Up to [`LANE_COUNT`] rows down small trees, which they go through together.
    fn add_slices(
        &self,
        path: Path,
        slices: &Slices,
        sliced: &mut Sliced,
        words: &[u32],
        scores: &mut [f64],
    ) {
        let class_count = self.classes.len();
        let is_in_order = slices.is_in_order() && self.kind != Kind::Mean;
        for (sums, &start) in sliced.sums.iter_mut().zip(&self.start) {
            sums.fill(start);
        }
        sliced.scratch.turn(slices.tested(), words, self.nodes.row_words());
        let (bits, places) = sliced.scratch.parts();
        let mut numbers = [0; LANE_COUNT];
        for tree in 0..self.tree_count() {
            // Each tree is read once, from start to end: the next comes while this is gone through.
            simd::fetch(slices.splits(tree + 1));
            simd::fetch(self.values_of(slices, tree + 1));
            simd::slice(path, slices.splits(tree), bits, places, &mut numbers);
            if !is_in_order {
                for (row, &number) in scores.chunks_exact_mut(class_count).zip(&numbers) {
                    self.add(tree, slices.leaf(tree, number), row);
                }
            } else if let Some(&class) = self.tree_classes.get(tree)
                && let Some(sums) = sliced.sums.get_mut(class as usize)
            {
                add_named(self.values_of(slices, tree), &numbers, sums);
            }
        }
        if is_in_order {
            for (at, row) in scores.chunks_exact_mut(class_count).enumerate() {
                row.iter_mut().zip(&sliced.sums).for_each(|(score, sums)| *score = sums[at]);
            }
        }
    }

    /// Of boosted trees the values of a tree's leaves.
    fn values_of(&self, slices: &Slices, tree: usize) -> &[f64] {
        let is_boosted = self.kind != Kind::Mean;
        let range = slices.values(tree).filter(|_| is_boosted);
        range.and_then(|range| self.values.get(range)).unwrap_or_default()
    }

    /// A few rows down small trees, each row in one step through all splits of a tree.
    fn add_whole_trees(
        &self,
        path: Path,
        slices: &Slices,
        whole: Whole<'_>,
        words: &[u32],
        scores: &mut [f64],
    ) {
        let (row_words, class_count) = (self.nodes.row_words(), self.classes.len());
        let row_len = whole.row_len();
        let mut packed = [0; PACKED_LEN];
        let together = PACKED_LEN / row_len;
        let blocks = words.chunks(together * row_words);
        for (words, scores) in blocks.zip(scores.chunks_mut(together * class_count)) {
            packed.fill(0);
            let rows = words.chunks_exact(row_words).zip(packed.chunks_exact_mut(row_len));
            let row_count = rows.len();
            for (row, packed) in rows {
                simd::pack_row(path, row, slices.tested().masks(), packed);
            }
            let packed = packed[..row_count * row_len].chunks_exact(row_len);
            self.add_packed(path, (slices, whole), packed, scores);
        }
    }

    fn add_packed<'a>(
        &self,
        path: Path,
        (slices, whole): (&Slices, Whole<'_>),
        rows: impl Iterator<Item = &'a [u8]> + Clone,
        scores: &mut [f64],
    ) {
        let class_count = self.classes.len();
        if let Whole::Fours(fours) = whole
            && self.kind != Kind::Mean
            && fours.is_in_order()
        {
            let mut numbers = [0; LANE_COUNT];
            for (packed, row) in rows.zip(scores.chunks_exact_mut(class_count)) {
                for first in (0..self.tree_count()).step_by(LANE_COUNT) {
                    whole.find(path, first, packed, &mut numbers);
                    let classes = self.tree_classes.get(first..).unwrap_or_default();
                    fours.add(first, &numbers, classes, &self.values, row);
                }
            }
            return;
        }
        // Values come from far away. They are asked for as soon as it is known which, and added
        // when the next trees have been gone through.
        let (mut numbers, mut before) = ([0; LANE_COUNT], [0; LANE_COUNT]);
        let mut waiting: Option<(usize, usize)> = None;
        for first in (0..self.tree_count()).step_by(LANE_COUNT) {
            for (row, packed) in rows.clone().enumerate() {
                whole.find(path, first, packed, &mut numbers);
                self.fetch_values(slices, first, &numbers);
                if let Some((first, row)) = waiting.replace((first, row)) {
                    self.add_numbered(slices, first, &before, &mut scores[row * class_count..]);
                }
                std::mem::swap(&mut numbers, &mut before);
            }
        }
        if let Some((first, row)) = waiting {
            self.add_numbered(slices, first, &before, &mut scores[row * class_count..]);
        }
    }

    /// Asks for the values of the leaves of these numbers, of trees from one on.
    fn fetch_values(&self, slices: &Slices, first: usize, numbers: &[u8; LANE_COUNT]) {
        let stride = if self.kind == Kind::Mean { self.classes.len() } else { 1 };
        for leaf in slices.leaves(first, numbers) {
            simd::fetch(
                self.values
                    .get(leaf as usize * stride..)
                    .and_then(|of| of.get(..1))
                    .unwrap_or_default(),
            );
        }
    }

    fn add_numbered(
        &self,
        slices: &Slices,
        first: usize,
        numbers: &[u8; LANE_COUNT],
        scores: &mut [f64],
    ) {
        let Some(row) = scores.get_mut(..self.classes.len()) else { return };
        for (at, leaf) in slices.leaves(first, numbers).enumerate() {
            self.add(first + at, leaf, row);
        }
    }

    #[inline(always)]
    fn add(&self, tree: usize, leaf: u32, scores: &mut [f64]) {
        let leaf = leaf as usize;
        if self.kind == Kind::Mean {
            let class_count = scores.len();
            let values = self.values.get(leaf * class_count..).unwrap_or_default();
            scores.iter_mut().zip(values).for_each(|(score, value)| *score += value);
        } else if let Some(&class) = self.tree_classes.get(tree)
            && let Some(score) = scores.get_mut(class as usize)
            && let Some(value) = self.values.get(leaf)
        {
            *score += value;
        }
    }

    fn finish(&self, row: &mut [f64]) {
        match self.kind {
            Kind::Mean => {
                let tree_count = u32::try_from(self.tree_count()).map_or(f64::NAN, f64::from);
                row.iter_mut().for_each(|score| *score /= tree_count);
            }
            Kind::Softmax => softmax(row),
            Kind::Sigmoid { slope } => {
                if let [first, second] = row {
                    *second = 1.0 / (1.0 + (-slope * *second).exp());
                    *first = 1.0 - *second;
                }
            }
        }
    }
}

/// Adds to each row's sum the value of its leaf.
#[inline]
fn add_named(values: &[f64], numbers: &[u8; LANE_COUNT], sums: &mut [f64; LANE_COUNT]) {
    if let Ok(values) = <&[f64; LEAF_COUNT_MAX]>::try_from(values) {
        // As large as a small tree can be; its numbers need no check then.
        for (sum, &number) in sums.iter_mut().zip(numbers) {
            *sum += values[usize::from(number) % LEAF_COUNT_MAX];
        }
    } else {
        for (sum, &number) in sums.iter_mut().zip(numbers) {
            *sum += values.get(usize::from(number)).copied().unwrap_or(0.0);
        }
    }
}

/// Less the largest, so that nothing overflows; summed in the order of the classes.
fn softmax(row: &mut [f64]) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for score in row.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    row.iter_mut().for_each(|score| *score /= sum);
}
