//! Inference of a small causal Transformer encoder that caches keys and values.
//!
//! Tokens, a few numbers each, arrive one by one or several in a call; each is encoded once. A
//! linear layer maps a token to the encoder's width. Layers of self-attention and feed-forward
//! network follow, as `torch.nn.TransformerEncoderLayer` computes them in eval mode (ReLU,
//! post-norm). In every layer a token attends to itself and to the `window` − 1 tokens before it,
//! a banded causal mask. [`EncoderState`] caches the keys and values of these tokens, so the cost
//! of a new token does not depend on how many came before. There is no position encoding.
//!
//! - [`Encoder`] has the weights, [`EncoderState`] the cache of one sequence.
//! - [`Head`] scores queries about an encoded token; a [`Coding`] divides their numbers into bins.
//! - [`HeadTrainer`] trains a head further, on queries whose scores are known.
//! - [`Dense`] is the linear layer of encoder and head.
//!
//! Outputs are identical to the bit on every processor, and for every division of the tokens into
//! calls. `docs/specs/encoder.md` specifies tensors and arithmetic.

mod coding;
mod dense;
mod descent;
mod head;
mod kernels;
mod state;
#[cfg(test)]
mod tests;
mod training;

use std::fmt;

pub use coding::{BIN_COUNT_MAX, Coding};
pub use dense::{DENSE_LEN_MAX, Dense};
pub use head::{Head, HeadScratch};
pub(crate) use kernels::Step;
use kernels::{Linear, Norm};
pub use state::EncoderState;
pub use training::{Change, Examples, HeadTrainer, NONE_BEFORE, TrainingOutcome, TrainingSettings};

use crate::simd::{self, Path};

/// Outputs, or tokens, that are summed up together.
pub(crate) const LANES: usize = 16;
/// As many numbers.
pub(crate) type Group = [f32; LANES];
/// Tokens that are computed together.
pub(crate) const TOKENS_MAX: usize = 8;

/// Tokens that a token sees at most.
pub const WINDOW_MAX: usize = 4_096;
/// Numbers of a token at most.
pub const TOKEN_LEN_MAX: usize = 512;
/// Width at most.
pub const WIDTH_MAX: usize = 512;
/// Heads at most.
pub const HEAD_COUNT_MAX: usize = 64;
/// Width of the feed-forward network at most.
pub const HIDDEN_LEN_MAX: usize = 2_048;
/// Layers at most.
pub const LAYER_COUNT_MAX: usize = 8;

/// An encoder, head or input that is not valid: what was seen and what is wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EncoderError(String);

impl EncoderError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for EncoderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for EncoderError {}

/// Sizes of an encoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncoderShape {
    /// Numbers of a token.
    pub token_len: usize,
    /// Numbers of a token inside the encoder, and of its output (`d_model`).
    pub width: usize,
    /// Heads of attention (`nhead`), each of `width / head_count` numbers.
    pub head_count: usize,
    /// Width of the feed-forward network (`dim_feedforward`).
    pub hidden_len: usize,
    /// Layers.
    pub layer_count: usize,
}

impl Default for EncoderShape {
    /// 24 numbers a token, width 64 in 4 heads, feed-forward 256, 2 layers.
    fn default() -> Self {
        Self { token_len: 24, width: 64, head_count: 4, hidden_len: 256, layer_count: 2 }
    }
}

impl EncoderShape {
    /// Whether all sizes are in range and the heads divide the width.
    ///
    /// # Errors
    /// [`EncoderError`] says which is not.
    pub fn check(&self) -> Result<(), EncoderError> {
        let Self { token_len, width, head_count, hidden_len, layer_count } = *self;
        for (name, size, most) in [
            ("token_len", token_len, TOKEN_LEN_MAX),
            ("width", width, WIDTH_MAX),
            ("head_count", head_count, HEAD_COUNT_MAX),
            ("hidden_len", hidden_len, HIDDEN_LEN_MAX),
            ("layer_count", layer_count, LAYER_COUNT_MAX),
        ] {
            if !(1..=most).contains(&size) {
                return Err(EncoderError(format!("{name} {size}; wanted: 1 to {most}")));
            }
        }
        if !width.is_multiple_of(head_count) {
            return Err(EncoderError(format!(
                "width {width} and {head_count} heads; wanted: a multiple of the heads"
            )));
        }
        Ok(())
    }

    /// Numbers of a head.
    const fn head_len(&self) -> usize {
        self.width / self.head_count
    }
}

/// The weights of an encoder.
#[derive(Clone, PartialEq, Debug)]
pub struct Encoder {
    shape: EncoderShape,
    input: Dense,
    layers: Vec<Layer>,
}

/// Those of one layer, in the order of their use.
#[derive(Clone, PartialEq, Debug)]
struct Layer {
    /// Queries, already scaled, then keys, then values.
    projection: Dense,
    attended: Dense,
    norm1: Norm,
    linear1: Dense,
    linear2: Dense,
    norm2: Norm,
}

impl Encoder {
    /// From tensors by their name in PyTorch, rows of outputs first: `input.weight`
    /// (`width` × `token_len`), `input.bias`, and of each layer from 0 on
    /// `layers.0.self_attn.in_proj_weight` (3 `width` × `width`) and `….in_proj_bias`,
    /// `layers.0.self_attn.out_proj`, `layers.0.linear1`, `….linear2`, `….norm1` and `….norm2`,
    /// each with `.weight` and `.bias`.
    ///
    /// # Errors
    /// [`EncoderError`]: sizes out of range, or a tensor that is missing, of another length, or
    /// not finite.
    pub fn new<'a>(
        shape: EncoderShape,
        tensors: impl Fn(&str) -> Option<&'a [f32]>,
    ) -> Result<Self, EncoderError> {
        shape.check()?;
        let input = dense_of(&tensors, "input", shape.token_len, shape.width)?;
        let layers = (0..shape.layer_count).map(|index| Layer::new(&shape, index, &tensors));
        Ok(Self { shape, input, layers: layers.collect::<Result<_, _>>()? })
    }

    /// Its sizes.
    #[must_use]
    pub const fn shape(&self) -> EncoderShape {
        self.shape
    }

    /// Encodes `n` new tokens: `tokens` is `n` × `token_len`, `output` `n` × `width`, the last
    /// layer's output for each. Allocates no memory.
    ///
    /// Very large numbers may overflow: outputs are then infinite or NaN until the token has left
    /// the window of every layer. Limit them where tokens are made.
    ///
    /// # Errors
    /// [`EncoderError`], and the state is as before: a state for another shape, lengths that do not
    /// fit, or a number that is not finite.
    pub fn append(
        &self,
        state: &mut EncoderState,
        tokens: &[f32],
        output: &mut [f32],
    ) -> Result<(), EncoderError> {
        self.append_on(Path::best(), state, tokens, output)
    }

    /// The same on a path of choice, to measure and test.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_on(
        &self,
        path: Path,
        state: &mut EncoderState,
        tokens: &[f32],
        output: &mut [f32],
    ) -> Result<(), EncoderError> {
        let EncoderShape { token_len, width, .. } = self.shape;
        if state.shape != self.shape {
            return Err(EncoderError(format!(
                "a state for {:?}; wanted: one for {:?}",
                state.shape, self.shape
            )));
        }
        let count = tokens.len() / token_len;
        if !tokens.len().is_multiple_of(token_len) || output.len() != count * width {
            return Err(EncoderError(format!(
                "{} numbers of tokens and {} of output; wanted: {token_len} and {width} a token",
                tokens.len(),
                output.len()
            )));
        }
        finite("token", tokens)?;
        let blocks = tokens.chunks(TOKENS_MAX * token_len);
        for (tokens, output) in blocks.zip(output.chunks_mut(TOKENS_MAX * width)) {
            self.append_block(path, state, tokens, output);
        }
        Ok(())
    }

    /// At most [`TOKENS_MAX`] tokens.
    fn append_block(
        &self,
        path: Path,
        state: &mut EncoderState,
        tokens: &[f32],
        output: &mut [f32],
    ) {
        let EncoderShape { token_len, width, .. } = self.shape;
        let count = tokens.len() / token_len;
        let groups = width.div_ceil(LANES);
        let stream = &mut state.scratch.stream[..count * groups];
        simd::encode(path, Step::Linear(Linear::new(&self.input, tokens, token_len), stream));
        for (index, layer) in self.layers.iter().enumerate() {
            layer.append(path, state, index, count);
        }
        let rows = state.scratch.stream.chunks_exact(groups);
        for (output, row) in output.chunks_exact_mut(width).zip(rows) {
            output.copy_from_slice(&row.as_flattened()[..width]);
        }
        state.position += count;
    }
}

impl Layer {
    fn new<'a>(
        shape: &EncoderShape,
        index: usize,
        tensors: &impl Fn(&str) -> Option<&'a [f32]>,
    ) -> Result<Self, EncoderError> {
        let (width, hidden_len) = (shape.width, shape.hidden_len);
        let dense = |name: &str, inputs, outputs| {
            dense_of(tensors, &format!("layers.{index}.{name}"), inputs, outputs)
        };
        let norm = |name: &str| Norm::new(tensors, &format!("layers.{index}.{name}"), width);
        Ok(Self {
            projection: projection_of(tensors, &format!("layers.{index}.self_attn"), shape)?,
            attended: dense("self_attn.out_proj", width, width)?,
            norm1: norm("norm1")?,
            linear1: dense("linear1", width, hidden_len)?,
            linear2: dense("linear2", hidden_len, width)?,
            norm2: norm("norm2")?,
        })
    }

    /// Tokens in the state's stream become those of the next layer.
    fn append(&self, path: Path, state: &mut EncoderState, index: usize, count: usize) {
        let EncoderState { shape, window, position, rings, scratch, .. } = state;
        // Rows of so many groups.
        let rows = |len: usize| count * len.div_ceil(LANES);
        let (width, row_len) = (shape.width, shape.width.next_multiple_of(LANES));
        let stream = &mut scratch.stream[..rows(width)];
        let added = &mut scratch.added[..rows(width)];
        let projected = &mut scratch.projected[..rows(3 * width)];
        let linear = |layer: &Dense, rows: &[f32], row_len: usize, output: &mut [Group]| {
            simd::encode(path, Step::Linear(Linear::new(layer, rows, row_len), output));
        };
        linear(&self.projection, stream.as_flattened(), row_len, projected);
        let attention =
            rings[index].push((*shape, *window, *position), projected.as_flattened(), count);
        let attended = scratch.attended.as_flattened_mut();
        let to = (&mut *attended, row_len);
        simd::encode(path, Step::Attend(attention, count, &mut scratch.scores, to));
        linear(&self.attended, attended, row_len, added);
        simd::encode(path, Step::AddAndNormalise(&self.norm1, stream, added));
        let hidden = &mut scratch.hidden[..rows(shape.hidden_len)];
        let linear1 = Linear::new(&self.linear1, stream.as_flattened(), row_len);
        simd::encode(path, Step::Linear(linear1.rectified(), hidden));
        let hidden_len = shape.hidden_len.next_multiple_of(LANES);
        linear(&self.linear2, hidden.as_flattened(), hidden_len, added);
        simd::encode(path, Step::AddAndNormalise(&self.norm2, stream, added));
    }
}

impl Norm {
    fn new<'a>(
        tensors: &impl Fn(&str) -> Option<&'a [f32]>,
        name: &str,
        width: usize,
    ) -> Result<Self, EncoderError> {
        let groups = |name: String| {
            let numbers = sized(tensors, &name, width)?;
            let mut groups = vec![[0.0; LANES]; width.div_ceil(LANES)];
            groups.as_flattened_mut()[..width].copy_from_slice(numbers);
            Ok(groups)
        };
        let (scale, shift) = (groups(format!("{name}.weight"))?, groups(format!("{name}.bias"))?);
        Ok(Self { width, scale, shift })
    }
}

/// Queries, keys and values; queries are divided by the root of a head's numbers here, once.
fn projection_of<'a>(
    tensors: &impl Fn(&str) -> Option<&'a [f32]>,
    name: &str,
    shape: &EncoderShape,
) -> Result<Dense, EncoderError> {
    let width = shape.width;
    let weights = sized(tensors, &format!("{name}.in_proj_weight"), 3 * width * width)?;
    let bias = sized(tensors, &format!("{name}.in_proj_bias"), 3 * width)?;
    // A head has far fewer numbers than would lose a digit.
    #[allow(clippy::cast_precision_loss)]
    let factor = 1.0 / (shape.head_len() as f32).sqrt();
    let scaled = |numbers: &[f32], count: usize| {
        let mut numbers = numbers.to_vec();
        numbers.iter_mut().take(count).for_each(|number| *number *= factor);
        numbers
    };
    Dense::new(width, &scaled(weights, width * width), &scaled(bias, width))
}

fn dense_of<'a>(
    tensors: &impl Fn(&str) -> Option<&'a [f32]>,
    name: &str,
    input_count: usize,
    output_count: usize,
) -> Result<Dense, EncoderError> {
    let weight_count = input_count.saturating_mul(output_count);
    let weights = sized(tensors, &format!("{name}.weight"), weight_count)?;
    let bias = sized(tensors, &format!("{name}.bias"), output_count)?;
    Dense::new(input_count, weights, bias)
        .map_err(|EncoderError(reason)| EncoderError(format!("{name}: {reason}")))
}

/// A tensor of this length, of finite numbers.
fn sized<'a>(
    tensors: &impl Fn(&str) -> Option<&'a [f32]>,
    name: &str,
    len: usize,
) -> Result<&'a [f32], EncoderError> {
    let found = tensor(tensors, name)?;
    if found.len() != len {
        return Err(EncoderError(format!("{name}: {} numbers; wanted: {len}", found.len())));
    }
    finite(name, found)?;
    Ok(found)
}

fn tensor<'a>(
    tensors: &impl Fn(&str) -> Option<&'a [f32]>,
    name: &str,
) -> Result<&'a [f32], EncoderError> {
    tensors(name).ok_or_else(|| {
        EncoderError(format!("{name}: no such tensor; wanted: one, as in PyTorch's state_dict"))
    })
}

fn finite(name: &str, numbers: &[f32]) -> Result<(), EncoderError> {
    let Some(index) = numbers.iter().position(|number| !number.is_finite()) else { return Ok(()) };
    Err(EncoderError(format!("{name}: number {index} is not finite; wanted: finite numbers")))
}
