//! Who names controls, and how a name stands in a row.

use std::fmt;

use cca::model::{ControlVerdict, Reads, Scratch};
use cca::{Model, UnnamedReason, Votes};
use engine::columns::{Field, Kind, Value};
use packet::SlotClock;

/// A model, its working memory, and its results for earlier windows.
pub struct Namer {
    /// The model.
    pub model: Model,
    /// Room for what it computes.
    pub scratch: Scratch,
    /// What it told before.
    pub votes: Votes,
    /// Flows that are followed at most: where there are as many, there may be more.
    pub followed_max: usize,
}

/// A model of other taps than there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OtherTaps {
    /// It reads one, and there are two.
    One,
    /// It reads two, and there is one.
    Two,
}

impl fmt::Display for OtherTaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "a model of one tap, which reads bytes in flight",
            Self::Two => "a model of two taps, upstream and downstream of a queue",
        })
    }
}

impl std::error::Error for OtherTaps {}

impl Namer {
    /// By a model of one tap; nothing told yet.
    ///
    /// # Errors
    /// [`OtherTaps::Two`]
    pub fn of_flight(model: Model) -> Result<Self, OtherTaps> {
        match model.reads() {
            Reads::Flight(_) => Ok(Self::new(model)),
            Reads::Queue(_) => Err(OtherTaps::Two),
        }
    }

    /// By a model of two taps, of which packets may be not sampled; nothing told yet.
    ///
    /// # Errors
    /// [`OtherTaps::One`]
    pub fn of_queue(model: Model, is_sampled: bool) -> Result<Self, OtherTaps> {
        match model.reads() {
            Reads::Queue(_) if is_sampled => Ok(Self::new(model.of_sampled())),
            Reads::Queue(_) => Ok(Self::new(model)),
            Reads::Flight(_) => Err(OtherTaps::One),
        }
    }

    fn new(model: Model) -> Self {
        Self {
            model,
            scratch: Scratch::default(),
            votes: Votes::default(),
            followed_max: usize::MAX,
        }
    }

    /// Names of the controls that it distinguishes; none if there is no model.
    pub fn controls(namer: Option<&Self>) -> Vec<String> {
        namer.map(|namer| namer.model.controls().to_vec()).unwrap_or_default()
    }
}

/// The column that says why there is no control.
pub const UNNAMED: Field = Field::new(
    "unnamed",
    Kind::Text,
    "With --model, why no congestion control is reported: `short` if the flow was observed for too \
     short a time, `unsure` if none is probable enough, `other` if it is most probably one that \
     the model has no name for, and if the queue is unlike those of training `flows` (fewer or \
     more flows share it), `rate` (of the link) or `queue` (packets wait longer); with a single \
     tap `rate` (of the flow) or `rtt`.",
)
.nullable();

/// The most probable controls.
pub const LIKELIEST: Field = Field::new(
    "likeliest",
    Kind::Text,
    "The three likeliest congestion controls with their probabilities, also if none is probable \
     enough to be reported: `cubic 0.62, bic 0.24, htcp 0.09`.",
)
.nullable();

/// The most probable controls, never rounded up; nothing of what is outside of training.
#[must_use]
pub fn likeliest(named: &ControlVerdict, controls: &[String]) -> Option<String> {
    let found = named.likeliest.iter().flatten().filter_map(|&(control, probability)| {
        Some(format!("{} {:.2}", controls.get(control)?, (probability * 100.0).floor() / 100.0))
    });
    Some(found.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

/// The columns `control`, `confidence`, `interval_s` and `unnamed`.
pub fn values(
    named: Option<ControlVerdict>,
    clock: SlotClock,
    controls: &[String],
) -> [Value<'_>; 4] {
    // As many slots as would lose a digit fit no memory.
    #[allow(clippy::cast_precision_loss)]
    let interval_s = |named: ControlVerdict| clock.length().as_seconds_f64() * named.slots as f64;
    let control = named.and_then(|named| controls.get(named.control?));
    let unnamed = match named {
        _ if controls.is_empty() => None,
        Some(named) => named.unnamed.map(UnnamedReason::name),
        None => Some("short"),
    };
    [
        control.map(|control| Value::Str(control)).into(),
        named.and_then(|named| named.probability()).map(Value::F64).into(),
        named.map(|named| Value::F64(interval_s(named))).into(),
        unnamed.map(Value::Str).into(),
    ]
}

/// A control and how probable it is, never rounded up; where none is probable enough, a question
/// mark before those that are the most probable; and what is outside of training says so.
pub fn text(named: &ControlVerdict, controls: &[String]) -> String {
    match (named.control.and_then(|control| controls.get(control)), named.unnamed) {
        (Some(name), _) => {
            let shown = (named.confidence * 100.0).floor() / 100.0;
            format!("{name} {shown:.2}")
        }
        (None, None | Some(UnnamedReason::Unsure)) => {
            format!("? {}", likeliest(named, controls).unwrap_or_default())
        }
        (None, Some(why)) => format!("unknown: {}", why.about()),
    }
}
