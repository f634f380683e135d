//! What a cascade says of the flows that it was trained and judged on.
//!
//! Nothing that is decided depends on it, and cascades without it, or with other words, are served
//! all the same: then nothing is compared.

use serde_json::Value;

use super::StageName;
use crate::verdict::UNKNOWN;

/// Flows of the training and of the judging; what is not said is none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Card {
    labels: Option<Vec<Option<u64>>>,
    stages: Option<Vec<Option<u64>>>,
}

impl Card {
    /// Of what `cascade.json` says.
    pub(super) fn of(root: &Value, classes: &[String]) -> Self {
        Self { labels: labels(root, classes), stages: stages(root) }
    }

    /// Flows of the training by class; last, those of no class.
    #[must_use]
    pub fn labels(&self) -> Option<&[Option<u64>]> {
        self.labels.as_deref()
    }

    /// The flows on which it was judged, by stage that decided.
    #[must_use]
    pub fn stages(&self) -> Option<&[Option<u64>]> {
        self.stages.as_deref()
    }
}

fn labels(root: &Value, classes: &[String]) -> Option<Vec<Option<u64>>> {
    let by_class = root.get("training")?.get("flows_by_class")?.as_object()?;
    let of = |class: &str| by_class.get(class).and_then(Value::as_u64);
    // A flow of the class `unknown` is unknown: it is not a class of its own.
    let named = classes.iter().map(|class| if class == UNKNOWN { None } else { of(class) });
    let counts: Vec<_> = named.chain([of(UNKNOWN)]).collect();
    has_several(&counts).then_some(counts)
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn stages(root: &Value) -> Option<Vec<Option<u64>>> {
    let judged = root.get("training")?.get("judged_on")?.as_u64()? as f64;
    let by_stage = root.get("profile")?.get("stages")?.as_object()?;
    let of = |stage: StageName| {
        let share = by_stage.get(stage.name())?.get("decided")?.as_f64()?;
        (0.0..=1.0).contains(&share).then(|| (share * judged).round() as u64)
    };
    let counts: Vec<_> = StageName::ALL.into_iter().map(of).collect();
    has_several(&counts).then_some(counts)
}

/// Of a single bin all flows are in it.
fn has_several(counts: &[Option<u64>]) -> bool {
    let mut counts = counts.iter().flatten();
    counts.clone().count() > 1 && counts.any(|&count| count > 0)
}
