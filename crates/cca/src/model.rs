//! A trained model: a network for each length of interval, and how the rows that they read are
//! made.

use model::{ConvNet, ConvScratch};
use packet::{SlotClock, Span};

use crate::flight::FlightInput;
use crate::inputs::{Input, Rules};
use crate::trained::{FlowTrainingConditions, TrainingConditions, UnnamedReason};

mod file;
mod levels;
mod queue_levels;

pub use file::{FILE_LEN_MAX, FORMAT, ModelError};
use levels::{RowLength, with_levels};

/// Controls, networks and inputs at most.
const COUNT_MAX: usize = 64;

/// Name of the class that stands for all controls that are not among the others: a flow of it gets
/// no name.
pub const OTHER: &str = "other";

/// A millionth, which is as sure as a window may be that it is not a control.
const LOG_PROBABILITY_MIN: f32 = -13.815_511;

/// Intervals that count together, of networks shorter than the longest, at most.
const SHORTER_MAX: usize = 64;

/// Where rows are parts of the RTT, flows whose RTT is longer are identified by shorter intervals
/// alone.
const RTT_MAX: Span = Span::from_seconds(2);

/// A model that was read.
#[derive(Clone, Debug)]
pub struct Model {
    controls: Vec<String>,
    reads: Reads,
    rows_per_rtt: Option<u32>,
    clock: SlotClock,
    rules: Rules,
    voting: Voting,
    /// Those of which a row is a slot, of longer intervals later.
    networks: Vec<Network>,
    /// That of intervals of several windows, of which a row is several slots.
    longer: Option<Network>,
    /// It was trained on packets of which others were not sampled, too.
    knows_samples: bool,
    trained_on: Option<TrainingConditions>,
    /// The same of a model of one tap.
    trained_on_flows: Option<FlowTrainingConditions>,
    /// Its networks read levels besides shapes.
    has_levels: bool,
    /// And, of two taps, which part of the queue's they are.
    has_queue_shares: bool,
    /// No answer is surer: the rule of succession for so many flows as training held out.
    confidence_max: f64,
}

/// How windows of the longest interval of single slots that follow each other count together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Voting {
    /// So many at most.
    pub most: u16,
    /// How far they err together: 0, each counts in full; 1, no more than one alone.
    pub correlation: f32,
    /// How much counts where longer intervals vote with them, which are of the same packets.
    pub part: f32,
}

impl Default for Voting {
    fn default() -> Self {
        Self { most: 1, correlation: 0.0, part: 1.0 }
    }
}

impl Voting {
    /// By what a sum of so many votes is to be divided.
    pub(crate) fn shared(&self, count: u16) -> f32 {
        shared(self.correlation, count)
    }
}

/// Each vote that is added is worth what it does not share with the others.
fn shared(correlation: f32, count: u16) -> f32 {
    f32::from(count.saturating_sub(1)).mul_add(correlation, 1.0)
}

/// What a model reads of each slot, and of how many taps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reads {
    /// Of a tap upstream of a queue and one downstream of it.
    Queue(Vec<Input>),
    /// Of one tap that sees data and acknowledgements.
    Flight(Vec<FlightInput>),
}

impl Reads {
    /// `None` of a name that is none, and of names of both.
    fn from_names(names: &[String]) -> Option<Self> {
        let queue: Option<Vec<_>> = names.iter().map(|name| Input::from_name(name)).collect();
        let flight: Option<Vec<_>> =
            names.iter().map(|name| FlightInput::from_name(name)).collect();
        queue.map(Self::Queue).or_else(|| flight.map(Self::Flight))
    }

    /// Columns of a row.
    #[must_use]
    pub const fn width(&self) -> usize {
        match self {
            Self::Queue(inputs) => inputs.len(),
            Self::Flight(inputs) => inputs.len(),
        }
    }
}

/// What identifies controls from intervals of one length.
#[derive(Clone, Debug)]
struct Network {
    slots: usize,
    /// Slots of a row, added up.
    row_slots: usize,
    net: ConvNet,
    temperature: f32,
    unknown_below: f64,
    /// How far intervals that follow each other err together, where they may vote.
    correlation: Option<f32>,
}

/// So many of the most probable controls are in a verdict.
const LIKELIEST: usize = 3;

/// Controls with their probabilities, the most probable first; of several that are as probable,
/// the first.
pub type Likeliest = [Option<(usize, f64)>; LIKELIEST];

/// What a verdict is compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Limits {
    /// A highest probability below it is no answer.
    unknown_below: f64,
    /// No answer is surer.
    confidence_max: f64,
    /// Index of the class of all other controls.
    other: Option<usize>,
}

/// What was inferred of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ControlVerdict {
    /// Index of the control among [`Model::controls`]; none where no one is probable enough.
    pub control: Option<usize>,
    /// The probability of the control that is the most probable.
    pub confidence: f64,
    /// The most probable controls, also where none is probable enough; none where what was seen is
    /// outside of training.
    pub likeliest: Likeliest,
    /// Slots that were examined.
    pub slots: usize,
    /// Why there is no control, where there is none.
    pub unnamed: Option<UnnamedReason>,
}

impl ControlVerdict {
    /// `None` where there is no control.
    pub(crate) fn new(likeliest: Likeliest, slots: usize, limits: Limits) -> Option<Self> {
        let (control, confidence) = likeliest.first().copied().flatten()?;
        let most = limits.confidence_max;
        let unnamed = if confidence < limits.unknown_below {
            Some(UnnamedReason::Unsure)
        } else {
            (Some(control) == limits.other).then_some(UnnamedReason::Other)
        };
        Some(Self {
            control: unnamed.is_none().then_some(control),
            confidence: confidence.min(most),
            likeliest: likeliest.map(|one| one.map(|(control, sure)| (control, sure.min(most)))),
            slots,
            unnamed,
        })
    }

    /// The same of what is outside of training, where a probability means nothing.
    #[must_use]
    pub const fn outside(slots: usize, why: UnnamedReason) -> Self {
        let likeliest = [None; LIKELIEST];
        Self { control: None, confidence: 0.0, likeliest, slots, unnamed: Some(why) }
    }

    /// How probable the control is, or that it is none of the model's; nothing where what was seen
    /// is outside of training.
    #[must_use]
    pub fn probability(&self) -> Option<f64> {
        let is_told = self.unnamed.is_none_or(UnnamedReason::is_of_scores);
        is_told.then_some(self.confidence)
    }
}

/// Room for what is computed on the way.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    rows: Vec<f32>,
    levels: Vec<f32>,
    net: ConvScratch,
    scores: Vec<f32>,
}

impl Model {
    /// The same for packets that were not sampled.
    #[must_use]
    pub fn of_sampled(self) -> Self {
        Self { rules: self.rules.of_sampled(), ..self }
    }

    /// Names of the controls that it distinguishes, [`OTHER`] among them where it has a class for
    /// the rest.
    #[must_use]
    pub fn controls(&self) -> &[String] {
        &self.controls
    }

    /// What it reads of each slot.
    #[must_use]
    pub const fn reads(&self) -> &Reads {
        &self.reads
    }

    /// Whether a row has, behind the inputs of a flow, their sums over all flows of the queue.
    #[must_use]
    pub const fn reads_sums(&self) -> bool {
        self.has_queue_shares
    }

    /// Columns of a row.
    const fn width(&self) -> usize {
        self.reads.width() * if self.reads_sums() { 2 } else { 1 }
    }

    /// Into how many rows each RTT of a flow is cut; a row is a slot where this is not given.
    #[must_use]
    pub const fn rows_per_rtt(&self) -> Option<u32> {
        self.rows_per_rtt
    }

    /// The longest time that it looks at.
    #[must_use]
    pub fn looked_at(&self) -> Span {
        let rows = self.networks.last().map_or(0, |network| network.slots);
        let row_ns = match self.rows_per_rtt {
            // Rows are whole slots, and may be rounded up to them.
            Some(rows) => self.rtt_max().as_ns() / i64::from(rows) + self.clock.length().as_ns(),
            None => self.clock.length().as_ns(),
        };
        Span::from_ns(i64::try_from(rows).unwrap_or(i64::MAX).saturating_mul(row_ns))
    }

    /// Flows whose round trip is longer are outside of its training, or too slow to be followed.
    fn rtt_max(&self) -> Span {
        #[allow(clippy::cast_possible_truncation)] // At most an hour, as files are read.
        let longest = |range: FlowTrainingConditions| Span::from_ns((range.rtt_s[1] * 1e9) as i64);
        self.trained_on_flows.map_or(RTT_MAX, |range| longest(range).min(RTT_MAX))
    }

    /// Whether it was trained on packets of which others were not sampled, too.
    #[must_use]
    pub const fn knows_samples(&self) -> bool {
        self.knows_samples
    }

    /// From what to what its training went, where it says so.
    #[must_use]
    pub const fn trained_on(&self) -> Option<&TrainingConditions> {
        self.trained_on.as_ref()
    }

    /// No answer is surer.
    #[must_use]
    pub const fn confidence_max(&self) -> f64 {
        self.confidence_max
    }

    /// How it cuts time.
    #[must_use]
    pub const fn clock(&self) -> SlotClock {
        self.clock
    }

    /// How its rows are made.
    #[must_use]
    pub const fn rules(&self) -> Rules {
        self.rules
    }

    /// How windows of the longest interval of single slots count together.
    #[must_use]
    pub const fn voting(&self) -> Voting {
        self.voting
    }

    /// What verdicts on intervals so long are compared with.
    pub(crate) fn limits(&self, slots: usize) -> Option<Limits> {
        Some(self.limits_of(self.network(slots)?))
    }

    fn limits_of(&self, network: &Network) -> Limits {
        let other = self.controls.iter().position(|control| control == OTHER);
        let (unknown_below, confidence_max) = (network.unknown_below, self.confidence_max);
        Limits { unknown_below, confidence_max, other }
    }

    fn network(&self, slots: usize) -> Option<&Network> {
        self.networks.iter().find(|network| network.slots == slots)
    }

    /// The longest interval of single slots for which it has a network and that is no longer than
    /// so many slots.
    #[must_use]
    pub fn longest(&self, slots: usize) -> Option<usize> {
        self.networks.iter().rev().map(|network| network.slots).find(|&needs| needs <= slots)
    }

    /// The scores of an interval; `None` where there is no network of its length. `rows` are its
    /// inputs as [`Window::fill`](crate::Window::fill) makes them, each of so many slots; where it
    /// [reads sums](Self::reads_sums), as [`QueueRows`](crate::QueueRows) makes them.
    pub fn tell(
        &self,
        rows: &[f32],
        row_slots: usize,
        scratch: &mut Scratch,
    ) -> Option<ControlVerdict> {
        let count = rows.len() / self.width().max(1);
        let network = self.network(count)?;
        let slots = count.saturating_mul(row_slots);
        #[allow(clippy::cast_precision_loss)] // As many slots as would lose a digit fit no memory.
        let row_s = self.clock.length().as_seconds_f64() * row_slots as f64;
        if let Some(why) = self.outside(rows, row_s) {
            return Some(ControlVerdict::outside(slots, why));
        }
        self.score(network, rows, row_s, scratch)?;
        let found = likeliest(&scratch.scores, network.temperature)?;
        ControlVerdict::new(found, slots, self.limits_of(network))
    }

    /// How many intervals of so many slots count together where a flow is known for `slots`: those
    /// of the longest network vote elsewhere, see [`Votes`](crate::Votes).
    #[must_use]
    pub fn shorter_windows(&self, len: usize, slots: usize) -> usize {
        let is_longest = self.longest(usize::MAX) == Some(len);
        let votes = self.network(len).is_some_and(|network| network.correlation.is_some());
        if votes && !is_longest { (slots / len).clamp(1, SHORTER_MAX) } else { 1 }
    }

    /// What intervals of one length that follow each other tell together; of the rows of one, what
    /// [`Self::tell`] does.
    pub fn tell_together(
        &self,
        intervals: &[Vec<f32>],
        scratch: &mut Scratch,
    ) -> Option<ControlVerdict> {
        let [first, _, ..] = intervals else { return self.tell(intervals.first()?, 1, scratch) };
        let slots = first.len() / self.width().max(1);
        let network = self.network(slots)?;
        let mut sums = vec![0.0; self.controls.len()];
        for rows in intervals {
            let told = self.log_probabilities(rows, scratch)?;
            sums.iter_mut().zip(told).for_each(|(sum, vote)| *sum += vote);
        }
        let count = u16::try_from(intervals.len()).unwrap_or(u16::MAX);
        let shared = shared(network.correlation.unwrap_or(1.0), count);
        let found = likeliest(&sums, shared)?;
        ControlVerdict::new(found, slots * intervals.len(), self.limits_of(network))
    }

    /// Why rows of one tap are unlike those of training.
    #[allow(clippy::cast_precision_loss)] // Rows fit the memory.
    fn outside(&self, rows: &[f32], row_s: f64) -> Option<UnnamedReason> {
        let (Reads::Flight(inputs), Some(range)) = (&self.reads, self.trained_on_flows) else {
            return None;
        };
        let sum = |wanted: FlightInput| -> Option<f64> {
            let column = inputs.iter().position(|&input| input == wanted)?;
            let values = rows.iter().skip(column).step_by(inputs.len());
            Some(values.map(|&value| f64::from(value)).sum())
        };
        let count = (rows.len() / inputs.len().max(1)) as f64;
        let rate_bit = sum(FlightInput::Acked)? * 8.0 / (count * row_s);
        range.outside(rate_bit, sum(FlightInput::PathRtt)? / count)
    }

    /// Windows of the longest interval of single slots that make an interval of the network of
    /// longer ones, where there is one.
    #[must_use]
    pub fn windows_of_longer(&self) -> Option<usize> {
        Some(self.longer.as_ref()?.slots / self.networks.last()?.slots)
    }

    /// Adds up a window's rows, slot by slot, to those that the network of longer intervals reads.
    #[must_use]
    pub fn longer_rows(&self, rows: &[f32]) -> Vec<f32> {
        let (Some(longer), width) = (&self.longer, self.width()) else { return Vec::new() };
        let mut sums = Vec::with_capacity(rows.len() / longer.row_slots);
        for rows in rows.chunks_exact(width * longer.row_slots) {
            let begin = sums.len();
            sums.resize(begin + width, 0.0);
            for row in rows.chunks_exact(width) {
                sums.iter_mut().skip(begin).zip(row).for_each(|(sum, value)| *sum += value);
            }
        }
        sums
    }

    /// Of each control the logarithm of its probability, as [`Self::tell`] finds it.
    pub fn log_probabilities(&self, rows: &[f32], scratch: &mut Scratch) -> Option<Vec<f32>> {
        let network = self.network(rows.len() / self.width().max(1))?;
        self.log_probabilities_by(network, rows, scratch)
    }

    /// The same of a longer interval, by its rows.
    pub fn longer_log_probabilities(
        &self,
        rows: &[f32],
        scratch: &mut Scratch,
    ) -> Option<Vec<f32>> {
        let longer = self.longer.as_ref()?;
        let is_whole = rows.len() == longer.slots / longer.row_slots * self.width();
        if is_whole { self.log_probabilities_by(longer, rows, scratch) } else { None }
    }

    fn log_probabilities_by(
        &self,
        network: &Network,
        rows: &[f32],
        scratch: &mut Scratch,
    ) -> Option<Vec<f32>> {
        self.score(network, rows, self.clock.length().as_seconds_f64(), scratch)?;
        let scores: Vec<f32> =
            scratch.scores.iter().map(|score| score / network.temperature).collect();
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = scores.iter().map(|score| (score - highest).exp()).sum();
        let all = sum.is_finite().then(|| highest + sum.ln())?;
        // What one window takes for impossible must not outvote all others.
        Some(scores.iter().map(|score| (score - all).max(LOG_PROBABILITY_MIN)).collect())
    }

    /// Scores of an interval of rows so long, left in `scratch`.
    fn score(
        &self,
        network: &Network,
        rows: &[f32],
        row_s: f64,
        scratch: &mut Scratch,
    ) -> Option<()> {
        let Scratch { rows: normalised, levels, net, scores } = scratch;
        normalised.clear();
        normalised.extend_from_slice(rows);
        normalise(normalised, self.width());
        if !self.has_levels {
            return network.net.score(normalised, net, scores).ok();
        }
        levels.clear();
        match &self.reads {
            Reads::Queue(inputs) => {
                let read = (inputs.len(), self.has_queue_shares);
                queue_levels::append(rows, normalised, read, levels);
            }
            Reads::Flight(inputs) => {
                #[allow(clippy::cast_possible_truncation)] // It is read as it was in training.
                let seconds = row_s as f32;
                let per_rtt = usize::try_from(self.rows_per_rtt.unwrap_or(1)).unwrap_or(1);
                let length = RowLength { per_rtt, seconds };
                with_levels(rows, normalised, inputs, length, levels);
            }
        }
        network.net.score(levels, net, scores).ok()
    }
}

/// Each input divided by its maximum; what is nothing stays nothing.
fn normalise(rows: &mut [f32], width: usize) {
    let mut highest = [0.0_f32; COUNT_MAX];
    for row in rows.chunks_exact(width) {
        for (highest, &value) in highest.iter_mut().zip(row) {
            *highest = highest.max(value);
        }
    }
    for row in rows.chunks_exact_mut(width) {
        for (value, &highest) in row.iter_mut().zip(&highest) {
            if highest > 0.0 {
                *value /= highest;
            }
        }
    }
}

/// The highest scores and their probabilities; `None` where scores are no numbers.
pub(crate) fn likeliest(scores: &[f32], temperature: f32) -> Option<Likeliest> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let score = |at: usize| scores.get(at).copied().unwrap_or(f32::NEG_INFINITY);
    order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
    let highest = score(*order.first()?);
    let weight = |score: f32| f64::from((score - highest) / temperature).exp();
    let sum: f64 = scores.iter().map(|&score| weight(score)).sum();
    // Weights that are beyond reason make scores that are no numbers.
    sum.is_finite().then(|| {
        let mut order = order.into_iter();
        std::array::from_fn(|_| order.next().map(|at| (at, weight(score(at)) / sum)))
    })
}
