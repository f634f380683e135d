//! A model as the program in the kernel reads it: `struct model` of `crates/capture/bpf/cut.h`.
//!
//! The tables are those of user space, number by number; only places differ. Columns have fixed
//! ones, and nodes and leaves of both forests lie behind each other.

use packet::Span;

use super::forest::IntegerForest;
use super::{IntegerError, IntegerModel};
use crate::features::{Column, Key, SumColumn};

/// Classes that a program in the kernel distinguishes at most.
pub const CLASSES_MAX: usize = 8;
const TREES_MAX: usize = 32;
/// Places of a forest's roots, more than there can be trees, as these are walked three at a time.
const ROOTS_LEN: usize = 64;
const DEPTH_MAX: u32 = 16;
const NODES_MAX: usize = 8_192;
/// A leaf without weights, in place of trees that are not there.
const NO_TREE: u32 = NODES_MAX as u32 - 1;
const LAYERS_MAX: usize = 4;
/// Columns of a packet alone come first, then those of each key.
const OWN_COLUMNS: usize = 32;
const KEY_COLUMNS: usize = 16;
/// The place of a value that is always 0, which leaves compare with 0.
const NO_VALUE: u32 = 127;

/// Bytes of a model.
pub const MODEL_LEN: usize =
    16 + 2 * (8 + 4 * ROOTS_LEN) + 16 * NODES_MAX + 4 * NODES_MAX * CLASSES_MAX;

/// What a program in the kernel needs to classify as this model does.
#[derive(Clone, Debug)]
pub struct KernelModel {
    /// The tables, [`MODEL_LEN`] bytes.
    pub bytes: Vec<u8>,
    /// Layers of each sketch.
    pub layers: usize,
    /// Buckets of a layer, a power of two.
    pub buckets: usize,
    /// Sums begin again after so long.
    pub window: Span,
}

impl IntegerModel {
    /// The same model for the kernel.
    ///
    /// # Errors
    /// [`IntegerError`], where it is larger than the program's tables, or a switch's.
    pub fn for_kernel(&self) -> Result<KernelModel, IntegerError> {
        self.check_size()?;
        let options = &self.options;
        let keys = Key::ALL.iter().filter(|&&key| self.needs(key));
        let keys: u32 = keys.map(|&key| 1 << key as u32).sum();
        let main = options.main_key().map_or(Key::COUNT as u32, |key| key as u32);
        let mut image = Image(Vec::with_capacity(MODEL_LEN));
        let classes = u32::try_from(self.class_count).unwrap_or(u32::MAX);
        image.words([classes, keys, main, self.ratios()]);
        let behind = self.flow.node_count();
        image.trees(&self.flow, 0);
        image.trees(&self.packet, behind);
        self.put_nodes(&mut image);
        for forest in [&self.flow, &self.packet] {
            for weights in forest.weights.chunks(self.class_count) {
                image.words(weights.iter().copied());
                image.fill(4 * (CLASSES_MAX - weights.len()));
            }
        }
        let nodes = behind + self.packet.node_count();
        image.fill(4 * CLASSES_MAX * (NODES_MAX - nodes));
        Ok(KernelModel {
            bytes: image.0,
            layers: options.layers,
            buckets: options.buckets.next_power_of_two(),
            window: options.window,
        })
    }

    fn check_size(&self) -> Result<(), IntegerError> {
        if self.products.is_some() {
            let cause = "tables of a switch; the program in the kernel multiplies and divides";
            return Err(IntegerError { cause: String::from(cause) });
        }
        let nodes = self.flow.node_count() + self.packet.node_count();
        let trees = self.flow.trees.len().max(self.packet.trees.len());
        let all = self.flow.trees.iter().chain(&self.packet.trees);
        let depth = all.map(|&(_, depth)| depth).max().unwrap_or(0) as usize;
        let limits = [
            ("classes", self.class_count, CLASSES_MAX),
            ("trees of a forest", trees, TREES_MAX),
            ("levels of a tree", depth, DEPTH_MAX as usize),
            ("nodes", nodes, NO_TREE as usize),
            ("layers of a sketch", self.options.layers, LAYERS_MAX),
        ];
        match limits.into_iter().find(|(_, seen, most)| seen > most) {
            Some((what, seen, most)) => Err(IntegerError {
                cause: format!("{seen} {what}; the program in the kernel has room for {most}"),
            }),
            None => Ok(()),
        }
    }

    /// Of each key four bits, `enum ratio`: which means and variances are compared.
    fn ratios(&self) -> u32 {
        let bit = |column: &Column| match *column {
            Column::Of(key, column) => {
                let bit = match column {
                    SumColumn::SizeMean => 1,
                    SumColumn::SizeVariance => 2,
                    SumColumn::GapMean => 4,
                    SumColumn::GapVariance => 8,
                    _ => 0,
                };
                bit << (4 * key as u32)
            }
            _ => 0,
        };
        self.columns.iter().map(bit).fold(0, |bits, bit| bits | bit)
    }

    fn put_nodes(&self, image: &mut Image) {
        let mut behind = 0;
        for forest in [&self.flow, &self.packet] {
            for (at, node) in forest.nodes.iter().enumerate() {
                if node.left as usize == at {
                    image.leaf(node.left + behind);
                    continue;
                }
                let column = self.columns.get(usize::from(node.column)).copied();
                image.node(node.threshold, node.left + behind, column.map_or(0, place_of));
            }
            behind += u32::try_from(forest.node_count()).unwrap_or(u32::MAX);
        }
        image.fill(16 * (NO_TREE.saturating_sub(behind)) as usize);
        image.leaf(NO_TREE);
    }
}

/// Where the program puts a column's value.
fn place_of(column: Column) -> u32 {
    let place = match column {
        Column::Packet(column) => column as usize,
        Column::Of(key, column) => OWN_COLUMNS + key as usize * KEY_COLUMNS + column as usize,
        // A model with states is refused.
        Column::State(_) => 0,
    };
    u32::try_from(place).unwrap_or(0)
}

/// Bytes as C lays them out, in the order of this host.
struct Image(Vec<u8>);

impl Image {
    fn put<const LEN: usize>(&mut self, bytes: [u8; LEN]) {
        self.0.extend_from_slice(&bytes);
    }

    fn words(&mut self, words: impl IntoIterator<Item = u32>) {
        words.into_iter().for_each(|word| self.put(word.to_ne_bytes()));
    }

    fn fill(&mut self, len: usize) {
        self.0.resize(self.0.len() + len, 0);
    }

    fn node(&mut self, threshold: i64, left: u32, place: u32) {
        self.put(threshold.to_ne_bytes());
        self.words([left, place]);
    }

    fn leaf(&mut self, at: u32) {
        self.node(0, at, NO_VALUE);
    }

    fn trees(&mut self, forest: &IntegerForest, behind: usize) {
        let behind = u32::try_from(behind).unwrap_or(u32::MAX);
        let depth = forest.trees.iter().map(|&(_, depth)| depth).max().unwrap_or(0);
        self.words([u32::try_from(forest.trees.len()).unwrap_or(u32::MAX), depth]);
        let roots = forest.trees.iter().map(|&(root, _)| root + behind);
        self.words(roots.chain(std::iter::repeat(NO_TREE)).take(ROOTS_LEN));
    }
}
