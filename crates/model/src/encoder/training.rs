//! Further training of a head on queries whose targets are known, on one core.
//!
//! Adam minimises the weighted mean squared error over minibatches in random order, and with it how
//! badly sharp changes are predicted, where examples say what is before them. Gradients are exact,
//! and the encoder's output is an input that stays as it is. Results are identical to the bit on
//! every processor and for the same seed.

use super::dense::Dense;
use super::descent::{Adjustment, Descent, Gradients, Rates, Scoring, Scratch};
use super::kernels::{Linear, Step};
use super::{Coding, EncoderError, Group, Head, HeadScratch, LANES, finite};
use crate::simd::{self, Path};

mod changes;

use changes::BatchSums;
pub use changes::{Change, NONE_BEFORE};

/// Rows of a minibatch at most.
const BATCH_ROWS_MAX: usize = 65_536;
/// How often an epoch draws an example at most.
const REPEATS_MAX: usize = 16;

/// How a head is trained.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrainingSettings {
    /// How often each example is used.
    pub epochs: u32,
    /// Examples of a minibatch.
    pub batch_rows: usize,
    /// Adam's learning rate.
    pub learning_rate: f32,
    /// Adam's decay rates β1, of the mean gradient, and β2, of the mean squared one.
    pub betas: [f32; 2],
    /// What Adam adds to the root of the mean squared gradient.
    pub epsilon: f32,
    /// Decides the order of the examples.
    pub seed: u64,
    /// What 1 less the F1 of sharp changes counts for; 0 leaves it out.
    pub change_share: f32,
    /// In which range around the threshold a change counts in part: the width of a sigmoid.
    pub change_softness: f32,
}

impl Default for TrainingSettings {
    /// 10 epochs, minibatches of 512, learning rate 3·10⁻⁴, β 0.9 and 0.999, ε 10⁻⁸; F1 of sharp
    /// changes counts for a tenth.
    fn default() -> Self {
        Self {
            epochs: 10,
            batch_rows: 512,
            learning_rate: 3e-4,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            seed: 1,
            change_share: 0.1,
            change_softness: 0.02,
        }
    }
}

impl TrainingSettings {
    /// Whether all of them are in range.
    ///
    /// # Errors
    /// [`EncoderError`] says which is not.
    pub fn check(&self) -> Result<(), EncoderError> {
        if !(1..=BATCH_ROWS_MAX).contains(&self.batch_rows) {
            return Err(EncoderError::new(format!(
                "batch_rows {}; wanted: 1 to {BATCH_ROWS_MAX}",
                self.batch_rows
            )));
        }
        if self.epochs == 0 {
            return Err(EncoderError::new("epochs 0; wanted: 1 or more"));
        }
        for (name, rate, most) in [
            ("learning_rate", self.learning_rate, f32::MAX),
            ("epsilon", self.epsilon, 1.0),
            ("change_softness", self.change_softness, f32::MAX),
        ] {
            if rate.is_nan() || rate <= 0.0 || rate > most {
                return Err(EncoderError::new(format!(
                    "{name} {rate}; wanted: more than 0, up to {most:e}"
                )));
            }
        }
        let share = self.change_share;
        if !share.is_finite() || share < 0.0 {
            return Err(EncoderError::new(format!("change_share {share}; wanted: 0 or more")));
        }
        if !self.betas.iter().all(|beta| (0.0..1.0).contains(beta)) {
            return Err(EncoderError::new(format!(
                "betas {:?}; wanted: from 0 on, below 1",
                self.betas
            )));
        }
        Ok(())
    }
}

/// Queries with the scores that they should have. Several can share an output of the encoder.
#[derive(Clone, Copy, Debug)]
pub struct Examples<'a> {
    hidden: &'a [f32],
    hidden_index: &'a [u32],
    queries: &'a [f32],
    targets: &'a [f32],
    weights: &'a [f32],
    changes: &'a [Change],
    hidden_len: usize,
    query_len: usize,
}

impl<'a> Examples<'a> {
    /// For a head: `hidden` has rows of the encoder's output, `hidden_index` for each example which
    /// of them it is about, `queries` its query. A target counts by its weight; examples of weight
    /// 0 are left out.
    ///
    /// # Errors
    /// [`EncoderError`]: lengths that do not fit each other, an index without a row, a number that
    /// is not finite, or a weight below 0.
    pub fn new(
        head: &Head,
        (hidden, hidden_index): (&'a [f32], &'a [u32]),
        queries: &'a [f32],
        targets: &'a [f32],
        weights: &'a [f32],
    ) -> Result<Self, EncoderError> {
        let (hidden_len, query_len) = (head.hidden_len(), head.query_len());
        let count = targets.len();
        if hidden_index.len() != count
            || weights.len() != count
            || queries.len() != count * query_len
            || !hidden.len().is_multiple_of(hidden_len)
            || u32::try_from(count).is_err()
        {
            return Err(EncoderError::new(format!(
                "{count} targets, {} weights, {} indices, {} numbers of queries and {} of the \
                 encoder; wanted: as many of the first three, {query_len} of a query for each, and \
                 rows of {hidden_len}",
                weights.len(),
                hidden_index.len(),
                queries.len(),
                hidden.len(),
            )));
        }
        let rows = hidden.len() / hidden_len;
        if let Some(index) = hidden_index.iter().find(|&&index| index as usize >= rows) {
            return Err(EncoderError::new(format!(
                "index {index} of a row of the encoder's output; wanted: one of {rows}"
            )));
        }
        for (name, numbers) in
            [("token", hidden), ("query", queries), ("target", targets), ("weight", weights)]
        {
            finite(name, numbers)?;
        }
        if let Some(weight) = weights.iter().find(|&&weight| weight < 0.0) {
            return Err(EncoderError::new(format!("weight {weight}; wanted: 0 or more")));
        }
        let changes = &[];
        Ok(Self { hidden, hidden_index, queries, targets, weights, changes, hidden_len, query_len })
    }

    /// The same with what is before each example, so that changes are learned.
    ///
    /// # Errors
    /// [`EncoderError`]: another number of them, an example before that there is not, or a number
    /// that is not finite.
    pub fn with_changes(self, changes: &'a [Change]) -> Result<Self, EncoderError> {
        let count = self.targets.len();
        if changes.len() != count {
            return Err(EncoderError::new(format!(
                "{} changes; wanted: one for each of {count} examples",
                changes.len()
            )));
        }
        for (at, change) in changes.iter().enumerate() {
            let is_there = change.before == NONE_BEFORE || (change.before as usize) < count;
            if !is_there || !(change.step + change.threshold + change.sign).is_finite() {
                return Err(EncoderError::new(format!(
                    "example {at}: {change:?}; wanted: one of {count} examples, and finite numbers"
                )));
            }
        }
        Ok(Self { changes, ..self })
    }

    /// What a training with these settings makes smaller: the mean weighted squared error of some
    /// examples, and how badly a head predicts the changes to them.
    ///
    /// # Errors
    /// [`EncoderError`]: examples for another head, or an encoder's output that is not finite.
    pub fn loss(
        &self,
        head: &Head,
        chosen: &[u32],
        settings: &TrainingSettings,
    ) -> Result<f64, EncoderError> {
        let mut scratch = HeadScratch::new(head);
        let mut score = |example: u32| -> Result<f32, EncoderError> {
            let at = example as usize;
            let hidden =
                &self.hidden[self.hidden_index[at] as usize * self.hidden_len..][..self.hidden_len];
            let query = &self.queries[at * self.query_len..][..self.query_len];
            let mut scores = [0.0];
            head.score(&mut scratch, hidden, query, &mut scores)?;
            let [score] = scores;
            Ok(score)
        };
        let mut counted = BatchSums::default();
        let (mut error_sum, mut weight_sum) = (0.0, 0.0);
        for &example in chosen {
            let (at, found) = (example as usize, score(example)?);
            let weight = f64::from(self.weights[at]);
            error_sum += weight * f64::from(found - self.targets[at]).powi(2);
            weight_sum += weight;
            if let Some(change) = self.change(example) {
                let difference = found - score(change.before)? + change.step;
                counted.count(change, difference, 1.0, settings.change_softness);
            }
        }
        let changes = f64::from(settings.change_share) * f64::from(counted.loss());
        Ok(error_sum / f64::max(weight_sum, f64::MIN_POSITIVE) + changes)
    }

    /// The change to an example, if one with a weight is before it.
    fn change(&self, example: u32) -> Option<&'a Change> {
        let change = self.changes.get(example as usize)?;
        let weight = self.weights.get(change.before as usize)?;
        (*weight > 0.0).then_some(change)
    }

    /// How many there are, those of weight 0 included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.targets.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }
}

/// How often an epoch draws an example of this weight, each time with its part of the weight: what
/// counts for more is then in more minibatches.
fn repeats(weight: f32) -> usize {
    (weight.ceil() as usize).min(REPEATS_MAX)
}

/// Outcome of a training.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TrainingOutcome {
    /// Minibatches.
    pub steps: u64,
    /// Mean weighted squared error in the first epoch, while weights changed.
    pub first_loss: f64,
    /// The same in the last epoch that was begun.
    pub last_loss: f64,
    /// Whether it came to its end, and was not stopped before.
    pub is_finished: bool,
}

/// Adam's running means of gradients, and of their squares, laid out as the numbers are.
#[derive(Clone, Debug)]
struct Moments {
    means: Vec<Group>,
    squares: Vec<Group>,
}

impl Moments {
    fn new(len: usize) -> Self {
        Self { means: vec![[0.0; LANES]; len], squares: vec![[0.0; LANES]; len] }
    }
}

/// Trains a copy of a head. Its memory is that of a minibatch, of an index for each example, and
/// four times the head's.
#[derive(Clone, Debug)]
pub struct HeadTrainer {
    settings: TrainingSettings,
    path: Path,
    hidden_len: usize,
    coding: Coding,
    first: Dense,
    /// Weights of the last layer, by group of inputs; its bias is in a group of its own.
    last: Vec<Group>,
    last_bias: Group,
    gradients: Gradients,
    /// Of the first layer's weights and bias, then of the last one's.
    moments: [Moments; 4],
    steps: u64,
    /// A minibatch: inputs, outputs of the first layer, scores, and the loss's slopes. Examples
    /// that are before others are behind those that were chosen.
    rows: Vec<f32>,
    inner: Vec<Group>,
    scores: Vec<f32>,
    slopes: Vec<f32>,
    counted: BatchSums,
    scratch: Scratch,
    draws: u64,
}

impl HeadTrainer {
    /// Begins with the weights of this head.
    ///
    /// # Errors
    /// [`EncoderError`]: settings out of range.
    pub fn new(head: &Head, settings: TrainingSettings) -> Result<Self, EncoderError> {
        Self::new_on(Path::best(), head, settings)
    }

    /// The same on a path of choice, to measure and test.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn new_on(
        path: Path,
        head: &Head,
        settings: TrainingSettings,
    ) -> Result<Self, EncoderError> {
        settings.check()?;
        let (first, last_layer) = head.layers();
        let groups = first.bias_groups().len();
        let mut last = vec![[0.0; LANES]; groups];
        last.as_flattened_mut().iter_mut().zip(last_layer.weights()).for_each(|(to, w)| *to = w);
        let mut last_bias = [0.0; LANES];
        last_bias.iter_mut().zip(last_layer.bias()).for_each(|(to, &bias)| *to = bias);
        let weights_len = groups * first.input_count();
        let zeros = |len: usize| vec![[0.0; LANES]; len];
        Ok(Self {
            settings,
            path,
            hidden_len: head.hidden_len(),
            coding: head.coding().clone(),
            first: first.clone(),
            last,
            last_bias,
            gradients: Gradients {
                weights: zeros(weights_len),
                bias: zeros(groups),
                last: zeros(groups),
                last_bias: [0.0; LANES],
            },
            moments: [weights_len, groups, groups, 1].map(Moments::new),
            steps: 0,
            rows: Vec::new(),
            inner: Vec::new(),
            scores: Vec::new(),
            slopes: Vec::new(),
            counted: BatchSums::default(),
            scratch: Scratch::default(),
            draws: settings.seed,
        })
    }

    /// All epochs; `goes_on` is asked before each minibatch and can end the training early.
    ///
    /// # Errors
    /// [`EncoderError`]: no example with a weight, examples for another head, or a loss that is
    /// not finite.
    pub fn train(
        &mut self,
        examples: &Examples<'_>,
        goes_on: impl Fn() -> bool,
    ) -> Result<TrainingOutcome, EncoderError> {
        let mut order: Vec<u32> = (0..)
            .zip(examples.weights)
            .flat_map(|(index, &weight)| std::iter::repeat_n(index, repeats(weight)))
            .collect();
        if order.is_empty() {
            return Err(EncoderError::new("no example with a weight above 0; wanted: 1 or more"));
        }
        let mut outcome =
            TrainingOutcome { steps: 0, first_loss: 0.0, last_loss: 0.0, is_finished: true };
        for epoch in 0..self.settings.epochs {
            self.shuffle(&mut order);
            let (mut error_sum, mut weight_sum) = (0.0, 0.0);
            for chosen in order.chunks(self.settings.batch_rows) {
                outcome.is_finished = goes_on();
                if !outcome.is_finished {
                    break;
                }
                let (errors, weights) = self.descend(examples, chosen)?;
                error_sum += errors;
                weight_sum += weights;
                outcome.steps += 1;
            }
            outcome.last_loss = error_sum / f64::max(weight_sum, f64::MIN_POSITIVE);
            if epoch == 0 {
                outcome.first_loss = outcome.last_loss;
            }
            if !outcome.is_finished {
                break;
            }
        }
        Ok(outcome)
    }

    /// One minibatch, of these examples; their mean weighted squared error before it.
    ///
    /// # Errors
    /// [`EncoderError`], and no weight changes: none is chosen, one that there is not, examples for
    /// another head, or a loss that is not finite.
    pub fn step(&mut self, examples: &Examples<'_>, chosen: &[u32]) -> Result<f64, EncoderError> {
        let is_there = |&index: &u32| (index as usize) < examples.len();
        if chosen.is_empty() || !chosen.iter().all(is_there) {
            return Err(EncoderError::new(format!(
                "{} examples chosen; wanted: 1 or more, each below {}",
                chosen.len(),
                examples.len()
            )));
        }
        let (errors, weights) = self.descend(examples, chosen)?;
        Ok(errors / weights)
    }

    /// The head as it is now.
    ///
    /// # Errors
    /// [`EncoderError`]: training made a weight that is not finite.
    pub fn head(&self) -> Result<Head, EncoderError> {
        let inputs = self.first.input_count();
        let weights: Vec<f32> = self.first.weights().collect();
        let first = Dense::new(inputs, &weights, self.first.bias())?;
        let inner = self.first.output_count();
        let last = Dense::new(inner, &self.last.as_flattened()[..inner], &self.last_bias[..1])?;
        Head::new(self.hidden_len, self.coding.clone(), first, last)
    }

    /// The weighted squared errors, and what they are divided by.
    fn descend(
        &mut self,
        examples: &Examples<'_>,
        chosen: &[u32],
    ) -> Result<(f64, f64), EncoderError> {
        let row_len = self.first.input_count();
        let Examples { hidden_len, query_len, .. } = *examples;
        let wanted = row_len - self.hidden_len - self.coding.bin_count();
        if hidden_len != self.hidden_len || query_len != wanted {
            return Err(EncoderError::new(format!(
                "examples of {hidden_len} + {query_len} numbers; wanted: {} + {wanted}",
                self.hidden_len
            )));
        }
        self.gather(examples, chosen);
        let (groups, row_count) = (self.last.len(), self.rows.len() / row_len);
        self.inner.resize(row_count * groups, [0.0; LANES]);
        self.scores.resize(row_count, 0.0);
        self.scratch.fit(row_count, row_len, groups);
        let forward = Linear::new(&self.first, &self.rows, row_len).rectified();
        simd::encode(self.path, Step::Linear(forward, &mut self.inner));
        let [last_bias, ..] = self.last_bias;
        let (inner, last) = (&self.inner, (&self.last[..], last_bias));
        simd::encode(self.path, Step::Score(Scoring { inner, last, scores: &mut self.scores }));
        let (error_sum, weight_total) = self.slopes(examples, chosen);
        let descent = Descent {
            inner: &self.inner,
            last: (&self.last, last_bias),
            rows: (&self.rows, row_len),
            slopes: &self.slopes,
            gradients: &mut self.gradients,
            scratch: &mut self.scratch,
        };
        simd::encode(self.path, Step::Descend(descent));
        // Gradients have 32 bits: what is too much for these ends a training as well.
        let loss = (error_sum / f64::from(weight_total)) as f32;
        if !loss.is_finite() {
            return Err(EncoderError::new(format!(
                "the loss of minibatch {} is {loss}; wanted: a finite number, for which a \
                 lower learning rate can help",
                self.steps + 1
            )));
        }
        self.adjust();
        Ok((error_sum, f64::from(weight_total)))
    }

    /// Copies the examples of a minibatch, and those before them, to where they follow each other.
    fn gather(&mut self, examples: &Examples<'_>, chosen: &[u32]) {
        let Examples { hidden, hidden_index, queries, hidden_len, query_len, .. } = *examples;
        let is_asked = self.settings.change_share > 0.0;
        let before = chosen
            .iter()
            .filter(|_| is_asked)
            .filter_map(|&example| examples.change(example))
            .map(|change| change.before);
        self.rows.clear();
        for example in chosen.iter().copied().chain(before) {
            let example = example as usize;
            let token = hidden_index[example] as usize;
            self.rows.extend_from_slice(&hidden[token * hidden_len..][..hidden_len]);
            self.coding.append(&queries[example * query_len..][..query_len], &mut self.rows);
        }
    }

    /// The slopes of the loss by each score; the weighted squared errors, and what they are divided
    /// by. An example that is drawn several times counts once in all.
    fn slopes(&mut self, examples: &Examples<'_>, chosen: &[u32]) -> (f64, f32) {
        let Self { scores, slopes, counted, settings, .. } = self;
        let share = |example: u32| {
            let weight = examples.weights[example as usize];
            (weight / repeats(weight).max(1) as f32, 1.0 / repeats(weight).max(1) as f32)
        };
        // As in training in Python: weights of less than 1 in all do not count for more.
        let weight_total = chosen.iter().map(|&example| share(example).0).sum::<f32>().max(1.0);
        let mut error_sum = 0.0;
        slopes.clear();
        for (&example, score) in chosen.iter().zip(&*scores) {
            let error = score - examples.targets[example as usize];
            let (weight, _) = share(example);
            error_sum += f64::from(weight) * f64::from(error) * f64::from(error);
            slopes.push(2.0 / weight_total * weight * error);
        }
        slopes.resize(scores.len(), 0.0);
        if settings.change_share > 0.0 {
            let changed = || {
                let with = (0..).zip(chosen).filter_map(|(row, &example)| {
                    examples.change(example).map(|change| (row, example, change))
                });
                (chosen.len()..).zip(with)
            };
            counted.clear();
            for (before, (row, example, change)) in changed() {
                let difference = scores[row] - scores[before] + change.step;
                counted.count(change, difference, share(example).1, settings.change_softness);
            }
            for ((before, (row, ..)), slope) in changed().zip(counted.slopes()) {
                slopes[row] += settings.change_share * slope;
                slopes[before] -= settings.change_share * slope;
            }
        }
        (error_sum, weight_total)
    }

    /// A step of Adam along the gradients.
    fn adjust(&mut self) {
        self.steps += 1;
        let [mean_kept, square_kept] = self.settings.betas;
        // β to the number of steps is 0 long before that number has another type's digits.
        let steps = i32::try_from(self.steps).unwrap_or(i32::MAX);
        let correction = |beta: f32| 1.0 - f64::from(beta).powi(steps);
        let rates = Rates {
            mean_kept,
            square_kept,
            step: (f64::from(self.settings.learning_rate) / correction(mean_kept)) as f32,
            root: (1.0 / correction(square_kept).sqrt()) as f32,
            epsilon: self.settings.epsilon,
        };
        let (weights, bias) = self.first.groups_mut();
        let numbers = [weights, bias, &mut self.last, std::slice::from_mut(&mut self.last_bias)];
        let Gradients { weights, bias, last, last_bias } = &self.gradients;
        let gradients = [weights, bias, last, std::slice::from_ref(last_bias)];
        for ((numbers, gradients), moments) in
            numbers.into_iter().zip(gradients).zip(&mut self.moments)
        {
            let Moments { means, squares } = moments;
            let job = Adjustment { rates, numbers, gradients, means, squares };
            simd::encode(self.path, Step::Adjust(job));
        }
    }

    /// Fisher and Yates's shuffle.
    fn shuffle(&mut self, order: &mut [u32]) {
        for at in (1..order.len()).rev() {
            // The high half of a product of 64 bits is below its other factor.
            let below = (u128::from(self.draw()) * (at as u128 + 1)) >> 64;
            order.swap(at, below as usize);
        }
    }

    /// 64 bits of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    const fn draw(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.draws;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
