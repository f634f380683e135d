//! A forest's nodes as a table, for those who walk it in arithmetic of their own.

use super::NumericForest;

/// A node: to the left where the column's value is at most the threshold. The right child follows
/// the left one; a leaf's left child is itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TableNode {
    /// The column that it compares.
    pub column: usize,
    /// What with.
    pub threshold: f32,
    /// The left child, by its place among all nodes.
    pub left: u32,
}

impl NumericForest {
    /// Nodes of all trees.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = TableNode> {
        self.nodes.iter().map(|node| TableNode {
            column: node.column(),
            threshold: node.threshold,
            left: node.left(),
        })
    }

    /// Of each tree its first node and its depth.
    pub fn roots(&self) -> impl ExactSizeIterator<Item = (u32, u32)> {
        self.trees.iter().map(|tree| (tree.root, tree.depth))
    }

    /// Of each node the probability of each class; of inner nodes they may be no numbers.
    #[must_use]
    pub fn probabilities(&self) -> &[f64] {
        &self.values
    }
}
