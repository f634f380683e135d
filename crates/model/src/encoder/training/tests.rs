use super::super::HeadScratch;
use super::*;

const HIDDEN: usize = 6;
const QUERY: usize = 5;
const INNER: usize = 21;
/// Bins of a query.
const BINS: [f32; 6] = [1.0, -0.5, 0.5, 4.0, 0.0, 2.0];
const INPUTS: usize = HIDDEN + QUERY + BINS.len() / 3;

/// Numbers of a uniform distribution from −1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
    let mut number = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (f64::from((state >> 40) as u32) / f64::from(1 << 23) - 1.0) as f32
    };
    (0..count).map(|_| number()).collect()
}

fn head(seed: u64) -> Head {
    let scaled =
        |count, seed| numbers(count, seed).into_iter().map(|n| n * 0.4).collect::<Vec<_>>();
    let first = Dense::new(INPUTS, &scaled(INNER * INPUTS, seed), &scaled(INNER, seed + 1));
    let last = Dense::new(INNER, &scaled(INNER, seed + 2), &scaled(1, seed + 3));
    let coding = Coding::new(QUERY, &BINS).unwrap();
    Head::new(HIDDEN, coding, first.unwrap(), last.unwrap()).unwrap()
}

/// Examples with several to a token, in order of the arguments of [`Examples::new`].
struct Made {
    hidden: Vec<f32>,
    hidden_index: Vec<u32>,
    queries: Vec<f32>,
    targets: Vec<f32>,
    weights: Vec<f32>,
    changes: Vec<Change>,
}

impl Made {
    /// Targets are a smooth function of the inputs, which a head can learn.
    fn new(count: usize, seed: u64) -> Self {
        let tokens = count.div_ceil(3);
        let (hidden, queries) = (numbers(tokens * HIDDEN, seed), numbers(count * QUERY, seed + 1));
        let hidden_index: Vec<u32> = (0..count).map(|at| (at % tokens) as u32).collect();
        let target = |at: usize| {
            let hidden = &hidden[hidden_index[at] as usize * HIDDEN..][..HIDDEN];
            let query = &queries[at * QUERY..][..QUERY];
            hidden[0] * 0.7 - query[1] * 0.5 + (hidden[2] + query[0]).abs() - 0.3
        };
        let targets = (0..count).map(target).collect();
        let weights = (0..count).map(|at| [1.0, 10.0, 0.0, 1.0][at % 4]).collect();
        let change = |at: usize| match at % 5 {
            0 => Change::NONE,
            kind => Change {
                before: at as u32 - 1,
                step: 0.01 * kind as f32,
                threshold: 0.1 * kind as f32,
                sign: [0.0, 1.0, -1.0][at % 3],
            },
        };
        let changes = (0..count).map(change).collect();
        Self { hidden, hidden_index, queries, targets, weights, changes }
    }

    fn examples(&self, head: &Head) -> Examples<'_> {
        let hidden = (&self.hidden[..], &self.hidden_index[..]);
        let found = Examples::new(head, hidden, &self.queries, &self.targets, &self.weights);
        found.unwrap().with_changes(&self.changes).unwrap()
    }

    fn row(&self, at: usize) -> Vec<f64> {
        let hidden = &self.hidden[self.hidden_index[at] as usize * HIDDEN..][..HIDDEN];
        let query = &self.queries[at * QUERY..][..QUERY];
        let coded = [(query[1] + 0.5).clamp(0.0, 1.0), (query[4] / 2.0).clamp(0.0, 1.0)];
        hidden.iter().chain(query).chain(&coded).map(|&number| number.into()).collect()
    }
}

/// A head's numbers in 64 bits: weights and bias of the first layer, then of the last.
fn flat(head: &Head) -> Vec<f64> {
    let (first, last) = head.layers();
    let all = first.weights().chain(first.bias().to_vec()).chain(last.weights());
    all.chain(last.bias().to_vec()).map(f64::from).collect()
}

/// In 64 bits, with the settings' share of changes: the mean weighted squared error, the loss, and
/// its gradients.
fn plain(theta: &[f64], made: &Made, chosen: &[u32]) -> (f64, f64, Vec<f64>) {
    let settings = TrainingSettings::default();
    let (share, softness) = (f64::from(settings.change_share), f64::from(settings.change_softness));
    let (weights, rest) = theta.split_at(INNER * INPUTS);
    let (bias, rest) = rest.split_at(INNER);
    let (last, last_bias) = rest.split_at(INNER);
    // An example with a weight of 10 is drawn ten times as often as it counts.
    let repeats = |at: u32| f64::from(made.weights[at as usize]).ceil().max(1.0);
    let weight = |at: u32| f64::from(made.weights[at as usize]) / repeats(at);
    let sums = |at: u32| -> Vec<f64> {
        let row = made.row(at as usize);
        let sum = |output: usize| {
            let products = weights[output * INPUTS..][..INPUTS].iter().zip(&row);
            products.map(|(one, other)| one * other).sum::<f64>() + bias[output]
        };
        (0..INNER).map(sum).collect()
    };
    let score = |at: u32| {
        let products = sums(at).into_iter().zip(last).map(|(sum, weight)| sum.max(0.0) * weight);
        products.sum::<f64>() + last_bias[0]
    };
    let total = chosen.iter().map(|&at| weight(at)).sum::<f64>().max(1.0);
    let (mut squared, mut slopes) = (0.0, Vec::new());
    for &at in chosen {
        let error = score(at) - f64::from(made.targets[at as usize]);
        squared += weight(at) * error * error / total;
        slopes.push((at, 2.0 * weight(at) * error / total));
    }
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut right, mut counted, mut found) = (0.0, 1e-3, Vec::new());
    for &at in chosen {
        let change = &made.changes[at as usize];
        if change.before == NONE_BEFORE || made.weights[change.before as usize] == 0.0 {
            continue;
        }
        let difference = score(at) - score(change.before) + f64::from(change.step);
        let threshold = f64::from(change.threshold);
        let rise = sigmoid((difference - threshold) / softness);
        let fall = sigmoid((-difference - threshold) / softness);
        let slope = |of: f64| of * (1.0 - of) / softness;
        let (is, by) = match change.sign {
            1.0 => (rise, slope(rise)),
            -1.0 => (fall, -slope(fall)),
            _ => (0.0, 0.0),
        };
        right += is / repeats(at);
        counted += (rise + fall + f64::from(change.sign.abs())) / repeats(at);
        found.push((at, by / repeats(at), (slope(rise) - slope(fall)) / repeats(at)));
    }
    for (at, is, of) in found {
        let slope = -2.0 * share * (is * counted - right * of) / (counted * counted);
        slopes.extend([(at, slope), (made.changes[at as usize].before, -slope)]);
    }
    let mut gradients = vec![0.0; theta.len()];
    for (at, slope) in slopes {
        let sums = sums(at);
        for output in 0..INNER {
            gradients[INNER * (INPUTS + 1) + output] += slope * sums[output].max(0.0);
            let delta = if sums[output] > 0.0 { slope * last[output] } else { 0.0 };
            gradients[INNER * INPUTS + output] += delta;
            for (input, number) in made.row(at as usize).iter().enumerate() {
                gradients[output * INPUTS + input] += delta * number;
            }
        }
        gradients[INNER * (INPUTS + 2)] += slope;
    }
    (squared, squared + share * (1.0 - 2.0 * right / counted), gradients)
}

/// Gradients of a trainer, in the order of [`flat`].
fn gradients(trainer: &HeadTrainer) -> Vec<f64> {
    let Gradients { weights, bias, last, last_bias } = &trainer.gradients;
    let of = |output: usize| {
        let group = &weights[output / LANES * INPUTS..][..INPUTS];
        group.iter().map(move |lanes| lanes[output % LANES])
    };
    let bias = bias.as_flattened()[..INNER].iter().copied();
    let last = last.as_flattened()[..INNER].iter().copied();
    let all = (0..INNER).flat_map(of).chain(bias).chain(last).chain([last_bias[0]]);
    all.map(f64::from).collect()
}

fn paths() -> impl Iterator<Item = Path> {
    Path::ALL.into_iter().filter(|path| path.is_there())
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let (head, made) = (head(3), Made::new(40, 5));
    let chosen: Vec<u32> = (0..40).rev().collect();
    for path in paths() {
        let mut trainer = HeadTrainer::new_on(path, &head, TrainingSettings::default()).unwrap();
        let loss = trainer.step(&made.examples(&head), &chosen).unwrap();
        let theta = flat(&head);
        let (wanted_loss, _, exact) = plain(&theta, &made, &chosen);
        assert!((loss - wanted_loss).abs() < 1e-5, "{loss} {wanted_loss}");
        for (at, found) in gradients(&trainer).into_iter().enumerate() {
            let moved = |by: f64| {
                let mut theta = theta.clone();
                theta[at] += by;
                plain(&theta, &made, &chosen).1
            };
            let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
            assert!((found - difference).abs() < 1e-4, "{at}: {found} {difference}");
            assert!((found - exact[at]).abs() < 1e-5, "{at}: {found} {}", exact[at]);
        }
    }
}

#[test]
fn steps_are_those_of_adam() {
    let (head, made) = (head(7), Made::new(300, 8));
    let settings = TrainingSettings { learning_rate: 1e-3, ..Default::default() };
    let mut trainer = HeadTrainer::new(&head, settings).unwrap();
    let mut theta = flat(&head);
    let (mut means, mut squares) = (vec![0.0; theta.len()], vec![0.0; theta.len()]);
    for step in 1..=60 {
        let chosen: Vec<u32> = (0..64).map(|at| (at * 7 + step as u32 * 13) % 300).collect();
        let loss = trainer.step(&made.examples(&head), &chosen).unwrap();
        let (wanted, _, gradients) = plain(&theta, &made, &chosen);
        assert!((loss - wanted).abs() < 1e-3, "step {step}: {loss} {wanted}");
        for at in 0..theta.len() {
            means[at] = 0.9 * means[at] + 0.1 * gradients[at];
            squares[at] = 0.999 * squares[at] + 0.001 * gradients[at] * gradients[at];
            let mean: f64 = means[at] / (1.0 - 0.9_f64.powi(step));
            let square: f64 = squares[at] / (1.0 - 0.999_f64.powi(step));
            theta[at] -= f64::from(settings.learning_rate) * mean / (square.sqrt() + 1e-8);
        }
    }
    let trained = flat(&trainer.head().unwrap());
    assert!(flat(&head).iter().zip(&theta).any(|(one, other)| (one - other).abs() > 0.03));
    for (at, (found, wanted)) in trained.into_iter().zip(theta).enumerate() {
        assert!((found - wanted).abs() < 1e-3, "{at}: {found} {wanted}");
    }
}

#[test]
fn training_reduces_the_loss_and_is_the_same_on_every_processor() {
    let (head, made) = (head(11), Made::new(2_000, 12));
    let settings = TrainingSettings {
        epochs: 20,
        batch_rows: 128,
        learning_rate: 1e-3,
        change_share: 1e-3,
        ..Default::default()
    };
    let train = |path, settings| {
        let mut trainer = HeadTrainer::new_on(path, &head, settings).unwrap();
        let outcome = trainer.train(&made.examples(&head), || true).unwrap();
        (outcome, trainer.head().unwrap())
    };
    let (outcome, trained) = train(Path::Portable, settings);
    assert!(outcome.last_loss < outcome.first_loss / 5.0, "{outcome:?}");
    // One example in four has no weight, and one is drawn ten times.
    assert_eq!((outcome.steps, outcome.is_finished), (20 * 47, true));
    for path in paths() {
        assert_eq!(train(path, settings), (outcome, trained.clone()), "{}", path.name());
    }
    let (_, other) = train(Path::best(), TrainingSettings { seed: 2, ..settings });
    assert_ne!(other, trained, "another seed is another order");
    let mut scratch = HeadScratch::new(&trained);
    let mut found = [0.0];
    trained
        .score(&mut scratch, &made.hidden[..HIDDEN], &made.queries[..QUERY], &mut found)
        .unwrap();
    assert!((found[0] - made.targets[0]).abs() < 0.2, "{found:?} {}", made.targets[0]);
}

#[test]
fn the_loss_of_examples_is_what_training_makes_smaller() {
    let (head, made) = (head(3), Made::new(400, 5));
    let settings = TrainingSettings { learning_rate: 1e-3, ..Default::default() };
    let chosen: Vec<u32> = (0..400).collect();
    let loss = |head: &Head| made.examples(head).loss(head, &chosen, &settings).unwrap();
    let alone = TrainingSettings { change_share: 0.0, ..settings };
    let squared = made.examples(&head).loss(&head, &chosen, &alone).unwrap();
    assert!((0.0..=0.1).contains(&(loss(&head) - squared)));
    let mut trainer = HeadTrainer::new(&head, settings).unwrap();
    trainer.train(&made.examples(&head), || true).unwrap();
    assert!(loss(&trainer.head().unwrap()) < loss(&head));
}

#[test]
fn a_training_that_is_stopped_says_so() {
    let (head, made) = (head(1), Made::new(100, 2));
    let settings = TrainingSettings { batch_rows: 10, ..Default::default() };
    let mut trainer = HeadTrainer::new(&head, settings).unwrap();
    let left = std::cell::Cell::new(13);
    let goes_on = || left.replace(left.get() - 1) > 0;
    let outcome = trainer.train(&made.examples(&head), goes_on).unwrap();
    assert_eq!((outcome.steps, outcome.is_finished), (13, false));
}

#[test]
fn a_loss_that_is_not_finite_ends_the_training() {
    let (head, mut made) = (head(1), Made::new(100, 2));
    let settings = TrainingSettings { learning_rate: 1e30, ..Default::default() };
    let mut trainer = HeadTrainer::new(&head, settings).unwrap();
    let error = trainer.train(&made.examples(&head), || true).unwrap_err();
    assert!(error.to_string().starts_with("the loss of minibatch 2 is"), "{error}");
    made.targets[17] = f32::MAX;
    let mut trainer = HeadTrainer::new(&head, TrainingSettings::default()).unwrap();
    let error = trainer.train(&made.examples(&head), || true).unwrap_err();
    assert!(error.to_string().starts_with("the loss of minibatch 1 is inf"), "{error}");
    assert_eq!(trainer.head().unwrap(), head);
    // The last minibatch makes weights that no other one would find.
    let (made, settings) = (Made::new(100, 2), TrainingSettings { epochs: 1, ..settings });
    let settings = TrainingSettings { learning_rate: 1e38, ..settings };
    let mut trainer = HeadTrainer::new(&head, settings).unwrap();
    assert!(trainer.train(&made.examples(&head), || true).is_ok());
    assert!(trainer.step(&made.examples(&head), &[0, 1, 2]).is_err());
}

#[test]
fn what_does_not_fit_is_refused_with_what_was_seen() {
    let (head, made) = (head(1), Made::new(9, 2));
    let new = |hidden: &[f32], index: &[u32], targets: &[f32], weights: &[f32]| {
        let made = Examples::new(&head, (hidden, index), &made.queries, targets, weights);
        made.map(|made| made.len()).map_err(|error| error.to_string())
    };
    let Made { hidden, hidden_index: index, targets, weights, .. } = &made;
    assert_eq!(new(hidden, index, targets, weights), Ok(9));
    for (found, text) in [
        (new(&hidden[1..], index, targets, weights), "rows of 6"),
        (new(hidden, &index[1..], targets, weights), "8 indices"),
        (new(hidden, &[3; 9], targets, weights), "index 3 of a row"),
        (new(hidden, index, &[f32::NAN; 9], weights), "target: number 0 is not finite"),
        (new(hidden, index, targets, &[-1.0; 9]), "weight -1"),
    ] {
        assert!(found.clone().unwrap_err().contains(text), "{text}: {found:?}");
    }
    let with = |change| {
        let mut changes = made.changes.clone();
        changes[4] = change;
        made.examples(&head).with_changes(&changes).unwrap_err().to_string()
    };
    let one = Change { before: 3, ..Change::NONE };
    assert!(with(Change { before: 9, ..one }).contains("example 4: Change { before: 9"));
    assert!(with(Change { step: f32::NAN, ..one }).contains("and finite numbers"));
    let few = made.examples(&head).with_changes(&made.changes[1..]).unwrap_err().to_string();
    assert_eq!(few, "8 changes; wanted: one for each of 9 examples");
    let refused = |settings: TrainingSettings| settings.check().unwrap_err().to_string();
    let plain = TrainingSettings::default;
    for (settings, text) in [
        (TrainingSettings { batch_rows: 0, ..plain() }, "batch_rows 0"),
        (TrainingSettings { epochs: 0, ..plain() }, "epochs 0"),
        (TrainingSettings { learning_rate: f32::NAN, ..plain() }, "learning_rate NaN"),
        (TrainingSettings { epsilon: 0.0, ..plain() }, "epsilon 0"),
        (TrainingSettings { change_share: -1.0, ..plain() }, "change_share -1"),
        (TrainingSettings { change_softness: 0.0, ..plain() }, "change_softness 0"),
        (TrainingSettings { betas: [0.9, 1.0], ..plain() }, "betas"),
    ] {
        assert!(refused(settings).starts_with(text), "{text}");
    }
    let mut trainer = HeadTrainer::new(&head, plain()).unwrap();
    let examples = made.examples(&head);
    assert!(trainer.step(&examples, &[]).is_err());
    assert!(trainer.step(&examples, &[9]).is_err());
    let none = Made { weights: vec![0.0; 9], ..Made::new(9, 2) };
    let error = trainer.train(&none.examples(&head), || true).unwrap_err();
    assert!(error.to_string().starts_with("no example with a weight"), "{error}");
    assert_eq!(trainer.head().unwrap(), head);
}
