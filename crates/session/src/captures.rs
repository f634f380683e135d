//! The captures of a run by name, where rows say which one they are from.

use std::sync::Arc;

use engine::columns::Value;

use crate::reading::Inputs;

/// The captures that a run reads. They have names in rows where several were asked for: a folder,
/// or more than one name.
#[derive(Clone, Debug, Default)]
pub struct Captures(Option<Arc<[String]>>);

impl Captures {
    /// Those of a run.
    #[must_use]
    pub fn of(inputs: &Inputs) -> Self {
        let names = || inputs.resolved.inputs.iter().map(ToString::to_string).collect();
        Self(inputs.asks_for_several.then(names))
    }

    /// Whether rows have a column for them.
    #[must_use]
    pub const fn are_named(&self) -> bool {
        self.0.is_some()
    }

    /// The capture of an input, by [`packet::Record::input`]; none where rows have no column for
    /// it.
    #[must_use]
    pub fn name(&self, input: u16) -> Option<&str> {
        let names = self.0.as_deref()?;
        // The last index stands for every input from there on.
        let is_one = input < u16::MAX || names.len() <= usize::from(input) + 1;
        Some(names.get(usize::from(input)).filter(|_| is_one).map_or("", String::as_str))
    }

    /// The value of the column; none where there is none.
    #[must_use]
    pub fn value(&self, input: u16) -> Option<Value<'_>> {
        let known = |name| if str::is_empty(name) { Value::Null } else { Value::Str(name) };
        self.name(input).map(known)
    }
}
