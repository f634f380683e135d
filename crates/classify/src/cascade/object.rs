//! Fields of a JSON object, each with what was wanted where it is not there.

use serde_json::{Map, Value};

use super::reason::CascadeError;

/// Characters of a value that a message repeats.
const SHOWN_LEN_MAX: usize = 40;

/// An object, and what to call it: nothing, or such as `stages[1].`.
pub(super) struct Object<'a> {
    fields: &'a Map<String, Value>,
    path: String,
}

impl<'a> Object<'a> {
    pub(super) fn new(value: &'a Value, path: &str) -> Result<Self, CascadeError> {
        match value {
            Value::Object(fields) => Ok(Self { fields, path: path.to_owned() }),
            other => Err(CascadeError::field(format_args!(
                "`{}`: {}; wanted: an object",
                path.trim_end_matches('.'),
                shown(other)
            ))),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.fields.get(name)
    }

    /// An error about a field, as it is.
    pub(super) fn wrong(&self, name: &str, wanted: &str) -> CascadeError {
        let path = &self.path;
        match self.get(name) {
            None => {
                CascadeError::field(format_args!("`{path}{name}` is missing; wanted: {wanted}"))
            }
            Some(value) => CascadeError::field(format_args!(
                "`{path}{name}`: {}; wanted: {wanted}",
                shown(value)
            )),
        }
    }

    pub(super) fn object(&self, name: &str) -> Result<Object<'a>, CascadeError> {
        let value = self.get(name).ok_or_else(|| self.wrong(name, "an object"))?;
        Object::new(value, &format!("{}{name}.", self.path))
    }

    pub(super) fn list(&self, name: &str, wanted: &str) -> Result<&'a [Value], CascadeError> {
        let list = self.get(name).and_then(Value::as_array);
        list.map(Vec::as_slice).ok_or_else(|| self.wrong(name, wanted))
    }

    pub(super) fn text(&self, name: &str, wanted: &str) -> Result<&'a str, CascadeError> {
        self.get(name).and_then(Value::as_str).ok_or_else(|| self.wrong(name, wanted))
    }

    pub(super) fn count(&self, name: &str, wanted: &str) -> Result<u64, CascadeError> {
        self.get(name).and_then(Value::as_u64).ok_or_else(|| self.wrong(name, wanted))
    }

    /// One of some words.
    pub(super) fn one_of<T: Copy>(
        &self,
        name: &str,
        known: &[(&str, T)],
    ) -> Result<T, CascadeError> {
        let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
        let wanted = words.join(" or ");
        let text = self.text(name, &wanted)?;
        let found = known.iter().find(|(word, _)| *word == text);
        found.map(|&(_, value)| value).ok_or_else(|| self.wrong(name, &wanted))
    }
}

/// A value as JSON, cut to a length that a message bears.
pub(super) fn shown(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(SHOWN_LEN_MAX).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}
