//! Features and forests in the arithmetic of a switch or of a program in the kernel: whole numbers,
//! without floats or loops without a bound.
//!
//! Tables are made from a trained [`Model`] when it is read. What is done per packet, in
//! [`tables`], [`sums`], [`sketch`] and [`forest`], is what such a program does with the same
//! tables. Sizes, counts and gaps are exact. [`IntegerOptions`] says what is done with means and
//! variances: a switch neither multiplies nor divides. States of connections are not among the
//! columns.

pub mod forest;
pub mod kernel;
pub mod sketch;
pub mod sums;
pub mod tables;
#[cfg(test)]
mod tests;
pub mod verdicts;

use std::fmt;
use std::sync::Arc;

use model::numeric::BLOCK_ROWS;
use packet::{Batch, FlowDirection, HashSeed};

use crate::features::{
    Column, FeatureOptions, Features, Key, MISSING, SumColumn, facts::Facts, host_hash,
    merged::SEGMENT_GAP_NS,
};
use crate::judged::{Basis, PacketVerdict};
use crate::model::Model;
use crate::pipeline::Judge;
use forest::{IntegerForest, IntegerValue, Products};
use sketch::{IntegerPacket, IntegerSketch};
use sums::{GAP_SHIFT, IntegerSums};
use tables::{MANTISSA_BITS, PRODUCT_ERROR_MAX, PRODUCT_ERROR_MIN, Ranges, Squares};

/// Missing, as [`MISSING`] is among floats.
#[allow(clippy::cast_possible_truncation)]
const NONE: i64 = MISSING as i64;

/// What is done with means and variances.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum IntegerOptions {
    /// As a switch does, by tables, which are the larger the more exact they are.
    Switch {
        /// The relative error of products at most.
        product_error: f64,
        /// Bits by which squares are looked up.
        mantissa_bits: u32,
    },
    /// As the program in the kernel does, by multiplications and divisions of 64 bits.
    Kernel,
}

impl IntegerOptions {
    /// Of a switch: nearly all verdicts are those of floats.
    pub const SWITCH: Self = Self::Switch { product_error: 0.01, mantissa_bits: 10 };

    /// The tables that it takes, of no product yet.
    fn tables(self) -> Result<(Option<Products>, Squares), IntegerError> {
        let refused = |cause| Err(IntegerError { cause });
        let Self::Switch { product_error, mantissa_bits } = self else {
            return Ok((None, Squares::Exact));
        };
        if !(PRODUCT_ERROR_MIN..=PRODUCT_ERROR_MAX).contains(&product_error) {
            return refused(format!(
                "product error {product_error}; wanted: {PRODUCT_ERROR_MIN} to {PRODUCT_ERROR_MAX}"
            ));
        }
        if !MANTISSA_BITS.contains(&mantissa_bits) {
            return refused(format!("{mantissa_bits} bits of a square; wanted: 4 to 12"));
        }
        let products = Products::new(Ranges::new(product_error));
        Ok((Some(products), Squares::rounded(mantissa_bits)))
    }
}

/// Why a model cannot be computed in whole numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IntegerError {
    cause: String,
}

impl fmt::Display for IntegerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

impl std::error::Error for IntegerError {}

/// A model as tables.
#[derive(Clone, Debug)]
pub struct IntegerModel {
    options: FeatureOptions,
    columns: Vec<Column>,
    class_count: usize,
    flow: IntegerForest,
    packet: IntegerForest,
    /// Of the constants that ratios are compared with, where these are not divided.
    products: Option<Products>,
    squares: Squares,
}

/// Bytes of tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableSizes {
    /// Nodes and leaves of both forests.
    pub forest_bytes: usize,
    /// Products, and the ranges by which they are found.
    pub product_bytes: usize,
    /// Constants that have products.
    pub constants: usize,
    /// Squares, logarithms and powers.
    pub square_bytes: usize,
}

impl IntegerModel {
    /// The tables of a model.
    ///
    /// # Errors
    /// [`IntegerError`], where the model reads what only user space has, or the options are out of
    /// range.
    pub fn new(model: &Model, options: IntegerOptions) -> Result<Self, IntegerError> {
        let refused = |cause| Err(IntegerError { cause });
        let (mut products, squares) = options.tables()?;
        if model.options().source == crate::features::CounterStore::Exact {
            return refused(String::from("features.source: \"exact\"; wanted: \"sketch\""));
        }
        if let Some(column) = model.columns().iter().find(|column| column.state().is_some()) {
            return refused(format!(
                "column `{column}` is made of states of connections; wanted: a model without them, \
                 trained with --states 0"
            ));
        }
        if model.verdict_reuse().is_some() {
            return refused(String::from(
                "verdict_reuse: verdicts are used again; wanted: a model that classifies every \
                 packet, trained with --reuse-flows 0",
            ));
        }
        let unit = |at: usize| model.columns().get(at).copied().and_then(ratio_unit);
        let flow = IntegerForest::new(model.flow_forest(), unit, products.as_mut());
        let packet = IntegerForest::new(model.packet_forest(), unit, products.as_mut());
        Ok(Self {
            options: model.options().clone(),
            columns: model.columns().to_vec(),
            class_count: model.classes().len(),
            flow,
            packet,
            products,
            squares,
        })
    }

    /// Whether it can take the place of another one while packets come: the sums that are kept
    /// of keys have to mean the same.
    ///
    /// # Errors
    /// [`IntegerError`], with what differs.
    pub fn check_replaces(&self, other: &Self) -> Result<(), IntegerError> {
        let keeps_same = Key::ALL.iter().all(|&key| self.needs(key) == other.needs(key));
        let what = if self.class_count != other.class_count {
            "classes"
        } else if self.options != other.options || !keeps_same {
            "features: keys, sketches or windows"
        } else {
            return Ok(());
        };
        Err(IntegerError { cause: format!("it has other {what}") })
    }

    /// Bytes of its tables.
    #[must_use]
    pub fn sizes(&self) -> TableSizes {
        TableSizes {
            forest_bytes: self.flow.size_bytes() + self.packet.size_bytes(),
            product_bytes: self.products.as_ref().map_or(0, Products::size_bytes),
            constants: self.products.as_ref().map_or(0, Products::row_count),
            square_bytes: self.squares.size_bytes(),
        }
    }

    /// Whether sums of a key are kept.
    fn needs(&self, key: Key) -> bool {
        self.options.main_key() == Some(key) || self.columns.iter().any(|column| column.needs(key))
    }

    /// A packet's value of a column.
    #[inline]
    fn value(&self, column: Column, facts: &Facts, sums: &KeySums, is_back: bool) -> IntegerValue {
        let plain = |value: u64| IntegerValue {
            value: i64::try_from(value).unwrap_or(i64::MAX),
            ..IntegerValue::default()
        };
        let missing = IntegerValue { value: NONE, ..IntegerValue::default() };
        let (key, column) = match column {
            Column::Packet(column) => {
                return IntegerValue { value: column.whole(facts), ..IntegerValue::default() };
            }
            Column::Of(key, column) => (key, column),
            Column::State(_) => return missing,
        };
        let Some(sums) = &sums[key as usize] else { return missing };
        if is_of_gaps(column) && sums.gaps() == 0 {
            return missing;
        }
        let ratio = |value: u64, divisor: u32| match &self.products {
            Some(products) => {
                IntegerValue { divisor: products.ranges().place(divisor.into()), ..plain(value) }
            }
            None => {
                let value = tables::ratio(value, divisor.into());
                IntegerValue { value, ..IntegerValue::default() }
            }
        };
        match column {
            SumColumn::Packets => plain(sums.packets.into()),
            SumColumn::Marked if is_back && key == Key::Flow => {
                plain(sums.packets.saturating_sub(sums.marked).into())
            }
            SumColumn::Marked => plain(sums.marked.into()),
            SumColumn::SizeSum => plain(sums.size_sum),
            SumColumn::SizeMax => plain(sums.size_max.into()),
            SumColumn::SizeMin => plain(sums.size_min.into()),
            SumColumn::SizeMean => ratio(sums.size_sum, sums.packets),
            SumColumn::SizeVariance => ratio(sums.size_moment(&self.squares), sums.packets),
            SumColumn::GapSum => plain(sums.gap_sum()),
            SumColumn::GapMax => plain(sums.gap_max),
            SumColumn::GapMin => plain(sums.gap_min),
            SumColumn::GapMean => ratio(sums.gap_sum(), sums.gaps()),
            SumColumn::GapVariance => ratio(sums.gap_moment(&self.squares), sums.gaps()),
        }
    }
}

const fn is_of_gaps(column: SumColumn) -> bool {
    use SumColumn::{GapMax, GapMean, GapMin, GapVariance};
    matches!(column, GapMax | GapMean | GapMin | GapVariance)
}

/// Of a column that is a ratio, by what its thresholds are divided: the square of the unit that
/// squares are in.
const fn ratio_unit(column: Column) -> Option<f64> {
    match column {
        Column::Of(_, SumColumn::SizeMean | SumColumn::SizeVariance | SumColumn::GapMean) => {
            Some(1.0)
        }
        Column::Of(_, SumColumn::GapVariance) => Some((1_u64 << (2 * GAP_SHIFT)) as f64),
        _ => None,
    }
}

/// Sums of a packet's keys, by [`Key`].
type KeySums = [Option<IntegerSums>; Key::COUNT];

/// Judges packets as [`Classifier`](crate::Classifier) does, in whole numbers.
pub struct IntegerClassifier {
    model: Arc<IntegerModel>,
    /// Reads headers, flows and times.
    reader: Features,
    seed: HashSeed,
    main: Option<Key>,
    sketches: [Option<IntegerSketch>; Key::COUNT],
    values: Vec<IntegerValue>,
    weights: Vec<u64>,
}

impl IntegerClassifier {
    /// Before the first packet. The seed keys the hashes of sketches.
    #[must_use]
    pub fn new(model: Arc<IntegerModel>, seed: HashSeed) -> Self {
        let options = &model.options;
        let keyless = FeatureOptions { keys: Vec::new(), states: 0, ..options.clone() };
        let sketch = |key| {
            let new = || IntegerSketch::new(options.layers, options.buckets, options.window);
            model.needs(key).then(new)
        };
        Self {
            reader: Features::of(&keyless, &[], seed),
            seed,
            main: options.main_key(),
            sketches: Key::ALL.map(sketch),
            values: vec![IntegerValue::default(); model.columns.len()],
            weights: vec![0; model.class_count],
            model,
        }
    }

    /// From the next batch on it judges by this model, which
    /// [replaces](IntegerModel::check_replaces) the one before. Sums stay.
    pub fn put_model(&mut self, model: Arc<IntegerModel>) {
        self.values.resize(model.columns.len(), IntegerValue::default());
        self.model = model;
    }

    /// Packets of flows, or of hosts, that found no bucket.
    #[must_use]
    pub fn refused(&self, key: Key) -> u64 {
        self.sketches[key as usize].as_ref().map_or(0, IntegerSketch::refused)
    }

    /// One [`PacketVerdict`] for each record of the batch, in order; `judged` is cleared first.
    pub fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        judged.clear();
        for records in batch.records.chunks(BLOCK_ROWS) {
            self.judge_block(&Batch { records, ..*batch }, judged);
        }
        self.reader.end(batch);
    }

    #[allow(clippy::cast_precision_loss)]
    fn judge_block(&mut self, block: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        let Self { model, reader, seed, main, sketches, values, weights } = self;
        let arrived = reader.read(block);
        let mut steps = arrived.clock_steps().peekable();
        let packets = arrived.flows.iter().zip(arrived.hashes).zip(arrived.times);
        let packets = packets.zip(arrived.facts).zip(block.frames()).enumerate();
        for (index, ((((&flow, &hash), &time), facts), frame)) in packets {
            if steps.next_if_eq(&index).is_some() {
                sketches.iter_mut().flatten().for_each(IntegerSketch::forget);
            }
            let way = flow.map(|(_, way)| way);
            let mut sums = KeySums::default();
            for key in Key::ALL {
                let Some(sketch) = &mut sketches[key as usize] else { continue };
                let is_flow = key == Key::Flow;
                let hash = if is_flow { flow.map(|_| hash) } else { host_hash(*seed, &frame, key) };
                let Some(hash) = hash else { continue };
                let is_marked = if is_flow {
                    way == Some(FlowDirection::LowToHigh)
                } else {
                    // A packet of a flow of which this is all that is known began it.
                    let packets = sums[Key::Flow as usize].map_or(0, |flow| flow.packets);
                    packets <= facts.segments.into()
                };
                let packet = IntegerPacket { hash, time, size: facts.size, is_marked };
                let found = sketch.observe(&packet, &model.squares);
                sums[key as usize] = found.map(|found| {
                    for more in 1..facts.segments {
                        let is_last = more + 1 == facts.segments;
                        let size = if is_last { facts.last_size } else { facts.size };
                        let is_marked = is_marked && is_flow;
                        found.add_segment(size, SEGMENT_GAP_NS, is_marked, &model.squares);
                    }
                    *found
                });
            }
            let is_back = way == Some(FlowDirection::HighToLow);
            for (value, &column) in values.iter_mut().zip(&model.columns) {
                *value = model.value(column, facts, &sums, is_back);
            }
            let is_held = main.is_some_and(|key| sums[key as usize].is_some());
            let (basis, forest) =
                if is_held { (Basis::Flow, &model.flow) } else { (Basis::Packet, &model.packet) };
            let (class, weight) = forest.class(values, model.products.as_ref(), weights);
            let all: u64 = weights.iter().sum();
            // For display alone: nothing is decided by it.
            let confidence = weight as f32 / all.max(1) as f32;
            judged.push(PacketVerdict { class, confidence, basis, flow });
        }
    }
}

impl Judge for IntegerClassifier {
    fn judge(&mut self, batch: &Batch<'_>, judged: &mut Vec<PacketVerdict>) {
        Self::judge(self, batch, judged);
    }
}
