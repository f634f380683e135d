//! Who names controls, and how a name stands in a row.

use cca::model::{Scratch, Told as Named};
use cca::{Model, Votes};
use engine::columns::Value;
use packet::SlotClock;

/// A model, room for what it computes, and what it told of windows before.
pub(super) struct Namer {
    pub(super) model: Model,
    pub(super) scratch: Scratch,
    pub(super) votes: Votes,
}

impl Namer {
    pub(super) fn new(model: Model) -> Self {
        Self { model, scratch: Scratch::default(), votes: Votes::default() }
    }

    /// Names of the controls that it tells apart; none where there is no model.
    pub(super) fn controls(namer: Option<&Self>) -> Vec<String> {
        namer.map(|namer| namer.model.controls().to_vec()).unwrap_or_default()
    }
}

/// The columns `control`, `confidence` and `interval_s`.
pub(super) fn values(
    named: Option<Named>,
    clock: SlotClock,
    controls: &[String],
) -> [Value<'_>; 3] {
    // As many slots as would lose a digit fit no memory.
    #[allow(clippy::cast_precision_loss)]
    let interval_s = |named: Named| clock.length().as_seconds_f64() * named.slots as f64;
    let control = named.and_then(|named| controls.get(named.control?));
    [
        control.map(|control| Value::Str(control)).into(),
        named.map(|named| Value::F64(named.confidence)).into(),
        named.map(|named| Value::F64(interval_s(named))).into(),
    ]
}

/// A control and how probable it is; what is not probable enough has a question mark.
pub(super) fn text(named: &Named, controls: &[String]) -> String {
    let name = named.control.and_then(|control| controls.get(control));
    format!("{} {:.2}", name.map_or("?", String::as_str), named.confidence)
}
