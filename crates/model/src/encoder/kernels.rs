//! The arithmetic of an encoder: one piece of code, compiled for each processor.
//!
//! A sum has one order, whatever the processor and however many tokens are computed together: a
//! linear layer's is over its inputs, a score's over the numbers of a head, a weighted sum's over
//! the tokens from the oldest on. Each product is added with one rounding (fused multiply-add).
//! What is added up in lanes of tokens is in the lane of the token's place in the ring, which does
//! not depend on which tokens came in the same call.
//!
//! `WIDE` is for processors with 32 registers of 16 lanes; the others have half as many, of half as
//! many lanes.

use std::array;
use std::ops::Range;

use super::dense::Dense;
use super::descent::{self, Adjustment, Descent, Scoring};
use super::{Group, LANES, TOKENS_MAX};

/// What is computed in one go.
pub(crate) enum Step<'a> {
    /// A linear layer, to rows of whole groups.
    Linear(Linear<'a>, &'a mut [Group]),
    /// Rows to which others are added, and which are then normalised.
    AddAndNormalise(&'a Norm, &'a mut [Group], &'a [Group]),
    /// Attention of so many tokens, to rows of a length. The groups are scratch: as many as the
    /// ring has blocks, for each of [`TOKENS_MAX`] tokens.
    Attend(Attention<'a>, usize, &'a mut [Group], (&'a mut [f32], usize)),
    /// The scores of a head that is trained.
    Score(Scoring<'a>),
    /// The backward pass of a head.
    Descend(Descent<'a>),
    /// A step of Adam.
    Adjust(Adjustment<'a>),
}

impl Step<'_> {
    /// The one piece of code, compiled for each processor.
    #[inline(always)]
    pub(crate) fn compute<const WIDE: bool>(self) {
        match self {
            Self::Linear(job, output) => linear::<WIDE>(&job, output),
            Self::AddAndNormalise(norm, rows, added) => add_and_normalise(norm, rows, added),
            Self::Attend(job, count, scores, output) => attend::<WIDE>(&job, count, scores, output),
            Self::Score(job) => descent::score(job),
            Self::Descend(job) => descent::descend::<WIDE>(job),
            Self::Adjust(job) => descent::adjust(job),
        }
    }
}

/// Sums of a linear layer for rows of inputs.
#[derive(Clone, Copy)]
pub(crate) struct Linear<'a> {
    pub(super) dense: &'a Dense,
    /// Sums to start from, by group of outputs: the bias, or the bias and what is common to rows.
    pub(super) start: &'a [Group],
    /// The first input that is read; those before it are in `start`.
    pub(super) from: usize,
    /// How many are read.
    pub(super) input_count: usize,
    /// Rows of inputs, each `row_len` behind the one before.
    pub(super) rows: &'a [f32],
    pub(super) row_len: usize,
    /// Whether outputs below zero become zero (ReLU).
    pub(super) is_rectified: bool,
}

impl<'a> Linear<'a> {
    /// All inputs of a layer.
    pub(super) fn new(dense: &'a Dense, rows: &'a [f32], row_len: usize) -> Self {
        let (start, input_count) = (dense.bias_groups(), dense.input_count());
        Self { dense, start, from: 0, input_count, rows, row_len, is_rectified: false }
    }

    /// Followed by ReLU.
    pub(super) const fn rectified(self) -> Self {
        Self { is_rectified: true, ..self }
    }
}

/// What the tokens of one call see of a layer's ring, which has their own keys and values already.
#[derive(Clone, Copy)]
pub(crate) struct Attention<'a> {
    /// By head, block of as many tokens as lanes, and number of the head: lanes are tokens.
    pub(super) keys: &'a [Group],
    /// By head, token, and group of the head's numbers.
    pub(super) values: &'a [Group],
    /// Blocks of the ring.
    pub(super) block_count: usize,
    pub(super) head_count: usize,
    /// Numbers of a head.
    pub(super) head_len: usize,
    /// Tokens that one sees, itself included.
    pub(super) window: usize,
    /// Position of the first token of this call, from 0 at the state's start.
    pub(super) position: usize,
    /// Rows whose first numbers are the queries of all heads, already scaled.
    pub(super) rows: &'a [f32],
    pub(super) row_len: usize,
}

/// Scale and shift of a layer normalisation.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Norm {
    pub(super) width: usize,
    /// Zeros in lanes outside the width, as `shift` has.
    pub(super) scale: Vec<Group>,
    pub(super) shift: Vec<Group>,
}

/// What is added to the variance, as in PyTorch.
const EPSILON: f32 = 1e-5;

/// How many of the rows that are left are computed next, together.
#[inline(always)]
const fn block_len<const WIDE: bool>(left: usize) -> usize {
    match left {
        8.. if WIDE => 8,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

#[inline(always)]
pub(super) fn add_product(sum: &mut Group, values: &Group, factor: f32) {
    for lane in 0..LANES {
        sum[lane] = values[lane].mul_add(factor, sum[lane]);
    }
}

/// The sum of all lanes, by halves.
#[inline(always)]
pub(super) fn total(lanes: &Group) -> f32 {
    let eight: [f32; 8] = array::from_fn(|at| lanes[at] + lanes[at + 8]);
    let four: [f32; 4] = array::from_fn(|at| eight[at] + eight[at + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
}

#[inline(always)]
fn higher(one: f32, other: f32) -> f32 {
    if one > other { one } else { other }
}

/// All outputs of each row, as whole groups.
#[inline(always)]
fn linear<const WIDE: bool>(job: &Linear<'_>, output: &mut [Group]) {
    let count = output.len() / job.start.len();
    let mut at = 0;
    // No closure: it would be compiled for any processor.
    while at < count {
        let len = block_len::<WIDE>(count - at);
        match (len, WIDE) {
            (8, true) => linear_rows::<8, 8, 1>(job, at, output),
            (4, true) => linear_rows::<8, 4, 2>(job, at, output),
            (2, true) => linear_rows::<8, 2, 4>(job, at, output),
            (4, false) => linear_rows::<4, 4, 1>(job, at, output),
            (2, false) => linear_rows::<4, 2, 2>(job, at, output),
            _ => linear_rows::<4, 1, 4>(job, at, output),
        }
        at += len;
    }
    if job.is_rectified {
        output.as_flattened_mut().iter_mut().for_each(|sum| *sum = higher(*sum, 0.0));
    }
}

/// `SUMS` is `ROWS` times `GROUPS`.
#[inline(always)]
fn linear_rows<const SUMS: usize, const ROWS: usize, const GROUPS: usize>(
    job: &Linear<'_>,
    at: usize,
    output: &mut [Group],
) {
    let mut first = 0;
    while first < job.start.len() {
        if job.start.len() - first >= GROUPS {
            linear_block::<SUMS, ROWS, GROUPS>(job, at, first, output);
            first += GROUPS;
        } else {
            linear_block::<ROWS, ROWS, 1>(job, at, first, output);
            first += 1;
        }
    }
}

/// Some groups of outputs of some rows: each weight is read once for all of the rows. The sums are
/// one array, which the compiler keeps in registers; it does not of an array of arrays.
// Likewise for an iterator over the sums.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn linear_block<const SUMS: usize, const ROWS: usize, const GROUPS: usize>(
    job: &Linear<'_>,
    at: usize,
    first: usize,
    output: &mut [Group],
) {
    let count = job.input_count;
    let rows: [&[f32]; ROWS] = array::from_fn(|row| &job.rows[(at + row) * job.row_len..][..count]);
    let weights: [&[Group]; GROUPS] =
        array::from_fn(|group| &job.dense.group(first + group)[job.from..][..count]);
    let mut sums: [Group; SUMS] = array::from_fn(|sum| job.start[first + sum / ROWS]);
    for input in 0..count {
        for sum in 0..SUMS {
            let (group, row) = (sum / ROWS, sum % ROWS);
            add_product(&mut sums[sum], &weights[group][input], rows[row][input]);
        }
    }
    for sum in 0..SUMS {
        output[(at + sum % ROWS) * job.start.len() + first + sum / ROWS] = sums[sum];
    }
}

/// Adds to each row what was computed from it, and normalises the sum: mean 0 and variance 1 over
/// the width, then scale and shift.
#[inline(always)]
fn add_and_normalise(norm: &Norm, rows: &mut [Group], added: &[Group]) {
    let groups = norm.scale.len();
    // A width is far too small to lose a digit.
    #[allow(clippy::cast_precision_loss)]
    let part = 1.0 / norm.width as f32;
    for (row, added) in rows.chunks_exact_mut(groups).zip(added.chunks_exact(groups)) {
        let mut sum = [0.0; LANES];
        for (row, added) in row.iter_mut().zip(added) {
            for lane in 0..LANES {
                row[lane] += added[lane];
                sum[lane] += row[lane];
            }
        }
        let mean = total(&sum) * part;
        let numbers = &mut row.as_flattened_mut()[..norm.width];
        numbers.iter_mut().for_each(|number| *number -= mean);
        let mut squares = [0.0; LANES];
        for row in row.iter() {
            for lane in 0..LANES {
                squares[lane] = row[lane].mul_add(row[lane], squares[lane]);
            }
        }
        let factor = 1.0 / total(&squares).mul_add(part, EPSILON).sqrt();
        for ((row, scale), shift) in row.iter_mut().zip(&norm.scale).zip(&norm.shift) {
            for lane in 0..LANES {
                row[lane] = (row[lane] * factor).mul_add(scale[lane], shift[lane]);
            }
        }
    }
}

/// For each token the values of all heads, weighted by softmax over what it sees.
#[inline(always)]
fn attend<const WIDE: bool>(
    job: &Attention<'_>,
    count: usize,
    scores: &mut [Group],
    (output, output_len): (&mut [f32], usize),
) {
    debug_assert!(count <= TOKENS_MAX, "a block of tokens has a maximum");
    let mut at = 0;
    while at < count {
        let len = block_len::<WIDE>(count - at);
        for head in 0..job.head_count {
            let output = &mut output[at * output_len + head * job.head_len..];
            match (len, WIDE) {
                (8, true) => attend_head::<8>(job, at, head, scores, output, output_len),
                (4, _) => attend_head::<4>(job, at, head, scores, output, output_len),
                (2, _) => attend_head::<2>(job, at, head, scores, output, output_len),
                _ => attend_head::<1>(job, at, head, scores, output, output_len),
            }
        }
        at += len;
    }
}

/// One head of some tokens that follow each other.
#[inline(always)]
fn attend_head<const TOKENS: usize>(
    job: &Attention<'_>,
    at: usize,
    head: usize,
    scores: &mut [Group],
    output: &mut [f32],
    output_len: usize,
) {
    // Positions that each of them sees, and the blocks that have any of these.
    let seen: [Range<usize>; TOKENS] = array::from_fn(|token| {
        let position = job.position + at + token;
        (position + 1).saturating_sub(job.window)..position + 1
    });
    let (oldest, end) = (seen[0].start, seen[TOKENS - 1].end);
    let blocks = oldest / LANES..end.div_ceil(LANES);
    let start = blocks.start * LANES;
    let len = blocks.len();
    score::<TOKENS>(job, at, head, blocks, scores);
    let mut parts = [0.0; TOKENS];
    for (token, row) in scores.chunks_exact_mut(len).take(TOKENS).enumerate() {
        parts[token] = 1.0 / exponentials(row, seen[token].start - start..seen[token].end - start);
    }
    let rows: [&[f32]; TOKENS] =
        array::from_fn(|token| scores[token * len..][..len].as_flattened());
    // All tokens see what lies between the oldest of the last and the newest of the first.
    let common = seen[TOKENS - 1].start.min(seen[0].end)..seen[0].end;
    let groups = job.head_len.div_ceil(LANES);
    for group in 0..groups {
        let mut sums = [[0.0; LANES]; TOKENS];
        for token in 0..TOKENS {
            let early = seen[token].start..common.start;
            weigh::<1>(job, (head, group), [rows[token]], (start, early), &mut sums[token..][..1]);
        }
        weigh::<TOKENS>(job, (head, group), rows, (start, common.clone()), &mut sums);
        for token in 0..TOKENS {
            let late = common.end.max(seen[token].start)..seen[token].end;
            weigh::<1>(job, (head, group), [rows[token]], (start, late), &mut sums[token..][..1]);
        }
        let width = LANES.min(job.head_len - group * LANES);
        for (token, (sums, part)) in sums.iter().zip(parts).enumerate() {
            let to = &mut output[token * output_len + group * LANES..][..width];
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = sum * part);
        }
    }
}

/// Query times key, for each token a row of as many groups as there are blocks.
#[inline(always)]
fn score<const TOKENS: usize>(
    job: &Attention<'_>,
    at: usize,
    head: usize,
    blocks: Range<usize>,
    scores: &mut [Group],
) {
    let queries: [&[f32]; TOKENS] = array::from_fn(|token| {
        &job.rows[(at + token) * job.row_len + head * job.head_len..][..job.head_len]
    });
    let len = blocks.len();
    let keys = &job.keys[head * job.block_count * job.head_len..];
    for (index, block) in blocks.enumerate() {
        let keys = &keys[block % job.block_count * job.head_len..][..job.head_len];
        let mut sums = [[0.0; LANES]; TOKENS];
        for (number, keys) in keys.iter().enumerate() {
            for token in 0..TOKENS {
                add_product(&mut sums[token], keys, queries[token][number]);
            }
        }
        for (token, sums) in sums.into_iter().enumerate() {
            scores[token * len + index] = sums;
        }
    }
}

/// Turns the scores of what is seen into exponentials of how far they are below the highest, all
/// others into zeros; their sum.
#[inline(always)]
fn exponentials(scores: &mut [Group], seen: Range<usize>) -> f32 {
    let fill = |scores: &mut [Group], value: f32| {
        let scores = scores.as_flattened_mut();
        scores[..seen.start].fill(value);
        scores[seen.end..].fill(value);
    };
    fill(scores, f32::NEG_INFINITY);
    let mut highest = [f32::NEG_INFINITY; LANES];
    for scores in scores.iter() {
        for lane in 0..LANES {
            highest[lane] = higher(scores[lane], highest[lane]);
        }
    }
    let highest = highest.into_iter().fold(f32::NEG_INFINITY, higher);
    for score in scores.as_flattened_mut() {
        *score = exponential(*score - highest);
    }
    fill(scores, 0.0);
    let mut sum = [0.0; LANES];
    for scores in scores.iter() {
        for lane in 0..LANES {
            sum[lane] += scores[lane];
        }
    }
    total(&sum)
}

/// Adds values of some positions, weighted by each token's numbers, which start at a position.
#[inline(always)]
fn weigh<const TOKENS: usize>(
    job: &Attention<'_>,
    (head, group): (usize, usize),
    weights: [&[f32]; TOKENS],
    (start, positions): (usize, Range<usize>),
    sums: &mut [Group],
) {
    let groups = job.head_len.div_ceil(LANES);
    let ring_len = job.block_count * LANES;
    let values = &job.values[head * ring_len * groups..][..ring_len * groups];
    let mut held: [Group; TOKENS] = array::from_fn(|token| sums[token]);
    let mut at = positions.start;
    while at < positions.end {
        // The ring may end on the way.
        let place = at % ring_len;
        let len = (positions.end - at).min(ring_len - place);
        let values = values[place * groups..][..len * groups].chunks_exact(groups);
        let weights: [&[f32]; TOKENS] =
            array::from_fn(|token| &weights[token][at - start..][..len]);
        for (index, values) in values.enumerate().take(len) {
            let values = &values[group];
            for token in 0..TOKENS {
                add_product(&mut held[token], values, weights[token][index]);
            }
        }
        at += len;
    }
    sums.copy_from_slice(&held);
}

/// Below this the exponential is taken to be that of this: 1.6e-38, the smallest is 1.2e-38.
const EXPONENT_MIN: f32 = -87.0;
/// 2²³ and half of it: a number of fewer digits, added to this, is rounded to a whole one, which is
/// in the lowest bits.
const ROUNDING: f32 = 12_582_912.0;
/// ln 2 in two parts, of which the first has few digits, so that its multiples are exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Of r² in eʳ = 1 + r + r² (…), for |r| up to ln 2 / 2; the highest power first.
const POWERS: [f32; 6] =
    [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_6e-1, 0.5];

/// eˣ for x up to 0, within 1e-7 of it.
#[inline(always)]
pub(super) fn exponential(x: f32) -> f32 {
    let x = higher(x, EXPONENT_MIN);
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUNDING);
    let power = rounded - ROUNDING;
    let rest = power.mul_add(-LN_2_LOW, power.mul_add(-LN_2_HIGH, x));
    let mut sum = POWERS[0];
    for factor in &POWERS[1..] {
        sum = sum.mul_add(rest, *factor);
    }
    let near_one = sum.mul_add(rest * rest, rest) + 1.0;
    // The whole number goes into the exponent; what is above it falls out.
    f32::from_bits(near_one.to_bits().wrapping_add(rounded.to_bits() << 23))
}
