//! The counters of a run as rows of a table, so that rules read them as they read the rest.

use std::collections::HashMap;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::Timestamp;
use store::Store;

use crate::alert::known;

/// The columns of the table `counts`, which rules can name and the store has not.
pub const COUNTS: Schema = &[
    Field::new("time_ns", Kind::TimestampNs, "How far event time had come.").nullable(),
    Field::new("application", Kind::Text, "Whose counter it is."),
    Field::new("name", Kind::Text, "Its name, as in /metrics without prefix and `_total`."),
    Field::new("labels", Kind::Text, "Its labels, as `name=value`, separated by commas."),
    Field::new("value", Kind::F64, "The number."),
    Field::new("increase", Kind::F64, "By how much it grew since the sample before.").nullable(),
];

/// Counters that are remembered at most; those beyond have no increase.
const REMEMBERED_MAX: usize = 10_000;

/// Samples of counters.
#[derive(Default)]
pub(crate) struct Sampled(HashMap<String, f64>);

impl Sampled {
    /// All counters as they are.
    pub(crate) fn sample(&mut self, store: &Store) -> Columns {
        let mut rows = Columns::new(COUNTS);
        let time = store.time_ns().map(Timestamp::from_ns).and_then(known);
        let time = time.map(|time| Value::TimestampNs(time.as_ns()));
        for (application, counts) in store.counts() {
            for count in counts {
                let labels = count.labels.iter().map(|(name, value)| format!("{name}={value}"));
                let labels = labels.collect::<Vec<_>>().join(",");
                let key = format!("{application}\u{1f}{}\u{1f}{labels}", count.name);
                let has_room = self.0.len() < REMEMBERED_MAX || self.0.contains_key(&key);
                let before = has_room.then(|| self.0.insert(key, count.value)).flatten();
                let pushed = rows.push_row(&[
                    time.into(),
                    Value::Str(application),
                    Value::Str(count.name),
                    Value::Str(&labels),
                    Value::F64(count.value),
                    before.map(|before| Value::F64(count.value - before)).into(),
                ]);
                debug_assert!(pushed.is_ok(), "a sample has the columns of its schema");
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use store::Count;
    use store::query::{Cell, cell};

    use super::*;

    #[test]
    fn a_counter_has_its_increase_from_the_second_sample_on() {
        let store = Store::new();
        let put = |value| {
            store.put_counts("capture", 0, vec![Count::total("packets_dropped", "", value)]);
        };
        let mut sampled = Sampled::default();
        put(5);
        assert_eq!(cell(&sampled.sample(&store), 5, 0), Cell::Null);
        put(9);
        assert_eq!(cell(&sampled.sample(&store), 5, 0), Cell::Float(4.0));
        assert_eq!(cell(&sampled.sample(&store), 5, 0), Cell::Float(0.0));
    }
}
