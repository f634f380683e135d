//! Models from their files.
//!
//! The file is safetensors (`docs/specs/cca-model.md`). What it says is checked, all of it: a file
//! is refused, or does what it says.

use std::fmt;

use model::{ConvNet, Convolution};
use packet::{SlotClock, Span};
use safetensors::{Dtype, SafeTensors};
use serde_json::{Map, Value};

use super::{COUNT_MAX, Model, Network, Reads, Voting, levels, queue_levels};
use crate::flight::FlightInput;
use crate::inputs::{Empty, Input, ProgressRule, Rules, Throughput};
use crate::trained::{FlowTrainingConditions, TrainingConditions};

/// Bytes of a file at most.
pub const FILE_LEN_MAX: usize = 64 << 20;

/// What stands first in what it says of itself.
pub const FORMAT: &str = "wirelens-cca 1";

/// Slots of an interval at most: an hour and more of a millisecond each.
const SLOTS_MAX: usize = 1 << 22;

/// Numbers that a network makes of an interval in one step at most: 256 MiB of them.
const NUMBERS_MAX: usize = 1 << 26;

/// Windows that count together at most: an hour of seconds.
const VOTES_MAX: usize = 3600;

/// No answer is surer, where a file does not say how sure one may be.
const CONFIDENCE_MAX: f64 = 0.99;

/// Why a file is refused: what was seen and what was wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelError(String);

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ModelError {}

/// In one line, and without what terminals act on: libraries quote from the file.
fn refused(text: impl fmt::Display) -> ModelError {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    ModelError(text.to_string().chars().map(shown).collect())
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
        let said = said.ok_or_else(|| refused(format_args!("it has no description; {WANTED}")))?;
        let said: Value = serde_json::from_str(said)
            .map_err(|error| refused(format_args!("its description: {error}; {WANTED}")))?;
        let said = Said::of(&said, "wirelens")?;
        if said.text("format")? != FORMAT {
            return Err(said.wrong("format", format_args!("wanted: {FORMAT:?}")));
        }
        Self::read(&said, &tensors)
    }

    fn read(said: &Said<'_>, tensors: &SafeTensors<'_>) -> Result<Self, ModelError> {
        let controls = said.texts("controls")?;
        let reads = read_inputs(said)?;
        let is_one_tap = matches!(reads, Reads::Flight(_));
        let slot_ns = said.whole("slot_ns", 1_000, 1_000_000_000_000)?;
        let passed = match said.text("passed")? {
            "first" if is_one_tap => {
                return Err(said.wrong("passed", "wanted: highest, of one tap"));
            }
            "first" => ProgressRule::First,
            "highest" => ProgressRule::Highest,
            _ => return Err(said.wrong("passed", "wanted: first or highest")),
        };
        let rules = Rules { passed, empty: Empty::Next, throughput: Throughput::Counted };
        let rows_per_rtt = match said.fields.get("rows_per_rtt") {
            Some(_) if !is_one_tap => {
                return Err(said.wrong("rows_per_rtt", "wanted: of one tap alone"));
            }
            Some(_) => u32::try_from(said.whole("rows_per_rtt", 1, 1000)?).ok(),
            None => None,
        };
        let (has_levels, has_queue_shares) = read_levels(said, is_one_tap)?;
        let width = if has_levels {
            width_of_levels(said, &reads, rows_per_rtt.is_some(), has_queue_shares)?
        } else {
            reads.width()
        };
        let networks = read_networks(said, tensors, width, controls.len())?;
        if is_one_tap && networks.iter().any(|network| network.correlation.is_some()) {
            return Err(said.wrong("networks", "wanted: correlation of two taps alone"));
        }
        let voting = match said.fields.get("votes") {
            Some(_) if is_one_tap => return Err(said.wrong("votes", "wanted: of two taps alone")),
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
        let knows_samples = said.has_part("shares")?;
        let range = said.fields.get("range").map(|range| Said::of(range, "range")).transpose()?;
        let (range, flow_range) = if is_one_tap { (None, range) } else { (range, None) };
        let trained_on = range.map(|range| read_range(&range)).transpose()?;
        let trained_on_flows =
            flow_range.map(|range| read_flow_range(said, &range, &reads)).transpose()?;
        let confidence_max = match said.fields.get("confidence_max") {
            Some(_) => said.number("confidence_max", 0.0, 1.0)?,
            None => CONFIDENCE_MAX,
        };
        let clock = SlotClock::new(Span::from_ns(i64::try_from(slot_ns).unwrap_or(i64::MAX)));
        Ok(Self {
            controls,
            reads,
            rows_per_rtt,
            clock,
            rules,
            voting,
            networks,
            longer,
            knows_samples,
            trained_on,
            trained_on_flows,
            has_levels,
            has_queue_shares,
            confidence_max,
        })
    }
}

fn read_inputs(said: &Said<'_>) -> Result<Reads, ModelError> {
    let inputs = said.texts("inputs")?;
    let is_unknown =
        |name: &&String| Input::from_name(name).is_none() && FlightInput::from_name(name).is_none();
    if let Some(name) = inputs.iter().find(is_unknown) {
        return Err(said.wrong("inputs", format_args!("{name:?} is none that there is")));
    }
    Reads::from_names(&inputs)
        .ok_or_else(|| said.wrong("inputs", "wanted: of two taps or of one, not of both"))
}

/// Whether levels are read, and shares of the queue.
fn read_levels(said: &Said<'_>, is_one_tap: bool) -> Result<(bool, bool), ModelError> {
    let (has_levels, has_shares) = (said.is_true("levels")?, said.is_true("queue_shares")?);
    if has_shares && (is_one_tap || !has_levels) {
        return Err(said.wrong("queue_shares", "wanted: with two taps, with levels"));
    }
    Ok((has_levels, has_shares))
}

/// Columns that a network reads where there are levels.
fn width_of_levels(
    said: &Said<'_>,
    reads: &Reads,
    has_rows_per_rtt: bool,
    has_queue_shares: bool,
) -> Result<usize, ModelError> {
    match reads {
        Reads::Flight(_) if !has_rows_per_rtt => {
            Err(said.wrong("levels", "wanted: with one tap, with rows_per_rtt alone"))
        }
        Reads::Flight(inputs) => Ok(levels::width(inputs.len())),
        Reads::Queue(inputs) => {
            let lone = inputs.iter().find(|input| !input.is_shared());
            let width = queue_levels::width(inputs.len(), has_queue_shares);
            lone.map_or(Ok(width), |input| {
                let wanted = format_args!("{}: no flow has a share of it", input.name());
                Err(said.wrong("levels", wanted))
            })
        }
    }
}

fn read_networks(
    said: &Said<'_>,
    tensors: &SafeTensors<'_>,
    input_count: usize,
    control_count: usize,
) -> Result<Vec<Network>, ModelError> {
    let mut networks: Vec<Network> = Vec::new();
    for one in said.list("networks")? {
        let network = read_network(&Said::of(one, "networks")?, tensors, input_count)?;
        // A file that names its tensors again and again would fill the memory.
        if networks.iter().any(|known| known.slots == network.slots) {
            return Err(said.wrong("networks", "wanted: one for each length of interval"));
        }
        networks.push(network);
    }
    if networks.iter().any(|network| network.net.class_count() != control_count) {
        return Err(said.wrong("controls", "wanted: one for each score of every network"));
    }
    Ok(networks)
}

fn read_voting(said: &Said<'_>) -> Result<Voting, ModelError> {
    let most = said.whole("most", 1, VOTES_MAX)?;
    let correlation = said.number("correlation", 0.0, 1.0)?;
    let part = if said.fields.contains_key("part") { said.number("part", 0.0, 1.0)? } else { 1.0 };
    #[allow(clippy::cast_possible_truncation)] // All lie between known limits.
    Ok(Voting { most: most as u16, correlation: correlation as f32, part: part as f32 })
}

fn read_range(said: &Said<'_>) -> Result<TrainingConditions, ModelError> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Of counts up to 2^24.
    let flows = said.pair("flows", f64::from(1 << 24))?.map(|count| count as usize);
    Ok(TrainingConditions {
        flows,
        rate_bit: said.pair("rate_bit", 1e15)?,
        queue_s: said.pair("queue_s", 3600.0)?,
        rtt_s: said.pair("rtt_s", 3600.0)?,
    })
}

fn read_flow_range(
    said: &Said<'_>,
    range: &Said<'_>,
    reads: &Reads,
) -> Result<FlowTrainingConditions, ModelError> {
    let compared = [FlightInput::Acked, FlightInput::PathRtt];
    let is_read = |input| matches!(reads, Reads::Flight(inputs) if inputs.contains(input));
    if !compared.iter().all(is_read) {
        let [acked, rtt] = compared.map(FlightInput::name);
        return Err(said.wrong("range", format_args!("wanted: with the inputs {acked} and {rtt}")));
    }
    Ok(FlowTrainingConditions {
        rate_bit: range.pair("rate_bit", 1e15)?,
        rtt_s: range.pair("rtt_s", 3600.0)?,
    })
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
    let is_whole = longer.slots.is_multiple_of(base) && base.is_multiple_of(longer.row_slots);
    if !is_whole || count < 2 {
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
    let correlation = match said.fields.get("correlation") {
        Some(_) => Some(said.number("correlation", 0.0, 1.0)?),
        None => None,
    };
    // It lies between a thousandth and a thousand, and between 0 and 1.
    #[allow(clippy::cast_possible_truncation)]
    let (temperature, correlation) = (temperature as f32, correlation.map(|part| part as f32));
    Ok(Network { slots, row_slots, net, temperature, unknown_below, correlation })
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

    /// Whether it says so; it may be absent.
    fn is_true(&self, field: &str) -> Result<bool, ModelError> {
        let said = self.fields.get(field).map_or(Some(false), Value::as_bool);
        said.ok_or_else(|| self.wrong(field, "wanted: true or false"))
    }

    fn number(&self, field: &str, least: f64, most: f64) -> Result<f64, ModelError> {
        let number = self.get(field)?.as_f64();
        let fits = number.filter(|number| (least..=most).contains(number));
        fits.ok_or_else(|| self.wrong(field, format_args!("wanted: {least} to {most}")))
    }

    /// From what to what.
    fn pair(&self, field: &str, most: f64) -> Result<[f64; 2], ModelError> {
        let numbers: Option<Vec<f64>> = self.list(field)?.iter().map(Value::as_f64).collect();
        match numbers.as_deref() {
            Some(&[low, high]) if 0.0 <= low && low <= high && high <= most => Ok([low, high]),
            _ => Err(self.wrong(field, format_args!("wanted: two numbers, 0 to {most}, in order"))),
        }
    }

    /// Whether any of these, which may be absent, is less than the whole.
    fn has_part(&self, field: &str) -> Result<bool, ModelError> {
        if !self.fields.contains_key(field) {
            return Ok(false);
        }
        let parts: Option<Vec<f64>> = self.list(field)?.iter().map(Value::as_f64).collect();
        let parts = parts.filter(|parts| parts.iter().all(|part| (0.0..=1.0).contains(part)));
        let parts = parts.ok_or_else(|| self.wrong(field, "wanted: parts of 1"))?;
        Ok(parts.iter().any(|&part| part < 1.0))
    }
}
