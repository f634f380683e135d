//! A trained model: a network for each length of interval, and how the rows that they read are
//! made.
//!
//! The file is safetensors (`docs/specs/cca-model.md`). What it says is checked, all of it: a file
//! is refused, or does what it says.

use std::fmt;

use model::{ConvNet, ConvScratch, Convolution};
use packet::{SlotClock, Span};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value};

use crate::flight::FlightInput;
use crate::inputs::{Empty, Input, Passed, Rules, Throughput};

/// Bytes of a file at most.
pub const FILE_LEN_MAX: usize = 64 << 20;

/// What stands first in what it says of itself.
pub const FORMAT: &str = "wirelens-cca 1";

/// Controls, networks and inputs at most.
const COUNT_MAX: usize = 64;

/// Slots of an interval at most: an hour and more of a millisecond each.
const SLOTS_MAX: usize = 1 << 22;

/// Numbers that a network makes of an interval in one step at most: 256 MiB of them.
const NUMBERS_MAX: usize = 1 << 26;

/// Windows that count together at most: an hour of seconds.
const VOTES_MAX: usize = 3600;

/// A millionth, which is as sure as a window may be that it is not a control.
const LOG_PROBABILITY_MIN: f32 = -13.815_511;

/// Where rows are parts of the RTT, flows whose RTT is longer are told by shorter intervals alone.
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
}

/// How windows of the longest interval of single slots that follow each other count together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Voting {
    /// So many at most.
    pub most: u16,
    /// How far they err together: 0, each counts in full; 1, no more than one alone.
    pub correlation: f32,
    /// How much counts where longer intervals vote beside them, which are of the same packets.
    pub part: f32,
}

impl Default for Voting {
    fn default() -> Self {
        Self { most: 1, correlation: 0.0, part: 1.0 }
    }
}

impl Voting {
    /// By what a sum of so many votes is to be divided: each that is added is worth what it does
    /// not share with the others.
    pub(crate) fn shared(&self, count: u16) -> f32 {
        f32::from(count.saturating_sub(1)).mul_add(self.correlation, 1.0)
    }
}

/// What a model reads of each slot, and of how many taps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reads {
    /// Of a tap before a queue and one behind it.
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

/// What tells controls from intervals of one length.
#[derive(Clone, Debug)]
struct Network {
    slots: usize,
    /// Slots of a row, added up.
    row_slots: usize,
    net: ConvNet,
    temperature: f32,
    unknown_below: f64,
}

/// What was told of a flow.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Told {
    /// Index of the control among [`Model::controls`]; none where no one is probable enough.
    pub control: Option<usize>,
    /// The probability of the control that is the most probable.
    pub confidence: f64,
    /// Slots that were looked at.
    pub slots: usize,
}

/// Room for what is computed on the way.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    rows: Vec<f32>,
    net: ConvScratch,
    scores: Vec<f32>,
}

/// Why a file is refused: what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

fn refused(text: impl fmt::Display) -> ModelError {
    ModelError(text.to_string())
}

impl Model {
    /// Reads a file, all of it given.
    ///
    /// # Errors
    /// [`ModelError`], for the first thing that cannot be.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelError> {
        const WANTED: &str = "wanted: a model of `wirelens train cca`";
        if bytes.len() > FILE_LEN_MAX {
            return Err(refused(format_args!(
                "{} bytes; wanted: {FILE_LEN_MAX} at most",
                bytes.len()
            )));
        }
        let (_, header) = SafeTensors::read_metadata(bytes)
            .map_err(|error| refused(format_args!("{error}; {WANTED}")))?;
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|error| refused(format_args!("{error}; {WANTED}")))?;
        let said = header.metadata().as_ref().and_then(|said| said.get("wirelens"));
        let said =
            said.ok_or_else(|| refused(format_args!("it says nothing of itself; {WANTED}")))?;
        let said: Value = serde_json::from_str(said)
            .map_err(|error| refused(format_args!("what it says of itself: {error}; {WANTED}")))?;
        let said = Said::of(&said, "wirelens")?;
        if said.text("format")? != FORMAT {
            return Err(said.wrong("format", format_args!("wanted: {FORMAT:?}")));
        }
        let controls = said.texts("controls")?;
        let inputs = said.texts("inputs")?;
        let is_unknown = |name: &&String| {
            Input::from_name(name).is_none() && FlightInput::from_name(name).is_none()
        };
        if let Some(name) = inputs.iter().find(is_unknown) {
            return Err(said.wrong("inputs", format_args!("{name:?} is none that there is")));
        }
        let reads = Reads::from_names(&inputs)
            .ok_or_else(|| said.wrong("inputs", "wanted: of two taps or of one, not of both"))?;
        let slot_ns = said.whole("slot_ns", 1_000, 1_000_000_000_000)?;
        let passed = match said.text("passed")? {
            "first" if matches!(reads, Reads::Flight(_)) => {
                return Err(said.wrong("passed", "wanted: highest, of one tap"));
            }
            "first" => Passed::First,
            "highest" => Passed::Highest,
            _ => return Err(said.wrong("passed", "wanted: first or highest")),
        };
        let rules = Rules { passed, empty: Empty::Next, throughput: Throughput::Counted };
        let mut networks: Vec<Network> = Vec::new();
        for one in said.list("networks")? {
            let network = read_network(&Said::of(one, "networks")?, &tensors, reads.width())?;
            // A file that names its tensors again and again would fill the memory.
            if networks.iter().any(|known| known.slots == network.slots) {
                return Err(said.wrong("networks", "wanted: one for each length of interval"));
            }
            networks.push(network);
        }
        if networks.iter().any(|network| network.net.class_count() != controls.len()) {
            return Err(said.wrong("controls", "wanted: one for each score of every network"));
        }
        let rows_per_rtt = match said.fields.get("rows_per_rtt") {
            Some(_) if matches!(reads, Reads::Queue(_)) => {
                return Err(said.wrong("rows_per_rtt", "wanted: of one tap alone"));
            }
            Some(_) => u32::try_from(said.whole("rows_per_rtt", 1, 1000)?).ok(),
            None => None,
        };
        let voting = match said.fields.get("votes") {
            Some(_) if matches!(reads, Reads::Flight(_)) => {
                return Err(said.wrong("votes", "wanted: of two taps alone"));
            }
            Some(votes) => read_voting(&Said::of(votes, "votes")?)?,
            None => Voting::default(),
        };
        let (mut networks, longer): (Vec<_>, Vec<_>) =
            networks.into_iter().partition(|network| network.row_slots == 1);
        networks.sort_by_key(|network| network.slots);
        if let Some(wanted) = unfit_longer(&longer, networks.last(), voting) {
            return Err(said.wrong("networks", wanted));
        }
        let longer = longer.into_iter().next();
        let clock = SlotClock::new(Span::from_ns(i64::try_from(slot_ns).unwrap_or(i64::MAX)));
        Ok(Self { controls, reads, rows_per_rtt, clock, rules, voting, networks, longer })
    }

    /// The same for packets that were left out by chance.
    #[must_use]
    pub fn of_sampled(self) -> Self {
        Self { rules: self.rules.of_sampled(), ..self }
    }

    /// Names of the controls that it tells apart.
    #[must_use]
    pub fn controls(&self) -> &[String] {
        &self.controls
    }

    /// What it reads of each slot.
    #[must_use]
    pub const fn reads(&self) -> &Reads {
        &self.reads
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
            Some(rows) => RTT_MAX.as_ns() / i64::from(rows),
            None => self.clock.length().as_ns(),
        };
        Span::from_ns(i64::try_from(rows).unwrap_or(i64::MAX).saturating_mul(row_ns))
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

    /// Below what probability the network of intervals so long has no answer.
    #[must_use]
    pub fn unknown_below(&self, slots: usize) -> Option<f64> {
        Some(self.network(slots)?.unknown_below)
    }

    fn network(&self, slots: usize) -> Option<&Network> {
        self.networks.iter().find(|network| network.slots == slots)
    }

    /// The longest interval of single slots for which it has a network and that is no longer than so many slots.
    #[must_use]
    pub fn longest(&self, slots: usize) -> Option<usize> {
        self.networks.iter().rev().map(|network| network.slots).find(|&needs| needs <= slots)
    }

    /// What an interval tells; `None` where there is no network of its length. `rows` are its
    /// inputs as [`Window::fill`](crate::Window::fill) makes them.
    pub fn tell(&self, rows: &[f32], scratch: &mut Scratch) -> Option<Told> {
        let network = self.network(rows.len() / self.reads.width().max(1))?;
        self.score(network, rows, scratch)?;
        let (control, confidence) = most_probable(&scratch.scores, network.temperature)?;
        let is_known = confidence >= network.unknown_below;
        Some(Told { control: is_known.then_some(control), confidence, slots: network.slots })
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
        let (Some(longer), width) = (&self.longer, self.reads.width()) else { return Vec::new() };
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
        let network = self.network(rows.len() / self.reads.width().max(1))?;
        self.log_probabilities_by(network, rows, scratch)
    }

    /// The same of a longer interval, by its rows.
    pub fn longer_log_probabilities(
        &self,
        rows: &[f32],
        scratch: &mut Scratch,
    ) -> Option<Vec<f32>> {
        let longer = self.longer.as_ref()?;
        let is_whole = rows.len() == longer.slots / longer.row_slots * self.reads.width();
        if is_whole { self.log_probabilities_by(longer, rows, scratch) } else { None }
    }

    fn log_probabilities_by(
        &self,
        network: &Network,
        rows: &[f32],
        scratch: &mut Scratch,
    ) -> Option<Vec<f32>> {
        self.score(network, rows, scratch)?;
        let scores: Vec<f32> =
            scratch.scores.iter().map(|score| score / network.temperature).collect();
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = scores.iter().map(|score| (score - highest).exp()).sum();
        let all = sum.is_finite().then(|| highest + sum.ln())?;
        // What one window takes for impossible must not outvote all others.
        Some(scores.iter().map(|score| (score - all).max(LOG_PROBABILITY_MIN)).collect())
    }

    /// Scores of an interval, left in `scratch`.
    fn score(&self, network: &Network, rows: &[f32], scratch: &mut Scratch) -> Option<()> {
        let Scratch { rows: normalised, net, scores } = scratch;
        normalised.clear();
        normalised.extend_from_slice(rows);
        normalise(normalised, self.reads.width());
        network.net.score(normalised, net, scores).ok()
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

/// The highest score and its probability; of several that are as high, the first.
pub(crate) fn most_probable(scores: &[f32], temperature: f32) -> Option<(usize, f64)> {
    let (mut control, mut highest) = (None, f32::NEG_INFINITY);
    for (at, &score) in scores.iter().enumerate() {
        if score > highest {
            (control, highest) = (Some(at), score);
        }
    }
    let sum: f64 =
        scores.iter().map(|score| f64::from((score - highest) / temperature).exp()).sum();
    // Weights that are beyond reason make scores that are no numbers.
    control.filter(|_| sum.is_finite()).map(|control| (control, 1.0 / sum))
}

fn read_voting(said: &Said<'_>) -> Result<Voting, ModelError> {
    let most = said.whole("most", 1, VOTES_MAX)?;
    let correlation = said.number("correlation", 0.0, 1.0)?;
    let part = if said.fields.contains_key("part") { said.number("part", 0.0, 1.0)? } else { 1.0 };
    #[allow(clippy::cast_possible_truncation)] // All lie between known limits.
    Ok(Voting { most: most as u16, correlation: correlation as f32, part: part as f32 })
}

/// What is wanted of networks of which a row is several slots, where that does not hold.
fn unfit_longer(
    longer: &[Network],
    base: Option<&Network>,
    voting: Voting,
) -> Option<&'static str> {
    let [longer] = longer else {
        return (longer.len() > 1).then_some("wanted: one at most whose rows are several slots");
    };
    let base = base.map_or(longer.slots, |base| base.slots);
    let count = longer.slots / base;
    if longer.slots % base != 0 || base % longer.row_slots != 0 || count < 2 {
        return Some("wanted: where rows are several slots, several of the longest without");
    }
    (count > usize::from(voting.most)).then_some("wanted: where rows are several slots, votes")
}

fn read_network(
    said: &Said<'_>,
    tensors: &SafeTensors<'_>,
    input_count: usize,
) -> Result<Network, ModelError> {
    let slots = said.whole("slots", 1, SLOTS_MAX)?;
    let row_slots = match said.fields.get("row_slots") {
        Some(_) => said.whole("row_slots", 1, slots)?,
        None => 1,
    };
    let rows = slots / row_slots;
    let pool_len = said.whole("pool_len", 1, SLOTS_MAX)?;
    let block_count = said.whole("blocks", 1, COUNT_MAX)?;
    let layer = |name: &str, inputs: usize| read_layer(tensors, &format!("{slots}.{name}"), inputs);
    let mut blocks: Vec<Convolution> = Vec::new();
    for at in 0..block_count {
        let inputs = blocks.last().map_or(input_count, Convolution::output_count);
        blocks.push(layer(&format!("block{at}"), inputs)?);
    }
    let inputs = blocks.last().map_or(input_count, Convolution::output_count);
    let head = layer("head", inputs)?;
    let outputs = blocks.iter().map(Convolution::output_count);
    let widest = outputs.chain([head.output_count()]).max().unwrap_or(1);
    let net = ConvNet::new(blocks, pool_len, head).map_err(refused)?;
    if rows < net.steps_min() {
        let least = net.steps_min();
        return Err(said.wrong("slots", format_args!("wanted: {least} or more, for its pools")));
    }
    if rows.saturating_mul(widest) > NUMBERS_MAX {
        let most = NUMBERS_MAX / widest;
        return Err(said.wrong("slots", format_args!("wanted: {most} or less, by {widest}")));
    }
    let temperature = said.number("temperature", 1e-3, 1e3)?;
    let unknown_below = said.number("unknown_below", 0.0, 1.0)?;
    #[allow(clippy::cast_possible_truncation)] // It lies between a thousandth and a thousand.
    Ok(Network { slots, row_slots, net, temperature: temperature as f32, unknown_below })
}

fn read_layer(
    tensors: &SafeTensors<'_>,
    name: &str,
    input_count: usize,
) -> Result<Convolution, ModelError> {
    let numbers = |part: &str| -> Result<(Vec<usize>, Vec<f32>), ModelError> {
        let name = format!("{name}.{part}");
        let tensor =
            tensors.tensor(&name).map_err(|error| refused(format_args!("{name}: {error}")))?;
        if tensor.dtype() != Dtype::F32 {
            return Err(refused(format_args!("{name}: {:?}; wanted: F32", tensor.dtype())));
        }
        let (numbers, _) = tensor.data().as_chunks();
        let numbers = numbers.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        Ok((tensor.shape().to_vec(), numbers))
    };
    let (shape, weights) = numbers("weight")?;
    let (_, bias) = numbers("bias")?;
    let wanted = [bias.len(), input_count, model::conv::KERNEL_LEN];
    if shape != wanted {
        return Err(refused(format_args!("{name}.weight: {shape:?}; wanted: {wanted:?}")));
    }
    Convolution::new(input_count, &weights, &bias)
        .map_err(|error| refused(format_args!("{name}: {error}")))
}

/// An object of what a file says of itself.
struct Said<'a> {
    name: &'a str,
    fields: &'a Map<String, Value>,
}

impl<'a> Said<'a> {
    fn of(value: &'a Value, name: &'a str) -> Result<Self, ModelError> {
        let fields = value.as_object();
        let fields = fields.ok_or_else(|| refused(format_args!("{name}: wanted: an object")))?;
        Ok(Self { name, fields })
    }

    fn wrong(&self, field: &str, wanted: impl fmt::Display) -> ModelError {
        let seen = self.fields.get(field).map(Value::to_string).unwrap_or_default();
        let seen: String = seen.chars().take(80).collect();
        refused(format_args!("{}.{field}: {seen}: {wanted}", self.name))
    }

    fn get(&self, field: &str) -> Result<&'a Value, ModelError> {
        self.fields.get(field).ok_or_else(|| self.wrong(field, "missing"))
    }

    fn text(&self, field: &str) -> Result<&'a str, ModelError> {
        self.get(field)?.as_str().ok_or_else(|| self.wrong(field, "wanted: text"))
    }

    fn list(&self, field: &str) -> Result<&'a [Value], ModelError> {
        let list = self.get(field)?.as_array();
        let fits = list.filter(|list| (1..=COUNT_MAX).contains(&list.len()));
        fits.map(Vec::as_slice)
            .ok_or_else(|| self.wrong(field, format_args!("wanted: 1 to {COUNT_MAX} of them")))
    }

    fn texts(&self, field: &str) -> Result<Vec<String>, ModelError> {
        let text = |value: &Value| {
            let text = value.as_str().filter(|text| {
                !text.is_empty() && text.len() <= 64 && !text.chars().any(char::is_control)
            });
            text.map(str::to_owned).ok_or_else(|| self.wrong(field, "wanted: plain words"))
        };
        self.list(field)?.iter().map(text).collect()
    }

    fn whole(&self, field: &str, least: usize, most: usize) -> Result<usize, ModelError> {
        let number = self.get(field)?.as_u64().and_then(|number| usize::try_from(number).ok());
        let fits = number.filter(|number| (least..=most).contains(number));
        fits.ok_or_else(|| self.wrong(field, format_args!("wanted: {least} to {most}")))
    }

    fn number(&self, field: &str, least: f64, most: f64) -> Result<f64, ModelError> {
        let number = self.get(field)?.as_f64();
        let fits = number.filter(|number| (least..=most).contains(number));
        fits.ok_or_else(|| self.wrong(field, format_args!("wanted: {least} to {most}")))
    }
}
