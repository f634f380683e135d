//! Counts of applications, and how much of each table is kept: what was lost comes first.

use store::{Count, Store};

use super::{Row, Sheet, Subject};
use crate::screens::HEALTH;
use crate::value::Value;

/// Parts of names of counts that should be 0.
const LOSSES: [&str; 8] =
    ["drop", "evict", "lost", "refused", "malformed", "late", "failed", "missed"];

/// Names with such a part that are no loss.
const NO_LOSSES: [&str; 2] = ["latency", "latencies"];

fn is_loss(name: &str) -> bool {
    LOSSES.iter().any(|part| name.contains(part))
        && !NO_LOSSES.iter().any(|part| name.contains(part))
}

/// Counts, those of losses that are not 0 first; with text, only what contains it.
pub(super) fn sheet(store: &Store, wanted: &str) -> Sheet {
    let mut rows = Vec::new();
    for (application, counts) in store.counts() {
        rows.extend(counts.iter().map(|count| row(application, name(count), count.value)));
    }
    for table in store.tables() {
        let state = table.state();
        #[allow(clippy::cast_precision_loss)]
        let counts = [
            ("rows evicted", state.evicted as f64),
            ("rows received", state.received as f64),
            ("rows kept", state.row_count as f64),
            ("rows of open flows", state.open_row_count as f64),
            ("bytes in memory", state.byte_count as f64),
        ];
        let of = |(name, value): (&str, f64)| row(table.name(), name.to_owned(), value);
        rows.extend(counts.map(of));
    }
    let wanted = wanted.to_lowercase();
    rows.retain(|row| row.id.to_lowercase().contains(&wanted));
    // In two parts, each in the order of applications.
    rows.sort_by_key(|row| !row.is_warning);
    let columns = HEALTH.to_vec();
    Sheet { columns, matched: rows.len(), rows, ..Sheet::default() }
}

impl Sheet {
    /// Puts messages before all else, the last one first.
    pub(crate) fn put_messages(&mut self, messages: &[String]) {
        let row = |(at, text): (usize, &String)| Row {
            id: format!("message {at}"),
            subject: Subject::None,
            is_warning: true,
            values: vec![Value::Text("message".into()), Value::Text(text.clone()), Value::None],
        };
        let rows = messages.iter().enumerate().rev().map(row);
        self.rows.splice(0..0, rows);
        self.matched += messages.len();
    }
}

fn name(count: &Count) -> String {
    let mut name = count.name.replace('_', " ");
    for (label, value) in &count.labels {
        name.push_str(&format!(" {label}={value}"));
    }
    name
}

fn row(application: &str, name: String, value: f64) -> Row {
    Row {
        id: format!("{application} {name}"),
        subject: Subject::None,
        is_warning: value > 0.0 && is_loss(&name),
        values: vec![Value::Text(application.to_owned()), Value::Text(name), Value::Number(value)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_known_by_their_names() {
        for (name, wanted) in [
            ("rows_dropped", true),
            ("packets_malformed", true),
            ("flows_evicted", true),
            ("latencies_measured", false),
            ("packets", false),
        ] {
            assert_eq!(is_loss(name), wanted, "{name}");
        }
    }
}
