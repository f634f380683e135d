//! Schemas that settings put together.

use std::sync::{Mutex, PoisonError};

use super::{Field, Schema};

/// These columns in a row. The same ones are made once in a process, so what is kept is bounded by
/// the combinations that its settings name.
#[must_use]
pub fn joined(parts: &[&[Field]]) -> Schema {
    static MADE: Mutex<Vec<Schema>> = Mutex::new(Vec::new());
    let schema = parts.concat();
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(same) = made.iter().find(|same| ***same == *schema) {
        return same;
    }
    let schema: Schema = Box::leak(schema.into_boxed_slice());
    made.push(schema);
    schema
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    #[test]
    fn the_same_columns_are_made_once() {
        const FIELDS: [Field; 2] =
            [Field::new("one", Kind::U64, ""), Field::new("two", Kind::Text, "")];
        let [one, two] = &FIELDS;
        let (whole, again) = (joined(&[&FIELDS]), joined(&[&[*one], &[], &[*two]]));
        assert_eq!(whole, FIELDS);
        assert!(std::ptr::eq(whole, again));
        assert_ne!(joined(&[&[*two], &[*one]]), whole);
    }
}
