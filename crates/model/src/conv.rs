//! Small convolutional networks over time: they tell sequences of slots, a few numbers each, apart.
//!
//! A network is blocks of convolution, ReLU and max-pooling over time, then one convolution whose
//! outputs are averaged over time: a score for each class. Kernels are three steps long, and steps
//! before the first and behind the last are zeros. Batch normalisation is a matter of training:
//! its factors go into the weights.
//!
//! Sums are made in one order with one rounding for each product and each sum, so that every
//! processor gives the same scores to the bit.

use std::fmt;

use crate::simd::{self, Path};

/// Steps of a kernel.
pub const KERNEL_LEN: usize = 3;
/// Outputs that are summed up together.
pub(crate) const LANES: usize = 8;
/// Outputs of a convolution at most.
pub const FILTER_COUNT_MAX: usize = 256;
/// Blocks at most.
pub const BLOCK_COUNT_MAX: usize = 32;

/// Why a network cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConvError(String);

impl fmt::Display for ConvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConvError {}

/// One convolution over time.
#[derive(Clone, PartialEq, Debug)]
pub struct Convolution {
    input_count: usize,
    output_count: usize,
    /// By step of the kernel, input and group of outputs.
    weights: Vec<[f32; LANES]>,
    /// By group of outputs.
    bias: Vec<[f32; LANES]>,
}

impl Convolution {
    /// From weights by output, input and step of the kernel, as PyTorch keeps them, and a bias for
    /// each output.
    ///
    /// # Errors
    /// [`ConvError`]: counts that do not fit, or numbers that are none.
    pub fn new(input_count: usize, weights: &[f32], bias: &[f32]) -> Result<Self, ConvError> {
        let output_count = bias.len();
        let wanted = output_count * input_count * KERNEL_LEN;
        if !(1..=FILTER_COUNT_MAX).contains(&output_count)
            || !(1..=FILTER_COUNT_MAX).contains(&input_count)
        {
            return Err(ConvError(format!(
                "{input_count} inputs and {output_count} outputs; wanted: 1 to {FILTER_COUNT_MAX}"
            )));
        }
        if weights.len() != wanted {
            return Err(ConvError(format!(
                "{} weights; wanted: {wanted}, {output_count} × {input_count} × {KERNEL_LEN}",
                weights.len()
            )));
        }
        if !weights.iter().chain(bias).all(|weight| weight.is_finite()) {
            return Err(ConvError(String::from("a weight that is not a number")));
        }
        let groups = output_count.div_ceil(LANES);
        let mut placed = vec![[0.0; LANES]; KERNEL_LEN * input_count * groups];
        let mut weights = weights.iter();
        for output in 0..output_count {
            for input in 0..input_count {
                for step in 0..KERNEL_LEN {
                    let at = (step * input_count + input) * groups + output / LANES;
                    if let (Some(place), Some(&weight)) = (placed.get_mut(at), weights.next()) {
                        place[output % LANES] = weight;
                    }
                }
            }
        }
        let mut biases = vec![[0.0; LANES]; groups];
        for (at, &bias) in bias.iter().enumerate() {
            biases[at / LANES][at % LANES] = bias;
        }
        Ok(Self { input_count, output_count, weights: placed, bias: biases })
    }

    /// Numbers that come out of it for each step.
    #[must_use]
    pub const fn output_count(&self) -> usize {
        self.output_count
    }

    pub(crate) const fn input_count(&self) -> usize {
        self.input_count
    }

    pub(crate) fn weights(&self) -> &[[f32; LANES]] {
        &self.weights
    }

    pub(crate) fn bias(&self) -> &[[f32; LANES]] {
        &self.bias
    }

    /// Groups of outputs; a step of what comes out is as many groups.
    pub(crate) fn group_count(&self) -> usize {
        self.bias.len()
    }
}

/// A network.
#[derive(Clone, PartialEq, Debug)]
pub struct ConvNet {
    blocks: Vec<Convolution>,
    pool_len: usize,
    head: Convolution,
}

/// Room for what is computed on the way.
#[derive(Clone, Debug, Default)]
pub struct ConvScratch {
    /// Steps with a step of zeros before and behind them.
    input: Vec<f32>,
    output: Vec<[f32; LANES]>,
}

impl ConvNet {
    /// Blocks, each followed by ReLU and by max-pooling over `pool_len` steps, then the head.
    ///
    /// # Errors
    /// [`ConvError`]: something takes other inputs than come out of what is before it.
    pub fn new(
        blocks: Vec<Convolution>,
        pool_len: usize,
        head: Convolution,
    ) -> Result<Self, ConvError> {
        if !(1..=BLOCK_COUNT_MAX).contains(&blocks.len()) || pool_len == 0 {
            return Err(ConvError(format!(
                "{} blocks, pools of {pool_len} steps; wanted: 1 to {BLOCK_COUNT_MAX} blocks, \
                 pools of 1 step or more",
                blocks.len()
            )));
        }
        let behind = blocks.iter().skip(1).chain([&head]);
        for (number, (before, next)) in (1..).zip(blocks.iter().zip(behind)) {
            if before.output_count != next.input_count {
                return Err(ConvError(format!(
                    "block {number} has {} outputs, and what follows {} inputs; wanted: as many",
                    before.output_count, next.input_count
                )));
            }
        }
        Ok(Self { blocks, pool_len, head })
    }

    /// Numbers of each step that it reads.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.blocks.first().map_or(0, |block| block.input_count)
    }

    /// Scores that it gives.
    #[must_use]
    pub const fn class_count(&self) -> usize {
        self.head.output_count
    }

    /// The shortest sequence that leaves a step behind the last pool.
    #[must_use]
    pub fn steps_min(&self) -> usize {
        let count = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        self.pool_len.checked_pow(count).unwrap_or(usize::MAX)
    }

    /// Scores of one sequence, before any softmax: rows of inputs, a row a step. `scores` is
    /// cleared first.
    ///
    /// # Errors
    /// [`ConvError`], where the rows are cut, or fewer than [`steps_min`](Self::steps_min).
    pub fn score(
        &self,
        rows: &[f32],
        scratch: &mut ConvScratch,
        scores: &mut Vec<f32>,
    ) -> Result<(), ConvError> {
        self.score_with(Path::best(), rows, scratch, scores)
    }

    fn score_with(
        &self,
        path: Path,
        rows: &[f32],
        scratch: &mut ConvScratch,
        scores: &mut Vec<f32>,
    ) -> Result<(), ConvError> {
        scores.clear();
        let width = self.input_count();
        let mut steps = rows.len() / width;
        if !rows.len().is_multiple_of(width) || steps < self.steps_min() {
            return Err(ConvError(format!(
                "{} numbers; wanted: rows of {width}, {} rows or more",
                rows.len(),
                self.steps_min()
            )));
        }
        let ConvScratch { input, output } = scratch;
        input.clear();
        input.resize((steps + 2) * width, 0.0);
        if let Some(inside) = input.get_mut(width..width + rows.len()) {
            inside.copy_from_slice(rows);
        }
        for block in &self.blocks {
            simd::convolve(path, block, input, output);
            steps = self.pool(block, steps, output, input);
        }
        simd::convolve(path, &self.head, input, output);
        self.average(output, steps, scores);
        Ok(())
    }

    /// ReLU and the highest of each pool, into the steps that the next convolution reads; steps
    /// that fill no pool are left out. How many steps.
    fn pool(
        &self,
        block: &Convolution,
        steps: usize,
        output: &[[f32; LANES]],
        input: &mut Vec<f32>,
    ) -> usize {
        let (groups, width) = (block.group_count(), block.output_count);
        let pooled = steps / self.pool_len;
        input.clear();
        input.resize((pooled + 2) * width, 0.0);
        let places = input.chunks_exact_mut(width).skip(1);
        for (pool, place) in output.chunks_exact(groups * self.pool_len).zip(places).take(pooled) {
            for step in pool.chunks_exact(groups) {
                for (highest, &value) in place.iter_mut().zip(step.as_flattened()) {
                    // What is below zero is zero, as the place is to begin with.
                    *highest = highest.max(value);
                }
            }
        }
        pooled
    }

    fn average(&self, output: &[[f32; LANES]], steps: usize, scores: &mut Vec<f32>) {
        let groups = self.head.group_count();
        scores.resize(self.class_count(), 0.0);
        for step in output.chunks_exact(groups).take(steps) {
            for (sum, value) in scores.iter_mut().zip(step.as_flattened()) {
                *sum += value;
            }
        }
        // As many steps as would lose a digit fit no memory.
        #[allow(clippy::cast_precision_loss)]
        scores.iter_mut().for_each(|sum| *sum /= steps as f32);
    }
}

/// All outputs of each step: the one piece of code, compiled for each processor.
#[inline(always)]
pub(crate) fn convolve<const GROUPS: usize>(
    layer: &Convolution,
    input: &[f32],
    output: &mut Vec<[f32; LANES]>,
) {
    let width = layer.input_count();
    let groups = layer.group_count();
    let steps = (input.len() / width).saturating_sub(2);
    output.clear();
    output.resize(steps * groups, [0.0; LANES]);
    // A kernel's steps lie one behind the other in the input, as its weights do.
    let kernel_len = KERNEL_LEN * width;
    for first in (0..groups).step_by(GROUPS) {
        let count = GROUPS.min(groups - first);
        let mut bias = [[0.0; LANES]; GROUPS];
        bias.iter_mut().zip(&layer.bias()[first..first + count]).for_each(|(to, from)| *to = *from);
        let mut step = 0;
        while step < steps {
            // Two steps share each load of weights.
            let has_two = step + 1 < steps;
            let one = &input[step * width..][..kernel_len];
            let other = if has_two { &input[(step + 1) * width..][..kernel_len] } else { one };
            let mut sums = [bias; 2];
            let weights = layer.weights().chunks_exact(groups);
            for ((weights, &a), &b) in weights.zip(one).zip(other) {
                let weights = &weights[first..first + count];
                if let Ok(weights) = <&[[f32; LANES]; GROUPS]>::try_from(weights) {
                    add(&mut sums, weights, a, b);
                } else {
                    let mut padded = [[0.0; LANES]; GROUPS];
                    padded.iter_mut().zip(weights).for_each(|(to, from)| *to = *from);
                    add(&mut sums, &padded, a, b);
                }
            }
            let places = output[step * groups + first..].iter_mut().take(count);
            places.zip(&sums[0]).for_each(|(place, sum)| *place = *sum);
            if has_two {
                let places = output[(step + 1) * groups + first..].iter_mut().take(count);
                places.zip(&sums[1]).for_each(|(place, sum)| *place = *sum);
            }
            step += 2;
        }
    }
}

#[inline(always)]
fn add<const GROUPS: usize>(
    sums: &mut [[[f32; LANES]; GROUPS]; 2],
    weights: &[[f32; LANES]; GROUPS],
    a: f32,
    b: f32,
) {
    for group in 0..GROUPS {
        for lane in 0..LANES {
            sums[0][group][lane] += weights[group][lane] * a;
            sums[1][group][lane] += weights[group][lane] * b;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like none in particular.
    fn numbers(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        (0..count)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (f64::from(state >> 8) / f64::from(1 << 24) - 0.5) as f32
            })
            .collect()
    }

    fn layer(inputs: usize, outputs: usize, seed: u32) -> (Convolution, Vec<f32>, Vec<f32>) {
        let weights = numbers(inputs * outputs * KERNEL_LEN, seed);
        let bias = numbers(outputs, seed + 1);
        (Convolution::new(inputs, &weights, &bias).unwrap(), weights, bias)
    }

    /// As one would write it down.
    fn plainly(rows: &[Vec<f64>], weights: &[f32], bias: &[f32]) -> Vec<Vec<f64>> {
        let inputs = rows[0].len();
        let row = |step: usize, input: usize| -> f64 {
            step.checked_sub(1).and_then(|step| rows.get(step)).map_or(0.0, |row| row[input])
        };
        let output = |step: usize, output: usize| {
            let mut sum = f64::from(bias[output]);
            for input in 0..inputs {
                for k in 0..KERNEL_LEN {
                    let weight = weights[(output * inputs + input) * KERNEL_LEN + k];
                    sum += f64::from(weight) * row(step + k, input);
                }
            }
            sum
        };
        (0..rows.len()).map(|step| (0..bias.len()).map(|at| output(step, at)).collect()).collect()
    }

    fn pooled(rows: &[Vec<f64>], len: usize) -> Vec<Vec<f64>> {
        let highest =
            |pool: &[Vec<f64>], at: usize| pool.iter().map(|row| row[at]).fold(0.0, f64::max);
        let pool = |pool: &[Vec<f64>]| (0..pool[0].len()).map(|at| highest(pool, at)).collect();
        rows.chunks_exact(len).map(pool).collect()
    }

    #[test]
    fn scores_are_those_of_the_formula_on_every_processor() {
        for (steps, pool_len, inputs, filters) in
            [(100, 2, 2, 50), (33, 2, 1, 50), (10, 1, 2, 50), (501, 3, 6, 7), (64, 2, 3, 64)]
        {
            let (first, first_weights, first_bias) = layer(inputs, filters, 1);
            let (second, second_weights, second_bias) = layer(filters, filters, 5);
            let (head, head_weights, head_bias) = layer(filters, 3, 9);
            let net = ConvNet::new(vec![first, second], pool_len, head).unwrap();
            let rows = numbers(steps * inputs, 77);
            let plain: Vec<Vec<f64>> = rows
                .chunks_exact(inputs)
                .map(|row| row.iter().map(|&value| value.into()).collect())
                .collect();
            let plain = pooled(&plainly(&plain, &first_weights, &first_bias), pool_len);
            let plain = pooled(&plainly(&plain, &second_weights, &second_bias), pool_len);
            let plain = plainly(&plain, &head_weights, &head_bias);
            let mean =
                |class: usize| plain.iter().map(|row| row[class]).sum::<f64>() / plain.len() as f64;
            let mut portable = Vec::new();
            for path in Path::ALL.into_iter().filter(|path| path.is_there()) {
                let (mut scratch, mut scores) = (ConvScratch::default(), Vec::new());
                net.score_with(path, &rows, &mut scratch, &mut scores).unwrap();
                for (class, &score) in scores.iter().enumerate() {
                    let wanted = mean(class);
                    assert!((f64::from(score) - wanted).abs() < 1e-4, "{score} {wanted}");
                }
                if path == Path::Portable {
                    portable.clone_from(&scores);
                }
                let bits = |scores: &[f32]| scores.iter().map(|s| s.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&scores), bits(&portable), "{}", path.name());
            }
        }
    }

    #[test]
    fn what_cannot_be_a_network_says_what_is_wanted() {
        let refused = |error: ConvError, words: &str| {
            assert!(error.to_string().contains(words), "{error}");
        };
        refused(Convolution::new(2, &[0.0; 5], &[0.0]).unwrap_err(), "1 × 2 × 3");
        refused(Convolution::new(1, &[f32::NAN; 3], &[0.0]).unwrap_err(), "not a number");
        refused(Convolution::new(0, &[], &[0.0]).unwrap_err(), "1 to 256");
        let (one, ..) = layer(2, 4, 1);
        let (other, ..) = layer(5, 3, 1);
        refused(ConvNet::new(vec![one.clone()], 2, other).unwrap_err(), "as many");
        let (head, ..) = layer(4, 3, 1);
        refused(ConvNet::new(vec![one.clone()], 0, head.clone()).unwrap_err(), "1 step or more");
        let net = ConvNet::new(vec![one], 2, head).unwrap();
        let (mut scratch, mut scores) = (ConvScratch::default(), Vec::new());
        refused(net.score(&[0.0; 2], &mut scratch, &mut scores).unwrap_err(), "2 rows or more");
        refused(net.score(&[0.0; 5], &mut scratch, &mut scores).unwrap_err(), "rows of 2");
    }
}
