//! New tokens through a Transformer encoder that keeps keys and values, and queries scored by its
//! head: weights and tokens are random, as time does not depend on them.

use clap::Args;
use model::trees::Path;
use model::{Encoder, EncoderShape, EncoderState, Head, HeadScratch};

use crate::Failure;
use crate::clock::Stopwatch;
use crate::measurement::Measurement;

/// Arguments of `encoder`.
#[derive(Debug, Args)]
pub(crate) struct EncoderArguments {
    /// Tokens that a token sees, itself included
    #[arg(long, value_name = "TOKENS", default_values_t = [64, 512], num_args = 1..)]
    window: Vec<usize>,
    /// New tokens of a call
    #[arg(long, value_name = "TOKENS", default_values_t = [1, 8], num_args = 1..)]
    tokens: Vec<usize>,
    /// Queries that are scored after each call
    #[arg(long, default_value_t = 16)]
    queries: usize,
    /// Calls of each measurement
    #[arg(long, default_value_t = 512)]
    calls: usize,
    /// Times to measure everything
    #[arg(long, default_value_t = 1)]
    repetitions: usize,
}

/// Numbers of a query.
const QUERY_LEN: usize = 16;
/// Outputs of the head's first layer.
const INNER_LEN: usize = 64;

/// An encoder and its head.
pub(crate) struct Net {
    pub(crate) encoder: Encoder,
    pub(crate) head: Head,
    /// Numbers to be tokens and queries.
    pub(crate) numbers: Vec<f32>,
}

/// Measures each path, window and number of tokens; the state's window is full when it begins.
pub(crate) fn run(arguments: &EncoderArguments) -> Result<(), Failure> {
    let net = Net::new(EncoderShape::default(), QUERY_LEN, INNER_LEN)?;
    for _ in 0..arguments.repetitions {
        for &window in &arguments.window {
            for &tokens in &arguments.tokens {
                for path in Path::ALL.into_iter().filter(|path| path.is_there()) {
                    net.measure(path, window, tokens, arguments)?;
                }
            }
        }
    }
    Ok(())
}

/// Numbers from −0.15 to 0.15.
pub(crate) fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut number = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // 24 bits are as many as such a number has.
        #[allow(clippy::cast_precision_loss)]
        let part = (state >> 8) as f32 / (1 << 24) as f32;
        (part - 0.5) * 0.3
    };
    (0..count).map(|_| number()).collect()
}

/// Bins of a query's numbers, about as many as trained models have.
const BIN_COUNT: usize = 160;

impl Net {
    /// Random weights; a query has so many numbers, and the head's first layer so many outputs.
    pub(crate) fn new(
        shape: EncoderShape,
        query_len: usize,
        inner_len: usize,
    ) -> Result<Self, Failure> {
        let EncoderShape { token_len, width, hidden_len, .. } = shape;
        let (pool, scales) = (numbers(1 << 16, 7), vec![1.0; width]);
        let bin = |at: usize| [(at % query_len) as f32, -0.5, 0.5];
        let bins: Vec<f32> = (0..BIN_COUNT).flat_map(bin).collect();
        let tensor = |name: &str| -> Option<&[f32]> {
            let count = match name.rsplit_once("layers.").map_or(name, |(_, name)| &name[2..]) {
                "input.weight" => width * token_len,
                "self_attn.in_proj_weight" => 3 * width * width,
                "self_attn.in_proj_bias" => 3 * width,
                "self_attn.out_proj.weight" => width * width,
                "linear1.weight" | "linear2.weight" => width * hidden_len,
                "linear1.bias" => hidden_len,
                "norm1.weight" | "norm2.weight" => return Some(&scales),
                "head.0.weight" => inner_len * (width + query_len + BIN_COUNT),
                "head.bins" => return Some(&bins),
                "head.0.bias" | "head.1.weight" => inner_len,
                "head.1.bias" => 1,
                _ => width,
            };
            // Names of other lengths have other numbers.
            pool.get(name.len()..name.len() + count)
        };
        let encoder = Encoder::new(shape, tensor).map_err(|error| error.to_string())?;
        let head =
            Head::from_tensors(width, query_len, tensor).map_err(|error| error.to_string())?;
        Ok(Self { encoder, head, numbers: numbers(1 << 14, 9) })
    }

    fn measure(
        &self,
        path: Path,
        window: usize,
        tokens: usize,
        arguments: &EncoderArguments,
    ) -> Result<(), Failure> {
        let Self { encoder, head, numbers } = self;
        let shape = encoder.shape();
        let failed = |error: model::EncoderError| error.to_string();
        let mut state = EncoderState::new(shape, window).map_err(failed)?;
        let mut scratch = HeadScratch::new(head);
        let mut output = vec![0.0; tokens * shape.width];
        let mut scores = vec![0.0; arguments.queries];
        let input_len = (tokens * shape.token_len).max(arguments.queries * QUERY_LEN);
        let mut inputs = numbers.windows(input_len).step_by(7).cycle();
        let wanted = || format!("{tokens} tokens and {} queries; wanted: fewer", arguments.queries);
        let (mut check, mut stopwatch) = (0_u64, Stopwatch::start());
        let warm_count = window.div_ceil(tokens.max(1));
        for call in 0..warm_count + arguments.calls {
            if call == warm_count {
                stopwatch = Stopwatch::start();
            }
            let input = inputs.next().ok_or_else(wanted)?;
            let new = &input[..tokens * shape.token_len];
            encoder.append_on(path, &mut state, new, &mut output).map_err(failed)?;
            let hidden = output.last_chunk::<64>().ok_or_else(wanted)?;
            let queries = &input[..arguments.queries * QUERY_LEN];
            head.score_on(path, &mut scratch, hidden, queries, &mut scores).map_err(failed)?;
            check = scores.iter().fold(check, |check, s| check.wrapping_add(s.to_bits().into()));
        }
        let elapsed = stopwatch.stop();
        let name = format!(
            "window {window}, {tokens} tokens, {} queries, {}",
            arguments.queries,
            path.name()
        );
        let item_count = arguments.calls as u64;
        Measurement { figure: "encoder", name, thread_count: 1, item_count, elapsed, check }
            .print();
        Ok(())
    }
}
