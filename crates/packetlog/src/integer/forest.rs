//! A forest as a table of nodes: whole numbers compared with whole numbers.

use std::collections::HashMap;

use model::NumericForest;

use super::tables::{RATIO_BITS, RangePlace, Ranges, is_at_most};

/// Leaves' probabilities in units of 2⁻²⁴, so that those of all trees add up in 64 bits.
const WEIGHT_ONE: f64 = 16_777_216.0;

/// A node without a row in the table of products.
const NO_ROW: u32 = u32::MAX;

/// A value of a packet's column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IntegerValue {
    /// The number; of a ratio the quotient, or what is to be divided.
    pub value: i64,
    /// Of the latter the range of what it is divided by.
    pub divisor: RangePlace,
}

/// To the left where a value is at most the threshold, or at most its product with the divisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) threshold: i64,
    /// The constant's row in the table of products, if it is a ratio that is compared.
    row: u32,
    /// The left child, itself in a leaf; the right one follows it.
    pub(super) left: u32,
    pub(super) column: u16,
}

/// Products of the constants that ratios are compared with, a row each.
#[derive(Clone, Debug)]
pub struct Products {
    ranges: Ranges,
    rows: HashMap<u64, u32>,
    products: Vec<i64>,
}

/// Trees of one forest.
#[derive(Clone, Debug)]
pub struct IntegerForest {
    class_count: usize,
    /// Root and depth of each.
    pub(super) trees: Vec<(u32, u32)>,
    pub(super) nodes: Vec<Node>,
    /// Of each node in turn that of each class.
    pub(super) weights: Vec<u32>,
}

impl Products {
    /// Of no constant yet.
    pub(super) fn new(ranges: Ranges) -> Self {
        Self { ranges, rows: HashMap::new(), products: Vec::new() }
    }

    /// Ranges of divisors.
    #[must_use]
    pub const fn ranges(&self) -> &Ranges {
        &self.ranges
    }

    /// Constants.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of the table and its ranges.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.products) + self.ranges.len() * size_of::<u16>()
    }

    fn row(&mut self, constant: f64) -> u32 {
        let next = u32::try_from(self.rows.len()).unwrap_or(NO_ROW);
        let Self { ranges, rows, products } = self;
        *rows.entry(constant.to_bits()).or_insert_with(|| {
            products.extend(ranges.products(constant));
            next
        })
    }

    #[inline]
    fn of(&self, row: u32) -> &[i64] {
        let len = self.ranges.len();
        self.products.get(row as usize * len..).and_then(|rest| rest.get(..len)).unwrap_or(&[])
    }
}

impl IntegerForest {
    /// A forest over columns of which some are ratios, each with the square of the unit that its
    /// thresholds have. Ratios are compared by products; without a table of them they are
    /// [quotients](super::tables::ratio).
    pub(super) fn new(
        forest: &NumericForest,
        ratio_unit: impl Fn(usize) -> Option<f64>,
        mut products: Option<&mut Products>,
    ) -> Self {
        let nodes = forest.nodes().enumerate().map(|(at, node)| {
            let is_leaf = node.left as usize == at;
            let unit = if is_leaf { None } else { ratio_unit(node.column) };
            let of_one = unit.map_or(1.0, |unit| unit / f64::from(1 << RATIO_BITS));
            let threshold =
                if is_leaf { i64::MAX } else { largest_at_most(node.threshold, of_one) };
            let constant = unit.map(|unit| f64::from(node.threshold) / unit);
            let row = constant.zip(products.as_mut()).map(|(constant, all)| all.row(constant));
            Node {
                threshold,
                row: row.unwrap_or(NO_ROW),
                left: node.left,
                column: u16::try_from(node.column).unwrap_or(u16::MAX),
            }
        });
        let nodes = nodes.collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let weight = |share: &f64| (share * WEIGHT_ONE).round() as u32;
        Self {
            class_count: forest.class_count(),
            trees: forest.roots().collect(),
            nodes,
            weights: forest.probabilities().iter().map(weight).collect(),
        }
    }

    /// Bytes of nodes and leaves.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.nodes) + size_of_val(&*self.weights)
    }

    /// Nodes of all trees.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The class of the highest probability, of several such the first, and that in parts of the
    /// sum of all. `sums` has a place for each class.
    pub fn class(
        &self,
        values: &[IntegerValue],
        products: Option<&Products>,
        sums: &mut [u64],
    ) -> (u16, u64) {
        sums.fill(0);
        for &(root, depth) in &self.trees {
            let mut at = root as usize;
            for _ in 0..depth {
                let Some(node) = self.nodes.get(at) else { break };
                let value = values.get(usize::from(node.column)).copied().unwrap_or_default();
                let is_left = match products.filter(|_| node.row != NO_ROW) {
                    None => value.value <= node.threshold,
                    Some(all) => is_at_most(value.value, value.divisor, all.of(node.row)),
                };
                at = node.left as usize + usize::from(!is_left);
            }
            let weights = self.weights.iter().skip(at * self.class_count);
            sums.iter_mut().zip(weights).for_each(|(sum, &weight)| *sum += u64::from(weight));
        }
        let (mut class, mut highest) = (0, 0);
        for (at, &sum) in (0..).zip(&*sums) {
            if sum > highest {
                (class, highest) = (at, sum);
            }
        }
        (class, highest)
    }
}

/// The largest number of units, of this size, that is at most the threshold when it is a float of
/// 32 bits: a value that is compared there was rounded, so it may be larger than the threshold. A
/// missing value is −1 in any unit.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn largest_at_most(threshold: f32, of_one: f64) -> i64 {
    // Beyond what any value is.
    if threshold < -1.0 {
        return -2;
    }
    let is_at_most = |units: i64| (units as f64 * of_one) as f32 <= threshold;
    let (mut least, mut beyond) = (-1_i64, i64::MAX);
    if threshold < 0.0 || is_at_most(beyond) {
        return if threshold < 0.0 { least } else { beyond };
    }
    while beyond.abs_diff(least) > 1 {
        let middle = least.midpoint(beyond);
        if is_at_most(middle) {
            least = middle;
        } else {
            beyond = middle;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_whole_number_is_compared_as_its_float_is(
            threshold in -3.0f32..1e12, near in -70_000i64..70_000,
        ) {
            let value = (threshold as i64 + near).max(-1);
            let is_left = value <= largest_at_most(threshold, 1.0);
            prop_assert_eq!(is_left, value as f32 <= threshold);
        }
    }

    #[test]
    fn no_threshold_overflows() {
        for of_one in [1.0, 1.0 / 65_536.0, 0.062_5] {
            assert_eq!(largest_at_most(f32::MAX, of_one), i64::MAX);
            let below_zero = [-0.5, -7.0].map(|threshold| largest_at_most(threshold, of_one));
            assert_eq!(below_zero, [-1, -2]);
            assert_eq!(largest_at_most(0.0, of_one), 0);
        }
    }
}
