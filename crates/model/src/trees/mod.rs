//! Trees that test bits of compact records where they lie.
//!
//! A split of a tree that was trained on header bits asks one thing of a value that is −1, 0 or 1:
//! is there a value (threshold below 0), or is it 1 (threshold from 0 on)? Both are one bit of a
//! compact record, and one form of node, four bytes long: which bit, and where its two children
//! lie. No row of 1,024 numbers is ever made.
//!
//! - [`Forest::parse`] reads a file of trees (`docs/specs/trees.md`) and checks all of it.
//! - [`Rows`] holds what is to be scored: records of the first packets of each flow, copied.
//! - [`Forest::score`] gives each row a probability for each class.
//!
//! Numbers are added in the order of the trees, whatever the batch and whatever the processor can
//! do: a row's score is the same to the last bit on every path and whatever other rows are scored
//! with it.
//!
//! Splits on other numbers, such as sizes and gaps, become bits as well: when a row is copied, one
//! search for each number finds all of its thresholds that are below it, and the outcomes are
//! appended to the row.

mod columns;
mod file;
mod fours;
mod nodes;
mod reason;
mod rows;
mod score;
mod slices;
mod test;
#[cfg(test)]
mod tests;

pub(crate) use columns::{Column, PAGE_LEN, Tree, follow, pack};
pub use file::{CLASS_COUNT_MAX, FILE_LEN_MAX, NUMBER_COUNT_MAX, ROW_LEN_MAX, TREE_COUNT_MAX};
pub(crate) use fours::{Four, LEAF_BYTE, TOGETHER, follow_fours};
pub(crate) use nodes::{LANE_COUNT, LEAF, Lanes};
pub use reason::{ForestError, RowError};
pub use rows::Rows;
pub(crate) use slices::{Mask, Places, STRIDE, Split, descend, name};

use crate::layout::Layout;
use crate::schema::Headers;
use nodes::Nodes;
use test::NumberTests;

pub use crate::simd::Path;

/// How leaves become probabilities.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// Each leaf has a probability for each class; a row's are the mean over the trees.
    Mean,
    /// Each tree has a class and adds to its score; softmax over the classes.
    Softmax,
    /// Two classes; every tree adds to one score, times this into the logistic function, which is
    /// the second class's probability.
    Sigmoid {
        /// The factor.
        slope: f64,
    },
}

/// Trees, ready to score.
#[derive(Clone, Debug)]
pub struct Forest {
    kind: Kind,
    classes: Vec<String>,
    schema_hash: String,
    layout: Layout,
    headers: Headers,
    packet_count: usize,
    /// Names of numbers in addition to the records.
    numbers: Vec<String>,
    number_tests: NumberTests,
    nodes: Nodes,
    /// Of each tree the class to which it adds; nothing for [`Kind::Mean`].
    tree_classes: Vec<u32>,
    /// What a row's scores begin with.
    start: Vec<f64>,
    /// A value for each leaf, or one for each class for [`Kind::Mean`], where leaves that have the
    /// same share them: of a forest whose trees were grown to the end most have, and they
    /// stay in the cache.
    values: Vec<f64>,
}

impl Forest {
    /// How leaves become probabilities.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Names of the classes, in the order of a row's scores.
    #[must_use]
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// [`FeatureSchema::hash`](crate::FeatureSchema::hash) of what the trees were trained on.
    #[must_use]
    pub fn schema_hash(&self) -> &str {
        &self.schema_hash
    }

    /// How the records are laid out that it reads.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Which headers of a packet in a tunnel it reads.
    #[must_use]
    pub const fn headers(&self) -> Headers {
        self.headers
    }

    /// How many packets of a flow it reads.
    #[must_use]
    pub const fn packet_count(&self) -> usize {
        self.packet_count
    }

    /// Bytes of the records of one row: those of all packets, one behind the other.
    #[must_use]
    pub const fn records_len(&self) -> usize {
        self.layout.record_len() * self.packet_count
    }

    /// Names of the numbers that it reads in addition to records, in order; most read none.
    #[must_use]
    pub fn numbers(&self) -> &[String] {
        &self.numbers
    }

    /// How many trees there are.
    #[must_use]
    pub const fn tree_count(&self) -> usize {
        self.nodes.tree_count()
    }

    /// How many splits and leaves they have.
    #[must_use]
    pub const fn node_count(&self) -> usize {
        self.nodes.node_count()
    }

    /// Bytes that it keeps in memory, but for names.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.nodes.size_bytes() + size_of::<f64>() * self.values.len()
    }
}
