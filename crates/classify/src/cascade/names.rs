//! What a cascade says of names: a list, and what evidence by it weighs at each stage.

use serde_json::Value;

use super::calibration::floor;
use super::object::Object;
use super::reason::CascadeError;
use crate::evidence::{Kind, State, Weights};

/// What a stage makes of names.
#[derive(Clone, PartialEq, Debug)]
pub struct StageNames {
    /// Names are awaited until so many packets of the flow have come, unless all that can be read
    /// was read before.
    pub packets: usize,
    /// What evidence weighs.
    pub weights: Weights,
}

/// The file of the list, where there is one.
pub(super) fn file<'a>(root: &Object<'a>, version: u64) -> Result<Option<&'a str>, CascadeError> {
    if root.get("names").is_none() {
        return Ok(None);
    }
    let wanted = "the name of a file of the artifact, of version 3";
    let file = root.text("names", wanted)?;
    if version < 3 || !super::read::is_file_name(file) {
        return Err(root.wrong("names", wanted));
    }
    Ok(Some(file))
}

/// Of a stage, where there is a list.
pub(super) fn stage(
    object: &Object<'_>,
    has_list: bool,
    classes: &[String],
) -> Result<Option<StageNames>, CascadeError> {
    match (object.get("names"), has_list) {
        (None, false) => return Ok(None),
        (Some(_), false) => return Err(object.wrong("names", "none without a list of names")),
        (_, true) => {}
    }
    let names = object.object("names")?;
    let packets = super::read::depth(&names)?;
    let weights = Weights {
        floor: floor(&names, classes.len())?,
        model: numbers(&names.object("a")?, State::ALL.map(State::name))?,
        kinds: numbers(&names.object("k")?, Kind::ALL.map(Kind::name))?,
        classes: {
            let by_class = names.object("b")?;
            classes.iter().map(|class| number(&by_class, class)).collect::<Result<_, _>>()?
        },
    };
    Ok(Some(StageNames { packets, weights }))
}

fn number(object: &Object<'_>, name: &str) -> Result<f64, CascadeError> {
    let number = object.get(name).and_then(Value::as_f64).filter(|number| number.is_finite());
    number.ok_or_else(|| object.wrong(name, "a finite number"))
}

fn numbers<const N: usize>(
    object: &Object<'_>,
    names: [&str; N],
) -> Result<[f64; N], CascadeError> {
    let mut found = [0.0; N];
    for (found, name) in found.iter_mut().zip(names) {
        *found = number(object, name)?;
    }
    Ok(found)
}
