//! Scores of a site's packets by blocks of time, and the threshold that they allow.
//!
//! Packets of a flow, and flows of a host, resemble each other: the unit that is taken to be
//! exchangeable is a block of time. The loss of a block at a threshold is the share of its packets
//! that would be marked. It lies between 0 and 1 and falls as the threshold rises, so conformal
//! risk control (Angelopoulos, Bates, Fisch, Lei and Schuster, 2022,
//! <https://arxiv.org/abs/2208.02814>, theorem 1) applies: with the lowest threshold at which (sum of the losses of `n` blocks + 1) /
//! (n + 1) is within the budget, the expected loss of another block is within it.

use std::collections::BTreeMap;

use packet::{Span, Timestamp};

use crate::score::{MODEL_THRESHOLD, SCORE_STEPS, ScoreStep, Threshold};

/// The shortest blocks: within less, one flow is most of the packets.
const BLOCK_MIN: Span = Span::from_seconds(1);
/// Blocks that are held for each that the budget needs at least: with so many the correction for
/// finitely many blocks costs an eighth of the budget at most, once they fill.
const BLOCKS_PER_NEEDED: f64 = 8.0;
/// No more of the blocks than this share is left out: what is more frequent is the site.
pub const LEFT_OUT_MAX: f64 = 0.1;
/// A block is left out if its share of marked packets exceeds the median by more than this and
/// more than five robust standard deviations.
pub const EXCESS_MIN: f64 = 0.1;
const DEVIATIONS: f64 = 5.0;
/// The median of absolute deviations of a normal distribution in its standard deviations.
const MAD_OF_NORMAL: f64 = 1.482_6;

/// Packets of a block by their scores.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    packets: u64,
    scores: Vec<u32>,
}

impl Block {
    fn add(&mut self, score: ScoreStep) {
        self.scores.resize(SCORE_STEPS.into(), 0);
        self.packets += 1;
        if let Some(count) = self.scores.get_mut(score.index()) {
            *count = count.saturating_add(1);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.packets += other.packets;
        for (count, more) in self.scores.iter_mut().zip(&other.scores) {
            *count = count.saturating_add(*more);
        }
    }

    fn marked(&self, threshold: Threshold) -> u64 {
        let from = usize::from(threshold.steps());
        self.scores.iter().skip(from).map(|&count| u64::from(count)).sum()
    }

    fn share(&self, threshold: Threshold) -> f64 {
        share(self.marked(threshold), self.packets)
    }
}

/// Of numbers so large no digit matters that is lost.
pub(super) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The share of packets that may be marked, from 0.001 to 0.5.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Budget(f64);

impl Budget {
    /// A share in that range.
    #[must_use]
    pub fn new(share: f64) -> Option<Self> {
        (0.001..=0.5).contains(&share).then_some(Self(share))
    }

    /// The share.
    #[must_use]
    pub const fn share(self) -> f64 {
        self.0
    }

    /// Blocks without which not even a threshold that marks nothing is guaranteed.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn blocks_min(self) -> usize {
        // 1 / (n + 1) has to be within the budget; what rounding adds is no block.
        (1.0 / self.0 - 1.0 - 1e-9).ceil() as usize
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn blocks_max(self) -> usize {
        ((BLOCKS_PER_NEEDED / self.0) as usize).next_power_of_two()
    }
}

/// Scores by blocks of time. While there are too many blocks, each two neighbours become one, so
/// that memory is bounded: 4 KiB a block, at most 16 / budget blocks.
#[derive(Clone, Debug)]
pub struct ScoreBlocks {
    budget: Budget,
    blocks: BTreeMap<i64, Block>,
    block: Span,
    latest: Timestamp,
}

/// A block that is left out: what it has more of could be an attack.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OutlierBlock {
    /// When it begins.
    pub start: Timestamp,
    /// Its packets.
    pub packets: u64,
    /// Of these the share that the model marks without calibration.
    pub marked: f64,
}

/// What calibration found.
#[derive(Clone, PartialEq, Debug)]
pub struct CalibrationResult {
    /// The threshold of both forests.
    pub threshold: Threshold,
    /// Length of a block.
    pub block: Span,
    /// Blocks with packets that were used.
    pub block_count: usize,
    /// Their packets.
    pub packets: u64,
    /// Blocks that were left out.
    pub left_out: Vec<OutlierBlock>,
    /// Blocks that stand out although too many do for them to be left out.
    pub standing_out: usize,
    /// Mean share of a block's packets that is marked at the threshold, with the correction for
    /// finitely many blocks: at most the budget.
    pub bound: f64,
    /// The share of all packets that is marked at the threshold.
    pub marked: f64,
    /// The same at the threshold of the model itself.
    pub marked_before: f64,
    /// The same at the threshold, with the blocks that were left out.
    pub marked_with_all: f64,
    /// Correlation of successive blocks' shares: near 0, if they are exchangeable.
    pub autocorrelation: f64,
    /// The median share that the model marks of a block without calibration.
    pub median: f64,
    /// Histogram of the scores of the blocks used, and of each eighth of them in order of time.
    pub scores: Vec<u64>,
    /// As in `scores`.
    pub eighths: Vec<Vec<u64>>,
}

/// Too few blocks for the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockShortage {
    /// Blocks with packets.
    pub blocks: usize,
    /// Blocks that the budget needs at least.
    pub wanted: usize,
    /// Packets of these.
    pub packets: u64,
    /// Length of a block.
    pub block: Span,
}

impl ScoreBlocks {
    /// Before the first packet.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        let (blocks, latest) = (BTreeMap::new(), Timestamp::from_ns(0));
        Self { budget, blocks, block: BLOCK_MIN, latest }
    }

    /// A packet of this score; one without a timestamp counts to the block of the one before.
    pub fn add(&mut self, time: Timestamp, score: ScoreStep) {
        if time != Timestamp::UNKNOWN {
            self.latest = time;
        }
        let key = self.latest.as_ns().div_euclid(self.block.as_ns());
        self.blocks.entry(key).or_default().add(score);
        while self.blocks.len() > self.budget.blocks_max() {
            self.merge();
        }
    }

    /// Blocks with packets so far.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// The budget.
    #[must_use]
    pub const fn budget(&self) -> Budget {
        self.budget
    }

    #[cfg(test)]
    pub(super) fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.blocks.values()
    }

    fn merge(&mut self) {
        self.block = Span::from_ns(self.block.as_ns().saturating_mul(2));
        let mut merged: BTreeMap<i64, Block> = BTreeMap::new();
        for (key, block) in std::mem::take(&mut self.blocks) {
            match merged.entry(key.div_euclid(2)) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(block);
                }
                std::collections::btree_map::Entry::Occupied(mut place) => {
                    place.get_mut().merge(&block);
                }
            }
        }
        self.blocks = merged;
    }

    /// The lowest threshold that keeps the budget.
    ///
    /// # Errors
    /// [`BlockShortage`]
    pub fn calibrate(&self) -> Result<CalibrationResult, BlockShortage> {
        let (used, left_out, median, standing_out) = self.trimmed();
        let wanted = self.budget.blocks_min();
        let packets: u64 = used.iter().map(|block| block.packets).sum();
        if used.len() < wanted {
            let (blocks, block) = (used.len(), self.block);
            return Err(BlockShortage { blocks, wanted, packets, block });
        }
        let threshold = lowest(&used, self.budget);
        let shares: Vec<f64> = used.iter().map(|block| block.share(threshold)).collect();
        let of = |threshold| -> f64 {
            share(used.iter().map(|block| block.marked(threshold)).sum(), packets)
        };
        let all: u64 = self.blocks.values().map(|block| block.packets).sum();
        let with_all = self.blocks.values().map(|block| block.marked(threshold)).sum();
        let part = used.len().div_ceil(EIGHTHS);
        Ok(CalibrationResult {
            threshold,
            block: self.block,
            block_count: used.len(),
            packets,
            left_out,
            standing_out,
            bound: bound(&shares),
            marked: of(threshold),
            marked_before: of(MODEL_THRESHOLD),
            marked_with_all: share(with_all, all),
            autocorrelation: autocorrelation(&shares),
            median,
            scores: sum(&used),
            eighths: used.chunks(part).map(sum).collect(),
        })
    }

    /// The blocks that are used, and those that are left out.
    fn trimmed(&self) -> (Vec<&Block>, Vec<OutlierBlock>, f64, usize) {
        let shares: Vec<f64> =
            self.blocks.values().map(|block| block.share(MODEL_THRESHOLD)).collect();
        let middle = median(shares.clone());
        let deviation = median(shares.iter().map(|share| (share - middle).abs()).collect());
        let fence = middle + (DEVIATIONS * MAD_OF_NORMAL * deviation).max(EXCESS_MIN);
        let stands_out = |block: &Block| {
            // A few packets are soon all marked by chance: three standard errors are granted.
            let chance = 1.5 / (block.packets as f64).sqrt();
            block.share(MODEL_THRESHOLD) - chance > fence
        };
        let count = self.blocks.values().filter(|block| stands_out(block)).count();
        if count as f64 > LEFT_OUT_MAX * self.blocks.len() as f64 {
            return (self.blocks.values().collect(), Vec::new(), middle, count);
        }
        let (mut used, mut left_out) = (Vec::new(), Vec::new());
        for (&key, block) in &self.blocks {
            if stands_out(block) {
                let start = Timestamp::from_ns(key.saturating_mul(self.block.as_ns()));
                let marked = block.share(MODEL_THRESHOLD);
                left_out.push(OutlierBlock { start, packets: block.packets, marked });
            } else {
                used.push(block);
            }
        }
        (used, left_out, middle, 0)
    }
}

/// Parts of the calibration by which traffic's own change is measured.
const EIGHTHS: usize = 8;

/// The lowest threshold at which the mean of blocks with its correction, and the share of all
/// packets, are within the budget. The first is the guarantee; the second keeps busy blocks from
/// having more marked than quiet ones.
pub(super) fn lowest(used: &[&Block], budget: Budget) -> Threshold {
    let packets: u64 = used.iter().map(|block| block.packets).sum();
    let mut shares = vec![0.0; used.len()];
    let mut counts = vec![0_u64; used.len()];
    let mut found = Threshold::NONE;
    for step in (0..SCORE_STEPS).rev() {
        for ((block, count), share_of) in used.iter().zip(&mut counts).zip(&mut shares) {
            *count += block.scores.get(usize::from(step)).map_or(0, |&more| u64::from(more));
            *share_of = share(*count, block.packets);
        }
        let marked = share(counts.iter().sum(), packets);
        if bound(&shares) > budget.share() || marked > budget.share() {
            break;
        }
        found = Threshold::from_steps(step).unwrap_or(Threshold::NONE);
    }
    found
}

/// What the expected loss of another block is at most.
fn bound(losses: &[f64]) -> f64 {
    (losses.iter().sum::<f64>() + 1.0) / (losses.len() as f64 + 1.0)
}

fn sum(blocks: &[&Block]) -> Vec<u64> {
    let mut sums = vec![0; SCORE_STEPS.into()];
    for block in blocks {
        for (sum, &count) in sums.iter_mut().zip(&block.scores) {
            *sum += u64::from(count);
        }
    }
    sums
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match (values.get(half.wrapping_sub(1)), values.get(half)) {
        (Some(low), Some(high)) if values.len().is_multiple_of(2) => f64::midpoint(*low, *high),
        (_, Some(middle)) => *middle,
        _ => 0.0,
    }
}

/// Of a series with itself, one step later; 0 where nothing varies.
fn autocorrelation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / (values.len() as f64).max(1.0);
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let pairs = values.iter().zip(values.iter().skip(1));
    let together: f64 = pairs.map(|(one, next)| (one - mean) * (next - mean)).sum();
    if variance <= f64::EPSILON { 0.0 } else { together / variance }
}
