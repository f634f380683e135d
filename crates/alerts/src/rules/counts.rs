//! The counters of a run as rows of a table, so that rules read them as they read the rest.

use std::collections::HashMap;

use engine::columns::{Columns, Field, Kind, Schema, Value};
use packet::Timestamp;
use store::{CountKind, Store};

use crate::alert::known;

/// The columns of the table `counts`, which rules can name and the store has not.
pub const COUNTS: Schema = &[
    Field::new("time_ns", Kind::TimestampNs, "Latest event time.").nullable(),
    Field::new("application", Kind::Text, "Owner of the counter."),
    Field::new("name", Kind::Text, "Its name, as in /metrics without prefix and `_total`."),
    Field::new("labels", Kind::Text, "Its labels, as `name=value`, separated by commas."),
    Field::new("value", Kind::F64, "The number."),
    Field::new("increase", Kind::F64, "Increase since the previous sample.").nullable(),
];

/// Counters that are remembered at most; those beyond have no increase.
const REMEMBERED_MAX: usize = 10_000;

/// Samples of counters.
#[derive(Default)]
pub(crate) struct CounterSamples {
    values: HashMap<String, f64>,
    /// Whether there was a sample before: a counter that is new then began at 0.
    has_begun: bool,
}

impl CounterSamples {
    /// All counters as they are.
    pub(crate) fn sample(&mut self, store: &Store) -> Columns {
        let mut rows = Columns::new(COUNTS);
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let time = store.time_ns().map(Timestamp::from_ns).and_then(known);
        let time = time.map(|time| Value::TimestampNs(time.as_ns()));
        for (application, counts) in store.counts() {
            for count in counts {
                let labels = count.labels.iter().map(|(name, value)| format!("{name}={value}"));
                let labels = labels.collect::<Vec<_>>().join(",");
                let key = format!("{application}\u{1f}{}\u{1f}{labels}", count.name);
                let values = &mut self.values;
                let has_room = values.len() < REMEMBERED_MAX || values.contains_key(&key);
                let first = (has_begun && count.kind != CountKind::Gauge).then_some(0.0);
                let before = has_room.then(|| values.insert(key, count.value).or(first)).flatten();
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
        let mut sampled = CounterSamples::default();
        put(5);
        assert_eq!(cell(&sampled.sample(&store), 5, 0), Cell::Null);
        put(9);
        assert_eq!(cell(&sampled.sample(&store), 5, 0), Cell::Float(4.0));
        assert_eq!(cell(&sampled.sample(&store), 5, 0), Cell::Float(0.0));
        // Of what comes later a counter began at 0, and what a gauge was before is not known.
        let (more, now) = (Count::total("rows_failed", "", 3), Count::gauge("open", "", 4.0));
        store.put_counts("flows", 0, vec![more, now]);
        let rows = sampled.sample(&store);
        assert_eq!(cell(&rows, 2, 1), Cell::Text("rows_failed"));
        assert_eq!((cell(&rows, 5, 1), cell(&rows, 5, 2)), (Cell::Float(3.0), Cell::Null));
    }
}
