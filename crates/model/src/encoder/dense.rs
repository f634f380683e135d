//! A linear layer, with its weights where vector instructions want them.

use super::{EncoderError, Group, LANES};

/// Inputs and outputs of a linear layer at most.
pub const DENSE_LEN_MAX: usize = 4_096;

/// A linear layer: `output = weights · input + bias`, as `torch.nn.Linear` has it.
///
/// It is read and written in PyTorch's order and kept by group of outputs and input, so that a
/// processor adds up the sums of one group side by side, each over the inputs in their order.
#[derive(Clone, PartialEq, Debug)]
pub struct Dense {
    input_count: usize,
    output_count: usize,
    /// By group of outputs and input; lanes without an output are zeros.
    weights: Vec<Group>,
    /// By group of outputs.
    bias: Vec<Group>,
}

impl Dense {
    /// From weights of shape (outputs × inputs) and a bias for each output.
    ///
    /// # Errors
    /// [`EncoderError`]: counts out of range, weights that do not fit them, or one that is not
    /// finite.
    pub fn new(input_count: usize, weights: &[f32], bias: &[f32]) -> Result<Self, EncoderError> {
        let output_count = bias.len();
        let range = 1..=DENSE_LEN_MAX;
        if !range.contains(&input_count) || !range.contains(&output_count) {
            return Err(EncoderError::new(format!(
                "{input_count} inputs and {output_count} outputs; wanted: 1 to {DENSE_LEN_MAX}"
            )));
        }
        let groups = output_count.div_ceil(LANES);
        let mut dense = Self {
            input_count,
            output_count,
            weights: vec![[0.0; LANES]; groups * input_count],
            bias: vec![[0.0; LANES]; groups],
        };
        dense.set(weights, bias)?;
        Ok(dense)
    }

    /// Replaces all weights, of shape (outputs × inputs), and the bias; allocates nothing.
    ///
    /// # Errors
    /// [`EncoderError`], and the layer stays as it was: other counts than it has, or a weight that
    /// is not finite.
    pub fn set(&mut self, weights: &[f32], bias: &[f32]) -> Result<(), EncoderError> {
        let (inputs, outputs) = (self.input_count, self.output_count);
        if weights.len() != inputs * outputs || bias.len() != outputs {
            return Err(EncoderError::new(format!(
                "{} weights and {} biases; wanted: {outputs} × {inputs} weights and {outputs} \
                 biases",
                weights.len(),
                bias.len()
            )));
        }
        if !weights.iter().chain(bias).all(|weight| weight.is_finite()) {
            return Err(EncoderError::new("a weight that is not finite; wanted: finite numbers"));
        }
        for (output, row) in weights.chunks_exact(inputs).enumerate() {
            let group = &mut self.weights[output / LANES * inputs..][..inputs];
            group.iter_mut().zip(row).for_each(|(to, &weight)| to[output % LANES] = weight);
        }
        self.bias.as_flattened_mut()[..outputs].copy_from_slice(bias);
        Ok(())
    }

    /// Numbers that it reads.
    #[must_use]
    pub const fn input_count(&self) -> usize {
        self.input_count
    }

    /// Numbers that it gives.
    #[must_use]
    pub const fn output_count(&self) -> usize {
        self.output_count
    }

    /// The weights, all inputs of the first output first, as PyTorch keeps them.
    pub fn weights(&self) -> impl Iterator<Item = f32> + '_ {
        (0..self.output_count).flat_map(move |output| {
            let group = self.group(output / LANES);
            group.iter().map(move |lanes| lanes[output % LANES])
        })
    }

    /// The bias of each output.
    #[must_use]
    pub fn bias(&self) -> &[f32] {
        &self.bias.as_flattened()[..self.output_count]
    }

    /// The bias by group; how many groups there are is its length.
    pub(super) fn bias_groups(&self) -> &[Group] {
        &self.bias
    }

    /// Weights of one group of outputs, by input.
    pub(super) fn group(&self, group: usize) -> &[Group] {
        &self.weights[group * self.input_count..][..self.input_count]
    }

    /// All weights, by group of outputs and input, and the bias by group.
    pub(super) fn groups_mut(&mut self) -> (&mut [Group], &mut [Group]) {
        (&mut self.weights, &mut self.bias)
    }
}
