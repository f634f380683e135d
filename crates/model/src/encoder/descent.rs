//! The arithmetic of training a head: gradients of a minibatch, and Adam.
//!
//! As in inference, every sum has one order, whatever the processor: over the rows of a minibatch
//! for gradients, by lane over the groups of a row for scores.

use std::array;

use super::kernels::{add_product, total};
use super::{Group, LANES};

/// Gradients of a head's numbers, laid out as the numbers are; lanes without an output are zeros.
#[derive(Clone, Debug)]
pub(crate) struct Gradients {
    /// Of the first layer's weights, by group of outputs and input.
    pub(super) weights: Vec<Group>,
    /// Of its bias, by group of outputs.
    pub(super) bias: Vec<Group>,
    /// Of the last layer's weights, by group of inputs.
    pub(super) last: Vec<Group>,
    /// Of its bias, in the first lane.
    pub(super) last_bias: Group,
}

/// The backward pass of a minibatch, from the outputs of the first layer.
pub(crate) struct Descent<'a> {
    /// For each row the outputs of the first layer, after ReLU.
    pub(super) inner: &'a [Group],
    /// Weights of the last layer, and its bias.
    pub(super) last: (&'a [Group], f32),
    /// Inputs of the first layer, so many for each row.
    pub(super) rows: (&'a [f32], usize),
    /// The loss's gradients with respect to the scores.
    pub(super) slopes: &'a [f32],
    pub(super) gradients: &'a mut Gradients,
    pub(super) scratch: &'a mut Scratch,
}

/// The scores of a minibatch, from the outputs of the first layer.
pub(crate) struct Scoring<'a> {
    /// As in [`Descent`].
    pub(super) inner: &'a [Group],
    pub(super) last: (&'a [Group], f32),
    pub(super) scores: &'a mut [f32],
}

/// What is computed on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The inputs, by input and row.
    columns: Vec<f32>,
    /// The loss's gradients with respect to the sums of the first layer, by group and row.
    deltas: Vec<Group>,
}

impl Scratch {
    /// Makes room for so many rows.
    pub(super) fn fit(&mut self, row_count: usize, row_len: usize, groups: usize) {
        self.columns.resize(row_len * column_len(row_count), 0.0);
        self.deltas.resize(groups * row_count, [0.0; LANES]);
    }
}

/// Room of a column: an odd number of cache lines, so that the columns of a row do not compete for
/// the same sets of a cache.
#[inline(always)]
const fn column_len(row_count: usize) -> usize {
    (row_count.div_ceil(LANES) | 1) * LANES
}

/// Factors of a step of Adam.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// Share of the old mean that is kept (β1).
    pub(super) mean_kept: f32,
    /// Share of the old mean square that is kept (β2).
    pub(super) square_kept: f32,
    /// The learning rate, over the bias correction of the mean.
    pub(super) step: f32,
    /// One over the root of the bias correction of the mean square.
    pub(super) root: f32,
    pub(super) epsilon: f32,
}

/// A step of Adam for some numbers.
pub(crate) struct Adjustment<'a> {
    pub(super) rates: Rates,
    pub(super) numbers: &'a mut [Group],
    pub(super) gradients: &'a [Group],
    /// Running means of the gradients, and of their squares.
    pub(super) means: &'a mut [Group],
    pub(super) squares: &'a mut [Group],
}

#[inline(always)]
pub(super) fn descend<const WIDE: bool>(job: Descent<'_>) {
    let row_count = job.slopes.len();
    let Scratch { columns, deltas } = job.scratch;
    let (rows, row_len) = job.rows;
    let column_len = column_len(row_count);
    for (row, inputs) in rows.chunks_exact(row_len).enumerate() {
        for (column, &input) in columns.chunks_exact_mut(column_len).zip(inputs) {
            column[row] = input;
        }
    }
    backward(job.inner, job.last.0, job.slopes, deltas, job.gradients);
    for (group, deltas) in deltas.chunks_exact(row_count).enumerate() {
        let mut sum = [0.0; LANES];
        for delta in deltas {
            for lane in 0..LANES {
                sum[lane] += delta[lane];
            }
        }
        job.gradients.bias[group] = sum;
        let to = &mut job.gradients.weights[group * row_len..][..row_len];
        let mut from = 0;
        while from < row_len {
            match row_len - from {
                8.. if WIDE => from = outer::<8>(deltas, columns, from, to),
                4.. => from = outer::<4>(deltas, columns, from, to),
                _ => from = outer::<1>(deltas, columns, from, to),
            }
        }
    }
}

#[inline(always)]
pub(super) fn score(job: Scoring<'_>) {
    let (last, last_bias) = job.last;
    for (outputs, score) in job.inner.chunks_exact(last.len()).zip(job.scores) {
        let mut sums = [0.0; LANES];
        for (outputs, last) in outputs.iter().zip(last) {
            for lane in 0..LANES {
                sums[lane] = outputs[lane].mul_add(last[lane], sums[lane]);
            }
        }
        *score = total(&sums) + last_bias;
    }
}

/// The gradients of the last layer and of the first one's sums.
#[inline(always)]
fn backward(
    inner: &[Group],
    last: &[Group],
    slopes: &[f32],
    deltas: &mut [Group],
    gradients: &mut Gradients,
) {
    gradients.last.fill([0.0; LANES]);
    gradients.last_bias = [0.0; LANES];
    let row_count = slopes.len();
    for (row, (outputs, &slope)) in inner.chunks_exact(last.len()).zip(slopes).enumerate() {
        gradients.last_bias[0] += slope;
        for (group, outputs) in outputs.iter().enumerate() {
            add_product(&mut gradients.last[group], outputs, slope);
            let (delta, last) = (&mut deltas[group * row_count + row], &last[group]);
            for lane in 0..LANES {
                // ReLU has no slope below zero, nor, as in PyTorch, at zero.
                delta[lane] = if outputs[lane] > 0.0 { slope * last[lane] } else { 0.0 };
            }
        }
    }
}

/// Gradients of the weights of one group of outputs and some inputs, held in registers for all of
/// the rows; where the next inputs begin. Inputs come from columns of their own, as the compiler
/// would gather those of one row.
// An iterator over the sums is not kept in registers.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn outer<const INPUTS: usize>(
    deltas: &[Group],
    columns: &[f32],
    from: usize,
    to: &mut [Group],
) -> usize {
    let (row_count, column_len) = (deltas.len(), column_len(deltas.len()));
    let columns: [&[f32]; INPUTS] =
        array::from_fn(|input| &columns[(from + input) * column_len..][..row_count]);
    let mut sums = [[0.0; LANES]; INPUTS];
    for row in 0..row_count {
        for input in 0..INPUTS {
            add_product(&mut sums[input], &deltas[row], columns[input][row]);
        }
    }
    to[from..][..INPUTS].copy_from_slice(&sums);
    from + INPUTS
}

/// As `torch.optim.Adam` has it.
#[inline(always)]
pub(super) fn adjust(job: Adjustment<'_>) {
    let Adjustment { rates, numbers, gradients, means, squares } = job;
    let (mean_new, square_new) = (1.0 - rates.mean_kept, 1.0 - rates.square_kept);
    for (((number, gradient), mean), square) in
        numbers.iter_mut().zip(gradients).zip(means).zip(squares)
    {
        for lane in 0..LANES {
            let slope = gradient[lane];
            mean[lane] = slope.mul_add(mean_new, mean[lane] * rates.mean_kept);
            square[lane] = (slope * slope).mul_add(square_new, square[lane] * rates.square_kept);
            let root = square[lane].sqrt().mul_add(rates.root, rates.epsilon);
            number[lane] -= rates.step * mean[lane] / root;
        }
    }
}
