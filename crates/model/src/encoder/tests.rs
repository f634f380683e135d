use std::collections::BTreeMap;

use proptest::prelude::*;

use super::kernels::exponential;
use super::*;

/// Tensors by name.
type Tensors = BTreeMap<String, Vec<f32>>;

/// Numbers of a uniform distribution from −0.5 to 0.5.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut number = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (f64::from((state >> 40) as u32) / f64::from(1 << 24) - 0.5) as f32
    };
    (0..count).map(|_| number()).collect()
}

fn shape(
    token_len: usize,
    width: usize,
    head_count: usize,
    hidden_len: usize,
    layer_count: usize,
) -> EncoderShape {
    EncoderShape { token_len, width, head_count, hidden_len, layer_count }
}

fn tensors(shape: &EncoderShape, seed: u64) -> Tensors {
    let EncoderShape { token_len, width, hidden_len, layer_count, .. } = *shape;
    let mut tensors = Tensors::new();
    let mut add = |name: String, count: usize, scale: f32, base: f32| {
        let values = numbers(count, seed * 1_000 + tensors.len() as u64);
        tensors.insert(name, values.into_iter().map(|value| base + scale * value).collect());
    };
    let scale = |inputs: usize| 3.0 / (inputs as f32).sqrt();
    add("input.weight".into(), width * token_len, scale(token_len), 0.0);
    add("input.bias".into(), width, 1.0, 0.0);
    for layer in 0..layer_count {
        let mut dense = |name: &str, inputs: usize, outputs: usize| {
            let name = format!("layers.{layer}.{name}");
            add(format!("{name}weight"), inputs * outputs, scale(inputs), 0.0);
            add(format!("{name}bias"), outputs, 1.0, 0.0);
        };
        dense("self_attn.in_proj_", width, 3 * width);
        dense("self_attn.out_proj.", width, width);
        dense("linear1.", width, hidden_len);
        dense("linear2.", hidden_len, width);
        for norm in ["norm1", "norm2"] {
            add(format!("layers.{layer}.{norm}.weight"), width, 1.0, 1.0);
            add(format!("layers.{layer}.{norm}.bias"), width, 1.0, 0.0);
        }
    }
    tensors
}

fn encoder(shape: EncoderShape, tensors: &Tensors) -> Result<Encoder, EncoderError> {
    Encoder::new(shape, |name| tensors.get(name).map(Vec::as_slice))
}

/// Half a bin for each number of a query.
fn bins(query_len: usize) -> Vec<f32> {
    (0..query_len / 2).flat_map(|at| [(at * 2) as f32, at as f32 * 0.1 - 0.5, 0.75]).collect()
}

fn head_tensors(hidden_len: usize, query_len: usize, inner: usize, seed: u64) -> Tensors {
    let tensor = |name: &str, count: usize| (name.into(), numbers(count, seed + count as u64));
    Tensors::from([
        tensor("head.0.weight", inner * (hidden_len + query_len + query_len / 2)),
        ("head.bins".into(), bins(query_len)),
        tensor("head.0.bias", inner),
        tensor("head.1.weight", inner),
        tensor("head.1.bias", 1),
    ])
}

fn head(hidden_len: usize, query_len: usize, tensors: &Tensors) -> Result<Head, EncoderError> {
    Head::from_tensors(hidden_len, query_len, |name| tensors.get(name).map(Vec::as_slice))
}

/// The textbook's formulas, in 64 bits: all tokens in one pass, nothing reused.
mod plain {
    use super::{EncoderShape, Tensors};

    type Rows = Vec<Vec<f64>>;

    fn wide(numbers: &[f32]) -> Vec<f64> {
        numbers.iter().map(|&number| number.into()).collect()
    }

    fn dot(one: &[f64], other: &[f64]) -> f64 {
        one.iter().zip(other).map(|(one, other)| one * other).sum()
    }

    /// `name` is followed by `weight` and by `bias`.
    pub(super) fn dense(tensors: &Tensors, name: &str, rows: &[Vec<f64>]) -> Rows {
        let weights = wide(&tensors[&format!("{name}weight")]);
        let bias = wide(&tensors[&format!("{name}bias")]);
        let outputs = |row: &Vec<f64>| {
            let sums = weights.chunks_exact(row.len()).map(|weights| dot(weights, row));
            sums.zip(&bias).map(|(sum, bias)| sum + bias).collect()
        };
        rows.iter().map(outputs).collect()
    }

    fn add_and_normalise(tensors: &Tensors, name: &str, rows: &mut Rows, added: &Rows) {
        let scale = wide(&tensors[&format!("{name}.weight")]);
        let shift = wide(&tensors[&format!("{name}.bias")]);
        for (row, added) in rows.iter_mut().zip(added) {
            row.iter_mut().zip(added).for_each(|(number, added)| *number += added);
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let squares = row.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
            let deviation = (squares / row.len() as f64 + 1e-5).sqrt();
            for ((number, scale), shift) in row.iter_mut().zip(&scale).zip(&shift) {
                *number = (*number - mean) / deviation * scale + shift;
            }
        }
    }

    fn attended(projected: &Rows, shape: &EncoderShape, window: usize) -> Rows {
        let (width, len) = (shape.width, shape.width / shape.head_count);
        let attend = |token: usize, number: usize| {
            let first = number / len * len;
            let query = &projected[token][first..first + len];
            let seen = &projected[(token + 1).saturating_sub(window)..=token];
            let score = |row: &Vec<f64>| {
                (dot(query, &row[width + first..][..len]) / (len as f64).sqrt()).exp()
            };
            let weighted = seen.iter().map(|row| score(row) * row[2 * width + number]);
            weighted.sum::<f64>() / seen.iter().map(score).sum::<f64>()
        };
        let row = |token: usize| (0..width).map(|number| attend(token, number)).collect();
        (0..projected.len()).map(row).collect()
    }

    pub(super) fn rectify(mut rows: Rows) -> Rows {
        rows.iter_mut().flatten().for_each(|number| *number = number.max(0.0));
        rows
    }

    pub(super) fn encode(
        shape: &EncoderShape,
        tensors: &Tensors,
        tokens: &[f32],
        window: usize,
    ) -> Rows {
        let tokens: Rows = tokens.chunks_exact(shape.token_len).map(wide).collect();
        let mut rows = dense(tensors, "input.", &tokens);
        for layer in 0..shape.layer_count {
            let name = |name: &str| format!("layers.{layer}.{name}");
            let projected = dense(tensors, &name("self_attn.in_proj_"), &rows);
            let attended = attended(&projected, shape, window);
            let added = dense(tensors, &name("self_attn.out_proj."), &attended);
            add_and_normalise(tensors, &name("norm1"), &mut rows, &added);
            let hidden = rectify(dense(tensors, &name("linear1."), &rows));
            let added = dense(tensors, &name("linear2."), &hidden);
            add_and_normalise(tensors, &name("norm2"), &mut rows, &added);
        }
        rows
    }
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Outputs of tokens that are appended in calls of so many.
fn in_calls(
    encoder: &Encoder,
    path: Path,
    window: usize,
    tokens: &[f32],
    counts: impl IntoIterator<Item = usize>,
) -> Vec<f32> {
    let EncoderShape { token_len, width, .. } = encoder.shape();
    let mut state = EncoderState::new(encoder.shape(), window).unwrap();
    let mut outputs = vec![0.0; tokens.len() / token_len * width];
    let (mut tokens, mut left) = (tokens, outputs.as_mut_slice());
    let mut counts = counts.into_iter();
    while !tokens.is_empty() {
        let all = tokens.len() / token_len;
        let count = counts.next().unwrap_or(all).min(all);
        let (first, others) = tokens.split_at(count * token_len);
        let (output, next) = left.split_at_mut(count * width);
        encoder.append_on(path, &mut state, first, output).unwrap();
        (tokens, left) = (others, next);
    }
    outputs
}

fn paths() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| path.is_there())
}

#[test]
fn outputs_are_those_of_the_formulas_on_every_processor() {
    for (shape, window, count) in [
        (EncoderShape::default(), 64, 100),
        (EncoderShape::default(), 512, 40),
        (EncoderShape::default(), 1, 20),
        (shape(5, 64, 4, 256, 1), 3, 40),
        (shape(1, 12, 3, 7, 3), 17, 90),
        (shape(31, 40, 2, 50, 2), 16, 75),
        (shape(3, 1, 1, 1, 2), 5, 33),
        (shape(24, 96, 2, 130, 8), 20, 70),
    ] {
        let tensors = tensors(&shape, count as u64);
        let encoder = encoder(shape, &tensors).unwrap();
        let tokens: Vec<f32> =
            numbers(count * shape.token_len, 5).into_iter().map(|number| number * 4.0).collect();
        let wanted: Vec<f64> = plain::encode(&shape, &tensors, &tokens, window).concat();
        let portable = in_calls(&encoder, Path::Portable, window, &tokens, []);
        for (&found, &wanted) in portable.iter().zip(&wanted) {
            assert!((f64::from(found) - wanted).abs() < 1e-4, "{shape:?}: {found} {wanted}");
        }
        for path in paths() {
            for counts in [vec![], vec![1; count], vec![2; count], vec![5; count]] {
                let found = in_calls(&encoder, path, window, &tokens, counts);
                assert_eq!(bits(&found), bits(&portable), "{shape:?} {}", path.name());
            }
        }
    }
}

#[test]
fn head_scores_are_those_of_the_formulas_on_every_processor() {
    for (hidden_len, query_len, inner, count) in
        [(64, 16, 64, 16), (64, 3, 40, 37), (1, 1, 1, 1), (12, 20, 5, 8), (7, 2, 130, 0)]
    {
        let tensors = head_tensors(hidden_len, query_len, inner, 3);
        let head = head(hidden_len, query_len, &tensors).unwrap();
        let (hidden, queries) = (numbers(hidden_len, 1), numbers(count * query_len, 2));
        let rows: Vec<Vec<f64>> = queries
            .chunks_exact(query_len)
            .map(|query| {
                let bins = bins(query_len);
                let coded = bins.chunks_exact(3).map(|bin| {
                    let [number, low, high] = [0, 1, 2].map(|at| f64::from(bin[at]));
                    ((f64::from(query[number as usize]) - low) / (high - low)).clamp(0.0, 1.0)
                });
                let plain = hidden.iter().chain(query).map(|&number| f64::from(number));
                plain.chain(coded).collect()
            })
            .collect();
        let inner = plain::rectify(plain::dense(&tensors, "head.0.", &rows));
        let wanted = plain::dense(&tensors, "head.1.", &inner).concat();
        let mut portable = vec![0.0; count];
        let mut scratch = HeadScratch::new(&head);
        head.score_on(Path::Portable, &mut scratch, &hidden, &queries, &mut portable).unwrap();
        for (&found, &wanted) in portable.iter().zip(&wanted) {
            assert!((f64::from(found) - wanted).abs() < 1e-4, "{found} {wanted}");
        }
        for path in paths() {
            let mut found = vec![0.0; count];
            head.score_on(path, &mut scratch, &hidden, &queries, &mut found).unwrap();
            assert_eq!(bits(&found), bits(&portable), "{}", path.name());
            for (query, &one) in queries.chunks_exact(query_len).zip(&found) {
                let mut alone = [0.0];
                head.score_on(path, &mut scratch, &hidden, query, &mut alone).unwrap();
                assert_eq!(alone[0].to_bits(), one.to_bits(), "{}", path.name());
            }
        }
    }
}

#[test]
fn an_exponential_is_within_a_ten_millionth() {
    let highest = (0..=2_000_000_u32)
        .map(|index| {
            let x = -87.0 * (f64::from(index) / 2e6) as f32;
            let wanted = f64::from(x).exp();
            (f64::from(exponential(x)) - wanted).abs() / wanted
        })
        .fold(0.0, f64::max);
    assert!(highest < 1e-7, "{highest:e}");
    assert_eq!(exponential(0.0), 1.0);
    assert!(exponential(f32::NEG_INFINITY) < 1.7e-38);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn outputs_do_not_depend_on_the_calls(
        window in 1_usize..70,
        count in 1_usize..120,
        counts in proptest::collection::vec(1_usize..20, 0..60),
        seed in 0_u64..1_000,
    ) {
        let shape = shape(6, 32, 2, 20, 2);
        let encoder = encoder(shape, &tensors(&shape, seed)).unwrap();
        let tokens = numbers(count * shape.token_len, seed + 1);
        let one_by_one = in_calls(&encoder, Path::best(), window, &tokens, vec![1; count]);
        let found = in_calls(&encoder, Path::best(), window, &tokens, counts);
        prop_assert_eq!(bits(&found), bits(&one_by_one));
    }

    #[test]
    fn later_tokens_change_no_earlier_output(
        window in 1_usize..40,
        count in 2_usize..60,
        changed in 1_usize..60,
        is_huge: bool,
    ) {
        let shape = shape(4, 32, 2, 20, 2);
        let changed = changed.min(count - 1);
        let encoder = encoder(shape, &tensors(&shape, 7)).unwrap();
        let mut tokens = numbers(count * shape.token_len, 9);
        let before = in_calls(&encoder, Path::best(), window, &tokens, []);
        for number in &mut tokens[changed * shape.token_len..] {
            *number = if is_huge { f32::MAX } else { *number + 1.0 };
        }
        let after = in_calls(&encoder, Path::best(), window, &tokens, []);
        let same = changed * shape.width;
        prop_assert_eq!(bits(&before[..same]), bits(&after[..same]));
        prop_assert_ne!(bits(&before[same..]), bits(&after[same..]));
    }

    #[test]
    fn a_window_bounds_what_is_seen(
        window in 1_usize..20,
        layers in 1_usize..4,
        changed in 0_usize..30,
        is_huge: bool,
    ) {
        let shape = shape(4, 32, 2, 20, layers);
        // The last output that a token takes part in is by so many later.
        let reach = layers * (window - 1);
        let count = changed + reach + 20;
        let encoder = encoder(shape, &tensors(&shape, 8)).unwrap();
        let mut tokens = numbers(count * shape.token_len, 10);
        let before = in_calls(&encoder, Path::best(), window, &tokens, []);
        tokens[changed * shape.token_len] += if is_huge { f32::MAX } else { 3.0 };
        let after = in_calls(&encoder, Path::best(), window, &tokens, []);
        let (first, end) = (changed * shape.width, (changed + reach + 1) * shape.width);
        prop_assert_eq!(bits(&before[..first]), bits(&after[..first]));
        prop_assert_eq!(bits(&before[end..]), bits(&after[end..]));
        let own = first..first + shape.width;
        prop_assert_ne!(bits(&before[own.clone()]), bits(&after[own]));
    }
}

#[test]
fn a_token_takes_part_in_outputs_to_the_end_of_its_reach() {
    let shape = shape(4, 32, 2, 20, 2);
    let (window, count) = (5, 20);
    let encoder = encoder(shape, &tensors(&shape, 8)).unwrap();
    let mut tokens = numbers(count * shape.token_len, 10);
    let before = in_calls(&encoder, Path::best(), window, &tokens, []);
    tokens[0] += 3.0;
    let after = in_calls(&encoder, Path::best(), window, &tokens, []);
    let pairs = before.chunks_exact(shape.width).zip(after.chunks_exact(shape.width));
    let changed: Vec<bool> = pairs.map(|(before, after)| bits(before) != bits(after)).collect();
    assert_eq!(changed, (0..count).map(|token| token <= 2 * (window - 1)).collect::<Vec<_>>());
}

#[test]
fn a_cleared_state_is_as_a_new_one() {
    let shape = shape(4, 32, 2, 20, 2);
    let encoder = encoder(shape, &tensors(&shape, 8)).unwrap();
    let tokens = numbers(50 * shape.token_len, 10);
    let mut state = EncoderState::new(shape, 9).unwrap();
    let (mut first, mut second) = (vec![0.0; 50 * shape.width], vec![0.0; 50 * shape.width]);
    encoder.append(&mut state, &tokens, &mut first).unwrap();
    assert_eq!((state.token_count(), state.window()), (50, 9));
    state.clear();
    assert_eq!(state.token_count(), 0);
    encoder.append(&mut state, &tokens, &mut second).unwrap();
    assert_eq!(bits(&first), bits(&second));
}

#[test]
fn a_state_says_how_much_memory_it_has() {
    let state = EncoderState::new(EncoderShape::default(), 512).unwrap();
    let kept = 2 * 2 * 512 * 64 * 4;
    assert!((kept..kept + kept / 4).contains(&state.size_bytes()), "{}", state.size_bytes());
}

#[test]
fn a_linear_layer_keeps_pytorchs_order() {
    let (weights, bias) = (numbers(20 * 3, 1), numbers(20, 2));
    let mut dense = Dense::new(3, &weights, &bias).unwrap();
    assert_eq!((dense.input_count(), dense.output_count()), (3, 20));
    assert_eq!(dense.weights().collect::<Vec<_>>(), weights);
    assert_eq!(dense.bias(), bias);
    let (other, other_bias) = (numbers(20 * 3, 3), numbers(20, 4));
    dense.set(&other, &other_bias).unwrap();
    assert_eq!(dense, Dense::new(3, &other, &other_bias).unwrap());
    let before = dense.clone();
    refused(dense.set(&other, &other_bias[1..]), "19 biases; wanted: 20 × 3 weights");
    refused(dense.set(&[f32::INFINITY; 60], &other_bias), "not finite");
    assert_eq!(dense, before);
    refused(Dense::new(0, &[], &[1.0]), "1 to 4096");
    refused(Dense::new(1, &[], &[]), "1 to 4096");
}

fn refused<T>(result: Result<T, EncoderError>, words: &str) {
    let error = result.err().unwrap().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn what_cannot_be_an_encoder_says_what_is_wanted() {
    let fits = shape(4, 32, 2, 20, 2);
    let with = |name: &str, values: Option<Vec<f32>>| {
        let mut tensors = tensors(&fits, 1);
        assert!(tensors.remove(name).is_some());
        tensors.extend(values.map(|values| (name.to_owned(), values)));
        encoder(fits, &tensors)
    };
    let norm = "layers.1.norm2.weight";
    refused(with("layers.1.linear1.bias", None), "layers.1.linear1.bias: no such tensor");
    refused(with(norm, Some(vec![0.0; 31])), "layers.1.norm2.weight: 31 numbers; wanted: 32");
    let projection = "layers.0.self_attn.in_proj_weight";
    refused(with(projection, Some(vec![0.0; 32])), "32 numbers; wanted: 3072");
    let bias = "layers.0.self_attn.out_proj.bias";
    refused(with(bias, Some(vec![f32::NAN; 32])), "out_proj.bias: number 0 is not finite");
    let of_shape = |shape| encoder(shape, &Tensors::new());
    refused(of_shape(shape(4, 32, 5, 20, 2)), "width 32 and 5 heads");
    refused(of_shape(shape(0, 32, 2, 20, 2)), "token_len 0; wanted: 1 to 512");
    refused(of_shape(shape(4, 32, 2, 20, 9)), "layer_count 9; wanted: 1 to 8");
    refused(EncoderState::new(fits, 0), "a window of 0 tokens; wanted: 1 to 4096");
    refused(EncoderState::new(fits, 4_097), "1 to 4096");
    refused(EncoderState::new(shape(4, 32, 5, 20, 2), 9), "5 heads");
}

#[test]
fn what_is_refused_leaves_the_state_as_it_was() {
    let fits = shape(4, 32, 2, 20, 2);
    let encoder = encoder(fits, &tensors(&fits, 1)).unwrap();
    let mut state = EncoderState::new(fits, 9).unwrap();
    let mut output = [0.0; 64];
    refused(encoder.append(&mut state, &[0.0; 7], &mut output), "wanted: 4 and 32 a token");
    refused(encoder.append(&mut state, &[0.0; 4], &mut output), "4 numbers of tokens and 64");
    let infinite = [0.0, 0.0, 0.0, 0.0, 0.0, f32::INFINITY, 0.0, 0.0];
    refused(encoder.append(&mut state, &infinite, &mut output), "number 5 is not finite");
    let mut other = EncoderState::new(shape(4, 32, 4, 20, 2), 9).unwrap();
    refused(encoder.append(&mut other, &[0.0; 8], &mut output), "a state for EncoderShape");
    assert_eq!((state.token_count(), output), (0, [0.0; 64]));
    encoder.append(&mut state, &[], &mut []).unwrap();
    assert_eq!(state.token_count(), 0);
}

#[test]
fn what_cannot_be_a_head_says_what_is_wanted() {
    let tensors = head_tensors(8, 3, 5, 1);
    refused(head(8, 4, &tensors), "head.0.weight: 60 numbers; wanted: 65");
    refused(head(8, 3, &Tensors::new()), "head.0.bias: no such tensor");
    refused(
        head(11, 0, &tensors),
        "head.bins: bin 0 is about number 0 of a query; wanted: one of 0",
    );
    let plain: Tensors = tensors
        .iter()
        .filter(|(name, _)| *name != "head.bins")
        .map(|(name, numbers)| (name.clone(), numbers.clone()))
        .collect();
    refused(head(12, 0, &plain), "head.0: 12 inputs, of which 12");
    let fits = head(8, 3, &tensors).unwrap();
    assert_eq!((fits.hidden_len(), fits.query_len()), (8, 3));
    let (first, last) = fits.layers();
    assert_eq!(Head::new(8, fits.coding().clone(), first.clone(), last.clone()).unwrap(), fits);
    let of = |coding| Head::new(8, coding, first.clone(), first.clone());
    refused(of(Coding::default()), "wanted: 5 inputs, as head.0 has outputs");
    let bins: Vec<f32> = [0.0, 0.0, 1.0].repeat(first.input_count() - 8);
    refused(of(Coding::new(1, &bins).unwrap()), "and 1 or more of a query");
    let (mut scratch, mut scores) = (HeadScratch::default(), [0.0; 2]);
    refused(fits.score(&mut scratch, &[0.0; 7], &[0.0; 6], &mut scores), "wanted: 8 of a token");
    refused(fits.score(&mut scratch, &[0.0; 8], &[0.0; 5], &mut scores), "3 of a query");
    let queries = [f32::NAN; 6];
    refused(fits.score(&mut scratch, &[0.0; 8], &queries, &mut scores), "query: number 0");
}
