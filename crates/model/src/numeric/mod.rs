//! Forests of small trees over numbers: a question for each packet, not for each flow.
//!
//! Trees have any shape. They are walked without branches, several rows together: a node is eight
//! bytes, children stand side by side, and a leaf's only child is itself, so that a walk of as
//! many steps as its tree is deep ends at a leaf wherever it got there. Values lie column by
//! column, which is how they are computed for many packets anyway.
//!
//! Scores are those of scikit-learn's `predict_proba`: numbers are of 32 bits, and go left where
//! they are at most the threshold of 64 bits. No number of 32 bits lies between that threshold and
//! the largest one of 32 bits that is not above it, so the latter is what is compared with.

use std::fmt;

mod nodes;
mod path;
#[cfg(test)]
mod tests;

pub use nodes::TableNode;
pub use path::SplitChange;

/// Rows that are scored together at most, and how far one column's values lie from the next's:
/// few enough that forty columns, and what they are made from, stay in the first cache.
pub const BLOCK_ROWS: usize = 64;
/// Columns at most.
pub const COLUMN_COUNT_MAX: usize = 1 << COLUMN_BITS;
/// Nodes of all trees at most.
pub const NODE_COUNT_MAX: usize = 1 << (32 - COLUMN_BITS);
/// Classes at most.
pub const CLASS_COUNT_MAX: usize = 1024;
/// Probabilities of all nodes at most: 512 MiB.
const VALUE_COUNT_MAX: usize = 1 << 26;

const COLUMN_BITS: u32 = 10;

/// Rows that are walked together: their loads overlap. More do not fit the registers.
const LANES: usize = 8;

/// A tree as scikit-learn has it: of each node its column and threshold, where its children stand,
/// and the weights of the classes there. A leaf's children are −1.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TreeArrays {
    /// The column that is compared; ignored in a leaf.
    pub feature: Vec<i64>,
    /// At most this: to the left.
    pub threshold: Vec<f64>,
    /// The left child, after its parent.
    pub left: Vec<i64>,
    /// The right child, after its parent.
    pub right: Vec<i64>,
    /// Weights of the classes, counts or shares.
    pub value: Vec<Vec<f64>>,
}

/// Why trees cannot be a forest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NumericError {
    /// The tree at fault, from 0; nothing where it is all of them.
    pub tree: Option<usize>,
    /// What was seen and what was wanted.
    pub cause: String,
}

impl fmt::Display for NumericError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tree {
            Some(tree) => write!(f, "trees[{tree}].{}", self.cause),
            None => f.write_str(&self.cause),
        }
    }
}

impl std::error::Error for NumericError {}

/// Above or not: the left child follows in bits 10 to 31, the right one stands behind it.
#[derive(Clone, Copy, Debug)]
struct Node {
    threshold: f32,
    column_and_left: u32,
}

#[derive(Clone, Copy, Debug)]
struct Tree {
    root: u32,
    depth: u32,
}

/// Trees whose probabilities are averaged.
#[derive(Clone, Debug)]
pub struct NumericForest {
    column_count: usize,
    class_count: usize,
    trees: Vec<Tree>,
    nodes: Vec<Node>,
    /// Of each node the probability of each class, of inner ones for [`Self::explain`].
    values: Vec<f64>,
}

impl Node {
    const fn new(threshold: f32, column: u32, left: u32) -> Self {
        Self { threshold, column_and_left: left << COLUMN_BITS | column }
    }

    #[inline(always)]
    const fn column(self) -> usize {
        (self.column_and_left & (COLUMN_COUNT_MAX as u32 - 1)) as usize
    }

    #[inline(always)]
    const fn left(self) -> u32 {
        self.column_and_left >> COLUMN_BITS
    }
}

impl NumericForest {
    /// A forest of these trees over so many columns; everything they say is checked.
    ///
    /// # Errors
    /// [`NumericError`], with what was seen and what was wanted.
    pub fn new(
        class_count: usize,
        column_count: usize,
        trees: &[TreeArrays],
    ) -> Result<Self, NumericError> {
        let wrong = |cause| Err(NumericError { tree: None, cause });
        if !(1..=CLASS_COUNT_MAX).contains(&class_count) {
            return wrong(format!("{class_count} classes; wanted: 1 to {CLASS_COUNT_MAX}"));
        }
        if !(1..=COLUMN_COUNT_MAX).contains(&column_count) {
            return wrong(format!("{column_count} columns; wanted: 1 to {COLUMN_COUNT_MAX}"));
        }
        if trees.is_empty() {
            return wrong(String::from("no trees; wanted: one at least"));
        }
        let node_count: usize = trees.iter().map(|tree| tree.feature.len()).sum();
        if node_count > NODE_COUNT_MAX || node_count * class_count > VALUE_COUNT_MAX {
            return wrong(format!(
                "{node_count} nodes of {class_count} classes; wanted: {NODE_COUNT_MAX} nodes at \
                 most, and {VALUE_COUNT_MAX} values of them"
            ));
        }
        let mut forest = Self {
            column_count,
            class_count,
            trees: Vec::with_capacity(trees.len()),
            nodes: Vec::with_capacity(node_count),
            values: Vec::with_capacity(node_count * class_count),
        };
        for (index, tree) in trees.iter().enumerate() {
            forest.push(tree).map_err(|cause| NumericError { tree: Some(index), cause })?;
        }
        Ok(forest)
    }

    /// Columns of a row.
    #[must_use]
    pub const fn column_count(&self) -> usize {
        self.column_count
    }

    /// Classes.
    #[must_use]
    pub const fn class_count(&self) -> usize {
        self.class_count
    }

    /// Trees.
    #[must_use]
    pub const fn tree_count(&self) -> usize {
        self.trees.len()
    }

    /// The columns that any of its nodes compares, in order.
    #[must_use]
    pub fn columns_read(&self) -> Vec<usize> {
        let is_inner = |(at, node): &(usize, &Node)| node.left() as usize != *at;
        let inner = self.nodes.iter().enumerate().filter(is_inner);
        let columns: std::collections::BTreeSet<_> = inner.map(|(_, node)| node.column()).collect();
        columns.into_iter().collect()
    }

    /// Nodes level by level, so that children stand side by side.
    fn push(&mut self, tree: &TreeArrays) -> Result<(), String> {
        check_shape(tree, self.column_count, self.class_count)?;
        let first = self.nodes.len();
        let mut order = vec![0];
        let mut depths = vec![0];
        let mut at = 0;
        while let Some(&old) = order.get(at) {
            let new = first + at;
            let values = node_values(tree, old, self.class_count)?;
            self.values.extend(values);
            match children(tree, old) {
                // A leaf is its own child: nothing is above infinity.
                None => self.nodes.push(Node::new(f32::INFINITY, 0, index_of(new))),
                Some((left, right)) => {
                    let column = u32::try_from(tree.feature[old]).unwrap_or(0);
                    let left_at = index_of(first + order.len());
                    self.nodes.push(Node::new(not_above(tree.threshold[old]), column, left_at));
                    order.extend([left, right]);
                    depths.extend([depths[at] + 1; 2]);
                }
            }
            at += 1;
        }
        self.fill_unknown(first);
        let depth = depths.iter().copied().max().unwrap_or(0);
        self.trees.push(Tree { root: index_of(first), depth });
        Ok(())
    }

    /// Of some rows of a block the probability of each class, row after row in the order in which
    /// they are named. `columns` holds [`BLOCK_ROWS`] values of each column, column after column.
    /// A value that is no number goes left.
    ///
    /// # Panics
    /// Where a column or a row is not there.
    pub fn score(&self, columns: &[f32], rows: &[u16], scores: &mut Vec<f64>) {
        assert!(columns.len() >= self.column_count * BLOCK_ROWS, "a block of all columns");
        let (columns, _) = columns.as_chunks::<BLOCK_ROWS>();
        scores.clear();
        scores.resize(rows.len() * self.class_count, 0.0);
        for (rows, scores) in rows.chunks(LANES).zip(scores.chunks_mut(LANES * self.class_count)) {
            let mut lanes = [0; LANES];
            for (lane, &row) in lanes.iter_mut().zip(rows) {
                assert!(usize::from(row) < BLOCK_ROWS, "a row of the block");
                *lane = row as u8;
            }
            for &tree in &self.trees {
                let leaves = self.walk(tree, columns, &lanes);
                if self.class_count == 2 {
                    add_pairs(&self.values, &leaves, scores);
                } else {
                    add(&self.values, &leaves, scores, self.class_count);
                }
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let tree_count = self.trees.len() as f64;
        scores.iter_mut().for_each(|score| *score /= tree_count);
    }

    /// The leaves at which rows end.
    #[inline(always)]
    fn walk(&self, tree: Tree, columns: &[[f32; BLOCK_ROWS]], rows: &[u8; LANES]) -> [u32; LANES] {
        let mut at = [tree.root; LANES];
        for _ in 0..tree.depth {
            for (at, row) in at.iter_mut().zip(rows) {
                let node = self.nodes[*at as usize];
                let value = columns[node.column()][usize::from(*row) % BLOCK_ROWS];
                *at = node.left().wrapping_add(u32::from(value > node.threshold));
            }
        }
        at
    }
}

/// Adds what leaves say to the scores of their rows.
fn add(values: &[f64], leaves: &[u32; LANES], scores: &mut [f64], class_count: usize) {
    for (scores, &leaf) in scores.chunks_exact_mut(class_count).zip(leaves) {
        let start = leaf as usize * class_count;
        let values = &values[start..start + class_count];
        scores.iter_mut().zip(values).for_each(|(score, value)| *score += value);
    }
}

/// The same of two classes, without counting them.
#[inline(always)]
fn add_pairs(values: &[f64], leaves: &[u32; LANES], scores: &mut [f64]) {
    let (values, _) = values.as_chunks::<2>();
    for (scores, &leaf) in scores.as_chunks_mut::<2>().0.iter_mut().zip(leaves) {
        let [a, b] = values[leaf as usize];
        *scores = [scores[0] + a, scores[1] + b];
    }
}

/// Node counts are limited to what fits.
fn index_of(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The largest number of 32 bits that is not above one of 64.
#[allow(clippy::cast_possible_truncation)]
fn not_above(threshold: f64) -> f32 {
    let near = threshold as f32;
    if f64::from(near) > threshold { near.next_down() } else { near }
}

/// The children of a node whose tree was checked.
fn children(tree: &TreeArrays, node: usize) -> Option<(usize, usize)> {
    let left = usize::try_from(tree.left[node]).ok()?;
    Some((left, usize::try_from(tree.right[node]).ok()?))
}

/// Whether it is a tree at all: each node but the first is the child of one that stands before it.
fn check_shape(tree: &TreeArrays, column_count: usize, class_count: usize) -> Result<(), String> {
    let len = tree.feature.len();
    let lens = [
        ("threshold", tree.threshold.len()),
        ("left", tree.left.len()),
        ("right", tree.right.len()),
        ("value", tree.value.len()),
    ];
    if len == 0 {
        return Err(String::from("feature: no nodes; wanted: one at least"));
    }
    for (name, seen) in lens {
        if seen != len {
            return Err(format!("{name}: {seen} nodes; wanted: {len}, as in feature"));
        }
    }
    let mut is_child = vec![false; len];
    for node in 0..len {
        let (left, right) = (tree.left[node], tree.right[node]);
        if tree.value[node].len() != class_count {
            let seen = tree.value[node].len();
            return Err(format!("value[{node}]: {seen} classes; wanted: {class_count}"));
        }
        if (left, right) == (-1, -1) {
            continue;
        }
        for (name, child) in [("left", left), ("right", right)] {
            let is_after = usize::try_from(child).is_ok_and(|child| child > node && child < len);
            let child_at = usize::try_from(child).unwrap_or(0);
            if !is_after {
                return Err(format!(
                    "{name}[{node}]: {child}; wanted: a node after this one and before {len}, or \
                     -1 on both sides of a leaf"
                ));
            }
            if std::mem::replace(&mut is_child[child_at], true) {
                return Err(format!("{name}[{node}]: {child}; wanted: a node with one parent"));
            }
        }
        let column = tree.feature[node];
        if !usize::try_from(column).is_ok_and(|column| column < column_count) {
            return Err(format!("feature[{node}]: {column}; wanted: 0 to {}", column_count - 1));
        }
        let threshold = tree.threshold[node];
        if !threshold.is_finite() {
            return Err(format!("threshold[{node}]: {threshold}; wanted: a finite number"));
        }
    }
    match is_child.iter().skip(1).position(|&is_child| !is_child) {
        Some(at) => Err(format!("left: no parent of node {}; wanted: one", at + 1)),
        None => Ok(()),
    }
}

/// The probabilities of a node; none of an inner one whose weights are not to be believed, which
/// is not compared with anything to score a row.
fn node_values(
    tree: &TreeArrays,
    node: usize,
    class_count: usize,
) -> Result<impl Iterator<Item = f64>, String> {
    let weights = &tree.value[node];
    let sum: f64 = weights.iter().sum();
    let is_fine = weights.iter().all(|weight| *weight >= 0.0) && sum > 0.0 && sum.is_finite();
    if !is_fine && children(tree, node).is_none() {
        return Err(format!("value[{node}]: {weights:?}; wanted: shares that are not below 0"));
    }
    let share = move |at: usize| if is_fine { weights[at] / sum } else { f64::NAN };
    Ok((0..class_count).map(share))
}
