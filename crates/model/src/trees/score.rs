//! From leaves to probabilities.

use super::nodes::LANE_COUNT;
use super::slices::{ROW_COUNT, Slices};
use super::{Forest, Kind, RowError, Rows};
use crate::simd::{self, Path};

/// From so many rows on, lanes hold rows and not trees: a tree then stays in the first cache.
const ROWS_SLICED_MIN: usize = 12;
const ROWS_TOGETHER_MIN: usize = 8;

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
        for row in scores.chunks_exact_mut(class_count) {
            row.copy_from_slice(&self.start);
        }
        let row_words = self.nodes.row_words();
        let mut scratch = None;
        let blocks = rows.words().chunks(row_words * LANE_COUNT);
        for (words, scores) in blocks.zip(scores.chunks_mut(class_count * LANE_COUNT)) {
            if words.len() >= row_words * ROWS_SLICED_MIN
                && self.tree_count() > 1
                && let Some(slices) = self.nodes.slices()
            {
                let scratch = scratch.get_or_insert_with(|| slices.bits());
                self.add_slices(path, slices, scratch, words, scores);
                continue;
            }
            if let Some(slices) = self.nodes.slices()
                && !slices.columns().is_empty()
                && self.tree_count() > 8
                && self.kind != Kind::Mean
                && path.has_bytes()
            {
                for (row, scores) in
                    words.chunks_exact(row_words).zip(scores.chunks_exact_mut(class_count))
                {
                    self.add_columns(slices, row, scores);
                }
                continue;
            }
            let is_alone = words.len() < row_words * ROWS_TOGETHER_MIN;
            let walks_trees = is_alone || path.prefers_one_row(row_words);
            if walks_trees && self.tree_count() > 1 {
                self.add_row_by_row(path, words, scores);
            } else {
                self.add_tree_by_tree(path, words, scores);
            }
        }
        for row in scores.chunks_exact_mut(class_count) {
            self.finish(row);
        }
        Ok(())
    }

    fn add_columns(&self, slices: &Slices, row: &[u32], scores: &mut [f64]) {
        const TOGETHER: usize = 64;
        let mut bytes = [0_u8; 1024 + 8];
        simd::pack(row, slices.masks(), &mut bytes);
        let bytes = &bytes[..slices.page_count() * 128];
        let mut ids = [[0_u8; TOGETHER]; 2];
        let tree_count = self.tree_count();
        let mut before: Option<usize> = None;
        for first in (0..tree_count).step_by(TOGETHER) {
            let count = (tree_count - first).min(TOGETHER);
            let pages = slices.pages().get(first..first + count).unwrap_or_default();
            let [ids, last] = &mut ids;
            simd::one_row(
                &slices.columns()[first..first + count],
                pages,
                bytes,
                slices.doublings(),
                ids,
            );
            for (&first, &id) in slices.firsts()[first..first + count].iter().zip(&*ids) {
                simd::fetch(&self.values[first as usize + usize::from(id)..][..1]);
            }
            if let Some(first) = before {
                self.add_ids(slices, first, last, scores);
            }
            before = Some(first);
            std::mem::swap(ids, last);
        }
        if let Some(first) = before {
            self.add_ids(slices, first, &ids[1], scores);
        }
    }

    fn add_ids(&self, slices: &Slices, first: usize, ids: &[u8; 64], scores: &mut [f64]) {
        let trees = slices.firsts()[first..].iter().zip(&self.tree_classes[first..]);
        for ((first, class), id) in trees.zip(ids) {
            scores[*class as usize] += self.values[*first as usize + usize::from(*id)];
        }
    }

    fn add_slices(
        &self,
        path: Path,
        slices: &Slices,
        bits: &mut [u64],
        words: &[u32],
        scores: &mut [f64],
    ) {
        let class_count = self.classes.len();
        let mut places = [0; 256];
        let mut ids = [0; ROW_COUNT];
        let mut sums: Vec<[f64; ROW_COUNT]> = self.start.iter().map(|&s| [s; ROW_COUNT]).collect();
        slices.turn(words, self.nodes.row_words(), bits);
        for tree in 0..self.tree_count() {
            if self.kind != Kind::Mean && tree + 1 < self.tree_count() {
                let next = slices.leaves(tree + 1);
                let first = next[0] as usize;
                simd::fetch(&self.values[first..first + next.len()]);
                simd::fetch(slices.splits(tree + 1));
            }
            simd::slice(path, slices.splits(tree), bits, &mut places, &mut ids);
            let leaves = slices.leaves(tree);
            if self.kind == Kind::Mean {
                for (row, &id) in scores.chunks_exact_mut(class_count).zip(&ids) {
                    self.add(tree, leaves[usize::from(id)], row);
                }
            } else {
                let first = leaves[0] as usize;
                let values = &self.values[first..first + leaves.len()];
                let class = self.tree_classes[tree] as usize;
                let sums = &mut sums[class];
                if let Ok(values) = <&[f64; 128]>::try_from(values) {
                    for (sum, &id) in sums.iter_mut().zip(&ids) {
                        *sum += values[usize::from(id & 127)];
                    }
                } else {
                    for (sum, &id) in sums.iter_mut().zip(&ids) {
                        *sum += values[usize::from(id)];
                    }
                }
            }
        }
        if self.kind != Kind::Mean {
            for (at, row) in scores.chunks_exact_mut(class_count).enumerate() {
                for (score, sum) in row.iter_mut().zip(&sums) {
                    *score = sum[at];
                }
            }
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
