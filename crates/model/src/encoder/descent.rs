//! The arithmetic of training a head: gradients of a minibatch, and Adam.
//!
//! As in inference, every sum has one order, whatever the processor: over the rows of a minibatch
//! for gradients, by lane over the groups of a row for scores.

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
    /// For each row the outputs of the first layer, after ReLU. They become the loss's gradients
    /// with respect to its sums.
    pub(super) inner: &'a mut [Group],
    /// Weights of the last layer, and its bias.
    pub(super) last: (&'a [Group], f32),
    /// Inputs of the first layer, so many for each row.
    pub(super) rows: (&'a [f32], usize),
    pub(super) targets: &'a [f32],
    pub(super) weights: &'a [f32],
    /// By which the weighted squared errors are divided.
    pub(super) weight_total: f32,
    pub(super) gradients: &'a mut Gradients,
    /// The sum of the weighted squared errors is added to it.
    pub(super) error_sum: &'a mut f64,
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
    let Descent { inner, last, rows, targets, weights, weight_total, gradients, error_sum } = job;
    backward(inner, last, (targets, weights, weight_total), gradients, error_sum);
    let groups = last.0.len();
    let (rows, row_len) = rows;
    gradients.bias.fill([0.0; LANES]);
    for deltas in inner.chunks_exact(groups) {
        for (sum, delta) in gradients.bias.iter_mut().zip(deltas) {
            for lane in 0..LANES {
                sum[lane] += delta[lane];
            }
        }
    }
    for group in 0..groups {
        let to = &mut gradients.weights[group * row_len..][..row_len];
        let deltas = (&*inner, groups, group);
        let mut from = 0;
        while from < row_len {
            match row_len - from {
                16.. if WIDE => from = outer::<16>(deltas, (rows, row_len), from, to),
                8.. if WIDE => from = outer::<8>(deltas, (rows, row_len), from, to),
                4.. => from = outer::<4>(deltas, (rows, row_len), from, to),
                _ => from = outer::<1>(deltas, (rows, row_len), from, to),
            }
        }
    }
}

/// Scores, their errors, and the gradients of the last layer and of the first one's sums.
#[inline(always)]
fn backward(
    inner: &mut [Group],
    (last, last_bias): (&[Group], f32),
    (targets, weights, weight_total): (&[f32], &[f32], f32),
    gradients: &mut Gradients,
    error_sum: &mut f64,
) {
    gradients.last.fill([0.0; LANES]);
    gradients.last_bias = [0.0; LANES];
    let factor = 2.0 / weight_total;
    for ((row, &target), &weight) in inner.chunks_exact_mut(last.len()).zip(targets).zip(weights) {
        let mut sums = [0.0; LANES];
        for (outputs, last) in row.iter().zip(last) {
            for lane in 0..LANES {
                sums[lane] = outputs[lane].mul_add(last[lane], sums[lane]);
            }
        }
        let error = total(&sums) + last_bias - target;
        *error_sum += f64::from(weight) * f64::from(error) * f64::from(error);
        let slope = factor * weight * error;
        gradients.last_bias[0] += slope;
        for ((outputs, last), sum) in row.iter_mut().zip(last).zip(&mut gradients.last) {
            add_product(sum, outputs, slope);
            for lane in 0..LANES {
                // ReLU has no slope below zero, nor, as in PyTorch, at zero.
                outputs[lane] = if outputs[lane] > 0.0 { slope * last[lane] } else { 0.0 };
            }
        }
    }
}

/// Gradients of the weights of one group of outputs and some inputs, held in registers for all of
/// the rows; where the next inputs begin.
#[inline(always)]
fn outer<const INPUTS: usize>(
    (deltas, groups, group): (&[Group], usize, usize),
    (rows, row_len): (&[f32], usize),
    from: usize,
    to: &mut [Group],
) -> usize {
    let mut sums = [[0.0; LANES]; INPUTS];
    for (deltas, row) in deltas.chunks_exact(groups).zip(rows.chunks_exact(row_len)) {
        let (delta, row) = (&deltas[group], &row[from..][..INPUTS]);
        for input in 0..INPUTS {
            add_product(&mut sums[input], delta, row[input]);
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
