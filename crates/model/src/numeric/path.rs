//! What each split on the way of a row did to the probability of a class.
//!
//! The contributions of Saabas ("Interpreting random forests", 2014; the `treeinterpreter`
//! package): a forest's probability is that at its roots plus the changes from each node to the
//! child that the row goes to. Each change belongs to the column that the node compares. What a
//! node's probability is, training wrote: the weighted shares of the classes of its rows.

use super::{BLOCK_ROWS, NumericForest};

/// What one split did to the probability of a class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SplitChange {
    /// The column that it compares.
    pub column: usize,
    /// What with.
    pub threshold: f32,
    /// Whether the row's value is above the threshold; otherwise it is at most that.
    pub is_above: bool,
    /// Change of the forest's probability: that of the tree, divided by the number of trees.
    pub change: f64,
}

impl NumericForest {
    /// Hands over the splits on the way of one row of a block, tree by tree, and returns the
    /// probability of the class before any of them. With their changes added to it, it is the
    /// probability that [`score`](Self::score) gives, but for rounding.
    ///
    /// # Panics
    /// Where a column, the row or the class is not there.
    #[allow(clippy::cast_precision_loss)]
    pub fn explain(
        &self,
        columns: &[f32],
        row: u16,
        class: u16,
        mut each: impl FnMut(SplitChange),
    ) -> f64 {
        let (row, class) = (usize::from(row), usize::from(class));
        assert!(columns.len() >= self.column_count * BLOCK_ROWS, "a block of all columns");
        assert!(row < BLOCK_ROWS && class < self.class_count, "a row of the block, and a class");
        let tree_count = self.trees.len() as f64;
        let probability = |at: u32| self.values[at as usize * self.class_count + class];
        let mut before = 0.0;
        for tree in &self.trees {
            let mut at = tree.root;
            before += probability(at);
            for _ in 0..tree.depth {
                let node = self.nodes[at as usize];
                if node.left() == at {
                    break;
                }
                let value = columns[node.column() * BLOCK_ROWS + row];
                let is_above = value > node.threshold;
                let child = node.left() + u32::from(is_above);
                each(SplitChange {
                    column: node.column(),
                    threshold: node.threshold,
                    is_above,
                    change: (probability(child) - probability(at)) / tree_count,
                });
                at = child;
            }
        }
        before / tree_count
    }

    /// Gives inner nodes from `first` on whose probabilities are not known the mean of their
    /// children's: files may have anything there, as rows are not scored by them.
    pub(super) fn fill_unknown(&mut self, first: usize) {
        let classes = self.class_count;
        for at in (first..self.nodes.len()).rev() {
            if self.values[at * classes].is_nan() {
                let left = self.nodes[at].left() as usize;
                for class in 0..classes {
                    let of = |node: usize| self.values[node * classes + class];
                    self.values[at * classes + class] = f64::midpoint(of(left), of(left + 1));
                }
            }
        }
    }
}
