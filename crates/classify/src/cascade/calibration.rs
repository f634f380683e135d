//! From a model's probability to how often it is right.

use serde_json::Value;

use super::object::Object;
use super::reason::CascadeError;

/// A line through points: the probability that a model gives its answer, and how often such
/// answers were right on flows that trained nothing. Without points it changes nothing.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Calibration(Vec<[f64; 2]>);

impl Calibration {
    /// The points, each further right and none lower than the one before.
    fn read(value: &Value) -> Option<Self> {
        let point = |value: &Value| match value.as_array()?.as_slice() {
            [raw, right] => Some([share(raw)?, share(right)?]),
            _ => None,
        };
        let points: Option<Vec<_>> = value.as_array()?.iter().map(point).collect();
        let points = points.filter(|points| !points.is_empty())?;
        let rises = |pair: &[[f64; 2]]| match pair {
            [one, other] => one[0] < other[0] && one[1] <= other[1],
            _ => true,
        };
        points.windows(2).all(rises).then_some(Self(points))
    }

    /// The calibrated probability: straight between points, level beyond them. Python computes the
    /// same, operation by operation.
    pub(crate) fn of(&self, raw: f64) -> f64 {
        let next = self.0.partition_point(|point| point[0] <= raw);
        let before = next.checked_sub(1).and_then(|place| self.0.get(place));
        match (before, self.0.get(next)) {
            (Some(low), Some(high)) => {
                low[1] + (high[1] - low[1]) * ((raw - low[0]) / (high[0] - low[0]))
            }
            (Some(end), None) | (None, Some(end)) => end[1],
            (None, None) => raw,
        }
    }
}

/// A number from 0 to 1.
pub(super) fn share(value: &Value) -> Option<f64> {
    value.as_f64().filter(|share| (0.0..=1.0).contains(share))
}

/// The least probability of a class, which all can have: a class that is held for impossible has no
/// logarithm, and nothing can make it good.
pub(super) fn floor(object: &Object<'_>, class_count: usize) -> Result<f64, CascadeError> {
    let floor = object.get("floor").and_then(share);
    let floor = floor.filter(|floor| *floor > 0.0 && floor * class_count as f64 <= 1.0);
    floor.ok_or_else(|| object.wrong("floor", "a probability that all classes can have"))
}

const POINTS: &str = "points [probability, share right] from 0 to 1 that rise";

/// Of a stage: for all classes, for each, or none.
pub(super) fn calibrations(
    object: &Object<'_>,
    classes: &[String],
) -> Result<Vec<Calibration>, CascadeError> {
    match (object.get("calibration"), object.get("calibrations")) {
        (None, None) => Ok(Vec::new()),
        (Some(value), None) => {
            let one =
                Calibration::read(value).ok_or_else(|| object.wrong("calibration", POINTS))?;
            Ok(vec![one; classes.len()])
        }
        (None, Some(_)) => {
            let by_class = object.object("calibrations")?;
            let of = |class: &String| {
                let found = by_class.get(class).and_then(Calibration::read);
                found.ok_or_else(|| by_class.wrong(class, POINTS))
            };
            classes.iter().map(of).collect()
        }
        (Some(_), Some(_)) => Err(object.wrong("calibrations", "one of it and `calibration`")),
    }
}

/// Of a cascade: below which calibrated probability the answer is `unknown`, by class; 0 where it
/// does not say.
pub(super) fn unknown_below(
    root: &Object<'_>,
    classes: &[String],
) -> Result<Vec<f64>, CascadeError> {
    let wanted = "a probability from 0 to 1, or one for each class";
    match root.get("unknown_below") {
        None => Ok(vec![0.0; classes.len()]),
        Some(Value::Object(_)) => {
            let by_class = root.object("unknown_below")?;
            let of = |class: &String| {
                let found = by_class.get(class).and_then(share);
                found.ok_or_else(|| by_class.wrong(class, "a probability from 0 to 1"))
            };
            classes.iter().map(of).collect()
        }
        Some(value) => {
            let below = share(value).ok_or_else(|| root.wrong("unknown_below", wanted))?;
            Ok(vec![below; classes.len()])
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_probability_is_calibrated_between_points_and_level_beyond() {
        let line = Calibration::read(&json!([[0.2, 0.1], [0.6, 0.5], [1.0, 0.5]])).unwrap();
        let found = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0].map(|raw| line.of(raw));
        assert_eq!(found[0], 0.1);
        assert_eq!(found[1], 0.1);
        assert!((found[2] - 0.3).abs() < 1e-15, "{found:?}");
        assert_eq!(found[3..], [0.5; 3]);
        assert_eq!(Calibration::default().of(0.37), 0.37);
    }

    #[test]
    fn points_that_fall_or_lie_outside_are_refused() {
        let bad =
            [json!([]), json!([[0.5, 0.5], [0.5, 0.6]]), json!([[0.1, 0.5], [0.2, 0.4]]), json!(1)];
        assert!(bad.iter().all(|value| Calibration::read(value).is_none()));
        assert!(Calibration::read(&json!([[0.5, 1.1]])).is_none());
    }
}
